#include "services/edge/http/visits.h"
#include "services/edge/http/within.h"
#include "common/base/invariant.h"

#include <string.h>

/* The bound of an account is half of all places, and of the short ones a fourth: what its portion
 * is while none, or half of them, are taken. */
enum { ACCOUNT_PERCENT = 400, SHORT_ACCOUNT_PERCENT = 100 };

static void count_one(within_part_t *part, const visit_place_t *place, const visit_who_t *who)
{
    bool own = place->account_len == who->account_len
               && memcmp(place->account, who->account, who->account_len) == 0;

    within_count(part, own, place->client == who->client,
                 portion_same_network(place->client, who->client));
}

bool visits_enter(visits_t *self, visit_place_t *place, const visit_who_t *who)
{
    within_part_t any = {0}, brief = {0};

    INVARIANT(!place->taken);
    for (const visit_place_t *other = self->first; other; other = other->next) {
        if (other->saml != who->saml)
            continue;
        count_one(&any, other, who);
        if (!other->slow)
            count_one(&brief, other, who);
    }
    if (!within_has_share(&any, VISITS_MAX, VISITS_ACCOUNT_MAX, ACCOUNT_PERCENT,
                          self->client_percent))
        return false;
    *place = (visit_place_t){
        .next = self->first,
        .account = who->account,
        .account_len = who->account_len,
        .client = who->client,
        .taken = true,
        .saml = who->saml,
        .slow = !who->saml
                || !within_has_share(&brief, VISITS_SHORT_MAX, VISITS_SHORT_ACCOUNT_MAX,
                                     SHORT_ACCOUNT_PERCENT, self->client_percent),
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
