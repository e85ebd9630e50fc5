/* Logout tokens that a worker asks identity about, and those that wait until it may: whose they
 * are, and who may have one more. Anybody can post one, and many accounts have a provider in
 * common, which is one client then. So what counts first is what a client has at one account. An
 * account, a client, and the network above it have a portion of all, the latter two whatever the
 * accounts; beside that a network that has none at an account has one there all the same, while
 * enough are left. No nginx in here. */
#pragma once

#include "services/edge/http/within.h"

enum {
    LOGOUTS_MAX = 32,        /* under way in a worker */
    LOGOUTS_ACCOUNT_MAX = 8, /* of one account's routes */
    LOGOUTS_PAIR_MAX = 2,    /* of those of one client */
    LOGOUTS_WAITING_MAX = 256,
    /* portions: 97 of those that wait may be a client's at one account, as many people as a
     * provider signs out at once, and 156 an account's */
    LOGOUTS_PERCENT = 100,
    LOGOUTS_WAITING_ACCOUNT = 400,
    LOGOUTS_WAITING_CLIENT = 220,
    /* parts of all: these are not for who has others elsewhere, of those under way and of those
     * that wait */
    LOGOUTS_KEPT = 2,
    LOGOUTS_WAITING_KEPT = 8
};

static inline bool sign_out_has_share(const within_part_t *has, size_t all, size_t own_max,
                                      size_t account_percent, size_t client_percent, size_t kept)
{
    const size_t left = has->all < all ? all - has->all : 0, own = has->within.own;
    const size_t most = within_most(own, own_max, all, left, account_percent);

    if (!left || own >= own_max)
        return false;
    if (!has->within.same && !has->within.near && left > kept)
        return true;
    return portion_allows_one(own, all, left, account_percent)
           && within_allows_one(&has->within, most, client_percent)
           && portion_allows_one(has->client, all, left, client_percent)
           && portion_network_allows_one(has->network, has->client, all, left, client_percent);
}

/* May one more be under way, beside those that are? */
static inline bool sign_out_may_begin(const within_part_t *has)
{
    return has->within.same < LOGOUTS_PAIR_MAX
           && sign_out_has_share(has, LOGOUTS_MAX, LOGOUTS_ACCOUNT_MAX, LOGOUTS_PERCENT,
                                 LOGOUTS_PERCENT, LOGOUTS_MAX / LOGOUTS_KEPT);
}

/* May one more wait, beside those that do? */
static inline bool sign_out_may_wait(const within_part_t *has)
{
    return sign_out_has_share(has, LOGOUTS_WAITING_MAX, LOGOUTS_WAITING_MAX,
                              LOGOUTS_WAITING_ACCOUNT, LOGOUTS_WAITING_CLIENT,
                              LOGOUTS_WAITING_MAX / LOGOUTS_WAITING_KEPT);
}
