#include "services/edge/table/retired.h"

#include "common/base/invariant.h"
#include "services/edge/http/portion.h"
#include "services/edge/table/slab.h"
#include "services/edge/table/strmap.h"

#include <string.h>

enum { NODE = 32, COPIES = 2 /* of a text: as it was sent, and as it is used */ };

typedef struct account account_t;

/* A retired version, from the oldest of its account to the newest. */
struct retired {
    struct retired *older, *newer;
    version_t *version;
    account_t *account;
    retired_entry_t entry;
};

struct account {
    retired_t *oldest, *newest;
    size_t bytes;
    size_t id_len;
    char id[];
};

static strmap_t *accounts; /* id -> account_t, of those that have one */
static size_t all_bytes;   /* of all of them */
static void (*over_fn)(const retired_entry_t *entry);

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

static void unlink_version(retired_t *self)
{
    account_t *account = self->account;

    if (self->older)
        self->older->newer = self->newer;
    else
        account->oldest = self->newer;
    if (self->newer)
        self->newer->older = self->older;
    else
        account->newest = self->older;
    INVARIANT(account->bytes >= self->version->bytes && all_bytes >= account->bytes);
    account->bytes -= self->version->bytes;
    all_bytes -= self->version->bytes;
    self->version->retired = NULL;
    if (!account->oldest) {
        strmap_del(accounts, account->id, account->id_len);
        slab_free(account);
    }
    slab_free(self);
}

static bool is_within(const account_t *account)
{
    size_t left = all_bytes < RETIRED_ALL_MAX ? RETIRED_ALL_MAX - all_bytes : 0;

    return account->bytes <= RETIRED_BYTES_MAX
           && portion_allows(account->bytes, 0, RETIRED_ALL_MAX, left, 100);
}

/* The newest stays, since it is what a request of now began with, but where nothing is left. */
static void bound_account(account_t *account)
{
    bool is_last = false;

    while (over_fn && !is_last && !is_within(account)
           && (account->oldest != account->newest || all_bytes > RETIRED_ALL_MAX)) {
        retired_entry_t entry = account->oldest->entry;

        is_last = account->oldest == account->newest;
        account->oldest->version->is_over = true;
        unlink_version(account->oldest); /* with its last one the account goes */
        over_fn(&entry);
    }
}

void retired_add(version_t *version, const retired_entry_t *entry)
{
    const char *id = entry->account_id ? entry->account_id : "";
    retired_t *self;
    account_t *account;

    INVARIANT(!version->retired && !version->is_over);
    account = join(id, strlen(id));
    self = slab_alloc(sizeof(*self));
    *self = (retired_t){
        .older = account->newest, .version = version, .account = account, .entry = *entry};
    if (account->newest)
        account->newest->newer = self;
    else
        account->oldest = self;
    account->newest = self;
    account->bytes += version->bytes;
    all_bytes += version->bytes;
    version->retired = self;
    bound_account(account);
}

void retired_forget(version_t *version)
{
    if (version->retired)
        unlink_version(version->retired);
}

void retired_set_over(void (*over)(const retired_entry_t *entry))
{
    over_fn = over;
}

size_t retired_bytes(const char *account_id)
{
    const account_t *account;

    if (!account_id)
        return all_bytes;
    account = accounts ? strmap_get(accounts, account_id, strlen(account_id)) : NULL;
    return account ? account->bytes : 0;
}
