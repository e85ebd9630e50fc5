/* Frames of an upstream: whole or in pieces they are judged alike, and counts stay what was sent. */
#include "services/edge/http/h2.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK_MAX = 512 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *scan_pieces(h2_scan_t *scan, const uint8_t *data, size_t size)
{
    const char *why = NULL;

    h2_begin(scan);
    for (size_t at = 0, n = 1; at < size && !why; at += n, n = 1 + n % 5) {
        size_t len = at + n < size ? n : size - at;
        uint8_t *copy = malloc(len); /* of that size, so that a byte behind it is seen */

        memcpy(copy, data + at, len);
        why = h2_scan(scan, copy, len, BLOCK_MAX, size);
        free(copy);
    }
    return why;
}

static void judge(const uint8_t *data, size_t size)
{
    h2_fields_t fields = {0};
    size_t name = size / 3;

    for (int i = 0; i < 3; i++)
        (void)h2_judge_field(&fields, (const char *)data, name, (const char *)data + name,
                             size - name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    h2_scan_t whole, pieces;
    const char *why, *other;

    h2_begin(&whole);
    why = h2_scan(&whole, data, size, BLOCK_MAX, size);
    other = scan_pieces(&pieces, data, size);
    if (why != other)
        abort();
    if (!why) {
        if (whole.body != pieces.body || whole.overhead != pieces.overhead
            || whole.block != pieces.block || whole.have != pieces.have || whole.left != pieces.left
            || whole.reset != pieces.reset || whole.code != pieces.code)
            abort();
        if (whole.body + whole.overhead > size + H2_FRAME_MAX || whole.block > BLOCK_MAX
            || whole.have > H2_FRAME_HEAD || whole.left > H2_FRAME_MAX)
            abort();
    }
    judge(data, size);
    return 0;
}
