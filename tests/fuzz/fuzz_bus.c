/* Frames of the bus: request header and body, reply, event batch. */
#include "common/bus/bus.h"
#include "common/codec/pack.h"
#include "services/events/batch.h"
#include "services/events/layout.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What becomes of values can be decoded by whoever subscribes. */
static void envelopes(const uint8_t *data, size_t size)
{
    layout_t *layout = NULL;
    record_t record;
    size_t offset = 0;

    while (batch_next(data, size, &offset, &record) == 1) {
        msgpack_sbuffer envelope;
        json_t *event = NULL;

        if (record.kind == RECORD_LAYOUT) {
            layout_destroy(&layout);
            layout_new(&layout, record.body, record.body_len);
        }
        if (record.kind != RECORD_VALUES || !layout)
            continue;
        msgpack_sbuffer_init(&envelope);
        if (!layout_envelope(layout, record.body, record.body_len, &envelope)
            && unpack_json(envelope.data, envelope.size, &event))
            abort();
        json_decref(event);
        msgpack_sbuffer_destroy(&envelope);
    }
    layout_destroy(&layout);
}

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
    batch_traffic(data, size);
    envelopes(data, size);
    return 0;
}
