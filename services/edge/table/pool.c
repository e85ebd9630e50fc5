#include "services/edge/table/pool.h"

#include "common/base/invariant.h"
#include "services/edge/table/names.h"
#include "services/edge/table/slab.h"
#include "services/edge/table/strmap.h"
#include "services/edge/table/table.h"

#include <stdio.h>
#include <string.h>

enum { POOL_KEY_MAX = TABLE_ID_MAX + 1 + NAMES_HOST_MAX + 1 };

/* By account and TLS name. */
static strmap_t *pools;

typedef struct pool {
    uint64_t number;
    size_t users; /* backends */
} pool_t;

/* The key of a pool, which no other account and name have: no id has a slash. */
static size_t key_of(const char *account, const char *name, char key[POOL_KEY_MAX])
{
    int len = snprintf(key, POOL_KEY_MAX, "%s/%s", account ? account : "", name ? name : "");

    INVARIANT(len > 0 && len < POOL_KEY_MAX);
    return (size_t)len;
}

uint64_t pool_join(const char *account, const char *name)
{
    static uint64_t last;
    char key[POOL_KEY_MAX];
    size_t len = key_of(account, name, key);
    pool_t *pool;

    if (!pools)
        pools = strmap_new();
    pool = strmap_get(pools, key, len);
    if (!pool) {
        pool = slab_alloc(sizeof(*pool));
        pool->number = ++last;
        strmap_put(pools, key, len, pool);
    }
    pool->users++;
    return pool->number;
}

void pool_leave(const char *account, const char *name)
{
    char key[POOL_KEY_MAX];
    size_t len = key_of(account, name, key);
    pool_t *pool = strmap_get(pools, key, len);

    INVARIANT(pool && pool->users > 0);
    if (--pool->users)
        return;
    strmap_del(pools, key, len);
    slab_free(pool);
}

size_t table_pools(void)
{
    return pools ? strmap_count(pools) : 0;
}
