#include "services/edge/control/asks.h"
#include "services/edge/http/portion.h"
#include "common/base/invariant.h"

#include <string.h>

/* While half of the places are free an account's portion is a fourth of them, as its bound is. */
enum { ACCOUNT_PERCENT = 100, SHARE = 8 /* an account has one in so many when less is free */ };

static bool is_of_account(const char *account, const char *text, size_t len)
{
    return strlen(account) == len && (!len || memcmp(account, text, len) == 0);
}

/* What is under way of one kind: of all, of an account, of a client of that account, of that client
 * whatever the account, and of the network above it. */
typedef struct {
    size_t all, own, same, client, network;
} part_t;

/* Whose a question is. */
typedef struct {
    bool own, client, network;
} whose_t;

typedef struct {
    part_t any, quick, slow, machines;
} taken_t;

static void count_one(part_t *part, const whose_t *whose)
{
    part->all++;
    part->own += whose->own;
    part->same += whose->own && whose->client;
    part->client += whose->client;
    part->network += whose->network;
}

static taken_t count_taken(const asks_t *self, const char *account, size_t len, uint32_t client,
                           size_t *ret_free)
{
    taken_t out = {0};

    for (size_t i = 0; i < ASKS_MAX; i++) {
        whose_t whose;

        if (!self->list[i].number) {
            *ret_free = i;
            continue;
        }
        whose = (whose_t){
            .own = is_of_account(self->list[i].account, account, len),
            .client = client && self->list[i].client == client,
            .network = portion_same_network(self->list[i].client, client),
        };
        count_one(&out.any, &whose);
        count_one(self->list[i].kind & ASK_SLOW ? &out.slow : &out.quick, &whose);
        if (self->list[i].kind & ASK_MACHINE)
            count_one(&out.machines, &whose);
    }
    return out;
}

/* May a client that has some of the account's have one more? At most as many as it leaves of what
 * the account may have. */
static bool leaves_half(const part_t *taken, size_t all, size_t left, size_t own_max)
{
    size_t most = portion_most(all, left + taken->own, ACCOUNT_PERCENT);
    size_t others = taken->own - taken->same;

    if (taken->all > all / 2 && own_max > all / SHARE)
        own_max = all / SHARE;
    if (own_max > most)
        own_max = most;
    return !taken->same || (taken->same + 1) * 2 + others <= own_max;
}

/* May one more of `all` be of the account, which has own_max at most, and of the client? */
static bool has_share(const asks_t *self, const part_t *taken, size_t all, size_t own_max)
{
    size_t left = taken->all < all ? all - taken->all : 0;

    return taken->own < own_max && (taken->all <= all / 2 || taken->own < all / SHARE)
           && leaves_half(taken, all, left, own_max)
           && portion_allows_one(taken->own, all, left, ACCOUNT_PERCENT)
           && portion_allows_one(taken->client, all, left, self->client_percent)
           && portion_network_allows_one(taken->network, taken->client, all, left,
                                         self->client_percent);
}

static bool has_room(const asks_t *self, const taken_t *taken, unsigned kind)
{
    if (!has_share(self, &taken->any, ASKS_MAX, ASKS_ACCOUNT_MAX))
        return false;
    if ((kind & ASK_MACHINE)
        && (!has_share(self, &taken->machines, ASKS_MACHINES_MAX, ASKS_ACCOUNT_MACHINES_MAX)
            || taken->machines.same >= ASKS_CLIENT_MACHINES_MAX))
        return false;
    if (!(kind & ASK_SLOW))
        return taken->quick.same < ASKS_CLIENT_MAX;
    return has_share(self, &taken->slow, ASKS_SLOW_MAX, ASKS_ACCOUNT_SLOW_MAX)
           && taken->slow.same < (taken->slow.own < ASKS_ACCOUNT_SLOW_MAX / 2
                                      ? ASKS_CLIENT_MAX
                                      : ASKS_CLIENT_SLOW_FEW);
}

/* A number says the place of its question. */
static size_t place_of(uint64_t number)
{
    return number % ASKS_MAX;
}

uint64_t asks_begin(asks_t *self, void *whose, const char *account, size_t account_len,
                    uint32_t client, unsigned kind, int64_t until_ms)
{
    size_t at = 0;
    taken_t taken;

    INVARIANT(whose);
    if (account_len >= ASK_ACCOUNT_SIZE)
        return 0;
    taken = count_taken(self, account, account_len, client, &at);
    if (!has_room(self, &taken, kind))
        return 0;
    self->count++;
    self->list[at].number = ++self->begun * ASKS_MAX + at;
    self->list[at].whose = whose;
    self->list[at].until_ms = until_ms;
    self->list[at].client = client;
    self->list[at].kind = kind;
    memset(self->list[at].account, 0, ASK_ACCOUNT_SIZE);
    if (account_len)
        memcpy(self->list[at].account, account, account_len);
    return self->list[at].number;
}

bool asks_have_room(const asks_t *self, const char *account, size_t account_len, uint32_t client,
                    unsigned kind)
{
    size_t at = 0;
    taken_t taken = count_taken(self, account, account_len, client, &at);

    return has_room(self, &taken, kind);
}

void asks_leave(asks_t *self, uint64_t number)
{
    if (number && self->list[place_of(number)].number == number)
        self->list[place_of(number)].whose = NULL;
}

void *asks_end(asks_t *self, uint64_t number)
{
    size_t at = place_of(number);

    if (!number || self->list[at].number != number)
        return NULL;
    INVARIANT(self->count > 0);
    self->count--;
    self->list[at].number = 0;
    return self->list[at].whose;
}

uint64_t asks_late(const asks_t *self, int64_t now_ms)
{
    for (size_t i = 0; self->count && i < ASKS_MAX; i++)
        if (self->list[i].number && now_ms >= self->list[i].until_ms)
            return self->list[i].number;
    return 0;
}
