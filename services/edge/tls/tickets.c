#include "services/edge/tls/tickets.h"

#include "common/base/invariant.h"

#include <errno.h>
#include <string.h>

/* Marks the layout of plain_t: change the number with the layout. */
static const unsigned char magic[TICKETS_MAGIC_BYTES] = "ticket keys 1";

typedef struct plain {
    unsigned char magic[TICKETS_MAGIC_BYTES];
    tickets_t tickets;
} plain_t;

_Static_assert(TICKETS_BYTES
                   == crypto_secretbox_NONCEBYTES + crypto_secretbox_MACBYTES + sizeof(plain_t),
               "what is sealed is all of plain_t");

void tickets_make(tickets_t *self)
{
    randombytes_buf(self, sizeof(*self));
}

unsigned tickets_due(int64_t since, int64_t now, int64_t period)
{
    uint64_t passed =
        now > since ? (uint64_t)now - (uint64_t)since : (uint64_t)since - (uint64_t)now;

    INVARIANT(period > 0);
    passed /= (uint64_t)period;
    return passed < TICKETS_KEYS ? (unsigned)passed : TICKETS_KEYS;
}

void tickets_rotate(tickets_t *self, unsigned changes)
{
    INVARIANT(changes <= TICKETS_KEYS);
    for (; changes > 0; changes--) {
        memmove(&self->keys[1], &self->keys[0], (TICKETS_KEYS - 1) * sizeof(self->keys[0]));
        randombytes_buf(&self->keys[TICKETS_NEXT], sizeof(self->keys[0]));
    }
}

const ticket_key_t *tickets_find(const tickets_t *self, const unsigned char *name)
{
    for (int i = 0; i < TICKETS_KEYS; i++)
        if (!memcmp(self->keys[i].name, name, TICKETS_NAME_BYTES))
            return &self->keys[i];
    return NULL;
}

void tickets_seal(const tickets_t *self, const unsigned char *key, unsigned char out[TICKETS_BYTES])
{
    plain_t plain;

    memcpy(plain.magic, magic, sizeof(magic));
    plain.tickets = *self;
    randombytes_buf(out, crypto_secretbox_NONCEBYTES);
    crypto_secretbox_easy(out + crypto_secretbox_NONCEBYTES, (const unsigned char *)&plain,
                          sizeof(plain), out, key);
    sodium_memzero(&plain, sizeof(plain));
}

int tickets_open(const unsigned char *sealed, size_t len, const unsigned char *key,
                 tickets_t *ret_tickets)
{
    plain_t plain;
    bool is_ours = len == TICKETS_BYTES
                   && !crypto_secretbox_open_easy(
                       (unsigned char *)&plain, sealed + crypto_secretbox_NONCEBYTES,
                       TICKETS_BYTES - crypto_secretbox_NONCEBYTES, sealed, key)
                   && !memcmp(plain.magic, magic, sizeof(magic));

    if (is_ours)
        *ret_tickets = plain.tickets;
    sodium_memzero(&plain, sizeof(plain));
    return is_ours ? 0 : -EBADMSG;
}
