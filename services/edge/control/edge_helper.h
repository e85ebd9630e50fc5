/* A process beside each worker, with the bus, the resolver and the state file. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>

enum {
    EDGE_RESOLVERS = 64, /* names asked for at once */
    EDGE_LINGER_MS = 300
};

/* How many endpoints, with commas between. NGX_ERROR: an empty one, or too many. */
ngx_int_t edge_helper_copies(const ngx_str_t *endpoints);

/* Start one: its pid, or -1. The worker's ends of its link and of its names (edge_link.h) are
 * the caller's. */
pid_t edge_helper_start(int *link, int *names);
