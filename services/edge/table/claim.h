/* Claims on a place that several entries may name: a path of an edge, a host, a domain's name. All
 * of them are kept, in the order of their ids, and the first one serves: the oldest, since ids
 * begin with their time. So the same entries give the same answer in whatever order they come and
 * go, and one that goes takes nothing but itself. Nearly always there is one claimant. */
#pragma once

#include "common/base/invariant.h"

#include <string.h>

typedef struct claim {
    struct claim *next; /* of the same place */
    const char *id;     /* of the entry, which owns it */
} claim_t;

/* Among the claims on its place, *chain the first: the claim is in none. */
static inline void claim_put(claim_t **chain, claim_t *claim)
{
    while (*chain && strcmp((*chain)->id, claim->id) <= 0)
        chain = &(*chain)->next;
    claim->next = *chain;
    *chain = claim;
}

/* Out of them again: it is among them. */
static inline void claim_del(claim_t **chain, const claim_t *claim)
{
    while (*chain && *chain != claim)
        chain = &(*chain)->next;
    INVARIANT(*chain == claim); /* otherwise the chain would lead to what its owner frees now */
    *chain = claim->next;
}
