/* One request's way through the members of a failover backend: in order, from one whose dial failed
 * to the next. Members that are known as down are passed over, and are tried in order all the same
 * when no other is left. Each is looked up when its turn comes, so that it is the one that is there
 * by then; what was looked up is kept until the request ends. No nginx in here. */
#pragma once

#include "services/edge/http/reach.h"
#include "services/edge/table/table.h"

typedef struct failover_ports {
    /* The backend with this id that serves now, of a weighted one the member whose turn it is and
     * the weighted one itself in *ret_through. NULL: there is none, or nobody can be reached
     * there. */
    backend_t *(*look_up)(void *context, const char *id, backend_t **ret_through);
    /* Has it an address, and may it be dialled? Else it is taken for a dial that failed. */
    bool (*can_dial)(void *context, backend_t *backend);
    /* What is known of it (reach.h). */
    reach_answer_t (*ask)(void *context, backend_t *backend);
} failover_ports_t;

typedef struct failover_member {
    backend_t *backend, *through; /* held; NULL: not looked at, or not there; not weighted */
    bool passed;                  /* over, and not tried since */
} failover_member_t;

typedef struct failover {
    backend_t *backend;         /* held: members are those of the version that the request met */
    failover_member_t *current; /* NULL: none */
    reach_answer_t known;       /* of the current one, when it was chosen */
    unsigned passed;            /* how many were passed over by the last call of failover_next */
    size_t at, again; /* in members: who is next, and who of those that were passed over */
    failover_member_t members[];
} failover_t;

/* Bytes of memory for it. */
size_t failover_size(const backend_t *backend);

/* *self is failover_size bytes of zeros; backend has members. */
void failover_begin(failover_t *self, backend_t *backend);

/* The next member to be dialled, or an http_response one, which always answers. NULL: there is none
 * left. Borrowed until failover_end. */
backend_t *failover_next(failover_t *self, const failover_ports_t *ports, void *context);

/* Gives back what it holds. */
void failover_end(failover_t *self);
