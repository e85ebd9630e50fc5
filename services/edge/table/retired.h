/* Versions of routes that are no more in force, but that requests still use: each keeps its version
 * until it ends, which may be days. What an account may keep so is bounded, by an estimate of its
 * bytes: beyond, the oldest versions are over, and the requests of one that is over are ended. In
 * this process; for one thread only. No nginx in here. */
#pragma once

#include "services/edge/table/table.h"

enum {
    RETIRED_BYTES_MAX = 16 << 20, /* of the versions of an account that are retired, and not over */
    RETIRED_BASE = 8 << 10        /* of a version whatever it says: parsed keys, blocks of memory */
};

/* What a route's entry, of which this is the document, takes in memory: an estimate, without what
 * modules say of their own (bytes of module.h). */
size_t retired_weight(const msgpack_object *document);

/* The table has let go of the route, and somebody else has a reference. It is forgotten with its
 * last one. */
void retired_add(route_t *route);

/* Called by route_release for a route that is retired. */
void retired_forget(route_t *route);

/* Whom to tell that a version is over (is_over of route_t): its requests are to be ended. NULL:
 * nobody, and then none is over. */
void retired_set_over(void (*over)(const route_t *route));

/* The account's estimate, without versions that are over. */
size_t retired_bytes(const char *account_id);
