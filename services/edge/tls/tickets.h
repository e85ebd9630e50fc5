/* The keys of TLS session tickets, and the file that holds them sealed. No nginx in here.
 *
 * One key at a time seals tickets, for one period. Workers have it a period earlier, so that one
 * that learns of a rotation late opens what another one sealed, and keep it for two periods more,
 * because tickets outlive a rotation. Then it is wiped, and with it access to what it sealed (RFC
 * 5077 5.5; a ticket of TLS 1.2 holds the session's secret). */
#pragma once

#include <sodium.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TICKETS_NEXT, TICKETS_CURRENT, TICKETS_KEYS = 4, TICKETS_NAME_BYTES = 16 };

typedef struct ticket_key {
    unsigned char name[TICKETS_NAME_BYTES]; /* clear text at the start of each ticket */
    unsigned char cipher[32], mac[32];
} ticket_key_t;

typedef struct tickets {
    ticket_key_t keys[TICKETS_KEYS]; /* next, current (the one that seals), then older ones */
} tickets_t;

/* Sizes in the file. */
enum {
    TICKETS_MAGIC_BYTES = 16,
    TICKETS_BYTES = crypto_secretbox_NONCEBYTES + crypto_secretbox_MACBYTES + TICKETS_MAGIC_BYTES
                    + sizeof(tickets_t)
};

/* Make all keys new. */
void tickets_make(tickets_t *self);

/* How many rotations are due for keys whose current one began at since (seconds since 1970): 0 to
 * TICKETS_KEYS, which replaces all of them. A clock that was set back by some time counts as if
 * that time had passed: so no key seals for longer than two periods. */
unsigned tickets_due(int64_t since, int64_t now, int64_t period);

/* Rotate that many times, 0 to TICKETS_KEYS: each adds a new key in front and drops the oldest. */
void tickets_rotate(tickets_t *self, unsigned changes);

/* The key with this name (TICKETS_NAME_BYTES); NULL: none has it. Borrowed. */
const ticket_key_t *tickets_find(const tickets_t *self, const unsigned char *name);

/* Encode and seal for the file, with a key of crypto_secretbox_KEYBYTES. */
void tickets_seal(const tickets_t *self, const unsigned char *key,
                  unsigned char out[TICKETS_BYTES]);

/* Open what tickets_seal made. 0 | -EBADMSG: truncated, or not sealed with this key. */
int tickets_open(const unsigned char *sealed, size_t len, const unsigned char *key,
                 tickets_t *ret_tickets);
