/* Back-pressure in bytes: counts what a ROUTER has queued for one connection and the kernel has not
 * taken yet. libzmq's high-water marks count messages, and a message may have megabytes, so senders
 * of large messages check here first. libzmq does not report when a message is written. But when it
 * is done with the next message's first frame, the message before has been written: a message
 * counts until then. One thread does all sending. */
#pragma once

#include <czmq.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct transit transit_t;

/* A counter for a new connection. like: another connection of a peer with the same key, whose bytes
 * are also summed (transit_key_bytes); NULL: there is none. NULL: no memory. */
transit_t *transit_new(const transit_t *like);

/* Free the counter; queued messages are still sent, but no longer counted. */
void transit_destroy(transit_t **self_p);

typedef struct transit_frame {
    const void *data;
    size_t len;
} transit_frame_t;

/* Send the identity and frames, at least one, without waiting; weight: the bytes to count. The
 * socket has ZMQ_ROUTER_MANDATORY. 0 | -EAGAIN: its queue for this connection is full |
 * -EHOSTUNREACH: the connection has ended, and queued messages are lost | -ENOMEM. */
int transit_send(transit_t *self, zsock_t *router, const transit_frame_t *identity,
                 const transit_frame_t *frames, size_t n, size_t weight);

/* Bytes sent that the kernel has not taken yet: of this connection, and of all connections of the
 * same key. */
size_t transit_bytes(const transit_t *self);
size_t transit_key_bytes(const transit_t *self);

/* Did the last transit_send return -EAGAIN? */
bool transit_is_full(const transit_t *self);

/* Would an extra message of weight 0 (a probe) give news: that the queue has room again, or that
 * the kernel has taken the last message with a weight? */
bool transit_needs_probe(const transit_t *self);
