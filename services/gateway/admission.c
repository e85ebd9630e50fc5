/* Who may call. Asking identity whose key it is and routes whether the address may costs two bus calls a request, so
 * the answers are remembered: only while every copy of both services has given a lease (common/lease.h), until one of
 * them says that something changed, and never longer than REMEMBER_MS. Without leases each request asks. Only what was
 * allowed is remembered, under the hash of the token. */
#include "common/cleanup.h"
#include "common/lease.h"
#include "services/gateway/gateway.h"

#include <errno.h>
#include <inttypes.h>
#include <sodium.h>
#include <string.h>

enum {
    COPIES_MAX = 16,
    ENTRIES_MAX = 4096,
    REMEMBER_MS = 5000, /* bounds what is changed behind the services' backs, with psql */
    RENEW_MS = 250,
    MARGIN_MS = 200 /* a lease ends here before it ends there */
};

typedef struct copy {
    zsock_t *sock;
    int64_t epoch, until_ms;
} copy_t;

typedef struct entry {
    char account[64];
    json_t *actor;
    int64_t until_ms;
} entry_t;

struct admission {
    copy_t copies[COPIES_MAX];
    int copy_count;
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

static void forget(admission_t *self)
{
    zhashx_purge(self->entries);
    self->generation++;
    self->forgotten++;
}

static void ask(copy_t *copy)
{
    char epoch[24], clock[24];

    snprintf(epoch, sizeof(epoch), "%" PRId64, copy->epoch);
    snprintf(clock, sizeof(clock), "%" PRId64, bus_mono_ms());
    zstr_sendx(copy->sock, "lease", epoch, clock, NULL); /* not sent: no lease */
}

/* "lease", epoch, when we asked | "revoke", epoch, "0". */
static int on_answer(zloop_t *loop, zsock_t *reader, void *context)
{
    admission_t *self = context;

    (void)loop;
    for (int i = 0; i < self->copy_count; i++) {
        copy_t *copy = &self->copies[i];
        _cleanup_(free_mem) char *word = NULL;
        _cleanup_(free_mem) char *epoch_text = NULL;
        _cleanup_(free_mem) char *clock = NULL;
        int64_t epoch;

        if (copy->sock != reader || zstr_recvx(reader, &word, &epoch_text, &clock, NULL) != 3)
            continue;
        if (!word || !epoch_text || !clock)
            continue;
        epoch = strtoll(epoch_text, NULL, 10);
        if (epoch != copy->epoch) {
            forget(self);
            copy->epoch = epoch;
            ask(copy); /* says that it is done */
        }
        if (!strcmp(word, "lease")) {
            int64_t until_ms = strtoll(clock, NULL, 10) + LEASE_MS - MARGIN_MS;

            if (until_ms > copy->until_ms) /* asks that waited for a copy to come back are old */
                copy->until_ms = until_ms;
        }
    }
    return 0;
}

static int on_renew(zloop_t *loop, int timer, void *context)
{
    admission_t *self = context;

    (void)loop;
    (void)timer;
    for (int i = 0; i < self->copy_count; i++)
        ask(&self->copies[i]);
    return 0;
}

static bool has_leases(const admission_t *self, int64_t now)
{
    for (int i = 0; i < self->copy_count; i++)
        if (now >= self->copies[i].until_ms)
            return false;
    return self->copy_count > 0;
}

/* One socket a copy: a lease is from one process. */
static int connect_copies(admission_t *self, const char *endpoints, const char *curve,
                          const char *peer)
{
    _cleanup_(free_mem) char *list = strdup(endpoints);
    char *save = NULL;

    for (char *one = strtok_r(list, ",", &save); one; one = strtok_r(NULL, ",", &save)) {
        zsock_t *sock;

        if (self->copy_count == COPIES_MAX) {
            self->copy_count = 0; /* too many to have leases of all: every request asks */
            return 0;
        }
        sock = bus_connect(ZMQ_DEALER, one, curve, peer);
        if (!sock)
            return -ENOTCONN;
        zsock_set_sndtimeo(sock, 0);
        self->copies[self->copy_count++] = (copy_t){.sock = sock};
    }
    return 0;
}

int admission_new(admission_t **ret_self, zloop_t *loop, const config_t *config)
{
    const char *curve = config_str(config, "curve-dir");
    admission_t *self = calloc(1, sizeof(*self));
    int r;

    if (!self || !(self->entries = zhashx_new())) {
        free(self);
        return -ENOMEM;
    }
    *ret_self = self;
    zhashx_set_destructor(self->entries, destroy_entry);
    r = connect_copies(self, config_str(config, "identity-rpc"), curve, "identity");
    if (!r)
        r = connect_copies(self, config_str(config, "routes-rpc"), curve, "routes");
    for (int i = 0; !r && i < self->copy_count; i++) {
        zloop_reader(loop, self->copies[i].sock, on_answer, self);
        zloop_reader_set_tolerant(loop, self->copies[i].sock);
        ask(&self->copies[i]);
    }
    if (!r)
        zloop_timer(loop, RENEW_MS, 0, on_renew, self);
    return r;
}

void admission_destroy(admission_t **self_p)
{
    admission_t *self = *self_p;

    if (!self)
        return;
    for (int i = 0; i < COPIES_MAX; i++)
        zsock_destroy(&self->copies[i].sock);
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

bool admission_recall(admission_t *self, const char *token, const char *ip, char account[64],
                      json_t **ret_actor)
{
    int64_t now = bus_mono_ms();
    const entry_t *entry;
    char key[160];

    if (!has_leases(self, now))
        return false;
    make_key(token, ip, key);
    entry = zhashx_lookup(self->entries, key);
    if (!entry || now >= entry->until_ms)
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
                        const char *account, json_t *actor)
{
    int64_t now = bus_mono_ms();
    entry_t *entry;
    char key[160];

    if (generation != self->generation || !has_leases(self, now))
        return;
    if (zhashx_size(self->entries) >= ENTRIES_MAX)
        zhashx_purge(self->entries);
    entry = calloc(1, sizeof(*entry));
    if (!entry)
        return;
    snprintf(entry->account, sizeof(entry->account), "%s", account);
    entry->actor = json_incref(actor);
    entry->until_ms = now + REMEMBER_MS;
    make_key(token, ip, key);
    zhashx_update(self->entries, key, entry);
}

size_t admission_metrics(const admission_t *self, char *out, size_t size)
{
    return (size_t)snprintf(out, size,
                            "postern_gateway_leases_held %d\n"
                            "postern_gateway_admissions_remembered_total %" PRIu64 "\n"
                            "postern_gateway_admissions_forgotten_total %" PRIu64 "\n",
                            has_leases(self, bus_mono_ms()) ? self->copy_count : 0,
                            self->remembered, self->forgotten);
}
