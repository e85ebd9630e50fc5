#include "services/edge/http/share.h"
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

bool share_take(share_t *self, share_part_t *part, size_t all, size_t free)
{
    uint32_t *account = &self->accounts[part->account % SHARE_ACCOUNTS];
    uint32_t *client = &self->clients[part->client % SHARE_CLIENTS];

    if (part->taken)
        return true;
    if ((free < all / SHARE_CLIENT_FREE && *client >= all / SHARE_CLIENT)
        || (free < all / SHARE_ACCOUNT_FREE && *account >= all / SHARE_ACCOUNT))
        return false;
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
    part->taken = false;
}
