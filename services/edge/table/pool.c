#include "services/edge/table/pool.h"

#include "common/base/invariant.h"
#include "services/edge/table/slab.h"
#include "services/edge/table/strmap.h"
#include "services/edge/table/table.h"

#include <string.h>

/* By TLS name. */
static strmap_t *pools;

typedef struct pool {
    uint64_t number;
    size_t users; /* backends */
} pool_t;

uint64_t pool_join(const char *name)
{
    static uint64_t last;
    pool_t *pool;

    if (!pools)
        pools = strmap_new();
    pool = strmap_get(pools, name, strlen(name));
    if (!pool) {
        pool = slab_alloc(sizeof(*pool));
        pool->number = ++last;
        strmap_put(pools, name, strlen(name), pool);
    }
    pool->users++;
    return pool->number;
}

void pool_leave(const char *name)
{
    pool_t *pool = strmap_get(pools, name, strlen(name));

    INVARIANT(pool && pool->users > 0);
    if (--pool->users)
        return;
    strmap_del(pools, name, strlen(name));
    slab_free(pool);
}

size_t table_pools(void)
{
    return pools ? strmap_count(pools) : 0;
}
