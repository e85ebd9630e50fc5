/* A client's WebSocket and a backend's TCP connection, and the bytes between them. */
#pragma once

#include "services/edge/http/edge_ctx.h"
#include "services/edge/modules/edge_held.h"
#include "services/edge/modules/websocket.h"

/* What becomes of the WebSocket's side that the edge sends on. */
typedef enum {
    EDGE_LEAVE_NOT,
    EDGE_LEAVE_DUE,        /* a close frame is to be sent */
    EDGE_LEAVE_ON_ITS_WAY, /* it is being sent */
    EDGE_LEAVE_SENT
} edge_leave_t;

/* What the kernel still has for a peer at the end, as it was when it was looked at last. */
typedef struct {
    int          unsent;     /* bytes */
    ngx_msec_t   moved_at;   /* when there were fewer than before */
} edge_closing_t;

/* State of the module for one request; all zero at first. */
typedef struct {
    ngx_str_t     key;      /* Sec-WebSocket-Key */
    ngx_event_t   attempt;  /* runs when nginx has begun to connect */
    websocket_t   decoder;  /* of what the client sends */
    edge_held_t   to_client, to_upstream;
    size_t        unsent;   /* bytes of payload in to_client */
    u_char        control[WEBSOCKET_FRAME_MAX];   /* the control frame that is being sent */
    size_t        control_at, control_len;
    u_char        pong[WEBSOCKET_CONTROL_MAX];    /* the answer to the last ping */
    size_t        pong_len;
    edge_closing_t  client_closing, upstream_closing;
    edge_leave_t  leave;
    ngx_uint_t    code;      /* of the close frame */
    const char   *reason;
    unsigned      pong_due:1;
    unsigned      opened:1;           /* 101 was made */
    unsigned      head_sent:1;        /* and has gone */
    unsigned      over:1;             /* it ends: no more words to the client */
    unsigned      client_closed:1;    /* its close frame came */
    unsigned      client_deaf:1;      /* takes nothing any more, after its close frame */
    unsigned      upstream_ended:1;   /* sends nothing any more */
    unsigned      upstream_deaf:1;    /* takes nothing any more */
    unsigned      upstream_told:1;    /* it knows that the client has closed: FIN */
    unsigned      failed:1;           /* the upstream is gone, and the client is told why */
} edge_converter_t;

enum { EDGE_CONVERTER_OPENED, EDGE_CONVERTER_FAILED };   /* counters of the module */

/* Make of the request, when it goes upstream, a WebSocket that is converted. Its state has the
 * key. */
void edge_converter_prepare(edge_ctx_t *ctx);
/* The state of a request that the module has taken; NULL: none. */
edge_converter_t *edge_converter_of(ngx_http_request_t *r);
/* When the request's memory is freed. */
void edge_converter_end(edge_converter_t *self);
