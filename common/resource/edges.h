/* Which revisions the edge workers of all copies have in force, as the config log reported last
 * (common/resource/replog.h), and whether a change is live everywhere, so that its reply may be
 * sent. No sockets and no clock in here. Used by the reactor's thread alone. */
#pragma once

#include "common/resource/ended.h"

#include <czmq.h>
#include <stdbool.h>
#include <stdint.h>

enum { EDGES_MAX = 1024 }; /* workers, of all copies */

typedef struct edges {
    int64_t acked[EDGES_MAX]; /* acknowledged revision of each live worker */
    int live;
    /* the report is complete up to this revision: later ones may have gone to unlisted workers */
    int64_t covered;
    int64_t copies;        /* other copies of this service */
    int64_t streams_ended; /* by all changes since this process began */
    ended_t ended;         /* by each of the newest changes */
    bool settling;         /* not all workers are known: after a start, or more than EDGES_MAX */
} edges_t;

/* Take a report of the config log, which is emptied: "state" or "settling", covered, copies,
 * streams ended, streams ended for each revision, and a frame for each live worker. A report with
 * more than EDGES_MAX workers counts as settling: no change passes as live everywhere. An empty
 * message changes nothing. */
void edges_take(edges_t *self, zmsg_t *msg);

/* How many live workers have the revision in force. */
int edges_acked(const edges_t *self, int64_t revision);

/* How many open streams this change has ended so far, as the workers reported. */
int64_t edges_ended(const edges_t *self, int64_t revision);

/* Is the revision in force at all workers, and is it certain that no worker is missing in the
 * report? */
bool edges_have(const edges_t *self, int64_t revision);

/* The lowest revision that a live worker has in force; 0: there are no workers. */
int64_t edges_lowest(const edges_t *self);
