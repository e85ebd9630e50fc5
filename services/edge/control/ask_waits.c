#include "services/edge/control/ask_waits.h"
#include "services/edge/http/within.h"

#include <stdlib.h>
#include <string.h>

enum { FULL_ACCOUNTS_MAX = 16 /* that one look remembers to have no room */ };

size_t ask_body_part(const ask_body_t *self, size_t offset, unsigned char both[ASK_PART_MAX],
                     const unsigned char **ret_part)
{
    size_t left = ask_body_total(self) - offset, len = left < ASK_PART_MAX ? left : ASK_PART_MAX;
    size_t own = offset < self->len ? self->len - offset : 0;

    if (!own && len) {
        *ret_part = (const unsigned char *)self->shared->at + (offset - self->len);
    } else if (own >= len) {
        *ret_part = (const unsigned char *)self->bytes + offset;
    } else {
        memcpy(both, (const unsigned char *)self->bytes + offset, own);
        memcpy(both + own, self->shared->at, len - own);
        *ret_part = both;
    }
    return len;
}

static bool is_of(const ask_wait_t *wait, const ask_who_t *who)
{
    return wait->account_len == who->account_len
           && memcmp(wait->account, who->account, who->account_len) == 0;
}

typedef struct amount {
    size_t count, bytes;
} amount_t;

static void amount_add(amount_t *self, bool is_one, size_t bytes)
{
    self->count += is_one;
    self->bytes += is_one ? bytes : 0;
}

/* Those that are about machines' tokens as this one is, or are not as this one is not: of all, of
 * its account, of its client, and of the network above it; and of its account's how many, and how
 * many bytes, these two have. Of what several share no client of an account has a part. */
typedef struct waiting {
    amount_t all, own, client, network;
    within_t counts, bytes;
} waiting_t;

static void count_within(waiting_t *self, const ask_wait_t *wait, const ask_who_t *who)
{
    bool same = who->client && wait->client == who->client;
    bool near = portion_same_network(wait->client, who->client);

    if (!is_of(wait, who))
        return;
    self->counts.same += same;
    self->counts.near += near;
    self->bytes.same += same ? wait->len : 0;
    self->bytes.near += near ? wait->len : 0;
}

static waiting_t count_waiting(const ask_waits_t *self, const ask_who_t *who)
{
    waiting_t out = {0};

    for (const ask_wait_t *wait = self->first; wait; wait = wait->next) {
        size_t bytes = wait->len + shared_text_part(wait->shared, SHARED_WAITS);

        if ((wait->kind ^ who->kind) & ASK_MACHINE)
            continue;
        amount_add(&out.all, true, bytes);
        amount_add(&out.own, is_of(wait, who), bytes);
        amount_add(&out.client, who->client && wait->client == who->client, bytes);
        amount_add(&out.network, portion_same_network(wait->client, who->client), bytes);
        count_within(&out, wait, who);
    }
    out.counts.own = out.own.count;
    out.bytes.own = out.own.bytes;
    return out;
}

/* May one more of so many bytes be of somebody who has these? */
static bool has_portion(const amount_t *has, size_t bytes, const amount_t *all,
                        const amount_t *left, uint32_t percent)
{
    return portion_allows_one(has->count, all->count, left->count, percent)
           && portion_allows(has->bytes, bytes, all->bytes, left->bytes, percent);
}

/* The same of the network above a client that has these. */
static bool network_has_portion(const waiting_t *has, size_t bytes, const amount_t *all,
                                const amount_t *left, uint32_t percent)
{
    return portion_network_allows_one(has->network.count, has->client.count, all->count,
                                      left->count, percent)
           && (!has->network.count
               || portion_network_allows(has->network.bytes, has->client.bytes, bytes, all->bytes,
                                         left->bytes, percent));
}

static size_t smaller(size_t one, size_t other)
{
    return one < other ? one : other;
}

static size_t rest_of(size_t all, size_t taken)
{
    return all > taken ? all - taken : 0;
}

/* The bounds of an account: fewer once more than half of all wait, but for who has none there. */
static amount_t own_max(const ask_waits_t *self, const waiting_t *has, const ask_who_t *who,
                        size_t part)
{
    bool few = self->count > ASK_WAITS_MAX / 2 && (!who->client || has->counts.same);

    return (amount_t){(few ? ASK_WAITS_ACCOUNT_FEW : ASK_WAITS_ACCOUNT_MAX) / part,
                      ASK_WAITS_ACCOUNT_BYTES / part};
}

/* May the client have one more of what its account may have, of which own is the bound?
 * own_bytes: without what others share. */
static bool allows_client(const ask_waits_t *self, const waiting_t *has, size_t own_bytes,
                          const amount_t *own, const amount_t *all, const amount_t *left)
{
    size_t count =
        within_most(has->own.count, own->count, all->count, left->count, self->account_percent);
    size_t bytes =
        within_most(has->own.bytes, own->bytes, all->bytes, left->bytes, self->account_percent);

    return within_allows_one(&has->counts, count, self->client_percent)
           && within_allows(&has->bytes, own_bytes, bytes, self->client_percent);
}

bool ask_waits_have_room(const ask_waits_t *self, const ask_who_t *who, const ask_body_t *body)
{
    size_t bytes = body->len + shared_text_cost(body->shared, SHARED_WAITS);
    size_t part = who->kind & ASK_MACHINE ? ASK_WAITS_MACHINES : 1;
    waiting_t waiting = count_waiting(self, who);
    amount_t own = own_max(self, &waiting, who, part);
    amount_t all = {ASK_WAITS_MAX / part, ASK_WAITS_BYTES_MAX / part};
    amount_t left = {
        smaller(rest_of(all.count, waiting.all.count), rest_of(ASK_WAITS_MAX, self->count)),
        smaller(rest_of(all.bytes, waiting.all.bytes), rest_of(ASK_WAITS_BYTES_MAX, self->bytes))};

    return who->account_len < ASK_ACCOUNT_SIZE && waiting.own.count < own.count
           && waiting.own.bytes + bytes <= own.bytes
           && has_portion(&waiting.own, bytes, &all, &left, self->account_percent)
           && (!who->client
               || (waiting.client.count < ASK_WAITS_CLIENT_MAX / part
                   && allows_client(self, &waiting, body->len, &own, &all, &left)
                   && has_portion(&waiting.client, bytes, &all, &left, self->client_percent)
                   && network_has_portion(&waiting, bytes, &all, &left, self->client_percent)));
}

bool ask_waits_add(ask_waits_t *self, const ask_who_t *who, const char *verb,
                   const ask_body_t *body)
{
    ask_wait_t *wait, **end = &self->first;

    if (!ask_waits_have_room(self, who, body))
        return false;
    wait = malloc(sizeof(*wait) + body->len);
    if (!wait)
        return false;
    *wait = (ask_wait_t){
        .whose = who->whose,
        .verb = verb,
        .account_len = who->account_len,
        .client = who->client,
        .kind = who->kind,
        .until_ms = who->until_ms,
        .shared = shared_text_ref(body->shared),
        .len = body->len,
    };
    memcpy(wait->account, who->account, who->account_len);
    memcpy(wait->body, body->bytes, body->len);
    while (*end)
        end = &(*end)->next;
    *end = wait;
    self->count++;
    self->bytes += body->len + shared_text_enter(wait->shared, SHARED_WAITS);
    return true;
}

static ask_wait_t *unlink_wait(ask_waits_t *self, ask_wait_t **place)
{
    ask_wait_t *wait = *place;

    *place = wait->next;
    wait->next = NULL;
    self->count--;
    self->bytes -= wait->len + shared_text_leave(wait->shared, SHARED_WAITS);
    return wait;
}

void ask_wait_free(ask_wait_t *wait)
{
    shared_text_unref(&wait->shared);
    free(wait);
}

/* Accounts that have no room for any of their clients: a look need not count for each of theirs. */
typedef struct full {
    const char *accounts[ASK_KINDS][FULL_ACCOUNTS_MAX];
    size_t counts[ASK_KINDS];
} full_t;

static bool is_full(const full_t *self, const ask_wait_t *wait)
{
    for (size_t i = 0; i < self->counts[wait->kind]; i++)
        if (strcmp(self->accounts[wait->kind][i], wait->account) == 0)
            return true;
    return false;
}

static void note_full(full_t *self, const ask_wait_t *wait, const asks_t *asks)
{
    if (self->counts[wait->kind] < FULL_ACCOUNTS_MAX
        && !asks_have_room(asks, wait->account, wait->account_len, 0, wait->kind))
        self->accounts[wait->kind][self->counts[wait->kind]++] = wait->account;
}

ask_wait_t *ask_waits_take(ask_waits_t *self, asks_t *asks)
{
    full_t full = {0};

    for (ask_wait_t **place = &self->first; *place && asks->count < ASKS_MAX;
         place = &(*place)->next) {
        ask_wait_t *wait = *place;

        if (is_full(&full, wait))
            continue;
        wait->number = asks_begin(asks, wait->whose, wait->account, wait->account_len, wait->client,
                                  wait->kind, wait->until_ms);
        if (wait->number)
            return unlink_wait(self, place);
        note_full(&full, wait, asks);
    }
    return NULL;
}

void ask_waits_leave(ask_waits_t *self, const void *whose)
{
    for (ask_wait_t **place = &self->first; *place; place = &(*place)->next) {
        if ((*place)->whose != whose)
            continue;
        ask_wait_free(unlink_wait(self, place));
        return;
    }
}

void *ask_waits_late(ask_waits_t *self, int64_t now_ms)
{
    for (ask_wait_t **place = &self->first; *place; place = &(*place)->next) {
        void *whose = (*place)->whose;

        if (now_ms < (*place)->until_ms)
            continue;
        ask_wait_free(unlink_wait(self, place));
        return whose;
    }
    return NULL;
}

void ask_waits_expire(ask_waits_t *self)
{
    for (ask_wait_t *wait = self->first; wait; wait = wait->next)
        wait->until_ms = INT64_MIN;
}
