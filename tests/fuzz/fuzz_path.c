/* The path normaliser: safe, and its own fixed point. */
#include "common/codec/path.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t room = path_room((const char *)data, size), most = 3 * size + 3, len, len2;
    char *out = malloc(room), *again = malloc(3 * most + 3);
    int refused = path_normalize((const char *)data, size, out, room, &len);

    if (room > most)
        abort();
    if (refused) { /* and not for lack of room */
        if (!path_normalize((const char *)data, size, again, most, &len2))
            abort();
    } else {
        if (out[0] != '/' || memmem(out, len, "//", 2) || memmem(out, len, "/../", 4)
            || memchr(out, '\0', len))
            abort();
        if (path_normalize(out, len, again, 3 * most + 3, &len2) || len != len2
            || memcmp(out, again, len))
            abort();
    }
    free(out);
    free(again);
    return 0;
}
