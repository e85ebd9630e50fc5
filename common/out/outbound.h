/* The one way out: HTTP requests that a service makes for a tenant's sake (OpenID discovery, JWKS,
 * certificates of webhook senders, event destinations, requests of policies). The tenant names the
 * URL, so everything about it is hostile:
 *
 * - the address is judged when the socket is made, and that socket connects to that address:
 * neither a name with two answers, nor another spelling, nor a redirect goes around the rules
 * (common/base/address.h; loopback addresses only where allowed says so);
 * - https alone, unless the request says that it may be plain; TLS 1.2 or newer, the certificate
 * and its name verified;
 * - bounded: time, header bytes, body bytes, redirects, requests at once, of an owner and of all;
 * - no proxy of the environment, no cookies, no .netrc, no names or passwords in URLs, no protocol
 * but HTTP.
 *
 * Names are resolved by libcurl's threads. One that nobody answers for holds up nothing here: the
 * request ends in its time. Its thread ends when the system's resolver gives up, and until then the
 * request counts as one of its owner's.
 *
 * An answer that does not say how long it is, and ends where its connection does, is
 * OUTBOUND_BROKEN: nobody can tell whether that was all of it. Each request has a connection of its
 * own, of HTTP/1.1. Everything below belongs to the loop's thread. */
#pragma once

#include <czmq.h>

typedef struct outbound outbound_t;
typedef struct outbound_call outbound_call_t;

typedef struct outbound_settings {
    /* Lists of common/base/address.h: what Postern's own sockets are, what the operator denies, and
     * what is allowed all the same, which is also where loopback addresses stand that may be
     * connected to. NULL: none. */
    const char *own_sockets, *denied, *allowed;
    const char *ca_file; /* PEM, in place of the system's authorities; NULL or "": the system's */
    unsigned calls, calls_of_one; /* requests at once, and of them an owner's; at least 1 */
} outbound_settings_t;

/* How a request ended. Texts for logs: outbound_end_name. */
typedef enum outbound_end {
    OUTBOUND_ANSWERED,  /* whatever the status */
    OUTBOUND_DENIED,    /* by the rules of addresses: why says which */
    OUTBOUND_NAME,      /* it has no address */
    OUTBOUND_CONNECT,   /* nobody took the connection */
    OUTBOUND_TLS,       /* the certificate, its name or the TLS version */
    OUTBOUND_TIMEOUT,   /* timeout_ms went by */
    OUTBOUND_TOO_LARGE, /* head or body */
    OUTBOUND_REDIRECTS, /* more than the request follows, or to where it may not go */
    OUTBOUND_BROKEN,    /* no HTTP, or cut */
    OUTBOUND_STOPPED,   /* outbound_destroy */
    OUTBOUND_ENDS
} outbound_end_t;

typedef struct outbound_request {
    const char *owner;          /* whose sake it is for: an account's id */
    const char *method;         /* NULL: GET */
    const char *url;            /* absolute, at most 8 KiB */
    const char *const *headers; /* "Name: value", ended by NULL, 32 KiB of them; NULL: none */
    const void *body;           /* NULL: none */
    size_t body_bytes;
    bool may_be_plain; /* http:// is good enough */
    unsigned
        redirects; /* followed at most; only of a GET without headers, which others must not see */
    unsigned timeout_ms; /* of all of it; 1 to 60,000 */
    size_t max_bytes;    /* of the answer's body; at most 16 MiB */
} outbound_request_t;

typedef struct outbound_answer {
    outbound_end_t end;
    const char *why;  /* one line for an operator; may have the peer's bytes in it: log_quote */
    unsigned status;  /* 0: none came */
    const char *body; /* not ended by a NUL */
    size_t body_bytes;
    void *headers; /* for outbound_header */
} outbound_answer_t;

/* Once for each call that was begun and not cancelled. The answer is the callee's as long as the
 * function runs. */
typedef void (*outbound_fn)(void *context, const outbound_answer_t *answer);

/* 0 | fault: *ret_bad is the item of a list that is none, yours to free, or NULL. */
int outbound_new(outbound_t **ret_outbound, zloop_t *loop, const outbound_settings_t *settings,
                 char **ret_bad);
/* Before the loop, never in on_answer. What is still on its way ends with OUTBOUND_STOPPED; whoever
 * then sends is refused. */
void outbound_destroy(outbound_t **self_p);

/* Copies the request. 0 | -EINVAL: it says what no request may (method, URL, a header with a line's
 * end, a bound) | -EDQUOT: its owner has as many on their way as it may | -EAGAIN: all have |
 * -ENOMEM. on_answer is called for 0 alone, and never before this returns. ret_call may be NULL:
 * who keeps it may cancel until on_answer is called. */
int outbound_send(outbound_t *self, const outbound_request_t *request, outbound_fn on_answer,
                  void *context, outbound_call_t **ret_call);

/* on_answer will not be called. NULL is fine. */
void outbound_cancel(outbound_call_t **call_p);

/* A header of the last response, its last where there are several; NULL: none. As long as the
 * answer. */
const char *outbound_header(const outbound_answer_t *answer, const char *name);

const char *outbound_end_name(outbound_end_t end);

/* Counters for /metrics, under postern_<service>_outbound_. Bytes written, like snprintf. */
size_t outbound_metrics(const outbound_t *self, const char *service, char *out, size_t size);
