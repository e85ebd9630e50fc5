/* Frames of the bus: request header and body, reply, event batch. */
#include "common/bus.h"
#include "common/pack.h"
#include "services/events/batch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *value = NULL;
    batch_t batch;

    if (!unpack_json(data, size, &value)) {
        msgpack_sbuffer buffer;
        json_t *again = NULL, *parsed;
        char *text = NULL;

        /* what was decoded can be encoded, and then means the same */
        msgpack_sbuffer_init(&buffer);
        if (pack_json(&buffer, value) || unpack_json(buffer.data, buffer.size, &again)
            || !json_equal(value, again))
            abort();
        msgpack_sbuffer_destroy(&buffer);
        json_decref(again);
        /* and as text it is the same JSON */
        if (unpack_text(data, size, &text))
            abort();
        parsed = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        if (!json_equal(value, parsed))
            abort();
        json_decref(parsed);
        free(text);
        if (pack_check(data, size))
            abort();
        json_decref(value);
    }
    batch_header(data, size, &batch);
    batch_check(data, size, 1);
    return 0;
}
