/* The body of a response on its way through an encoder (encoder.h), for the module compression. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "services/edge/http/edge_ctx.h"
#include "services/edge/modules/encoder.h"
#include "services/edge/modules/encoder_turns.h"

/* The response of one request whose body is encoded. */
typedef struct {
    ngx_http_request_t  *request;
    encoder_t           *encoder;   /* NULL: not begun, or all has been encoded */
    coding_t             coding;
    portion_t            portion;   /* of the memory for encoders */

    ngx_chain_t         *in;        /* not taken yet: the buffers are the upstream's */
    ngx_chain_t         *out;       /* made now, for the next filter */
    ngx_chain_t         *busy;      /* there, not sent yet */
    ngx_chain_t         *free;
    ngx_chain_t         *filling;   /* its buffer has room */
    ngx_uint_t           buffers;   /* that were made; at most OUT_MAX */
    size_t               size;      /* of each */
    ngx_buf_t            flush_mark, last_mark;

    size_t               left;      /* of TURN_BYTES */
    uint32_t             account, client;   /* whose turns it has: hashes */
    encoder_turn_t       turn;
    ngx_uint_t           planned;   /* in which pass it began to wait */
    off_t                taken, made;

    unsigned  begun:1;      /* the response has the coding */
    unsigned  unflushed:1;  /* since the last flush */
    unsigned  to_flush:1;   /* the upstream's side wants a flush */
    unsigned  flushing:1;   /* now */
    unsigned  last:1;       /* no more comes */
} compressor_t;

/* Begin the body of the response to ctx's request r, before its head is changed; self is all zero,
 * or was ended. NGX_OK | NGX_BUSY: the account or its client has its portion of the memory for
 * encoders | NGX_DECLINED: the worker encodes as many as it may, or has no memory for another. */
ngx_int_t compressor_begin(compressor_t *self, ngx_http_request_t *r, edge_ctx_t *ctx,
    coding_t coding);
/* Replace a part of the body, or NULL, by what is to be sent now, as response_body of module.h
 * wants it. NGX_OK | NGX_ERROR. */
ngx_int_t compressor_encode(compressor_t *self, ngx_chain_t **body);
/* Free the encoder of a body that was cut. What it has made stays, and is charged: it may be on its
 * way. The same again does nothing. */
void compressor_stop(compressor_t *self);
/* Free the encoder; no event of self comes any more. taken and made stay. */
void compressor_end(compressor_t *self);
