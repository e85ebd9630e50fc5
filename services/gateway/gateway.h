/* The gateway's parts: http.c has the connections, framing.c their framing, answer.c what goes back, call.c the life of one
 * request, upstream.c the services on the bus, copies.c which copies of them answer. */
#pragma once

#include "common/bus/bus.h"
#include "common/base/config.h"
#include "common/base/id.h"
#include "common/codec/pack.h"
#include "services/gateway/admission.h"
#include "services/gateway/copies.h"
#include "services/gateway/docs.h"
#include "services/gateway/framing.h"
#include "services/gateway/paths.h"
#include "services/gateway/rate.h"

enum {
    BODY_MAX = 1 << 20,
    BODY_DEPTH_MAX = PACK_DEPTH_MAX - 1, /* the bus carries the body inside an object */
    CALL_DEADLINE_MS = 10000,            /* the service's answer */
    RESEND_MS = 1000,                    /* a call that a service may have lost is sent again */
    CONNECTIONS_MAX = 1024,
    QUERY_VALUES_MAX = 100 /* of one parameter */
};

typedef struct gateway gateway_t;
typedef struct call call_t;
typedef struct http http_t;
typedef struct connection connection_t;

/* Where a call stands. */
typedef enum call_state {
    RECEIVED,       /* whole, and nothing done yet */
    AUTHENTICATING, /* asking identity who it is */
    ADMITTING,      /* asking routes whether its address may */
    CALLING,        /* asking the kind's service */
    ANSWERED        /* status and body are set */
} call_state_t;

struct call {
    gateway_t *gateway;
    connection_t *connection; /* its head and body are the call's until it is answered */
    call_state_t state;
    char operation_id[ID_MAX];
    char method[16]; /* GET for HEAD, which differs in the answer only */
    bool head;
    char *path;
    const char *query_text; /* behind the "?"; NULL */
    target_t target;
    bool self; /* GET /self: whose key it is */
    const char *body;
    size_t body_len;
    char key[80];
    char account[64];
    char ip[64];      /* of the client */
    const char *base; /* what uris begin with, seen from there */
    json_t *actor;
    uint64_t generation; /* of what is remembered about callers, when this one was asked about */
    json_t *document;    /* parsed body */
    json_t *query;
    int64_t started_ms, deadline_ms, resend_ms;
    const copy_t *copy; /* of the service, that has the request; NULL: it could not be sent */
    int resends;        /* of this question */
    unsigned asked;     /* copies that were sent it, as copies_bit: they may be working on it */
    bool
        under_way; /* it changes something, and a copy may do so until its deadline: no answer may say that it was not done before */
    /* answer */
    unsigned status;
    json_t *answer;
    char *text;              /* instead of answer */
    const docs_file_t *file; /* the same */
    char revision[24], edges[32], etag[40];
    int retry_after; /* seconds, with 429 and 503 */
    const char *allow;
};

struct gateway {
    const config_t *config; /* of the reactor, like the loop */
    zloop_t *loop;
    http_t *http;
    copies_t *identity, *routes, *events;
    admission_t *admission;
    zhashx_t *calls;     /* operation id -> call that waits for a service */
    docs_file_t openapi; /* rendered once; its text is the gateway's */
    rates_t *rates;      /* of API keys */
    struct {
        uint64_t requests, answers[6], resent, passed_over, timed_out, cut_off, evicted, malformed;
    } metrics;
};

/* http.c */
int http_start(gateway_t *self);
void http_stop(gateway_t *self);
/* A call that waited has its answer: send it. The call is gone when this returns. */
void http_resume(call_t *call);
/* The value of a request header; NULL. */
const char *http_header(const call_t *call, const char *name);
/* Whoever has this connection showed a valid key: it is not among those that make room for others. */
void http_trust(call_t *call);
size_t http_metrics(const gateway_t *self, char *out, size_t size);

/* answer.c: status line, headers and text of the answer; *ret_file: sent behind it, NULL when it is whole.
 * The caller frees the result; NULL: no memory. */
char *answer_make(call_t *call, bool closes, size_t *ret_len, const docs_file_t **ret_file);

/* query.c: %XX of a path, in place; an escaped control character stays as it is written, so that %00 cannot cut it
 * short and nothing unprintable gets past the path table. */
void query_unescape(char *text);
typedef bool (*query_fn)(call_t *call, const char *name, const char *value);
/* Each parameter of the query, value NULL where there is no "=", until take says false. All escapes are resolved, line ends in
 * a filter too; the caller has refused %00. */
void query_each(call_t *call, query_fn take);

/* call.c: the request is complete; either sets the answer or sends the first bus request. */
void call_begin(call_t *call);
void call_destroy(call_t **self_p);
/* The bearer token of a request that has one; it leaves this process only towards identity. */
const char *call_token(call_t *call);
/* Answer with an outcome; field may be NULL. */
void call_refuse(call_t *call, int code, const char *field, const char *msg);
void call_answer(call_t *call, unsigned status, json_t *body);

/* A reply that cannot be read is none that is worth waiting for. */
void call_refuse_reply(call_t *call);

/* A service answered the call's current request; edges is "acknowledged/live". outcome NULL: what it said cannot be read. */
void call_reply(call_t *call, const json_t *outcome, zframe_t *body, const char *edges);

/* upstream.c */
int upstream_start(gateway_t *self);
void upstream_stop(gateway_t *self);
/* Send the call's current request; its state says to whom. */
void upstream_send(call_t *call);
/* Can it answer requests? why, when not. */
bool upstream_is_ready(const gateway_t *self, char *why, size_t size);
size_t upstream_metrics(const gateway_t *self, char *out, size_t size);
