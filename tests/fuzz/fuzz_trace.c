/* traceparent: what is accepted has the parts where receivers look for them. */
#include "services/edge/http/trace.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char hex[] = "0123456789abcdef";
    char *copy = malloc(size + 1);

    memcpy(copy, data, size);
    copy[size] = '\0';
    if (trace_parent_is_valid((const char *)data, size)
        && (size < TRACE_PARENT_LEN || strspn(copy, hex) != 2 || strspn(copy + 3, hex) != 32
            || strspn(copy + 36, hex) != 16 || strspn(copy + 53, hex) < 2
            || strspn(copy + 3, "0") >= 32 || strspn(copy + 36, "0") >= 16
            || (size > TRACE_PARENT_LEN && (copy[55] != '-' || !memcmp(copy, "00", 2)))))
        abort();
    free(copy);
    return 0;
}
