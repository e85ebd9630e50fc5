/* A ZeroMQ socket of the helper's, to one peer. */
#pragma once

#include "services/edge/control/edge_link.h"

#include <zmq.h>

typedef struct {
    void        *socket;
    link_kind_t  kind;   /* of its messages in the link to the worker */
} edge_socket_t;

/* Connect it, in *context, which is made when it is NULL. peer: whose key the other end has.
 * NGX_OK | NGX_ERROR, logged. */
ngx_int_t edge_socket_open(edge_socket_t *bus, void **context, const ngx_str_t *endpoint,
    const char *peer);

/* Can it go in this direction (ZMQ_POLLIN, ZMQ_POLLOUT) without waiting? */
ngx_uint_t edge_socket_is_ready(const edge_socket_t *bus, int direction);

/* NGX_OK | NGX_DECLINED: it did not go, and is lost: the worker's beats repeat what they send. */
ngx_int_t edge_socket_send(edge_socket_t *bus, const ngx_str_t *frames, ngx_uint_t n);

/* One message, LINK_FRAMES_MAX frames of it: how many. frames are valid until the parts are
 * closed, which is the caller's. */
ngx_uint_t edge_socket_receive(edge_socket_t *bus, zmq_msg_t *parts, ngx_str_t *frames);
