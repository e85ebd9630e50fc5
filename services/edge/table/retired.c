#include "services/edge/table/retired.h"

#include "common/base/invariant.h"
#include "services/edge/table/slab.h"
#include "services/edge/table/strmap.h"

#include <string.h>

enum { NODE = 32, COPIES = 2 /* of a text: as it was sent, and as it is used */ };

typedef struct account account_t;

/* A retired version, from the oldest of its account to the newest. */
struct retired {
    struct retired *older, *newer;
    route_t *route;
    account_t *account;
};

struct account {
    retired_t *oldest, *newest;
    size_t bytes;
    size_t id_len;
    char id[];
};

static strmap_t *accounts; /* id -> account_t, of those that have one */
static void (*over_fn)(const route_t *route);

/* The decoder has bounded the depth. */
size_t retired_weight(const msgpack_object *document)
{
    size_t weight = NODE;

    if (document->type == MSGPACK_OBJECT_STR || document->type == MSGPACK_OBJECT_BIN)
        return weight + COPIES * (size_t)document->via.str.size;
    if (document->type == MSGPACK_OBJECT_ARRAY)
        for (uint32_t i = 0; i < document->via.array.size; i++)
            weight += retired_weight(&document->via.array.ptr[i]);
    if (document->type == MSGPACK_OBJECT_MAP)
        for (uint32_t i = 0; i < document->via.map.size; i++)
            weight += retired_weight(&document->via.map.ptr[i].key)
                      + retired_weight(&document->via.map.ptr[i].val);
    return weight;
}

static account_t *join(const char *id, size_t len)
{
    account_t *account;

    if (!accounts)
        accounts = strmap_new();
    account = strmap_get(accounts, id, len);
    if (!account) {
        account = slab_alloc(sizeof(*account) + len + 1);
        memcpy(account->id, id, len);
        account->id_len = len;
        strmap_put(accounts, id, len, account);
    }
    return account;
}

static void unlink_version(retired_t *version)
{
    account_t *account = version->account;

    if (version->older)
        version->older->newer = version->newer;
    else
        account->oldest = version->newer;
    if (version->newer)
        version->newer->older = version->older;
    else
        account->newest = version->older;
    INVARIANT(account->bytes >= version->route->bytes);
    account->bytes -= version->route->bytes;
    version->route->retired = NULL;
    if (!account->oldest) {
        strmap_del(accounts, account->id, account->id_len);
        slab_free(account);
    }
    slab_free(version);
}

/* The newest stays: it is what a request of now began with. */
static void bound_account(account_t *account)
{
    while (over_fn && account->bytes > RETIRED_BYTES_MAX && account->oldest != account->newest) {
        route_t *route = account->oldest->route;

        unlink_version(account->oldest);
        route->is_over = true;
        over_fn(route);
    }
}

void retired_add(route_t *route)
{
    retired_t *version;
    account_t *account;

    INVARIANT(route->refs > 0 && !route->retired && !route->is_over);
    account = join(route->account_id ? route->account_id : "", route->account_id_len);
    version = slab_alloc(sizeof(*version));
    *version = (retired_t){.older = account->newest, .route = route, .account = account};
    if (account->newest)
        account->newest->newer = version;
    else
        account->oldest = version;
    account->newest = version;
    account->bytes += route->bytes;
    route->retired = version;
    bound_account(account);
}

void retired_forget(route_t *route)
{
    unlink_version(route->retired);
}

void retired_set_over(void (*over)(const route_t *route))
{
    over_fn = over;
}

size_t retired_bytes(const char *account_id)
{
    const account_t *account =
        accounts ? strmap_get(accounts, account_id, strlen(account_id)) : NULL;

    return account ? account->bytes : 0;
}
