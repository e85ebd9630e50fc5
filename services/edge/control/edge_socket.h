/* A ZeroMQ socket of the helper's, to one peer: of the config log or the session log, the intake,
 * or requests (LINK_ASK). One for requests has a monitor. */
#pragma once

#include "services/edge/control/edge_link.h"

#include <zmq.h>

typedef struct {
    void        *socket;
    link_kind_t  kind;   /* of its messages in the link to the worker */
    void        *monitor;   /* of its connections, to be polled; NULL: none */
    /* As far as the monitor was read. For a moment after the end of a connection libzmq still takes
     * messages for it, and loses them. */
    ngx_uint_t   is_connected;
} edge_socket_t;

/* Connect it, in *context, which is made when it is NULL. peer: whose key the other end has.
 * NGX_OK | NGX_ERROR, logged. */
ngx_int_t edge_socket_open(edge_socket_t *bus, void **context, const ngx_str_t *endpoint,
    const char *peer);

/* Take what the monitor says: 1 where a connection has ended since the last time, so that what was
 * sent may be lost. */
ngx_uint_t edge_socket_has_ended(edge_socket_t *bus);

/* Close it and its monitor; it need not be open. */
void edge_socket_close(edge_socket_t *bus);

/* Can a message be received (ZMQ_POLLIN) or sent (ZMQ_POLLOUT) without waiting? */
ngx_uint_t edge_socket_is_ready(const edge_socket_t *bus, int direction);

/* Send one message without waiting. NGX_OK | NGX_DECLINED: it was not sent and is lost; the
 * worker's beats repeat hellos and acknowledgements. */
ngx_int_t edge_socket_send(edge_socket_t *bus, const ngx_str_t *frames, ngx_uint_t n);

/* Receive one message: how many frames it has, LINK_FRAMES_MAX at most; further ones are left
 * out. 0: there is none. frames point into parts, which the caller closes. */
ngx_uint_t edge_socket_receive(edge_socket_t *bus, zmq_msg_t *parts, ngx_str_t *frames);

/* What is done with a message that was received; the frames are borrowed. NGX_OK: go on. */
typedef ngx_int_t (*edge_socket_take_t)(void *context, edge_socket_t *bus, const ngx_str_t *frames,
    ngx_uint_t n);

/* Receive what there is, 64 messages at most: the other sockets have some, too. NGX_OK, or what
 * take returned that is not. */
ngx_int_t edge_socket_drain(edge_socket_t *bus, edge_socket_take_t take, void *context);
