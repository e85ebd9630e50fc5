/* A process beside each worker, with the bus, the resolver and the state file. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>

enum { EDGE_LINGER_MS = 300 };

/* How many endpoints the text names, with commas between, MERGE_COPIES_MAX at most. NGX_ERROR:
 * more, or an empty one. */
ngx_int_t edge_helper_copies(const ngx_str_t *endpoints);

/* Start one: its pid, or -1. The worker's ends of its link and of its names (edge_link.h) are
 * the caller's. */
pid_t edge_helper_start(int *link, int *names);
