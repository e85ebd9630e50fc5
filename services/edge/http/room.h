/* Room in a worker's memory for bodies that route modules read before their request goes on.
 * Whoever sends requests decides how many such bodies there are and how long they take: so all
 * of them have a bound, those of one account a fourth of it, and those that one client sends to
 * an account its portion (portion.h) of that, never more than a fourth: who sends signatures that
 * are none cannot keep out those who sign. A client that sends to many accounts has at most its
 * portion of all of it, and so has the network above it, or, for a client that has little, what
 * crowds leave to the network: most webhooks come from the networks of few services. Where somebody
 * has made clients' portions so small that the largest body would never fit, they are as large as
 * that. No nginx in here. */
#pragma once

#include "services/edge/http/portion.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ROOM_MAX = 256 << 20,
    ROOM_SHARE = ROOM_MAX / 4,
    ROOM_ACCOUNTS = 1024,
    ROOM_CLIENT_SHARE = ROOM_SHARE / 4,
    ROOM_BODY = (8 << 20) + (64 << 10), /* what the largest body takes in its smallest pieces, */
    ROOM_PERCENT_LEAST = 17, /* and by which a client that is alone at its account may have that */
    ROOM_CLIENTS = 8192
};

/* All zero: nothing is taken. Accounts whose hashes fall together have one share; so have
 * clients. */
typedef struct {
    size_t taken;
    size_t crowd; /* of each client as much as few (portion.h) */
    size_t shares[ROOM_ACCOUNTS];
    size_t client_shares[ROOM_CLIENTS];
    portion_client_t alone[ROOM_CLIENTS]; /* of a client, whatever the accounts */
    size_t networks[ROOM_CLIENTS];        /* of the network above it */
    size_t network_crowds[ROOM_CLIENTS];  /* of that, its own part of crowd */
} room_t;

/* What a body has of it; bytes 0: nothing. One account and client as long as it has any. */
typedef struct {
    size_t bytes;
    size_t crowd; /* of these: its network's own part of the crowd */
    uint32_t account;
    uint32_t client;  /* hash of account and client; 0: nobody's share but the account's */
    uint32_t alone;   /* hash of the client; 0: somebody who speaks for many, and has no portion */
    uint32_t percent; /* of a portion that a client may have; less than the least: that */
} room_part_t;

/* Take room for bytes more, on behalf of part->account, the hash of the account's id, part->client
 * and part->alone. False: there is none, and *part has what it had. */
bool room_take(room_t *self, room_part_t *part, size_t bytes);
/* Give all of it back. */
void room_give(room_t *self, room_part_t *part);
