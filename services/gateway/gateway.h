/* The gateway's parts. http.c has the listeners, connection.c the connections, input.c and body.c
 * what they read, framing.c its framing, document.c and documents.c its JSON, answer.c the bytes
 * of answers, call.c the life of one request, upstream.c the services on the bus, copies.c which
 * copies of a service answer. */
#pragma once

#include "common/bus/bus.h"
#include "common/base/config.h"
#include "common/base/id.h"
#include "common/codec/pack.h"
#include "common/schema/service_row.h"
#include "services/gateway/admission.h"
#include "services/gateway/body.h"
#include "services/gateway/copies.h"
#include "services/gateway/docs.h"
#include "services/gateway/documents.h"
#include "services/gateway/framing.h"
#include "services/gateway/owners.h"
#include "services/gateway/paths.h"
#include "services/gateway/rate.h"

enum {
    /* bytes of a body that are read before its sender is known, and that the loop parses itself */
    BODY_SMALL = 8192,
    CALL_DEADLINE_MS = 10000, /* how long a service may take to answer */
    /* where it makes a key: 4,096 bits of RSA take seconds of a processor, and a busy one has
     * little of it for us. Less than the edge waits for an answer of the API (deploy/api-conf). */
    CALL_SLOW_DEADLINE_MS = 25000,
    /* a request that got no answer is sent again, because a copy may have lost it */
    RESEND_MS = 1000,
    CONNECTIONS_MAX = 1024,
    CALLS_MAX = CONNECTIONS_MAX, /* calls that are at a service */
    /* bytes of answers that clients have not taken, of one owner and of all: the longest answer has
     * a little more than 8 MiB (the pages of common/resource/crud_list.c) */
    UNREAD_OWN_MAX = 64 << 20,
    UNREAD_MAX = 256 << 20,
    QUERY_VALUES_MAX = 100 /* values of one query parameter */
};

typedef struct gateway gateway_t;
typedef struct call call_t;
typedef struct http http_t;
typedef struct connection connection_t;

/* The state of a call. */
typedef enum call_state {
    RECEIVED,       /* the request, or its head, is read; nothing was done for it yet */
    AUTHENTICATING, /* identity was asked whose key it is */
    ADMITTING,      /* routes was asked whether the address may use the API */
    READING,        /* the caller is known, and the rest of a large body is read */
    PARSING,        /* that body is parsed by documents.h */
    CALLING,        /* the service of the kind was asked */
    ANSWERED        /* status and body are set */
} call_state_t;

struct call {
    gateway_t *gateway;
    connection_t *connection; /* its head and body belong to the call until the call is answered */
    call_state_t state;
    char operation_id[ID_MAX];
    char method[16]; /* GET also for HEAD, whose answer has no body */
    bool head;
    char *path;
    const char *query_text; /* the query without its "?"; NULL: none */
    target_t target;
    bool self; /* GET /self, which tells whose key it is */
    bool has_body;
    bool is_whole;  /* all of the body is there */
    bool is_rated;  /* it was counted against its key's rate */
    bool has_place; /* it was counted among its account's calls at services */
    char key[80];
    char account[64];
    char ip[64];      /* address of the client */
    const char *base; /* URL that uris in the answer begin with, as this client reaches the API */
    json_t *actor;
    uint64_t generation; /* admission_generation when the services were asked about this caller */
    json_t *query;       /* until it moves into the request */
    json_t *request;     /* body of the service's request; NULL: not made yet, or packed */
    msgpack_sbuffer packed; /* the same where a large body was parsed, encoded; data NULL: none */
    int64_t started_ms, admitted_ms, deadline_ms, resend_ms;
    /* the copy of the service that has the request; NULL: it could not be sent yet */
    const copy_t *copy;
    int resends; /* how often the current question was sent again */
    /* copies that the question was sent to, as bits of copies_bit: any of them may be working on
     * it */
    unsigned asked;
    bool
        /* the question changes something, and a copy may still do so until its deadline: until then
         * no answer may say that nothing was done */
        under_way;
    /* the answer */
    unsigned status;
    json_t *answer;
    char *text;              /* text of the answer, instead of answer */
    const docs_file_t *file; /* file of the answer, instead of answer */
    char revision[24], edges[32], streams_ended[24], etag[40];
    int retry_after; /* in seconds, with 429 and 503; 0: none */
    const char *allow;
};

struct gateway {
    const config_t *config; /* of the reactor, like the loop */
    zloop_t *loop;
    http_t *http;
    copies_t *services[SERVICES]; /* by service_id_t; NULL: takes no requests */
    admission_t *admission;
    documents_t *documents; /* parses large bodies */
    zhashx_t *calls;        /* operation id -> call that waits for a service, or for documents */
    docs_file_t openapi;    /* rendered at start; its text is owned by the gateway */
    rates_t *rates;         /* of API keys */
    struct {
        uint64_t requests, answers[6], resent, passed_over, timed_out, cut_off, evicted, unread,
            over_share, malformed;
    } metrics;
};

/* http.c: open the listeners and put them into the reactor. 0 | fault. http_stop closes them and
 * all connections. */
int http_start(gateway_t *self);
void http_stop(gateway_t *self);
/* Send the answer of a call that waited for one, or read on for it. An answered call is freed when
 * this returns. */
void http_resume(call_t *call);
/* Read the rest of a call's body; when it is whole call_go_on is called. */
void http_read_body(call_t *call);
/* What has come of the call's body. */
body_t *http_body(call_t *call);
/* The value of a request header, borrowed; NULL: it is not there. */
const char *http_header(const call_t *call, const char *name);
/* Note that the call's connection showed a valid key of the call's account: it is not among those
 * that are closed first to make room, and counts for that account. */
void http_trust(call_t *call);
/* Take a place among the calls at services, until the call ends. False: its account has its
 * share. */
bool http_take_place(call_t *call);
size_t http_metrics(const gateway_t *self, char *out, size_t size);

/* answer.c: status line, headers and text of the answer; the caller frees it. *ret_file is sent
 * behind it; NULL: nothing is. closes: say so in Connection. NULL: out of memory. */
char *answer_make(call_t *call, bool closes, size_t *ret_len, const docs_file_t **ret_file);

/* query.c: resolve %XX in a path, in place. An escaped control character stays as it is written:
 * %00 cannot cut the path short, and nothing unprintable gets past the table of paths. */
void query_unescape(char *text);
typedef bool (*query_fn)(call_t *call, const char *name, const char *value);
/* Call take for each parameter of the query until it returns false; value is NULL where there is no
 * "=". All escapes are resolved, line ends in a filter too: the caller has refused %00. */
void query_each(call_t *call, query_fn take);

/* call.c: begin a call whose request, or whose head where the body is large, is complete: it is
 * answered, its first bus request is on its way, or its body is to be read. */
void call_begin(call_t *call);
/* The body is whole now. As call_begin. */
void call_go_on(call_t *call);
/* on_parsed_fn; context is the gateway. */
void call_on_parsed(void *context, parsed_t *parsed);
void call_destroy(call_t **self_p);
/* The bearer token, "" when there is none. It leaves this process only towards identity. */
const char *call_token(call_t *call);
/* Answer with an outcome; field may be NULL. msg NULL: the outcome's own text. */
void call_refuse(call_t *call, int code, const char *field, const char *msg);
/* The same of a path, which the answer's details repeat. */
void call_refuse_path(call_t *call, int code, const char *msg);
void call_answer(call_t *call, unsigned status, json_t *body);

/* call_check.c: the checks that need no service, in the order in which their answers help a client
 * most. 0: it passes, or is answered | the code to refuse with. */
int call_check(call_t *call);

/* Answer that a service's reply could not be read: waiting for another one would not help. */
void call_refuse_reply(call_t *call);

/* What a service says of edges behind its reply: how far a change is in force, as
 * "acknowledged/live", and how many open streams it ended; "": an older service does not say. */
typedef struct reach {
    char edges[32], streams_ended[24];
} reach_t;

/* A service answered the call's current question. outcome NULL: its reply cannot be read. */
void call_reply(call_t *call, const json_t *outcome, zframe_t *body, const reach_t *reach);

/* upstream.c: connect to the services. 0 | fault. */
int upstream_start(gateway_t *self);
void upstream_stop(gateway_t *self);
/* Send the call's current question to the service that its state names. */
void upstream_send(call_t *call);
/* Can the gateway answer requests? False: why says what is missing. */
bool upstream_is_ready(const gateway_t *self, char *why, size_t size);
size_t upstream_metrics(const gateway_t *self, char *out, size_t size);
