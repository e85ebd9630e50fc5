#include "services/edge/control/signers.h"

#include "common/base/invariant.h"
#include "services/edge/http/portion.h"

#include <openssl/x509.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_BITS_MIN = 2048, KEY_BITS_MAX = 8192 };

typedef struct signer_key {
    char url[SIGNER_URL_MAX + 1]; /* "": this place is free */
    EVP_PKEY *key;
    int64_t until_s;
    int64_t got_ms, used_ms;
} signer_key_t;

typedef enum fetch_state { FETCH_FREE, FETCH_ASKED, FETCH_REFUSED, FETCH_LATER } fetch_state_t;

typedef struct signers_fetch {
    fetch_state_t state;
    signer_ask_t ask;
    uint32_t client;  /* who had it asked */
    int64_t since_ms; /* when it was asked for, or answered */
    signers_waiter_t *waiters;
} signers_fetch_t;

struct signers {
    const signers_ports_t *ports;
    void *context;
    uint64_t last_number;
    signer_key_t keys[SIGNERS_KEYS_MAX];
    signers_fetch_t fetches[SIGNERS_REMEMBERED_MAX];
};

signers_t *signers_new(const signers_ports_t *ports, void *context)
{
    signers_t *self = calloc(1, sizeof(*self));

    if (!self)
        return NULL;
    self->ports = ports;
    self->context = context;
    return self;
}

void signers_destroy(signers_t **self_p)
{
    signers_t *self = *self_p;

    *self_p = NULL;
    if (!self)
        return;
    for (size_t i = 0; i < SIGNERS_REMEMBERED_MAX; i++)
        INVARIANT(!self->fetches[i].waiters);
    for (size_t i = 0; i < SIGNERS_KEYS_MAX; i++)
        EVP_PKEY_free(self->keys[i].key);
    free(self);
}

/* ---- keys ---- */

static void key_clear(signer_key_t *key)
{
    EVP_PKEY_free(key->key);
    *key = (signer_key_t){0};
}

static signer_key_t *key_of(signers_t *self, const char *url, int64_t now_ms, int64_t now_s)
{
    for (size_t i = 0; i < SIGNERS_KEYS_MAX; i++) {
        signer_key_t *key = &self->keys[i];

        if (strcmp(key->url, url) != 0)
            continue;
        if (now_s <= key->until_s && now_ms - key->got_ms < SIGNERS_STALE_MS)
            return key;
        key_clear(key);
    }
    return NULL;
}

/* The place of this URL's key, a free one, or that of the key that was used the longest ago. */
static signer_key_t *key_place(signers_t *self, const char *url)
{
    signer_key_t *place = &self->keys[0];

    for (size_t i = 0; i < SIGNERS_KEYS_MAX; i++) {
        signer_key_t *key = &self->keys[i];

        if (!strcmp(key->url, url))
            return key;
        if (*place->url && (!*key->url || key->used_ms < place->used_ms))
            place = key;
    }
    return place;
}

/* False: the bytes are no key. */
static bool key_keep(signers_t *self, const char *url, const signer_told_t *told, int64_t now_ms)
{
    const unsigned char *at = told->key;
    EVP_PKEY *key = d2i_PUBKEY(NULL, &at, (long)told->key_len);
    signer_key_t *place;

    if (!key || !EVP_PKEY_is_a(key, "RSA") || EVP_PKEY_get_bits(key) < KEY_BITS_MIN
        || EVP_PKEY_get_bits(key) > KEY_BITS_MAX) {
        EVP_PKEY_free(key);
        return false;
    }
    place = key_place(self, url);
    key_clear(place);
    memcpy(place->url, url, strlen(url) + 1);
    place->key = key;
    place->until_s = told->until_s;
    place->got_ms = place->used_ms = now_ms;
    return true;
}

/* ---- fetches ---- */

static int64_t remembered_ms(const signers_fetch_t *fetch)
{
    return fetch->state == FETCH_ASKED     ? SIGNERS_WAIT_MS
           : fetch->state == FETCH_REFUSED ? SIGNERS_REFUSED_MS
                                           : SIGNERS_LATER_MS;
}

static void wake_all(signers_fetch_t *fetch)
{
    signers_waiter_t *waiter;

    while ((waiter = fetch->waiters)) {
        signers_leave(waiter);
        waiter->wake(waiter);
    }
}

/* What is over by now is forgotten. An answer that did not come is taken for one that it cannot be
 * had: who waits for it finds that. */
static void forget_old(signers_t *self, int64_t now_ms)
{
    for (size_t i = 0; i < SIGNERS_REMEMBERED_MAX; i++) {
        signers_fetch_t *fetch = &self->fetches[i];

        if (fetch->state == FETCH_FREE || now_ms - fetch->since_ms < remembered_ms(fetch))
            continue;
        if (fetch->state == FETCH_ASKED) {
            fetch->state = FETCH_LATER;
            fetch->since_ms = now_ms;
            wake_all(fetch);
        } else {
            fetch->state = FETCH_FREE;
        }
    }
}

static signers_fetch_t *fetch_of(signers_t *self, const char *url)
{
    for (size_t i = 0; i < SIGNERS_REMEMBERED_MAX; i++)
        if (self->fetches[i].state != FETCH_FREE && !strcmp(self->fetches[i].ask.url, url))
            return &self->fetches[i];
    return NULL;
}

/* Who has some of `all` may have one more, while enough is left; who has none, what others left. */
static bool leaves_enough(size_t has, size_t all, size_t percent)
{
    return !has || (has + 1) * SIGNERS_LEFT * 100 <= (SIGNERS_FETCHES_MAX - all - 1) * percent;
}

/* May one more fetch be under way for them? */
static bool has_share(const signers_t *self, const signers_who_t *who)
{
    size_t all = 0, own = 0, same = 0, theirs = 0; /* theirs: the client's of the account */
    size_t network = 0;

    for (size_t i = 0; i < SIGNERS_REMEMBERED_MAX; i++) {
        const signers_fetch_t *fetch = &self->fetches[i];
        bool is_own = !strncmp(fetch->ask.account, who->account, sizeof(fetch->ask.account) - 1);
        bool is_same = who->client && fetch->client == who->client;

        if (fetch->state != FETCH_ASKED)
            continue;
        all++;
        own += is_own;
        same += is_same;
        theirs += is_own && is_same;
        network += portion_same_network(fetch->client, who->client);
    }
    return all < SIGNERS_FETCHES_MAX && own < SIGNERS_ACCOUNT_MAX && leaves_enough(own, all, 100)
           && leaves_enough(same, all, who->percent)
           && leaves_enough(network, all, (size_t)who->percent * SIGNERS_NETWORK)
           && (!theirs || (theirs + 1) * SIGNERS_LEFT <= SIGNERS_ACCOUNT_MAX - (own - theirs));
}

/* A free place, or that of the fetch that was answered the longest ago. */
static signers_fetch_t *fetch_place(signers_t *self)
{
    signers_fetch_t *oldest = NULL;

    for (size_t i = 0; i < SIGNERS_REMEMBERED_MAX; i++) {
        signers_fetch_t *fetch = &self->fetches[i];

        if (fetch->state == FETCH_FREE)
            return fetch;
        if (fetch->state != FETCH_ASKED && (!oldest || fetch->since_ms < oldest->since_ms))
            oldest = fetch;
    }
    INVARIANT(oldest);
    return oldest;
}

/* NULL: not now. */
static signers_fetch_t *fetch_begin(signers_t *self, const signers_who_t *who, const char *url,
                                    int64_t now_ms)
{
    signers_fetch_t *fetch;

    if (!has_share(self, who))
        return NULL;
    fetch = fetch_place(self);
    INVARIANT(!fetch->waiters);
    fetch->state = FETCH_ASKED;
    fetch->since_ms = now_ms;
    fetch->client = who->client;
    signer_ask_init(&fetch->ask, ++self->last_number, who->account, url);
    if (self->ports->ask(self->context, &fetch->ask))
        return fetch;
    fetch->state = FETCH_LATER;
    return NULL;
}

static void fetch_join(signers_fetch_t *fetch, signers_waiter_t *waiter)
{
    INVARIANT(!waiter->fetch && waiter->wake);
    waiter->fetch = fetch;
    waiter->before = NULL;
    waiter->after = fetch->waiters;
    if (fetch->waiters)
        fetch->waiters->before = waiter;
    fetch->waiters = waiter;
}

void signers_leave(signers_waiter_t *waiter)
{
    if (!waiter->fetch)
        return;
    if (waiter->before)
        waiter->before->after = waiter->after;
    else
        waiter->fetch->waiters = waiter->after;
    if (waiter->after)
        waiter->after->before = waiter->before;
    waiter->before = waiter->after = NULL;
    waiter->fetch = NULL;
}

signers_state_t signers_look(signers_t *self, const signers_who_t *who, const char *url,
                             int64_t now_ms, int64_t now_s, signers_waiter_t *waiter,
                             EVP_PKEY **ret_key)
{
    signer_key_t *key = key_of(self, url, now_ms, now_s);
    signers_fetch_t *fetch;

    if (key && now_ms - key->got_ms < SIGNERS_FRESH_MS) {
        key->used_ms = now_ms;
        *ret_key = key->key;
        return SIGNERS_KEY;
    }
    forget_old(self, now_ms);
    fetch = fetch_of(self, url);
    if (!fetch)
        fetch = fetch_begin(self, who, url, now_ms);
    if (key) {
        key->used_ms = now_ms;
        *ret_key = key->key;
        return SIGNERS_KEY;
    }
    if (!fetch || fetch->state == FETCH_LATER)
        return SIGNERS_LATER;
    if (fetch->state == FETCH_REFUSED)
        return SIGNERS_REFUSED;
    fetch_join(fetch, waiter);
    return SIGNERS_WAIT;
}

/* ---- answers ---- */

static void fetch_answer(signers_t *self, signers_fetch_t *fetch, const signer_told_t *told,
                         int64_t now_ms)
{
    fetch->since_ms = now_ms;
    if (told->outcome == SIGNER_LATER) {
        fetch->state = FETCH_LATER;
    } else if (told->outcome == SIGNER_KEY && key_keep(self, fetch->ask.url, told, now_ms)) {
        fetch->state = FETCH_FREE;
    } else {
        fetch->state = FETCH_REFUSED; /* a key that was good stays for its time */
    }
    wake_all(fetch);
}

void signers_take(signers_t *self, const signer_told_t *told, int64_t now_ms)
{
    for (size_t i = 0; i < SIGNERS_REMEMBERED_MAX; i++) {
        signers_fetch_t *fetch = &self->fetches[i];

        if (fetch->state != FETCH_ASKED)
            continue;
        if (told->number == fetch->ask.number || (!told->number && told->outcome == SIGNER_LATER))
            fetch_answer(self, fetch, told, now_ms);
    }
}
