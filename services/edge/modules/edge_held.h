/* Bytes on their way to a connection that does not take them at once. Nothing is allocated while a
 * connection takes what it gets; then exactly what is left is kept until it has gone. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "services/edge/http/edge_ctx.h"

/* All zero: nothing is held. */
typedef struct {
    u_char *start; /* NULL: nothing */
    u_char *pos, *last;
    portion_t portion;  /* of what a worker may hold; zero: little is held, at nobody's cost */
    unsigned moved:1;   /* bytes have gone since it was last looked at */
} edge_held_t;

/* How much may be read at once from the other side of ctx's request, at most max: little where
 * its client, or its account, has its portion of what a worker may hold. */
size_t edge_held_room(const edge_ctx_t *ctx, size_t max);
/* Send len bytes; what the connection does not take is held, for ctx's request. Only while nothing
 * is held. NGX_OK: all went | NGX_AGAIN | NGX_ERROR: the connection is broken. */
ngx_int_t edge_held_send(edge_held_t *self, const edge_ctx_t *ctx, ngx_connection_t *c,
                         u_char *bytes, size_t len);
/* Send what is held. The same results. */
ngx_int_t edge_held_flush(edge_held_t *self, ngx_connection_t *c);
/* How much is held. */
size_t edge_held_left(const edge_held_t *self);
/* Free what is held. */
void edge_held_drop(edge_held_t *self);
/* A connection whose unsent bytes move in memory: to be called before the first of them. */
void edge_held_prepare(ngx_connection_t *c);
