/* The config log, writer side (a replicated log): sends snapshots and deltas of table config_entry
 * to every edge worker, and tracks the revision that each has in force, here and at the other
 * copies of the service (proto/WIRE.md). An actor.
 *
 * It reports to the service on its pipe, numbers in decimal: "state" (or "settling": not all
 * workers have been heard yet), the revision up to which the report is complete, the number of
 * other copies, the number of open streams that workers have ended, the same for each of the newest
 * revisions (ended.h), then one frame for each live worker: its acknowledged revision. */
#pragma once

#include "common/schema/role.h"

#include <czmq.h>

/* Channels of NOTIFY in PostgreSQL; %s is the service's schema: revisions of changes, and lists of
 * the workers that a copy hears. */
#define REPLOG_CHANNEL         "%s_config"
#define REPLOG_WORKERS_CHANNEL "%s_workers"

typedef struct replog_args {
    const char *database_url, *schema, *endpoint, *curve_dir;
    socket_id_t socket; /* the one that it binds */
    const struct secret_key *key;
    bool only_ends; /* its entries are deletions only: a delta may have many more of them */
} replog_args_t;

void replog_actor(zsock_t *pipe, void *args);

/* The highest revision that this process has ever seen; 0: none. Edges may have acknowledged it,
 * even if the database has been restored to a lower one since. From any thread. */
int64_t replog_highest(void);
