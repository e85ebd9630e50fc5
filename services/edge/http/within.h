/* Clients of one account share what that may have, by the rule of portion.h, twice as wide: one of
 * them has half of it at most, any number of them that take all they can get, n, leave about one
 * part in 2 n + 2, and who has none may have the last one. So has the network above them, whose
 * clients share its portion in turn. For what there is little of, counted at each question. */
#pragma once

#include "services/edge/http/portion.h"

enum { WITHIN_TIMES = 2 /* a client's percent of all: its percent of what its account may have */ };

/* What an account has, and of that a client and the network above it (with the client's). */
typedef struct {
    size_t own, same, near;
} within_t;

static inline size_t within_percent(size_t client_percent)
{
    return client_percent < PORTION_PERCENT_MAX / WITHIN_TIMES ? client_percent * WITHIN_TIMES
                                                               : PORTION_PERCENT_MAX;
}

/* What the account may have in all, where `left` of `all` are left: own_max, or less by its
 * portion, which is account_percent. */
static inline size_t within_most(size_t own, size_t own_max, size_t all, size_t left,
                                 size_t account_percent)
{
    size_t most = portion_most(all, left + own, account_percent);

    return most < own_max ? most : own_max;
}

/* May the client have one more, where its account may have `most`? */
static inline bool within_allows_one(const within_t *has, size_t most, size_t client_percent)
{
    size_t left = has->own < most ? most - has->own : 0, percent = within_percent(client_percent);

    return (!has->same || portion_allows_one(has->same, most, left, percent))
           && portion_network_allows_one(has->near, has->same, most, left, percent);
}

/* Of one kind of these: all that are taken, a client's and its network's, whatever the account, and
 * what of that an account has. */
typedef struct {
    size_t all, client, network;
    within_t within;
} within_part_t;

/* One more is taken: is it of the same account, client and network? */
static inline void within_count(within_part_t *self, bool own, bool client, bool network)
{
    self->all++;
    self->client += client;
    self->network += network;
    self->within.own += own;
    self->within.same += own && client;
    self->within.near += own && network;
}

/* May one more of `all` be of the account, which has own_max at most, of the client, and of the
 * network above it? */
static inline bool within_has_share(const within_part_t *self, size_t all, size_t own_max,
                                    size_t account_percent, size_t client_percent)
{
    size_t left = self->all < all ? all - self->all : 0, own = self->within.own;
    size_t most = within_most(own, own_max, all, left, account_percent);

    return own < own_max && portion_allows_one(own, all, left, account_percent)
           && within_allows_one(&self->within, most, client_percent)
           && portion_allows_one(self->client, all, left, client_percent)
           && portion_network_allows_one(self->network, self->client, all, left, client_percent);
}

/* May the client have an amount more? Who has none may have as much as there is. */
static inline bool within_allows(const within_t *has, size_t more, size_t most,
                                 size_t client_percent)
{
    size_t left = has->own < most ? most - has->own : 0, percent = within_percent(client_percent);

    return (!has->same || portion_allows(has->same, more, most, left, percent))
           && (!has->near
               || portion_network_allows(has->near, has->same, more, most, left, percent));
}
