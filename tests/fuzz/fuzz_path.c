/* The path normaliser: safe, and its own fixed point. */
#include "common/codec/path.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t room = 3 * size + 3, len, len2;
    char *out = malloc(room), *again = malloc(3 * room + 3);

    if (!path_normalize((const char *)data, size, out, room, &len)) {
        if (out[0] != '/' || memmem(out, len, "//", 2) || memmem(out, len, "/../", 4)
            || memchr(out, '\0', len))
            abort();
        if (path_normalize(out, len, again, 3 * room + 3, &len2) || len != len2
            || memcmp(out, again, len))
            abort();
    }
    free(out);
    free(again);
    return 0;
}
