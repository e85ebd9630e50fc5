/* The logs that a worker follows (proto/WIRE.md), and what is particular to each: the config log
 * of postern-routes, and the session log of postern-identity. The conversation is the same
 * (edge_follow.c), and so are the acknowledgements (edge_ack.c). */
#pragma once

#include "services/edge/control/edge_link.h"
#include "services/edge/worker/follow.h"

typedef enum {
    EDGE_LOG_CONFIG,
    EDGE_LOG_SESSIONS,
    EDGE_LOGS
} edge_log_t;

typedef struct {
    const char   *name;   /* in lines of the error log */
    link_kind_t   link;   /* of its messages between worker and helper */

    /* A hello voids what the log said before it answers: nothing is current until then. */
    ngx_uint_t    strict;

    /* After this long a change is acknowledged although not all that it takes away has ended, or
     * not all names have addresses; 0: never. */
    ngx_msec_t    patience;

    /* What is in force here, and what arrives. */
    const follow_t *(*at)(void);

    /* Before a hello: the log starts over, what arrives is void. */
    void (*drop)(void);

    /* A message is to be applied, and what is in force then acknowledged. */
    follow_step_t (*take)(const follow_message_t *message, const ngx_str_t *body);

    /* The log said that what is in force here is its newest; synced: and said so for sure behind
     * the answer to the last hello. Of a strict log also called at a hello, with 0. */
    void (*current)(ngx_uint_t synced);
} edge_log_row_t;

/* Borrowed for good. */
const edge_log_row_t *edge_log(edge_log_t log);
