/* The context of a request: what the edge keeps while it serves it. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_http.h>

#include "services/edge/http/failover.h"
#include "services/edge/http/head.h"
#include "services/edge/http/looks.h"
#include "services/edge/http/pace.h"
#include "services/edge/http/portion.h"
#include "services/edge/http/share.h"
#include "services/edge/http/slots.h"
#include "services/edge/http/taken.h"
#include "services/edge/http/trace.h"
#include "services/edge/streams/registry.h"
#include "services/edge/table/table.h"

/* State of edge_head.c while it reads the head of the upstream's response. */
typedef struct {
    head_t scan;
    ngx_int_t (*parse)(ngx_http_request_t *r); /* nginx's handlers, which edge_head.c wraps */
    ngx_int_t (*reinit)(ngx_http_request_t *r);
    ngx_uint_t interims; /* responses of 1xx so far */
    size_t interim_bytes;
    size_t passed;      /* bytes of 1xx written to a client of HTTP/1.1 */
    ngx_buf_t *interim; /* in which the last of these stood; NULL: there was none */
    u_char *small; /* the buffer that nginx began with; NULL: it was large enough until now */
    u_char *small_end;
} edge_head_t;

/* Bytes of the request's and the response's body, counted by edge_body.c. */
typedef struct {
    off_t given;    /* response: passed to the chunk filter */
    off_t received; /* request: read by a handler, or discarded in chunks */
    off_t left;     /* Content-Length or the stream's receive window when the request began */
    size_t memory;  /* of what the request is charged: for the buffer of its body */

    /* Only while a chunked body is discarded: */
    ngx_http_chunked_t chunked;
    unsigned chunks_end : 1;
    ngx_connection_t *connection;
    ngx_recv_pt recv; /* the connection's own recv, replaced meanwhile; NULL: not replaced */

    ngx_event_t *turn; /* keeps an HTTP/2 stream until this event runs */
} edge_body_t;

/* A buffer that the worker has lent for reads, in the place of the request's own: edge_reader.c. */
typedef struct {
    ngx_buf_t *buf; /* that reads go to */
    u_char *large;  /* NULL: nothing is lent */
    u_char *small;  /* the request's own memory, while it has a large one */
    u_char *small_end;
    ngx_http_request_t *request;
    ngx_queue_t link;    /* in the list of lent buffers */
    portion_t portion;   /* of what the worker lends */
    unsigned needed : 1; /* the small one would not have done since the last sweep */
} edge_loan_t;

/* State of edge_reader.c while the response's body is read, or what comes after a 101. */
typedef struct {
    ngx_int_t (*init)(void *data); /* nginx's functions, which edge_reader.c wraps */
    ngx_int_t (*filter)(void *data, ssize_t bytes);
    edge_loan_t loan; /* of what comes from the upstream */
    u_char *end; /* of the request's own buffer */
    ngx_uint_t pieces; /* that were read since nothing waited for the client */
    ngx_http_chunked_t chunked; /* how far its framing was read */
    unsigned in_chunks : 1; /* the body, of HTTP/1.1 */
    struct edge_upgraded *upgraded; /* NULL: there was no 101 of the upstream's */
} edge_reader_t;

/* nginx's writer to the upstream, which edge_writer.c wraps. */
typedef struct {
    ngx_output_chain_filter_pt filter;
    void *data;
    unsigned began : 1;   /* it was called */
    unsigned stopped : 1; /* the upstream took no more before the client had sent all */
} edge_writer_t;

/* State of edge_failover.c while members are dialled. */
typedef struct {
    ngx_uint_t log_level; /* the connection's own, while it says less; 0: it says all */
    const char *why;      /* the last dial failed; NULL: none did */
} edge_dials_t;

/* State of edge_grpc.c. */
typedef struct edge_grpc edge_grpc_t;

/* An answer that waits for its client: edge_stall.c. */
typedef struct {
    look_t look;      /* watched: it waits */
    ngx_queue_t link; /* in the line of its client, while it has stalled */
    ngx_queue_t over; /* among those for which their client has no portion left; next NULL: no */
    ngx_msec_t since; /* when its client was last seen to take enough of it */
    off_t taken;      /* bytes of it that the client had by then */
    portion_t held;   /* of the memory for requests, for what sockets hold of it */
    uint32_t client;  /* in whose line it is, while it has stalled */
    unsigned stalled : 1;
} edge_stall_t;

/* How a client takes its answer: edge_pace.c. */
typedef struct {
    look_t look;
    ngx_http_request_t *request;
    taken_t taken; /* edge_taken.c */
    pace_t judged;
} edge_pace_t;

/* How a client sends its body: edge_upload.c. */
typedef struct {
    look_t look;
    off_t received;      /* bytes of the body that had come at the last look */
    unsigned waited : 1; /* the upstream has waited for more since then, all the time */
} edge_upload_t;

/* Headers of the response whose values nginx changes after they were sent. */
typedef struct {
    time_t time;
    unsigned keepalive : 1;
} edge_sent_t;

/* "req_" and 32 hexadecimal digits, which are those of the trace where one begins here. */
enum {
    REQUEST_ID_PREFIX = sizeof("req_") - 1,
    REQUEST_ID_LEN = REQUEST_ID_PREFIX + TRACE_ID_LEN
};

/* A request, freed with its pool. An internal redirect clears r->ctx: edge_ctx finds it again. */
typedef struct edge_ctx {
    route_t *route;
    backend_t *backend;   /* where it goes: a static or http_response one */
    failover_t *failover; /* its way through the members of one; NULL: the route leads to none */
    backend_t *through;   /* of an upgraded stream: the weighted member because of which it stays */
    ngx_str_t host;      /* lower case, no port */
    ngx_str_t authority; /* the same with the client's port, if it named one */
    ngx_str_t path;      /* normalised: what was matched and what goes upstream */
    ngx_str_t upstream_host;
    ngx_str_t account_id;
    uint32_t account;          /* edge_share_account_of; 0: not made yet */
    struct sockaddr *client;   /* the peer, or the client that a trusted proxy names */
    ngx_str_t client_ip;       /* text of client */
    ngx_str_t forwarded_for;   /* X-Forwarded-For of a trusted proxy, all lines joined */
    const u_char *session;     /* hash of the session that admitted it, 32 bytes; NULL: none */
    ngx_str_t again;           /* URL to sign in with as somebody else, for pages; may be empty */
    ngx_str_t onward;          /* URL to which the page of a failed sign-in goes; may be empty */
    ngx_uint_t onward_s;       /* behind so many seconds */
    ngx_uint_t error;          /* code of proto/errors.def; 0: none */
    ngx_uint_t cut_for;        /* the same of an answer that was cut in the middle */
    int blocked_by;            /* module_id_t, or -1 */
    ngx_str_t restriction_id;  /* of the account, where that denied the request; else empty */
    ngx_uint_t status;         /* of the page; 0: the status of the error's row */
    uint64_t refused_at;       /* when it was answered by a page, ms since 1970; 0: it was not */
    struct edge_state *states; /* list of module states: edge_modules.c */
    struct edge_times *times;  /* how long modules took: edge_times.c; NULL: not measured */
    struct edge_suspension *suspension; /* NULL: no module has suspended the request yet */
    ngx_list_part_t *own_part; /* request headers from here on are ours, not the client's */
    ngx_uint_t own_index;
    share_part_t share;  /* of the connections to upstreams */
    portion_t portion;   /* of the memory for requests */
    portion_t body_part; /* the same, of what the edge itself keeps of its body */
    portion_t answer_part; /* and of the head of its answer, where that is a large one */
    slots_part_t bare;   /* of answers that are a head alone, while that is on its way */
    struct edge_posted *posted; /* a form that the edge reads itself: edge_posted.c */
    edge_pace_t pace;
    edge_stall_t stall;
    edge_upload_t upload;
    edge_dials_t dials;
    edge_head_t head;
    edge_body_t body;
    edge_reader_t reader;
    edge_writer_t writer;
    ngx_event_t send;  /* posted: the request waits to be sent: edge_sends.c */
    edge_grpc_t *grpc; /* NULL: no gRPC, or not on its way to the upstream yet */
    edge_sent_t sent;
    /* Called for each connection that is about to be made upstream, which a module takes over when
     * it stands; NULL: HTTP goes over it. */
    void (*tunnel)(ngx_http_request_t *r, struct edge_ctx *ctx);
    unsigned tunnelled : 1; /* 101 was sent: body.given is what went to the client behind it */
    unsigned parted : 1;    /* the client has been told the end of the tunnel */
    unsigned counted : 1;     /* in the gauge of requests in flight */
    unsigned may_upgrade : 1; /* Connection lists "upgrade" */
    unsigned upgrade : 1;     /* a valid request for a WebSocket */
    unsigned bad_tls : 1;     /* the upstream's certificate was not accepted */
    unsigned cut_off : 1;     /* its kept connection ended, and it must not be sent again */
    unsigned no_http2 : 1;    /* the upstream of a call of gRPC may have HTTP/1.1 only */
    unsigned from_proxy : 1;  /* the peer is a trusted proxy */
    unsigned concealed : 1;   /* its URL has a code, a ticket or a state: not for events */
    unsigned refused : 1;     /* by nginx, before it was routed */
    unsigned redirect : 1;    /* plain http: not an event of a route */
    unsigned answers : 1;     /* no upstream was reached, and backend is an http_response one */
    unsigned charged : 1;     /* its client was asked for a portion of memory */
    unsigned crowded : 1;     /* and it, or the account, had its portion */
    unsigned admitted : 1;    /* an IP restriction of the account admits the connection */

    char request_id[REQUEST_ID_LEN + 1];
    char traceparent[TRACE_PARENT_LEN]; /* of a trace that begins here */
    const char *trace_id;               /* TRACE_ID_LEN digits; NULL: not routed */

    /* edge_end.c: the list of requests that are being cut, and when the end is forced */
    ngx_queue_t ending;
    ngx_msec_t force_at;

    /* edge_streams.c */
    ngx_http_request_t *request;
    route_t *standing; /* the version of the route that judged it last; NULL: the one in route */
    stream_t stream;   /* last: its links are not zeroed */
} edge_ctx_t;

/* The request's context; NULL: it has none. */
edge_ctx_t *edge_ctx(ngx_http_request_t *r);
/* Make the request's context; it is freed with the request's pool. NULL: no memory. */
edge_ctx_t *edge_ctx_new(ngx_http_request_t *r);

/* Are requests of this server routed, and do they leave events? In edge_directives.c. */
ngx_uint_t edge_is_on(ngx_http_request_t *r);
