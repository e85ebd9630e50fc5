#include "services/edge/http/share.h"
#include "common/base/invariant.h"

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
