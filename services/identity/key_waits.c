#include "services/identity/key_waits.h"

#include <sodium.h>
#include <stdatomic.h>
#include <string.h>

enum { PLACES = 4096 /* accounts that share one have its waits among them */ };

static _Atomic unsigned counts[PLACES];

/* Accounts' ids are made here, so nobody can choose with whom he shares. */
static unsigned place_of(const char *account)
{
    static const unsigned char no_secret[crypto_shorthash_KEYBYTES];
    unsigned char hash[crypto_shorthash_BYTES];
    unsigned place;

    crypto_shorthash(hash, (const unsigned char *)account, strlen(account), no_secret);
    memcpy(&place, hash, sizeof(place));
    return place % PLACES + 1;
}

bool key_wait_take(key_wait_t *self, const char *account)
{
    unsigned place;

    if (self->place)
        return true;
    place = place_of(account);
    if (atomic_fetch_add(&counts[place - 1], 1) >= KEY_WAITS_MAX) {
        atomic_fetch_sub(&counts[place - 1], 1);
        return false;
    }
    self->place = place;
    return true;
}

void key_wait_done(key_wait_t *self)
{
    if (self->place)
        atomic_fetch_sub(&counts[self->place - 1], 1);
    self->place = 0;
}
