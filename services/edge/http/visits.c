#include "services/edge/http/visits.h"
#include "services/edge/http/within.h"
#include "common/base/invariant.h"

#include <string.h>

/* The bound of an account is half of all places, and of the short ones a fourth: what its portion
 * is while none, or half of them, are taken. */
enum { ACCOUNT_PERCENT = 400, SHORT_ACCOUNT_PERCENT = 100 };

/* Visits of one sort: all, a client's, and its network's, whatever the account, and what of these
 * an account has. */
typedef struct {
    size_t all, client, network;
    within_t within;
} part_t;

static void count_one(part_t *part, const visit_place_t *place, const visit_who_t *who)
{
    bool own = place->account_len == who->account_len
               && memcmp(place->account, who->account, who->account_len) == 0;
    bool client = place->client == who->client;
    bool network = portion_same_network(place->client, who->client);

    part->all++;
    part->client += client;
    part->network += network;
    part->within.own += own;
    part->within.same += own && client;
    part->within.near += own && network;
}

static bool has_share(const visits_t *self, const part_t *part, size_t all, size_t own_max,
                      uint32_t account_percent)
{
    size_t left = part->all < all ? all - part->all : 0, own = part->within.own;
    size_t most = within_most(own, own_max, all, left, account_percent);

    return own < own_max && portion_allows_one(own, all, left, account_percent)
           && within_allows_one(&part->within, most, self->client_percent)
           && portion_allows_one(part->client, all, left, self->client_percent)
           && portion_network_allows_one(part->network, part->client, all, left,
                                         self->client_percent);
}

bool visits_enter(visits_t *self, visit_place_t *place, const visit_who_t *who)
{
    part_t any = {0}, brief = {0};

    INVARIANT(!place->taken);
    for (const visit_place_t *other = self->first; other; other = other->next) {
        if (other->saml != who->saml)
            continue;
        count_one(&any, other, who);
        if (!other->slow)
            count_one(&brief, other, who);
    }
    if (!has_share(self, &any, VISITS_MAX, VISITS_ACCOUNT_MAX, ACCOUNT_PERCENT))
        return false;
    *place = (visit_place_t){
        .next = self->first,
        .account = who->account,
        .account_len = who->account_len,
        .client = who->client,
        .taken = true,
        .saml = who->saml,
        .slow = !who->saml
                || !has_share(self, &brief, VISITS_SHORT_MAX, VISITS_SHORT_ACCOUNT_MAX,
                              SHORT_ACCOUNT_PERCENT),
    };
    if (self->first)
        self->first->previous = place;
    self->first = place;
    return true;
}

void visits_leave(visits_t *self, visit_place_t *place)
{
    if (!place->taken)
        return;
    if (place->previous)
        place->previous->next = place->next;
    else
        self->first = place->next;
    if (place->next)
        place->next->previous = place->previous;
    *place = (visit_place_t){0};
}
