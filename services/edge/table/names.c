#include "services/edge/table/names.h"

#include "common/base/invariant.h"

#include <string.h>

void names_claim(strmap_t *map, const char *name, claim_t *claim)
{
    size_t len = strlen(name);
    claim_t *first = strmap_get(map, name, len);

    claim_put(&first, claim);
    strmap_put(map, name, len, first);
}

void names_unclaim(strmap_t *map, const char *name, const claim_t *claim)
{
    size_t len = strlen(name);
    claim_t *first = strmap_get(map, name, len);

    INVARIANT(first);
    claim_del(&first, claim);
    if (first)
        strmap_put(map, name, len, first);
    else
        strmap_del(map, name, len);
}

void names_fold(char *name, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (name[i] >= 'A' && name[i] <= 'Z')
            name[i] += 'a' - 'A';
}

bool names_is_host(const char *name)
{
    return name && *name && strlen(name) <= NAMES_HOST_MAX;
}

void *names_find(const strmap_t *map, const char *host, size_t len)
{
    void *value = strmap_get(map, host, len);
    const char *dot;
    char wildcard[256];
    size_t rest;

    if (value || !(dot = memchr(host, '.', len)))
        return value;
    rest = len - (size_t)(dot - host);
    if (rest + 1 > sizeof(wildcard))
        return NULL;
    wildcard[0] = '*';
    memcpy(wildcard + 1, dot, rest);
    return strmap_get(map, wildcard, rest + 1);
}
