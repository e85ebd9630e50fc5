/* The keys of TLS session tickets, and the file that holds them sealed. No nginx in here.
 *
 * One key at a time seals tickets, for a period. It was there a period before, so that a worker
 * which has not heard of the change yet opens what another one sealed; and it stays for two
 * periods more, because tickets outlive the moment of the change. Then it is nowhere any more,
 * and neither is what it sealed (RFC 5077 5.5; a ticket of TLS 1.2 holds the session's secret). */
#pragma once

#include <sodium.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TICKETS_NEXT, TICKETS_CURRENT, TICKETS_KEYS = 4, TICKETS_NAME_BYTES = 16 };

typedef struct ticket_key {
    unsigned char name[TICKETS_NAME_BYTES]; /* in front of each ticket that it sealed */
    unsigned char cipher[32], mac[32];
} ticket_key_t;

typedef struct tickets {
    ticket_key_t keys[TICKETS_KEYS]; /* the next one, the one that seals, those before it */
} tickets_t;

/* In the file. */
enum {
    TICKETS_MAGIC_BYTES = 16,
    TICKETS_BYTES = crypto_secretbox_NONCEBYTES + crypto_secretbox_MACBYTES + TICKETS_MAGIC_BYTES
                    + sizeof(tickets_t)
};

/* Nothing but new keys. */
void tickets_make(tickets_t *self);

/* How many changes are due of keys that began at since: 0 to TICKETS_KEYS, and then none of them
 * is left. A clock that was set back counts as if that time had passed: no key serves for longer
 * because of it than for two periods. */
unsigned tickets_due(int64_t since, int64_t now, int64_t period);

void tickets_rotate(tickets_t *self, unsigned changes);

/* NULL: no key of that name. */
const ticket_key_t *tickets_find(const tickets_t *self, const unsigned char *name);

void tickets_seal(const tickets_t *self, const unsigned char *key,
                  unsigned char out[TICKETS_BYTES]);

/* 0 | -EBADMSG: cut, or not sealed with this key. */
int tickets_open(const unsigned char *sealed, size_t len, const unsigned char *key,
                 tickets_t *ret_tickets);
