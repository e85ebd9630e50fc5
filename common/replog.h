/* Replicated log, writer side: sends snapshots and deltas of config_entry to every edge worker and
 * knows what each has in force (proto/WIRE.md). An actor of its own.
 *
 * To the service, on its pipe: "state" and then one frame for each live subscriber, its acknowledged
 * revision in decimal; or "settling": it is not known yet who is there. */
#pragma once

#include <czmq.h>

typedef struct replog_args {
    const char *database_url, *schema, *endpoint, *curve_dir, *channel;
    const struct secret_key *key;
} replog_args_t;

void replog_actor(zsock_t *pipe, void *args);
