/* gRPC. nginx's gRPC module speaks HTTP/2 with the upstream: one request at a time on a connection,
 * nothing buffered in either direction, trailers handed on. It was made for upstreams that are
 * trusted, so what they send is judged here, before and behind it: frames (h2.c), fields of the
 * head, trailers. */
#include "services/edge/http/edge_grpc.h"
#include "services/edge/http/edge_answer_memory.h"
#include "services/edge/http/edge_failover.h"
#include "services/edge/http/edge_grpc_head.h"
#include "services/edge/http/edge_pieces.h"
#include "services/edge/http/h2.h"
#include "services/edge/http/head.h"
#include "services/edge/modules/module_response_headers.h"
#include "services/edge/worker/edge_conf.h"

/* What of a list of fields has been judged. */
typedef struct {
    ngx_list_part_t  *part;   /* NULL: nothing yet */
    ngx_uint_t        index;
    h2_fields_t       fields;
} cursor_t;

/* A link of a chain that nginx has for a buffer of the request. */
typedef struct lent {
    struct lent  *next;
    ngx_chain_t  *link;
} lent_t;

/* State of one request. */
struct edge_grpc {
    h2_scan_t   scan;
    size_t      scanned;   /* bytes in the buffer behind the head that were scanned with it */
    cursor_t    head;
    cursor_t    trailers;
    size_t      head_bytes;   /* of memory that the head takes */
    ngx_int_t (*parse)(ngx_http_request_t *r);   /* nginx's functions, which are wrapped here */
    ngx_int_t (*init)(void *data);
    ngx_int_t (*filter)(void *data, ssize_t bytes);
    void       *data;
    uint64_t    given;    /* bytes of the request that nginx has been given */
    lent_t     *lent, **lent_last, *spare;   /* in the order of the buffers; records without one */
    u_char     *scheme;   /* its byte for the upstream; NULL: nginx wrote it otherwise */
};


ngx_uint_t
edge_grpc_is_asked(ngx_http_request_t *r)
{
    ngx_str_t         type;
    static ngx_str_t  grpc = ngx_string("application/grpc");

    if (r->http_version != NGX_HTTP_VERSION_20 || r->method != NGX_HTTP_POST
        || r->headers_in.content_type == NULL)
    {
        return 0;
    }
    type = r->headers_in.content_type->value;
    return type.len >= grpc.len
           && ngx_strncasecmp(type.data, grpc.data, grpc.len) == 0
           && (type.len == grpc.len || type.data[grpc.len] == '+'
               || type.data[grpc.len] == ';');
}


ngx_uint_t
edge_grpc_was_answered(const edge_ctx_t *ctx)
{
    return ctx->grpc->scan.spoken;
}


ngx_int_t
edge_grpc_begin(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    ctx->grpc = ngx_pcalloc(r->pool, sizeof(edge_grpc_t));
    if (ctx->grpc == NULL) {
        return NGX_ERROR;
    }
    h2_begin(&ctx->grpc->scan);
    return NGX_OK;
}


/* ---- the request ---- */

void
edge_grpc_set_scheme(edge_ctx_t *ctx, ngx_uint_t tls)
{
    if (ctx->grpc->scheme) {
        *ctx->grpc->scheme = tls ? GRPC_SCHEME_HTTPS : GRPC_SCHEME_HTTP;
    }
}


/* ---- links ----
 *
 * nginx's filter takes a link for each buffer that it is given, and before 1.26.1 it never gives
 * one back: 16 bytes of the request's memory for each piece in which a client sends its messages,
 * for as long as the call lasts. It takes them, before anything else, from the pool's list of free
 * ones; so they are put there, and are known. When a buffer has been sent nobody refers to its
 * link, and the pool gets it back. */

#if (nginx_version < 1026001)

static lent_t *
make_record(ngx_http_request_t *r, edge_grpc_t *grpc)
{
    lent_t  *record = grpc->spare;

    if (record == NULL) {
        return ngx_palloc(r->pool, sizeof(lent_t));
    }
    grpc->spare = record->next;
    return record;
}


static ngx_int_t
note_link(ngx_http_request_t *r, edge_grpc_t *grpc, ngx_chain_t *link)
{
    lent_t  *record = make_record(r, grpc);

    if (record == NULL) {
        return NGX_ERROR;
    }
    record->link = link;
    record->next = NULL;
    *grpc->lent_last = record;
    grpc->lent_last = &record->next;
    return NGX_OK;
}


/* The first buffer is the request's head, whose link nginx does give back. Of one that is empty
 * nobody could tell whether it has been sent. */
static ngx_int_t
lend_links(ngx_http_request_t *r, edge_grpc_t *grpc, ngx_chain_t *in)
{
    ngx_uint_t    is_head = grpc->given == 0;
    ngx_chain_t  *links = NULL, *link, **last = &links;

    if (grpc->lent == NULL) {
        grpc->lent_last = &grpc->lent;
    }
    for (/* void */; in; in = in->next) {
        link = ngx_alloc_chain_link(r->pool);
        if (link == NULL) {
            return NGX_ERROR;
        }
        if (!is_head && ngx_buf_in_memory(in->buf) && ngx_buf_size(in->buf) > 0
            && note_link(r, grpc, link) != NGX_OK)
        {
            return NGX_ERROR;
        }
        is_head = 0;
        *last = link;
        last = &link->next;
    }
    *last = r->pool->chain;
    r->pool->chain = links;
    return NGX_OK;
}


static void
take_links(ngx_http_request_t *r, edge_grpc_t *grpc)
{
    lent_t  *record;

    while ((record = grpc->lent)
           && record->link->buf->pos == record->link->buf->last)
    {
        ngx_free_chain(r->pool, record->link);
        grpc->lent = record->next;
        record->next = grpc->spare;
        grpc->spare = record;
    }
}

#else

static ngx_int_t
lend_links(ngx_http_request_t *r, edge_grpc_t *grpc, ngx_chain_t *in)
{
    (void) r;
    (void) grpc;
    (void) in;
    return NGX_OK;
}


static void
take_links(ngx_http_request_t *r, edge_grpc_t *grpc)
{
    (void) r;
    (void) grpc;
}

#endif


/* A stream may be silent in one direction as long as the other is not: that of a client that sends
 * more and more. */
ngx_int_t
edge_grpc_begin_write(ngx_http_request_t *r, edge_ctx_t *ctx, ngx_chain_t *in)
{
    ngx_event_t  *rev = r->upstream->peer.connection->read;

    if (in == NULL) {
        return NGX_OK;
    }
    if (rev->timer_set) {
        ngx_add_timer(rev, r->upstream->conf->read_timeout);
    }
    if (lend_links(r, ctx->grpc, in) != NGX_OK) {
        return NGX_ERROR;
    }
    for (/* void */; in; in = in->next) {
        ctx->grpc->given += ngx_buf_size(in->buf);
    }
    return NGX_OK;
}


void
edge_grpc_end_write(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    take_links(r, ctx->grpc);
}


/* ---- the response ---- */

static ngx_int_t
refuse_answer(ngx_http_request_t *r, const char *why, ngx_int_t rc)
{
    ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                  "postern: the upstream's answer is no valid HTTP/2: %s", why);
    return rc;
}


/* What nginx sends by itself says nothing of the request: an upstream's PINGs have answers as long
 * as they are. */
static const char *
scan_bytes(edge_grpc_t *grpc, const u_char *data, size_t len)
{
    return h2_scan(&grpc->scan, data, len, edge_conf()->response_header_size,
                   grpc->given);
}


/* The same of trailers as of 1xx: what is of the connection, or what the edge or the route takes
 * away, does not go on. */
static ngx_uint_t
trailer_passes(edge_ctx_t *ctx, const ngx_table_elt_t *trailer)
{
    head_field_t  field = { (char *) trailer->key.data,
                            (char *) trailer->value.data,
                            trailer->key.len, trailer->value.len };

    return head_field_passes(&field)
           && !edge_response_removes(ctx->route, field.name, field.name_len);
}


/* A trailer gets a name that nginx hides. */
static void
hide_trailer(ngx_table_elt_t *trailer)
{
    static u_char  name[] = "date";

    trailer->key.data = name;
    trailer->key.len = sizeof(name) - 1;
    trailer->lowcase_key = name;
    trailer->hash = ngx_hash_key(name, sizeof(name) - 1);
}


/* Judges the fields that nginx has added to the list since the last call. NULL, or why they are
 * refused. */
static const char *
judge_fields(edge_ctx_t *ctx, ngx_list_t *list, cursor_t *at)
{
    const char       *why;
    ngx_table_elt_t  *field;

    if (at->part == NULL) {
        at->part = &list->part;
    }
    for ( ;; ) {
        if (at->index == at->part->nelts) {
            if (at->part->next == NULL) {
                return NULL;
            }
            at->part = at->part->next;
            at->index = 0;
            continue;
        }
        field = (ngx_table_elt_t *) at->part->elts + at->index++;
        why = h2_judge_field(&at->fields, (char *) field->key.data,
                             field->key.len, (char *) field->value.data,
                             field->value.len);
        if (why) {
            return why;
        }
        if (at == &ctx->grpc->trailers && !trailer_passes(ctx, field)) {
            hide_trailer(field);
        }
    }
}


/* nginx keeps what it needs of the bytes elsewhere, but lets them fill the buffer: so a head may
 * be larger than that. */
static ngx_int_t
process_head(ngx_http_request_t *r)
{
    ngx_int_t             rc;
    edge_ctx_t           *ctx = edge_ctx(r);
    const char           *why;
    edge_grpc_t          *grpc;
    ngx_http_upstream_t  *u = r->upstream;

    if (ctx == NULL) {
        return NGX_ERROR;
    }
    grpc = ctx->grpc;
    edge_failover_stands(r, ctx);
    why = scan_bytes(grpc, u->buffer.pos, u->buffer.last - u->buffer.pos);
    if (why) {
        return refuse_answer(r, why, NGX_HTTP_UPSTREAM_INVALID_HEADER);
    }
    rc = grpc->parse(r);
    if (rc != NGX_OK && rc != NGX_AGAIN) {
        return rc;
    }
    why = judge_fields(ctx, &u->headers_in.headers, &grpc->head);
    if (why == NULL && rc == NGX_OK && u->headers_in.status_n > 599) {
        why = "a status that is not from 200 to 599";
    }
    if (why) {
        return refuse_answer(r, why, NGX_HTTP_UPSTREAM_INVALID_HEADER);
    }
    grpc->head_bytes = edge_answer_block(r, &grpc->head.fields, grpc->scan.block);
    if (!edge_answer_charge(r, ctx, grpc->head_bytes)) {
        return NGX_HTTP_UPSTREAM_INVALID_HEADER;   /* the page says why: ctx->error */
    }
    if (rc == NGX_AGAIN) {
        u->buffer.pos = u->buffer.start;
        u->buffer.last = u->buffer.start;
    } else {
        grpc->scanned = u->buffer.last - u->buffer.pos;
    }
    return rc;
}


static ngx_int_t
init_body(void *data)
{
    edge_ctx_t  *ctx = edge_ctx(data);

    return ctx ? ctx->grpc->init(ctx->grpc->data) : NGX_ERROR;
}


/* A stream may be silent in one direction as long as the other is not: the client of a
 * subscription sends once and then listens. */
static void
note_read(ngx_http_request_t *r)
{
    ngx_event_t               *rev = r->connection->read;
    ngx_http_core_loc_conf_t  *conf;

    if (rev->timer_set) {
        conf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);
        ngx_add_timer(rev, conf->client_body_timeout);
    }
}


/* They come behind a head that was answered: there is no page any more. */
static ngx_uint_t
charge_trailers(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    edge_grpc_t  *grpc = ctx->grpc;

    return grpc->trailers.fields.count == 0
           || edge_answer_charge(r, ctx, grpc->head_bytes
                                         + edge_answer_block(r, &grpc->trailers.fields,
                                                             grpc->scan.block));
}


/* Wraps nginx's filter, which takes frames of DATA and the trailers. */
static ngx_int_t
on_read(void *data, ssize_t bytes)
{
    size_t                skip;
    ngx_int_t             rc;
    edge_ctx_t           *ctx;
    const char           *why;
    edge_grpc_t          *grpc;
    ngx_http_request_t   *r = data;
    ngx_http_upstream_t  *u = r->upstream;

    ctx = edge_ctx(r);
    if (ctx == NULL) {
        return NGX_ERROR;
    }
    grpc = ctx->grpc;
    skip = ngx_min(grpc->scanned, (size_t) bytes);
    grpc->scanned = 0;
    why = scan_bytes(grpc, u->buffer.last + skip, bytes - skip);
    if (why) {
        return refuse_answer(r, why, NGX_ERROR);
    }
    rc = edge_pieces_grpc(r, grpc->filter, grpc->data, bytes);
    if (rc == NGX_ERROR) {
        return rc;
    }
    why = judge_fields(ctx, &u->headers_in.trailers, &grpc->trailers);
    if (why) {
        return refuse_answer(r, why, NGX_ERROR);
    }
    if (!charge_trailers(r, ctx)) {
        return NGX_ERROR;
    }
    note_read(r);
    return rc;
}


/* nginx never repeats a POST that it has begun to send: there is nothing to begin anew. */
void
edge_grpc_watch(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    edge_grpc_t          *grpc = ctx->grpc;
    ngx_http_upstream_t  *u = r->upstream;

    edge_grpc_name_authority(u->request_bufs->buf);
    grpc->scheme = edge_grpc_find_scheme(u->request_bufs->buf);
    grpc->parse = u->process_header;
    grpc->init = u->input_filter_init;
    grpc->filter = u->input_filter;
    grpc->data = u->input_filter_ctx;
    u->process_header = process_head;
    u->input_filter_init = init_body;
    u->input_filter = on_read;
    u->input_filter_ctx = r;
}


/* ---- the end ---- */

#if (NGX_HTTP_V2)

/* Codes of an upstream's RST_STREAM (RFC 9113 7) that say something of the call; the others are of
 * the edge's connection with the upstream. */
static ngx_uint_t
is_of_call(uint32_t code)
{
    enum {
        REFUSED_STREAM = 0x7,
        CANCEL = 0x8,
        ENHANCE_YOUR_CALM = 0xb,
        INADEQUATE_SECURITY = 0xc
    };

    return code == REFUSED_STREAM || code == CANCEL
           || code == ENHANCE_YOUR_CALM || code == INADEQUATE_SECURITY;
}


/* nginx resets the client's stream with INTERNAL_ERROR, whatever the upstream said. Its frame is
 * still in the connection's queue: it gets the upstream's code. */
static void
hand_on_reset(ngx_http_v2_stream_t *stream, uint32_t code)
{
    u_char                   *p;
    ngx_buf_t                *b;
    ngx_http_v2_out_frame_t  *frame;

    code = htonl(code);
    for (frame = stream->connection->last_out; frame; frame = frame->next) {
        b = frame->first->buf;
        p = b->start;
        if (frame->stream == NULL && b->pos == p && frame->length == 4
            && b->last - p == H2_FRAME_HEAD + 4
            && p[3] == NGX_HTTP_V2_RST_STREAM_FRAME
            && ((ngx_uint_t) p[5] << 24 | (ngx_uint_t) p[6] << 16
                | (ngx_uint_t) p[7] << 8 | p[8]) == stream->node->id)
        {
            ngx_memcpy(p + H2_FRAME_HEAD, &code, sizeof(code));
            return;
        }
    }
}

#endif


void
edge_grpc_end(edge_ctx_t *ctx)
{
#if (NGX_HTTP_V2)
    if (ctx->grpc && ctx->grpc->scan.reset && is_of_call(ctx->grpc->scan.code)
        && ctx->request && ctx->request->stream)
    {
        hand_on_reset(ctx->request->stream, ctx->grpc->scan.code);
    }
#else
    (void) ctx;
#endif
}
