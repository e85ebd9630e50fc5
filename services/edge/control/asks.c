#include "services/edge/control/asks.h"
#include "common/base/invariant.h"

#include <string.h>

static bool is_of_account(const char *account, const char *text, size_t len)
{
    return strlen(account) == len && (!len || memcmp(account, text, len) == 0);
}

/* What is under way: of all, of an account, and of a client of that account. */
typedef struct {
    size_t all, own, all_slow, own_slow, client, client_slow, own_machines, client_machines;
} taken_t;

static taken_t count_taken(const asks_t *self, const char *account, size_t len, uint32_t client,
                           size_t *ret_free)
{
    taken_t out = {.all = self->count};

    for (size_t i = 0; i < ASKS_MAX; i++) {
        bool slow = self->list[i].kind & ASK_SLOW, machine = self->list[i].kind & ASK_MACHINE;
        bool own, same;

        if (!self->list[i].number) {
            *ret_free = i;
            continue;
        }
        own = is_of_account(self->list[i].account, account, len);
        same = own && client && self->list[i].client == client;
        out.own += own;
        out.all_slow += slow;
        out.own_slow += slow && own;
        out.client += !slow && same;
        out.client_slow += slow && same;
        out.own_machines += machine && own;
        out.client_machines += machine && same;
    }
    return out;
}

/* Has an account that has own of the taken ones room for one more of that many? */
static bool has_share(size_t taken, size_t all, size_t own, size_t own_max)
{
    return taken < all && own < own_max && (taken <= all / 2 || own < all / ASKS_SHARE);
}

static bool has_room(const taken_t *taken, unsigned kind)
{
    if (!has_share(taken->all, ASKS_MAX, taken->own, ASKS_ACCOUNT_MAX))
        return false;
    if ((kind & ASK_MACHINE)
        && (taken->own_machines >= ASKS_ACCOUNT_MACHINES_MAX
            || taken->client_machines >= ASKS_CLIENT_MACHINES_MAX))
        return false;
    if (!(kind & ASK_SLOW))
        return taken->client < ASKS_CLIENT_MAX;
    return has_share(taken->all_slow, ASKS_SLOW_MAX, taken->own_slow, ASKS_ACCOUNT_SLOW_MAX)
           && taken->client_slow < (taken->own_slow < ASKS_ACCOUNT_SLOW_MAX / 2
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
    if (!has_room(&taken, kind))
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

    return has_room(&taken, kind);
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
