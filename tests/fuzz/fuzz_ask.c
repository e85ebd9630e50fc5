/* Answers of postern-identity to an edge: two bytes say how long the outcome is, the rest is the
 * body. Whatever they are, what is taken for an answer has a code, a text with an end, and a map
 * where the code is 0, which the edge's worker can read. */
#include "services/edge/control/ask_reply.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_body(const uint8_t *body, size_t len)
{
    msgpack_unpacked read;

    msgpack_unpacked_init(&read);
    if (msgpack_unpack_next(&read, (const char *)body, len, NULL) != MSGPACK_UNPACK_SUCCESS
        || read.data.type != MSGPACK_OBJECT_MAP)
        abort();
    msgpack_unpacked_destroy(&read);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t len;
    ask_told_t told;

    if (size < 2)
        return 0;
    len = (size_t)data[0] << 8 | data[1];
    data += 2;
    size -= 2;
    if (len > size)
        len = size;
    ask_reply_read(&told, 1, data, len, data + len, size - len);
    if (told.number != 1 || told.code < 0 || !memchr(told.msg, '\0', sizeof(told.msg)))
        abort();
    if (told.code == 0)
        check_body(data + len, size - len);
    return 0;
}
