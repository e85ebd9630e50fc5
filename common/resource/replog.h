/* Replicated log, writer side: sends snapshots and deltas of config_entry to every edge worker
 * and knows what each has in force, here and at the other copies (proto/WIRE.md). An actor of
 * its own.
 *
 * To the service, on its pipe, in decimal: "state", the revision up to which this holds, how
 * many other copies there are, and then one frame for each live worker, its acknowledged
 * revision; or "settling": it is not known yet who is there. */
#pragma once

#include <czmq.h>

typedef struct replog_args {
    const char *database_url, *schema, *endpoint, *curve_dir, *channel, *workers_channel;
    const struct secret_key *key;
} replog_args_t;

void replog_actor(zsock_t *pipe, void *args);

/* The highest revision that this process has known of: edges may have acknowledged it, also
 * where the database has been put back to a lower one since. 0: none. Any thread. */
int64_t replog_highest(void);
