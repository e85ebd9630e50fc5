/* Outbound HTTP client for all requests that a service makes on behalf of a tenant (OpenID
 * discovery, JWKS, certificates of webhook senders, event destinations, requests of policies). The
 * tenant chooses the URL, so the URL and the server behind it are treated as hostile (SSRF):
 *
 * - the address is checked when the socket is created, and that socket connects to that address:
 * DNS rebinding, another spelling of the address or a redirect cannot get around the rules
 * (common/out/permit.h);
 * - https only, unless the request sets may_be_plain; TLS 1.2 or newer, the certificate and its
 * name verified;
 * - bounded: time, header bytes, body bytes, redirects, concurrent requests (of one owner, of all);
 * - no proxy of the environment, no cookies, no .netrc, no names or passwords in URLs, no protocol
 * but HTTP.
 *
 * Names are resolved by libcurl's threads, so a DNS server that does not answer blocks nothing
 * here: the request times out. Its resolver thread ends when the system's resolver gives up; until
 * then the request still counts against its owner's limit.
 *
 * An answer that has no length and ends when its connection is closed is OUTBOUND_BROKEN, because
 * nobody can tell whether it is complete. Each request has an HTTP/1.1 connection of its own. All
 * functions must be called on the loop's thread. */
#pragma once

#include <czmq.h>

typedef struct outbound outbound_t;
typedef struct outbound_call outbound_call_t;

typedef struct outbound_settings {
    /* Lists as of common/base/address.h: Postern's own sockets, addresses that the operator denies,
     * and exceptions that are allowed, loopback addresses and private networks among them.
     * NULL: an empty list. */
    const char *own_sockets, *denied, *allowed;
    /* Where connections for a host go instead, for machines that reach it through another address:
     * items host:port:to-host:to-port, separated by spaces or commas. The URL, its certificate and
     * the rules of addresses stay what they are. NULL: an empty list. */
    const char *connect_to;
    const char *ca_file; /* PEM, in place of the system's authorities; NULL or "": the system's */
    unsigned calls, calls_of_one; /* concurrent requests, in all and of one owner; at least 1 */
} outbound_settings_t;

/* How a request ended. Texts for logs: outbound_end_name. */
typedef enum outbound_end {
    OUTBOUND_ANSWERED,  /* whatever the status */
    OUTBOUND_DENIED,    /* the address is not permitted; why names the rule: for logs alone */
    OUTBOUND_NAME,      /* the host name could not be resolved */
    OUTBOUND_CONNECT,   /* the connection failed */
    OUTBOUND_TLS,       /* TLS handshake, certificate or its name, or TLS version */
    OUTBOUND_TIMEOUT,   /* timeout_ms elapsed */
    OUTBOUND_TOO_LARGE, /* head or body of the answer */
    OUTBOUND_REDIRECTS, /* too many redirects, or one to a URL that is not allowed */
    OUTBOUND_BROKEN,    /* the answer is not HTTP, or is truncated */
    OUTBOUND_STOPPED,   /* outbound_destroy */
    OUTBOUND_ENDS
} outbound_end_t;

typedef struct outbound_request {
    const char *owner;          /* id of the account that the request is made for */
    const char *method;         /* NULL: GET */
    const char *url;            /* absolute, at most 8 KiB */
    const char *const *headers; /* "Name: value", ended by NULL, 32 KiB of them; NULL: none */
    const void *body;           /* NULL: none */
    size_t body_bytes;
    bool may_be_plain; /* http:// is allowed, too */
    unsigned
        redirects; /* followed at most; only for GET without headers, which would leak to others */
    unsigned timeout_ms; /* of the whole request; 1 to 60,000 */
    size_t max_bytes;    /* of the answer's body; at most 16 MiB */
    bool *reached; /* set when there is a connection, TLS included, and the request goes out on it;
                    * it stays until the request has ended. NULL: nobody wants to know */
} outbound_request_t;

typedef struct outbound_answer {
    outbound_end_t end;
    const char *why;  /* reason, one line for operators; may hold the peer's bytes: log_quote it */
    unsigned status;  /* HTTP status; 0: no response came */
    const char *body; /* not NUL-terminated */
    size_t body_bytes;
    void *headers; /* for outbound_header */
} outbound_answer_t;

/* Called once for each request that was started and not cancelled. The answer is valid only until
 * the function returns. */
typedef void (*outbound_fn)(void *context, const outbound_answer_t *answer);

/* Make the client. 0 | fault: *ret_bad is the invalid item of a list, which the caller frees, or
 * NULL. */
int outbound_new(outbound_t **ret_outbound, zloop_t *loop, const outbound_settings_t *settings,
                 char **ret_bad);
/* Call it before the loop is destroyed, never in on_answer. Requests in flight end with
 * OUTBOUND_STOPPED; their callbacks cannot start new ones. */
void outbound_destroy(outbound_t **self_p);

/* Start a request, which is copied. 0 | -EINVAL: an invalid request (method, URL, a header with a
 * line end, a bound) | -EDQUOT: the owner has calls_of_one requests in flight | -EAGAIN: `calls`
 * requests are in flight | -ENOMEM. on_answer is called only after 0, and never before this
 * returns. *ret_call is for outbound_cancel, valid until on_answer is called; ret_call may be
 * NULL. */
int outbound_send(outbound_t *self, const outbound_request_t *request, outbound_fn on_answer,
                  void *context, outbound_call_t **ret_call);

/* Abort the request; on_answer will not be called. NULL is fine. */
void outbound_cancel(outbound_call_t **call_p);

/* Value of a header of the last response; of several, the last one. NULL: none. Valid as long as
 * the answer. */
const char *outbound_header(const outbound_answer_t *answer, const char *name);

/* The end as a word, for logs and events. A constant. */
const char *outbound_end_name(outbound_end_t end);

/* Counters for /metrics, under postern_<service>_outbound_. Bytes written, like snprintf. */
size_t outbound_metrics(const outbound_t *self, const char *service, char *out, size_t size);
