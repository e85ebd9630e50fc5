/* One request's way through the members of a failover backend: in order, from one whose dial failed
 * to the next. Members that are known as down are passed over, and are tried all the same when no
 * other is left. Each is looked up when its turn comes, so that it is the one that is there by
 * then; what was dialled is kept until the request ends.
 *
 * Bounds keep a request from dialling a hundred dead members: so many dials, and so long. What
 * answers without a dial answers all the same. No member is left out for ever: a request tries one
 * of those whose back-off is over, however many there are, and where those that were passed over
 * are more than it may dial, the next request begins with another one (turn). No nginx in here. */
#pragma once

#include "services/edge/http/reach.h"
#include "services/edge/table/table.h"

enum {
    FAILOVER_DIALS_MAX = 16,       /* of one request */
    FAILOVER_DIALS_MS = 30 * 1000, /* none begins so long after the first */
};

typedef struct failover_ports {
    /* The backend with this id that serves now: of a weighted one the member whose turn it is, or
     * before, if it still shares that. NULL: there is none, or nobody can be reached there. */
    backend_t *(*look_up)(void *context, const char *id, const backend_t *before);
    /* Has it an address, and may it be dialled? Else it is taken for a dial that failed. */
    bool (*can_dial)(void *context, backend_t *backend);
    /* What is known of it (reach.h). take: it is about to be dialled, and a trial is this
     * request's. */
    reach_answer_t (*ask)(void *context, backend_t *backend, bool take);
    /* With which of those that were passed over to begin, counted from any number: another one
     * behind each request that met its bounds. */
    uint64_t (*turn)(void *context, backend_t *failover);
} failover_ports_t;

typedef struct failover_member {
    backend_t *backend; /* held; NULL: not looked at, or not there */
    bool passed;        /* over, and not tried since */
} failover_member_t;

typedef struct failover {
    backend_t *backend;         /* held: members are those of the version that the request met */
    failover_member_t *current; /* NULL: none */
    reach_answer_t known;       /* REACH_TRIAL: the dial of the current one is for all others */
    unsigned passed;            /* how many were passed over by the last call */
    bool dialling;              /* its first dial has begun */
    bool tried;                 /* it has had its trial */
    bool cut;                   /* a bound was met: members were left out */
    unsigned dials;
    uint64_t until;          /* no dial begins from then on */
    size_t at, again, first; /* in members: who is next, and of those passed over, from the first */
    failover_member_t members[];
} failover_t;

/* Bytes of memory for it. */
size_t failover_size(const backend_t *backend);

/* *self is failover_size bytes of zeros; backend has members. */
void failover_begin(failover_t *self, backend_t *backend);

/* The member that would be dialled now, or an http_response one, which always answers. Nothing is
 * taken: it is only likely that the request goes there. NULL: there is none. Borrowed until the
 * next call, as what the others return. */
backend_t *failover_choose(failover_t *self, const failover_ports_t *ports, void *context);

/* The first dial begins at now, in milliseconds: of the chosen member, or of another one where
 * another request has become the chosen one's trial. NULL: there is none left. */
backend_t *failover_dial(failover_t *self, const failover_ports_t *ports, void *context,
                         uint64_t now);

/* The dial of the current member failed: the next one, whose dial begins at now. NULL: there is
 * none left, or the request has had its dials. */
backend_t *failover_next(failover_t *self, const failover_ports_t *ports, void *context,
                         uint64_t now);

/* Is a version over that it holds (table/retired.h)? */
bool failover_holds_over(const failover_t *self);

/* Gives back what it holds. */
void failover_end(failover_t *self);
