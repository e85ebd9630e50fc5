/* compression: what clients and upstreams say in header fields. The first byte says which field it is. */
#include "services/edge/modules/codings.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds)
        abort();
}

/* Lines come one by one or as one list: the same is wanted. A coding that is chosen has a weight, and
 * none that comes before it has as much. */
static void try_accepts(const char *text, size_t len)
{
    accepted_t lines, list;
    char *joined = malloc(len + 1);
    coding_t best;

    accepted_init(&lines);
    accepted_init(&list);
    for (size_t at = 0; at <= len;) {
        const char *end = at < len ? memchr(text + at, '\n', len - at) : NULL;
        size_t part = end ? (size_t)(end - text) - at : len - at;

        accepted_add(&lines, text + at, part);
        at += part + 1;
    }
    memcpy(joined, text, len);
    for (size_t i = 0; i < len; i++)
        joined[i] = text[i] == '\n' ? ',' : text[i];
    accepted_add(&list, joined, len);
    free(joined);
    check(memcmp(&lines, &list, sizeof(lines)) == 0);
    best = accepted_best(&list);
    check(best <= CODING_NONE && list.any <= 1000 && list.identity <= 1000);
    if (best != CODING_NONE) {
        int weight = list.weight[best] < 0 ? list.any : list.weight[best];

        check(weight > 0 && weight <= 1000 && list.identity <= weight);
        for (unsigned i = 0; i < (unsigned)best; i++)
            check(list.weight[i] < weight);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data + 1;
    size_t len = size - 1, half = len / 2;

    if (size < 1)
        return 0;
    switch (data[0] % 4) {
    case 0:
        try_accepts(text, len);
        break;
    case 1:
        check(!coding_list_has(text, len, "a,b"));
        check(!coding_list_has(text, len, "accept-encoding") || coding_is_varied(text, len));
        break;
    case 2:
        coding_is_worth(text, len);
        check(coding_field(text, len) != FIELD_ETAG || len == 4);
        break;
    default:
        check(!coding_has_weak(text, half, text + half, len - half) || memmem(text, half, "W/", 2));
        break;
    }
    return 0;
}
