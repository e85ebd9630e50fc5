#include "services/edge/http/visits.h"
#include "common/base/invariant.h"

#include <string.h>

bool visits_enter(visits_t *self, visit_place_t *place, const char *account, size_t account_len,
                  bool saml)
{
    size_t all = 0, own = 0, all_short = 0, own_short = 0;

    INVARIANT(!place->taken);
    for (const visit_place_t *other = self->first; other; other = other->next) {
        bool same =
            other->account_len == account_len && memcmp(other->account, account, account_len) == 0;

        if (other->saml != saml)
            continue;
        all++;
        own += same;
        all_short += !other->slow;
        own_short += same && !other->slow;
    }
    if (all >= VISITS_MAX || own >= VISITS_ACCOUNT_MAX)
        return false;
    *place = (visit_place_t){
        .next = self->first,
        .account = account,
        .account_len = account_len,
        .taken = true,
        .saml = saml,
        .slow = !saml || all_short >= VISITS_SHORT_MAX || own_short >= VISITS_SHORT_ACCOUNT_MAX,
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
