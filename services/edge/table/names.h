/* Host names: their claimants (claim.h), and how one is looked up with wildcards. Names are without
 * port, and in lower case in every map. */
#pragma once

#include "services/edge/table/claim.h"
#include "services/edge/table/strmap.h"

#include <stdbool.h>
#include <stddef.h>

/* Bytes of a host name, at most (RFC 1035 2.3.4, without the dot at its end). */
enum { NAMES_HOST_MAX = 253 };

/* Is it as long as a host name may be? NULL: no. */
bool names_is_host(const char *name);

/* To lower case (ASCII), in place; len bytes. */
void names_fold(char *name, size_t len);

/* Put the claim among those on the name, in a map of names to first claims; take it out of there
 * again, where it must be. The claim stays its owner's. */
void names_claim(strmap_t *map, const char *name, claim_t *claim);
void names_unclaim(strmap_t *map, const char *name, const claim_t *claim);

/* The first claim on host (len bytes in lower case, without NUL), else on the wildcard above it,
 * "*.parent"; NULL: neither. Borrowed: it lives as long as its owner has it in the map. */
void *names_find(const strmap_t *map, const char *host, size_t len);
