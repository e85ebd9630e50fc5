#include "services/edge/control/asks.h"
#include "services/edge/http/within.h"
#include "common/base/invariant.h"

#include <string.h>

/* While half of the places are free an account's portion is a fourth of them, as its bound is. */
enum { ACCOUNT_PERCENT = 100, SHARE = 8 /* an account has one in so many when less is free */ };

static bool is_of_account(const char *account, const char *text, size_t len)
{
    return strlen(account) == len && (!len || memcmp(account, text, len) == 0);
}

/* What is under way of each kind. */
typedef struct {
    within_part_t any, quick, slow, machines;
} taken_t;

static taken_t count_taken(const asks_t *self, const char *account, size_t len, uint32_t client,
                           size_t *ret_free)
{
    taken_t out = {0};

    for (size_t i = 0; i < ASKS_MAX; i++) {
        bool own, same, near;

        if (!self->list[i].number) {
            *ret_free = i;
            continue;
        }
        own = is_of_account(self->list[i].account, account, len);
        same = client && self->list[i].client == client;
        near = portion_same_network(self->list[i].client, client);
        within_count(&out.any, own, same, near);
        within_count(self->list[i].kind & ASK_SLOW ? &out.slow : &out.quick, own, same, near);
        if (self->list[i].kind & ASK_MACHINE)
            within_count(&out.machines, own, same, near);
    }
    return out;
}

/* May one more of `all` be of the account, which has own_max at most, and of the client? */
static bool has_share(const asks_t *self, const within_part_t *taken, size_t all, size_t own_max)
{
    if (taken->all > all / 2 && own_max > all / SHARE)
        own_max = all / SHARE;
    return within_has_share(taken, all, own_max, ACCOUNT_PERCENT, self->client_percent);
}

static bool has_room(const asks_t *self, const taken_t *taken, unsigned kind)
{
    if (!has_share(self, &taken->any, ASKS_MAX, ASKS_ACCOUNT_MAX))
        return false;
    if ((kind & ASK_MACHINE)
        && (!has_share(self, &taken->machines, ASKS_MACHINES_MAX, ASKS_ACCOUNT_MACHINES_MAX)
            || taken->machines.within.same >= ASKS_CLIENT_MACHINES_MAX))
        return false;
    if (!(kind & ASK_SLOW))
        return taken->quick.within.same < ASKS_CLIENT_MAX;
    return has_share(self, &taken->slow, ASKS_SLOW_MAX, ASKS_ACCOUNT_SLOW_MAX)
           && taken->slow.within.same < (taken->slow.within.own < ASKS_ACCOUNT_SLOW_MAX / 2
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
