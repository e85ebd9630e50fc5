/* How many bytes are on their way from a ROUTER to one connection. libzmq's marks count
 * messages, and a message may have megabytes: who sends large ones looks here first whether the
 * peer took the last. A message counts until libzmq took the one behind it out of its queue,
 * because by then the last byte of the first was given to the kernel. Sent by one thread. */
#pragma once

#include <czmq.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct transit transit_t;

/* like: another connection whose peer showed the same key, or NULL: their bytes are counted
 * together, too. NULL: no memory. */
transit_t *transit_new(const transit_t *like);

/* What is on its way goes on, and counts no more. */
void transit_destroy(transit_t **self_p);

typedef struct transit_frame {
    const void *data;
    size_t len;
} transit_frame_t;

/* Sends the identity and frames, at least one; weight: the bytes to count. The socket is
 * mandatory and does not wait. 0 | -EAGAIN: its queue for this connection is full |
 * -EHOSTUNREACH: the connection has ended, and what was on its way with it | -ENOMEM. */
int transit_send(transit_t *self, zsock_t *router, const transit_frame_t *identity,
                 const transit_frame_t *frames, size_t n, size_t weight);

/* Bytes on their way to this connection, and to all connections of its key. */
size_t transit_bytes(const transit_t *self);
size_t transit_key_bytes(const transit_t *self);

/* Was the last message refused because the queue is full? */
bool transit_is_full(const transit_t *self);

/* Would one more message, of no weight, show more? Either that there is room again, or that the
 * last one of weight was taken. */
bool transit_needs_probe(const transit_t *self);
