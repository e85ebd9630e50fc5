#include "services/edge/http/known.h"
#include "common/base/address.h"

#include <netinet/in.h>
#include <string.h>

/* ---- clients ---- */

/* What makes the client, in *who. False: it has an address of another family, or none. */
static bool client_of(const struct sockaddr *address, known_client_t *who)
{
    uint8_t v4[4];

    who->is_v4 = address_v4_of(address, v4);
    if (who->is_v4)
        memcpy(&who->address, v4, sizeof(v4));
    else if (address->sa_family == AF_INET6)
        memcpy(&who->address, &((const struct sockaddr_in6 *)address)->sin6_addr,
               sizeof(who->address));
    else
        return false;
    return true;
}

static known_client_t *place_of(known_t *self, const known_client_t *who)
{
    uint64_t mixed = (who->address + ((uint64_t)who->account << 32)) * 0x9e3779b97f4a7c15u;

    return &self->clients[(mixed >> 32) % KNOWN_CLIENTS];
}

uint32_t known_client(known_t *self, const unsigned char key[SHARE_KEY_BYTES],
                      const struct sockaddr *address, uint32_t account)
{
    known_client_t who = {.account = account}, *known;

    if (!client_of(address, &who))
        return share_client(key, address, account);
    known = place_of(self, &who);
    if (!known->hash || known->address != who.address || known->account != account
        || known->is_v4 != who.is_v4) {
        *known = who;
        known->hash = share_client(key, address, account);
    }
    return known->hash;
}

/* ---- accounts ---- */

/* An id ends with random letters. */
static known_account_t *place_of_id(known_t *self, const void *id, size_t len)
{
    uint64_t end = 0;
    size_t most = len < sizeof(end) ? len : sizeof(end);

    if (most)
        memcpy(&end, (const char *)id + len - most, most);
    return &self->accounts[(end * 0x9e3779b97f4a7c15u >> 32) % KNOWN_ACCOUNTS];
}

uint32_t known_account(known_t *self, const unsigned char key[SHARE_KEY_BYTES], const void *id,
                       size_t len)
{
    known_account_t *known;

    if (len == 0 || len > KNOWN_ID_MAX)
        return share_hash(key, id, len, 0);
    known = place_of_id(self, id, len);
    if (!known->hash || known->len != len || memcmp(known->id, id, len) != 0) {
        known->hash = share_hash(key, id, len, 0);
        known->len = (unsigned char)len;
        memcpy(known->id, id, len);
    }
    return known->hash;
}
