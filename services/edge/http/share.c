#include "services/edge/http/share.h"
#include "services/edge/http/portion.h"
#include "common/base/invariant.h"

#include <sodium.h>
#include <string.h>

_Static_assert((int)SHARE_KEY_BYTES == (int)crypto_shorthash_KEYBYTES, "a key is SipHash's");

uint32_t share_hash(const unsigned char key[SHARE_KEY_BYTES], const void *bytes, size_t len,
                    uint32_t account)
{
    unsigned char text[sizeof(account) + SHARE_HASHED_MAX], sum[crypto_shorthash_BYTES];
    uint32_t out;

    len = len < SHARE_HASHED_MAX ? len : SHARE_HASHED_MAX;
    memcpy(text, &account, sizeof(account));
    if (len)
        memcpy(text + sizeof(account), bytes, len);
    crypto_shorthash(sum, text, sizeof(account) + len, key);
    memcpy(&out, sum, sizeof(out));
    return out ? out : 1;
}

size_t share_reserve(size_t all)
{
    return all / SHARE_RESERVE;
}

bool share_allows(const share_t *self, uint32_t alone, size_t all, size_t free, size_t percent)
{
    return !alone || portion_allows(self->alone[alone % SHARE_CLIENTS], 1, all, free, percent);
}

void share_enter(share_t *self, uint32_t alone)
{
    if (alone)
        self->alone[alone % SHARE_CLIENTS]++;
}

void share_leave(share_t *self, uint32_t alone)
{
    if (!alone)
        return;
    INVARIANT(self->alone[alone % SHARE_CLIENTS] > 0);
    self->alone[alone % SHARE_CLIENTS]--;
}

bool share_may_ask(const share_t *self, uint32_t alone, size_t all, size_t free, size_t percent)
{
    return self->alone[alone % SHARE_CLIENTS] < SHARE_FEW
           || share_allows(self, alone, all, free, percent);
}

bool share_take(share_t *self, share_part_t *part, size_t all, size_t free, size_t percent)
{
    uint32_t *account = &self->accounts[part->account % SHARE_ACCOUNTS];
    uint32_t *client = &self->clients[part->client % SHARE_CLIENTS];

    if (part->taken)
        return true;
    if ((free < all / SHARE_CLIENT_FREE && *client >= all / SHARE_CLIENT)
        || (free < all / SHARE_ACCOUNT_FREE && *account >= all / SHARE_ACCOUNT)
        || !share_may_ask(self, part->alone, all, free, percent))
        return false;
    share_enter(self, part->alone);
    (*account)++;
    (*client)++;
    part->taken = true;
    return true;
}

void share_give(share_t *self, share_part_t *part)
{
    uint32_t *account = &self->accounts[part->account % SHARE_ACCOUNTS];
    uint32_t *client = &self->clients[part->client % SHARE_CLIENTS];

    if (!part->taken)
        return;
    INVARIANT(*account > 0 && *client > 0); /* each is given back once */
    (*account)--;
    (*client)--;
    share_leave(self, part->alone);
    part->taken = false;
}
