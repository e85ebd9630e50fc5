#include "common/base/memory.h"
#include "common/base/cleanup.h"
#include "common/bus/lease.h"
#include "services/gateway/admission.h"

#include <errno.h>
#include <inttypes.h>
#include <sodium.h>
#include <string.h>

typedef struct entry {
    char account[64];
    json_t *actor;
    int64_t until_ms;
} entry_t;

struct admission {
    const copies_t *identity, *routes; /* owned by the gateway */
    zhashx_t *entries;
    uint64_t generation, remembered, forgotten;
};

static void destroy_entry(void **item)
{
    entry_t *entry = *item;

    json_decref(entry->actor);
    free(entry);
    *item = NULL;
}

static void forget_all(admission_t *self)
{
    zhashx_purge(self->entries);
    self->generation++;
    self->forgotten++;
}

bool admission_take(admission_t *self, copy_t *copy, const char *word, const char *epoch_text,
                    const char *clock)
{
    int64_t epoch = strtoll(epoch_text, NULL, 10);
    bool is_new = epoch != copy->epoch;

    if (is_new) {
        forget_all(self);
        copy->epoch = epoch;
    }
    if (!strcmp(word, "lease")) {
        int64_t until_ms = strtoll(clock, NULL, 10) + LEASE_MS - ADMISSION_MARGIN_MS;

        /* a request for a lease that waited in a queue while the copy was away may be answered
         * late */
        if (until_ms > copy->until_ms)
            copy->until_ms = until_ms;
    }
    return is_new;
}

static bool all_lease(const copies_t *copies, int64_t now)
{
    for (int i = 0; i < copies->count; i++)
        if (now >= copies->list[i].until_ms)
            return false;
    return true;
}

/* Is there a lease from every copy? Copies that are left out count too: another gateway may still
 * reach such a copy, and this one would not hear of what is changed through it. */
static bool has_leases(const admission_t *self, int64_t now)
{
    return all_lease(self->identity, now) && all_lease(self->routes, now);
}

int admission_new(admission_t **ret_self, const copies_t *identity, const copies_t *routes)
{
    admission_t *self = memory_new(sizeof(*self), "admission");

    *ret_self = NULL;
    self->entries = memory_need(zhashx_new(), "admission");
    *ret_self = self;
    zhashx_set_destructor(self->entries, destroy_entry);
    self->identity = identity;
    self->routes = routes;
    return 0;
}

void admission_destroy(admission_t **self_p)
{
    admission_t *self = *self_p;

    if (!self)
        return;
    zhashx_destroy(&self->entries);
    free(self);
    *self_p = NULL;
}

/* Hash of the token, in hex, and the address. */
static void make_key(const char *token, const char *ip, char out[160])
{
    unsigned char hash[crypto_hash_sha256_BYTES];

    crypto_hash_sha256(hash, (const unsigned char *)token, strlen(token));
    sodium_bin2hex(out, 2 * sizeof(hash) + 1, hash, sizeof(hash));
    snprintf(out + 2 * sizeof(hash), 160 - 2 * sizeof(hash), "/%s", ip);
}

bool admission_recall(admission_t *self, const char *token, const char *ip, int64_t now_ms,
                      char account[64], json_t **ret_actor)
{
    const entry_t *entry;
    char key[160];

    if (!has_leases(self, now_ms))
        return false;
    make_key(token, ip, key);
    entry = zhashx_lookup(self->entries, key);
    if (!entry || now_ms >= entry->until_ms)
        return false;
    memcpy(account, entry->account, sizeof(entry->account));
    *ret_actor = json_incref(entry->actor);
    self->remembered++;
    return true;
}

uint64_t admission_generation(const admission_t *self)
{
    return self->generation;
}

void admission_remember(admission_t *self, uint64_t generation, const char *token, const char *ip,
                        int64_t now_ms, const char *account, json_t *actor)
{
    entry_t *entry;
    char key[160];

    if (generation != self->generation || !has_leases(self, now_ms))
        return;
    if (zhashx_size(self->entries) >= ADMISSION_ENTRIES_MAX)
        zhashx_purge(self->entries);
    entry = memory_new(sizeof(*entry), "a caller's admission");
    snprintf(entry->account, sizeof(entry->account), "%s", account);
    entry->actor = json_incref(actor);
    entry->until_ms = now_ms + ADMISSION_REMEMBER_MS;
    make_key(token, ip, key);
    zhashx_update(self->entries, key, entry);
}

size_t admission_metrics(const admission_t *self, int64_t now_ms, char *out, size_t size)
{
    return (size_t)snprintf(out, size,
                            "postern_gateway_leases_held %d\n"
                            "postern_gateway_admissions_remembered_total %" PRIu64 "\n"
                            "postern_gateway_admissions_forgotten_total %" PRIu64 "\n",
                            has_leases(self, now_ms) ? self->identity->count + self->routes->count
                                                     : 0,
                            self->remembered, self->forgotten);
}
