/* The gateway's path matching: what it finds is whole, and goes nowhere but to what the tables
 * have. */
#include "services/gateway/paths.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const methods[] = {"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", ""};
    char *path;
    target_t target;

    if (size == 0)
        return 0;
    path = malloc(size);
    memcpy(path, data + 1, size - 1);
    path[size - 1] = '\0';
    path_match(methods[data[0] % 7], path, &target);
    if (target.operation && !target.kind)
        abort();
    if (target.kind
        && (strchr(target.id, '/') || strchr(target.parent, '/') || strchr(target.member, '/')))
        abort();
    path_left_out(path);
    free(path);
    return 0;
}
