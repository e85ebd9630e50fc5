/* Who has how much of something of which a worker has only so much, be it memory or connections, by
 * the rule of common/base/portion_rule.h: one alone may have 38 percent, which may be a thousand
 * people behind one address; nobody has a portion beforehand; and of any number of clients that
 * take all they can get, n, more than one in n + 2 of all is left for the next one.
 *
 * What an account may have is what its clients share in turn, by the same rule: so of any number of
 * clients of one account one more has something there, too.
 *
 * One customer of IPv6 has as many networks (/64) as it likes, of which each is a client, and a
 * hoster's tenant many addresses of IPv4. So the network above a client has a portion, too, as
 * large as an account's, and its clients share that: so large that one alone has what it has of
 * all, and so that any number of them leave something to the next one.
 *
 * An account that is busy is a crowd of clients with little each. Who has much has it within its
 * own portion, at whatever accounts, and does not decide whether a busy account has new visitors.
 * So an account may also have its portion of what crowds leave, while more than a sixteenth of all
 * is left, which is for accounts that have less. Of each client a 256th of all at most is a
 * crowd's, and all that is charged to no client.
 *
 * Nor does who has much decide whether a busy network, of a carrier, an office, or a service that
 * sends webhooks, has one more client: as an account may, it may have its portion of what the
 * crowds of other networks leave, but for its clients that have little, up to a fourth of all, and
 * while more than three 32nds of all are left. For such a crowd may be one person with a /48 of
 * IPv6: so four networks that take all they can get leave more than a sixteenth. No nginx in
 * here. */
#pragma once

#include "common/base/portion_rule.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PORTION_ACCOUNTS = 1024,
    PORTION_CLIENTS = 8192,
    PORTION_NETWORK = 4,        /* times a client's percent: its network's, of all, */
    PORTION_WITHIN = 5,         /* and a client's of what its network may have, but no less than */
    PORTION_WITHIN_LEAST = 250, /* percent: of a small portion, too, one alone has all of it */
    /* parts of all: what a client has as one of a crowd, but no less than the fewest; what is not
     * for who has its portion, and of a network one and a half of that; what a network may have
     * whoever else has much */
    PORTION_FEW = 256,
    PORTION_FEWEST = 4,
    PORTION_LAST = 16,
    PORTION_NETWORK_BUSY = 4,
    PORTION_PERCENT_MAX = 10000
};

/* What a client has. As much of it as few of all counts as a crowd's, whichever of its parts have
 * ended by now. Parts carry what of that counts as their network's and their account's own: where
 * those that did have ended, the next part does. All zero: the client has nothing. */
typedef struct {
    size_t has;
    uint32_t crowd, own; /* own <= crowd <= has */
} portion_client_t;

/* All zero: nobody has any. Accounts whose hashes (share_hash) fall together have one portion; so
 * have clients: a table that is full of takers makes portions smaller, never larger. */
typedef struct {
    size_t taken;
    size_t crowd; /* of that: what is charged to no client, and of each client as much as few */
    size_t accounts[PORTION_ACCOUNTS];
    size_t crowds[PORTION_ACCOUNTS]; /* of an account: its own part of crowd */
    portion_client_t clients[PORTION_CLIENTS];
    size_t networks[PORTION_CLIENTS];
    size_t network_crowds[PORTION_CLIENTS]; /* of a network: its own part of crowd */
    size_t theirs[PORTION_CLIENTS];         /* of a client at one account */
} portions_t;

/* What a request has of it; zero: nothing. */
typedef struct {
    size_t amount;
    size_t crowd;     /* of that: its network's and its account's own part of the crowd */
    uint32_t client;  /* hash (share_client); 0: it is charged to no client */
    uint32_t account; /* hash; 0: it is charged to no account yet */
    uint32_t theirs;  /* hash of account and client; 0: somebody who speaks for many */
} portion_t;

/* At whose expense, beside the client's: hashes, of which theirs is 0 for who speaks for many. */
typedef struct {
    uint32_t account, theirs;
    size_t percent, client_percent; /* of a portion, of all and of what the account may have */
    bool of_left; /* no more than the portion of what is left, whoever has the rest */
} portion_account_t;

/* What portions are in percent: a client's of all, an account's, and a client's of that. */
typedef struct {
    size_t client, account, theirs;
} portion_percents_t;

/* What an account or a network has, what of that is of a crowd, and what crowds have in all. */
typedef struct {
    size_t has, own, crowd;
} portion_crowd_t;

/* Hash of the network above a client, which its hash (share_client) has in it; 0: of none. */
static inline uint32_t portion_network(uint32_t client)
{
    return client >> 16;
}

static inline bool portion_same_network(uint32_t client, uint32_t other)
{
    return portion_network(client) && portion_network(client) == portion_network(other);
}

/* May a network that has `network` have more, of which its client has `client`? percent is a
 * client's. */
bool portion_network_allows(size_t network, size_t client, size_t more, size_t all, size_t left,
                            size_t percent);

/* The same of one more where there are few: a network that has none may have the last one, and a
 * client that has none what its network has left. */
bool portion_network_allows_one(size_t network, size_t client, size_t all, size_t left,
                                size_t percent);

/* The client has so much more of `all`, and *crowd, which is all clients', what it is more of a
 * crowd. What of the amount is its network's and account's own: it goes with whoever has the
 * amount. */
size_t portion_client_more(portion_client_t *self, size_t *crowd, size_t amount, size_t all);
/* The client has so much less, with which this part of its own goes. */
void portion_client_less(portion_client_t *self, size_t *crowd, size_t amount, size_t own);
/* May the network have more for a client that has few, whoever else has much? These two are beside
 * what portion_network_allows says. */
bool portion_network_allows_few(const portion_crowd_t *network, size_t client, size_t more,
                                size_t all, size_t left, size_t percent);

/* Take amount of `all` on behalf of client, which has percent of a portion, or of nobody (0).
 * False: the client or its network has its portion, or too little is left; *part is unchanged. A
 * part that has some already takes no more. */
bool portion_take(portions_t *self, portion_t *part, size_t all, size_t percent, uint32_t client,
                  size_t amount);
/* What one may have who takes all it can get, where `left` of `all` are left to it. */
size_t portion_most(size_t all, size_t left, size_t percent);
/* The least percent of a portion by which who has none may have so much of `all` at once, where
 * nobody else has any. */
size_t portion_percent_for(size_t all, size_t amount);
/* The percents that somebody has set for clients and for accounts, or, where these are less, those
 * by which a client that is alone may have `one` of `all`, which is at least ten times as much. */
portion_percents_t portion_percents(size_t all, size_t one, size_t client, size_t account);
/* Charge what the part has to an account, too. False: the account has its portion, or the client
 * its portion of that; the part stays as it was. */
bool portion_charge_account(portions_t *self, portion_t *part, size_t all,
                            const portion_account_t *to);
/* Give back all but this amount; a part that has no more than that keeps what it has. */
void portion_keep(portions_t *self, portion_t *part, size_t amount);
/* Give all of it back. */
void portion_give(portions_t *self, portion_t *part);
