/* How much of an answer its client has taken, which is what the client's machine has acknowledged.
 * What the edge's socket has accepted says little of that: a socket may hold megabytes, and takes
 * more when a third of these is gone, which at ten kilobytes a second takes minutes.
 *
 * The kernel says how many bytes of a connection are not acknowledged. Several answers may share a
 * connection of HTTP/2, and nobody says which of them these bytes are of: of all that stood in the
 * socket, and of what was written since, each answer is taken to have lost the same part. What an
 * answer is credited with is never more than what was sent of it, and for one that is alone on its
 * connection it is exact. Without nginx. */
#pragma once

#include <stdint.h>

/* By the last measurement; all numbers are bytes. */
typedef struct {
    int64_t sent;    /* of the answer: all that was written to the connection */
    int64_t own;     /* of that, what the client has not acknowledged yet */
    int64_t written; /* to the connection, answers and all else */
    int64_t held;    /* of that, what the client has not acknowledged yet */
} taken_t;

/* An answer begins, of which nothing was sent, on a connection to which so many were written. */
void taken_begin(taken_t *self, int64_t written);

/* Measure: sent and written as above (what is less than before counts as nothing new), held by what
 * the kernel says, in which there may be some that written does not have. */
void taken_measure(taken_t *self, int64_t sent, int64_t written, int64_t held);

/* Bytes of the answer that the client had taken by the last measurement; never less than before. */
int64_t taken_bytes(const taken_t *self);

/* The same of all that its connection carries; it may fall back by what written does not have. */
int64_t taken_of_connection(const taken_t *self);
