/* The gateway's parts: http.c speaks HTTP (libmicrohttpd), call.c the life of one request, upstream.c
 * the services on the bus. */
#pragma once

#include "common/bus.h"
#include "common/config.h"
#include "common/health.h"
#include "common/id.h"
#include "services/gateway/docs.h"
#include "services/gateway/paths.h"

#include <microhttpd.h>

enum {
    BODY_MAX = 1 << 20,
    CALL_DEADLINE_MS = 10000, /* the service's answer */
    RESEND_MS = 1000,         /* a call that a service may have lost is sent again */
    READ_DEADLINE_MS = 15000, /* a client must have sent its whole request */
    CONNECTIONS_MAX = 1024,
    QUERY_VALUES_MAX = 100 /* of one parameter */
};

typedef struct gateway gateway_t;
typedef struct call call_t;
typedef struct admission admission_t;

/* Where a call stands. */
typedef enum call_state {
    READING,        /* collecting the body */
    AUTHENTICATING, /* suspended, asking identity who it is */
    ADMITTING,      /* suspended, asking routes whether its address may */
    CALLING,        /* suspended, asking the kind's service */
    ANSWERED        /* status and body are set */
} call_state_t;

struct call {
    gateway_t *gateway;
    struct MHD_Connection *connection;
    call_state_t state;
    bool suspended;
    char operation_id[ID_MAX];
    char method[16];
    char *path;
    target_t target;
    bool metrics; /* GET /metrics, which needs a key too */
    bool self;    /* GET /self: whose key it is */
    char *body;
    size_t body_len;
    bool body_too_large;
    char key[80];
    char account[64];
    char ip[64]; /* of the connection */
    json_t *actor;
    uint64_t generation; /* of what is remembered about callers, when this one was asked about */
    json_t *document;    /* parsed body */
    json_t *query;
    int64_t started_ms, deadline_ms, resend_ms;
    char *origin, *request_headers; /* CORS */
    /* answer */
    unsigned status;
    json_t *answer;
    char *text; /* instead of answer */
    bool text_is_json;
    const docs_file_t *file; /* the same */
    char revision[24], edges[32], etag[40];
    int retry_after; /* seconds, with 429 and 503 */
    const char *allow;
};

struct gateway {
    config_t config;
    zloop_t *loop;
    struct MHD_Daemon *daemon;
    zmq_pollitem_t poll;
    zsock_t *identity, *routes, *events;
    admission_t *admission;
    zhashx_t *calls;       /* operation id -> suspended call */
    zhashx_t *connections; /* for the read deadline */
    json_t *openapi;
    zhashx_t *rates; /* bucket -> rate_t */
    health_t *health;
    struct {
        uint64_t requests, answers[6], resent, timed_out, cut_off;
    } metrics;
};

/* http.c */
int http_start(gateway_t *self);
void http_stop(gateway_t *self);
void http_run(gateway_t *self);
/* A suspended call has its answer: let libmicrohttpd send it. */
void http_resume(call_t *call);

/* admission.c: who may call, remembered while services lease it. */
int admission_new(admission_t **ret_self, zloop_t *loop, const config_t *config);
void admission_destroy(admission_t **self_p);
/* True: this token may call from this address; *ret_actor is a new reference. */
bool admission_recall(admission_t *self, const char *token, const char *ip, char account[64],
                      json_t **ret_actor);
/* Changes whenever something is forgotten: ask for it before asking the services. */
uint64_t admission_generation(const admission_t *self);
/* Both services allowed it, asked at that generation. */
void admission_remember(admission_t *self, uint64_t generation, const char *token, const char *ip,
                        const char *account, json_t *actor);
size_t admission_metrics(const admission_t *self, char *out, size_t size);

/* rate.c: as many a minute from each bucket as the setting says, with bursts of as many. 0: go on, else seconds to wait. */
int rate_take(gateway_t *self, const char *setting, const char *bucket);
/* Forget those that are full again. */
void rate_purge(gateway_t *self);

/* call.c: the request is complete; either sets the answer or sends the first bus request. */
void call_begin(call_t *call);
void call_destroy(call_t **self_p);
/* The bearer token of a request that has one; it leaves this process only towards identity. */
const char *call_token(call_t *call);
/* Answer with an outcome; field may be NULL. */
void call_refuse(call_t *call, int code, const char *field, const char *msg);
void call_answer(call_t *call, unsigned status, json_t *body);

/* A service answered the call's current request; edges is "acknowledged/live". */
void call_reply(call_t *call, const json_t *outcome, zframe_t *body, const char *edges);

/* upstream.c */
int upstream_start(gateway_t *self);
void upstream_stop(gateway_t *self);
/* Send the call's current request (again); its state says to whom. */
void upstream_send(call_t *call);
size_t gateway_metrics(void *context, char *out, size_t size);
