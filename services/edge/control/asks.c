#include "services/edge/control/asks.h"
#include "common/base/invariant.h"

#include <string.h>

static bool is_of_account(const char *account, const char *text, size_t len)
{
    return strlen(account) == len && (!len || memcmp(account, text, len) == 0);
}

/* May the account have one more under way? *ret_free: a free place. */
static bool has_share(const asks_t *self, const char *account, size_t len, size_t *ret_free)
{
    size_t own = 0;

    if (self->count == ASKS_MAX || len >= ASK_ACCOUNT_SIZE)
        return false;
    for (size_t i = 0; i < ASKS_MAX; i++) {
        if (!self->list[i].number)
            *ret_free = i;
        else
            own += is_of_account(self->list[i].account, account, len);
    }
    return own < ASKS_ACCOUNT_MAX;
}

/* A number says the place of its question. */
static size_t place_of(uint64_t number)
{
    return number % ASKS_MAX;
}

uint64_t asks_begin(asks_t *self, void *whose, const char *account, size_t account_len,
                    int64_t until_ms)
{
    size_t at = 0;

    INVARIANT(whose);
    if (!has_share(self, account, account_len, &at))
        return 0;
    self->count++;
    self->list[at].number = ++self->begun * ASKS_MAX + at;
    self->list[at].whose = whose;
    self->list[at].until_ms = until_ms;
    memset(self->list[at].account, 0, ASK_ACCOUNT_SIZE);
    if (account_len)
        memcpy(self->list[at].account, account, account_len);
    return self->list[at].number;
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
