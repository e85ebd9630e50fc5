/* Between the files of the resource service only: service.c (start and stop), service_worker.c (a
 * worker runs a request), service_intake.c (requests from the bus to the workers), service_reply.c
 * (replies from the workers to the bus), service_metrics.c. */
#pragma once

#include "common/bus/backlog.h"
#include "common/bus/flight.h"
#include "common/bus/lease.h"
#include "common/bus/work.h"
#include "common/resource/edges.h"
#include "common/resource/held.h"
#include "common/resource/neighbour.h"
#include "common/resource/outbox.h"
#include "common/resource/replog.h"
#include "common/resource/service.h"
#include "common/resource/waits.h"
#include "common/store/stillness.h"

enum { SERVICE_WORKERS_MAX = 32, SERVICE_ASKS_MAX = 2 /* services that one service asks */ };

typedef struct worker_args {
    const service_spec_t *spec;
    const service_row_t *row;
    const config_t *config;
    const secret_key_t *key;
    backlog_t *backlog;
    work_t *done;
} worker_args_t;

/* Used by the reactor's thread alone, except the fields that worker_args points to. */
typedef struct service {
    const service_spec_t *spec;
    const service_row_t *row;
    socket_id_t socket; /* of its requests */
    socket_id_t log;    /* where edges follow its log; SOCKETS: it has none */
    const config_t *config;
    void *part;
    secret_key_t *key;
    worker_args_t worker_args;
    outbox_args_t outbox_args;
    replog_args_t replog_args;
    zloop_t *loop;
    zsock_t *rpc;
    zactor_t *workers[SERVICE_WORKERS_MAX];
    int worker_count;
    backlog_t *backlog; /* requests, for the workers */
    work_t *done;       /* replies, from the workers */
    flights_t *flights;
    held_t *held;
    waits_t *waits;                            /* requests that wait without a worker */
    outbound_t *outbound;                      /* of spec->way_out; NULL: none */
    neighbour_t *neighbours[SERVICE_ASKS_MAX]; /* the services of spec->asks, in its order */
    bool room_is_told; /* a timer is set: there is room for another of its calls */
    zactor_t *replog, *outbox;
    edges_t edges;
    leases_t leases;
    int64_t periodic_until_ms; /* the periodic request runs, at most until then */
    struct {
        uint64_t requests, refused, over_share, resent, dropped;
    } metrics;
    stillness_t stillness; /* of PostgreSQL */
    int64_t complain_ms;   /* when the next refusal for lack of room may be logged */
} service_t;

/* ---- service_worker.c ---- */

/* The context of handlers, without a database connection, which the caller adds. */
crud_t service_crud(const worker_args_t *args);

/* zactor function; args is a worker_args_t that outlives it. Signals 1 when it has no
 * connection. Ends when the backlog was stopped. */
void service_worker(zsock_t *pipe, void *args);

/* ---- service_intake.c ---- */

/* zloop reader of the socket for requests. */
int service_on_rpc(zloop_t *loop, zsock_t *reader, void *context);

/* Hand a request (identity and its frames) to the workers; key and
 * account: see flight_key, "" for none. 0:
 * *msg is taken over | as backlog_put: *msg is still the caller's. */
int service_enqueue(service_t *self, const char *key, const char *account, zmsg_t **msg);
/* Hand one that has waited to them again: it is never refused. */
void service_enqueue_again(service_t *self, wait_t *wait);

/* ---- service_reply.c ---- */

/* Make what service_reply.c needs. 0 | -ENOMEM. */
int service_replies_start(service_t *self);

/* zloop poller of the workers' replies; also called after the loop's end, with NULL for loop and
 * item. */
int service_on_done(zloop_t *loop, zmq_pollitem_t *item, void *context);

/* zloop reader of the config log's pipe. */
int service_on_replog(zloop_t *loop, zsock_t *reader, void *context);

/* Send held replies whose change is in force. */
void service_release_held(service_t *self);

/* Answer a request for which no worker has a reply: the code alone. identity is taken. */
void service_answer_code(service_t *self, const char *key, const char *id, zframe_t **identity_p,
                         int code);

/* ---- service_wait.c ---- */

/* Make what service_wait.c needs. 0 | fault. */
int service_waits_start(service_t *self);

/* A request whose verb waits, from its worker. */
void service_wait_begin(service_t *self, wait_t *wait);

/* Go on with those whose pause is over. */
void service_waits_tick(service_t *self);

/* Before the loop is freed, when no worker runs any more: what waits is answered
 * ERR_MAINTENANCE. */
void service_waits_drain(service_t *self);

/* ---- service_metrics.c ---- */

/* For reactor_spec_t: text of /metrics; readiness for /readyz. context is a service_t. */
size_t service_metrics(void *context, char *out, size_t size);
bool service_is_ready(void *context, char *why, size_t size);
