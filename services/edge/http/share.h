/* Who holds a worker's connections to upstreams. Whoever sends requests decides how many there are
 * and how long each lasts: a request that announces a body and never sends it holds one until it is
 * given up, and 128 of them fit into one connection of HTTP/2. When less than half of all are free
 * a client of an account gets none beyond a thirty-second of all, and when less than a fourth is
 * free an account none beyond a fourth. So one client leaves half of them to others, of the same
 * account, too, and one account a fourth to other accounts.
 *
 * That fourth is what accounts leave, together, whoever comes first: of connections that no request
 * holds (idle ones, handshakes, heads that are not whole) nobody knows the account, and they make
 * no account's part smaller, or two clients with nothing but such connections would deny an account
 * that is busy to all of its visitors. There, while more than a sixteenth is free, a client of such
 * an account may have what is left of three fourths for what accounts have.
 *
 * What an account may have its clients share in turn (portion.h): who has some of it may have more
 * while enough is left, and who has none may have the last one.
 *
 * A client that asks for the hosts of many accounts is a client of each. So whatever the accounts,
 * what a client has of all connections, those that it made and those that were made for it, is at
 * most its portion (portion.h), or few where next to nothing is left, and what the network above it
 * has, that one's, or for a client that has few what crowds leave to the network. No nginx in
 * here. */
#pragma once

#include "services/edge/http/portion.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum {
    /* parts of all: what a client may have, when less than that is free; the same of an account;
     * what nobody may have who comes for an account's host */
    SHARE_CLIENT = 32,
    SHARE_CLIENT_FREE = 2,
    SHARE_ACCOUNT = 4,
    SHARE_ACCOUNT_FREE = 4,
    SHARE_LAST = 16,  /* nor who comes for an account that has its part, whoever has the rest */
    SHARE_WITHIN = 8, /* times a client's percent: its portion of what its account may have */
    SHARE_RESERVE = 64,
    SHARE_FEW = 4, /* a client that has fewer has no portion to keep to for its requests */
    SHARE_ACCOUNTS = 1024,
    SHARE_CLIENTS = 8192,
    SHARE_KEY_BYTES = 16,
    SHARE_HASHED_MAX = 128 /* bytes of what is hashed; what is longer is cut */
};

/* All zero: nobody has any. Accounts whose hashes fall together have one share; so have clients. */
typedef struct {
    size_t held;  /* by requests, of all accounts: to upstreams, and from clients for them */
    size_t crowd; /* of each client as many as few (portion.h) */
    uint32_t accounts[SHARE_ACCOUNTS];
    uint32_t clients[SHARE_CLIENTS];
    portion_client_t alone[SHARE_CLIENTS];  /* to a client and for it, whatever the accounts */
    uint32_t networks[SHARE_CLIENTS];       /* the same of the network above a client */
    uint32_t network_crowds[SHARE_CLIENTS]; /* and of that, its own part of crowd */
} share_t;

/* Whose a connection is. */
typedef struct {
    uint32_t alone; /* hash of the client; 0: somebody who speaks for many, and has no portion */
    bool of_crowd;  /* it is of its network's own part of the crowd */
} share_whose_t;

/* What a request has of it; zero: nothing. */
typedef struct {
    uint32_t account;
    uint32_t client; /* hash of account and client; 0: somebody who speaks for many */
    uint32_t alone;  /* hash of the client; 0: somebody who speaks for many, and has no portion */
    uint32_t *requests; /* how many have taken one of those that came on the same connection, which
                           outlives the part; NULL: this one alone, on none */
    bool taken;
    bool of_crowd; /* of share_whose_t */
} share_part_t;

/* Hash of an account's id, never 0; who does not know the key cannot choose one that falls together
 * with somebody else's. */
uint32_t share_hash(const unsigned char key[SHARE_KEY_BYTES], const void *bytes, size_t len,
                    uint32_t account);
/* The same of a client's address, below an account's hash or of none (0): half of it is of its own
 * address, and the other half of the network above that (portion_network of portion.h). Of IPv6 a
 * client is a /64, and its network a /48, of IPv4 an address and a /24; an address of IPv6 that
 * stands for one of IPv4 (address_v4_of) is that one. An address of another family, or none, is one
 * client of no network. */
uint32_t share_client(const unsigned char key[SHARE_KEY_BYTES], const struct sockaddr *address,
                      uint32_t account);

/* How many of `all` connections are kept free for the status port. */
size_t share_reserve(size_t all);

/* May the client whose hash alone is have one connection more? `free` of `all` are free, and it has
 * percent of a portion of them. */
bool share_allows(const share_t *self, uint32_t alone, size_t all, size_t free, size_t percent);
/* Is it refused, though it has none, because so few are free that no client is let in? These are
 * for the requests of clients that are. */
bool share_lets_nobody_in(const share_t *self, uint32_t alone, size_t all, size_t free,
                          size_t percent);
/* May it have one more to an upstream, for its request? Who was let in may ask, as long as the
 * network above has something left. */
bool share_may_ask(const share_t *self, uint32_t alone, size_t all, size_t free, size_t percent);
/* A connection that the client made, one of `all`, is counted, until it has left. */
share_whose_t share_enter(share_t *self, uint32_t alone, size_t all);
void share_leave(share_t *self, const share_whose_t *whose);

/* Take one connection on behalf of part->account, the hash of the account's id, part->client and
 * part->alone; `free` of the worker's `all` connections are free, and percent is as above. False:
 * one of the three has its share. A part that has taken one already keeps it. */
bool share_take(share_t *self, share_part_t *part, size_t all, size_t free, size_t percent);
/* Give it back, if it was taken. */
void share_give(share_t *self, share_part_t *part);
