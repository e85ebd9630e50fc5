/* What the edge knows of a request. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_http.h>

#include "services/edge/http/head.h"
#include "services/edge/table/table.h"

/* What edge_head.c knows of the answer that comes. */
typedef struct {
    head_t scan;
    ngx_int_t (*parse)(ngx_http_request_t *r); /* nginx's own, and the next */
    ngx_int_t (*reinit)(ngx_http_request_t *r);
    ngx_uint_t interims; /* 1xx */
    size_t interim_bytes;
    size_t passed; /* of them to a client of HTTP/1.1 */
} edge_head_t;

/* Bytes of bodies, as edge_body.c counts them. */
typedef struct {
    off_t given;    /* to the filter that makes chunks */
    off_t received; /* that somebody reads, and in chunks */
    off_t left;     /* to come when the request began */

    ngx_http_chunked_t chunked; /* of one in chunks that nobody reads, from here on */
    unsigned chunks_end : 1;
    ngx_connection_t *connection;
    ngx_recv_pt recv;  /* the connection's own; NULL: it is in place */
    ngx_event_t *turn; /* an HTTP/2 stream stays until it happens */
} edge_body_t;

/* What the answer said of itself when it was sent; nginx changes its mind later. */
typedef struct {
    time_t time;
    unsigned keepalive : 1;
} edge_sent_t;

/* A request. Found again after an internal redirect, which clears r->ctx. */
typedef struct edge_ctx {
    route_t *route;
    backend_t *backend;
    ngx_str_t host;      /* lower case, no port */
    ngx_str_t authority; /* the same with the client's port, if it named one */
    ngx_str_t path;      /* normalised: what was matched and what goes upstream */
    ngx_str_t upstream_host;
    ngx_str_t account_id;
    struct sockaddr *client;   /* the peer, or who a trusted proxy says it speaks for */
    ngx_str_t client_ip;       /* its text */
    ngx_str_t forwarded_for;   /* all that a trusted proxy said */
    ngx_uint_t error;          /* code of proto/errors.def; 0: none */
    int blocked_by;            /* module_id_t, or -1 */
    ngx_uint_t status;         /* of the page, in place of the error's own; 0: its own */
    struct edge_state *states; /* of modules that asked for one: edge_modules.c */
    struct edge_suspension *suspension; /* NULL: it never waited */
    ngx_list_part_t *own_part; /* request headers from here on are ours, not the client's */
    ngx_uint_t own_index;
    ngx_array_t *hidden; /* client headers kept from the upstream: for the event */
    edge_head_t head;
    edge_body_t body;
    edge_sent_t sent;
    unsigned counted : 1;     /* among those in flight */
    unsigned may_upgrade : 1; /* Connection says so */
    unsigned upgrade : 1;     /* to what may be upgraded to */
    unsigned bad_tls : 1;
    unsigned from_proxy : 1; /* the peer is a trusted proxy */
    unsigned refused : 1;    /* by nginx, before it was routed */
    unsigned redirect : 1;   /* plain http: not an event of a route */

    ngx_http_request_t *request; /* edge_streams.c's from here on; NULL: not one of them */
    ngx_queue_t queue;
    ngx_uint_t round;
    ngx_msec_t force_at;

    char request_id[64];
} edge_ctx_t;

edge_ctx_t *edge_ctx(ngx_http_request_t *r);
edge_ctx_t *edge_ctx_new(ngx_http_request_t *r); /* NULL: no memory */

/* Are requests of this server routed, and do they leave events? In ngx_http_postern_module.c. */
ngx_uint_t edge_is_on(ngx_http_request_t *r);
