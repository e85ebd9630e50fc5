/* nginx takes memory for a head as it comes: for each field 56 bytes, with HTTP/2 a copy of name
 * and value, for lines of HTTP/1.1 that are long large buffers. A client that never sends the end
 * has client_header_timeout, for as many heads as it has connections. So when something was read,
 * and the head is still not whole, the bytes that it has by now are charged to its client like
 * those of a request under way (edge_share.h). nginx has no hook there: the look is an event that
 * is posted where bytes come from the socket, and runs when nginx has parsed them.
 *
 * A head that is refused leaves nothing: with HTTP/1.1 its request ends, and the connection with
 * it. With HTTP/2 its stream ends, but nginx keeps what it has of the head until the rest has come,
 * since HPACK's table depends on that, whoever refused it. So only a few of these connections go
 * on, of a client no more than its portion of these (slots.h), and each for as long as a client may
 * take for a head (client_header_timeout), which nginx does not see to where there is no stream any
 * more; others end. */
#include "services/edge/http/edge_heads.h"
#include "services/edge/http/edge_ctx.h"
#include "services/edge/http/edge_frames.h"
#include "services/edge/http/edge_refused.h"
#include "services/edge/http/edge_share.h"
#include "services/edge/tls/edge_bio.h"
#include "common/base/err.h"

/* Of a connection, in its pool. */
typedef struct {
    ngx_event_t        look;
    ngx_connection_t  *connection;
    portion_t          portion;  /* of the memory for requests */
    slots_part_t       kept;     /* of heads that were refused, and are still to end */
    ngx_event_t        late;     /* a timer, meanwhile */
} heads_t;

static ngx_uint_t  charged;   /* heads of this worker that have a portion */


static void end_heads(void *data);


static heads_t *
heads_of(ngx_connection_t *c)
{
    ngx_pool_cleanup_t  *cln;

    for (cln = c->pool->cleanup; cln; cln = cln->next) {
        if (cln->handler == end_heads) {
            return cln->data;
        }
    }
    return NULL;
}


/* ---- the head that is on its way ---- */

#if (NGX_HTTP_V2)

static ngx_http_v2_connection_t *
http2_of(ngx_connection_t *c)
{
    unsigned       len = 0;
    const u_char  *name = NULL;

    if (c->ssl == NULL || !c->ssl->handshaked) {
        return NULL;
    }
    SSL_get0_alpn_selected(c->ssl->connection, &name, &len);
    return len == 2 && ngx_memcmp(name, "h2", 2) == 0 ? c->data : NULL;
}

#endif


/* Has nginx, or refuse_stream, refused the head that is on its way? */
static ngx_uint_t
is_without_stream(ngx_connection_t *c)
{
#if (NGX_HTTP_V2)
    ngx_http_v2_connection_t  *h2c = http2_of(c);

    return h2c && h2c->state.pool && h2c->state.stream == NULL;
#else
    return 0;
#endif
}


/* The request whose head has begun and is not whole; NULL: there is none, or it was refused. */
static ngx_http_request_t *
unfinished(ngx_connection_t *c)
{
    ngx_http_request_t        *r;
    ngx_http_log_ctx_t        *ctx = c->log->data;
#if (NGX_HTTP_V2)
    ngx_http_v2_connection_t  *h2c = http2_of(c);

    if (h2c) {
        return h2c->state.pool && h2c->state.stream ? h2c->state.stream->request : NULL;
    }
#endif
    r = ctx ? ctx->request : NULL;
    return r && r->http_state == NGX_HTTP_READING_REQUEST_STATE && r->err_status == 0
           && edge_ctx(r) == NULL ? r : NULL;
}


static ngx_uint_t
count_fields(ngx_http_request_t *r)
{
    ngx_uint_t        n = 0;
    ngx_list_part_t  *part;

    for (part = &r->headers_in.headers.part; part; part = part->next) {
        n += part->nelts;
    }
#if (NGX_HTTP_V2)
    if (r->stream && r->stream->cookies) {
        n += r->stream->cookies->nelts;   /* they are one field at the end */
    }
#endif
    return n;
}


ngx_uint_t
edge_heads_is_too_long(ngx_http_request_t *r)
{
    return count_fields(r) > HEAD_FIELDS_MAX;
}


/* ---- what it is charged ---- */

static void
give_portion(heads_t *heads)
{
    if (heads->portion.amount) {
        edge_share_give_head(&heads->portion);
        charged--;
    }
}


static ngx_uint_t
charge(heads_t *heads, ngx_http_request_t *r)
{
    give_portion(heads);
    if (!edge_share_charge_head(r, &heads->portion)) {
        return 0;
    }
    charged++;
    return 1;
}


void
edge_heads_give(ngx_http_request_t *r)
{
    heads_t           *heads;
    ngx_connection_t  *c = r->connection;

    if (charged == 0) {
        return;   /* the usual case */
    }
#if (NGX_HTTP_V2)
    if (r->stream) {
        c = r->stream->connection->connection;
    }
#endif
    heads = heads_of(c);
    if (heads) {
        give_portion(heads);
    }
}


/* ---- refusals ---- */

static void
end_request(ngx_http_request_t *r, ngx_int_t rc)
{
    edge_ctx_t  *ctx;

    if (rc == NGX_HTTP_SERVICE_UNAVAILABLE) {
        ctx = edge_refused(r);
        if (ctx) {
            ctx->charged = 1;
            ctx->crowded = 1;
            ctx->error = ERR_EDGE_CROWDED;
        }
        rc = ctx ? NGX_HTTP_BAD_REQUEST : NGX_HTTP_CLOSE;   /* 400 leads to the page */
    }
    ngx_http_finalize_request(r, rc);
}


#if (NGX_HTTP_V2)

/* c may be gone from here on. */
static void
end_connection(ngx_connection_t *c)
{
    c->error = 1;
    c->close = 1;
    c->read->handler(c->read);
}


/* The connection goes on, until a head that was refused has come to its end, or its time is over.
 * 0: it may not. */
static ngx_uint_t
keep_refused(heads_t *heads)
{
    ngx_connection_t          *c = heads->connection;
    ngx_http_v2_connection_t  *h2c = c->data;
    ngx_http_core_srv_conf_t  *cscf;

    if (!edge_share_keep_head(c, &heads->kept)) {
        return 0;
    }
    cscf = ngx_http_get_module_srv_conf(h2c->http_connection->conf_ctx, ngx_http_core_module);
    ngx_add_timer(&heads->late, cscf->client_header_timeout);
    return 1;
}


static void
on_late(ngx_event_t *ev)
{
    ngx_connection_t  *c = ev->data;

    if (!is_without_stream(c)) {
        return;   /* its end was read in this turn */
    }
    ngx_log_error(NGX_LOG_INFO, c->log, NGX_ETIMEDOUT,
                  "postern: a head that was refused has not come to its end");
    end_connection(c);
}


/* The parser goes on without the stream, as it does after a field that nginx refuses. */
static void
refuse_stream(heads_t *heads, ngx_http_v2_connection_t *h2c, ngx_int_t rc)
{
    ngx_connection_t    *c = heads->connection;
    ngx_http_request_t  *r = h2c->state.stream->request;

    if (edge_is_on(r) && !heads->kept.taken && keep_refused(heads)) {
        h2c->state.stream = NULL;
        end_request(r, rc);
        return;
    }
    end_connection(c);
}

#endif


/* The connection may be gone afterwards. */
static void
refuse_head(heads_t *heads, ngx_http_request_t *r, ngx_int_t rc)
{
    ngx_connection_t  *c = heads->connection;

#if (NGX_HTTP_V2)
    if (r->stream) {
        refuse_stream(heads, r->stream->connection, rc);
        return;
    }
#endif
    end_request(r, edge_is_on(r) ? rc : NGX_HTTP_CLOSE);
    ngx_http_run_posted_requests(c);
}


/* ---- looks ---- */

static void
let_refused_go(heads_t *heads)
{
    edge_share_let_head_go(&heads->kept);
    if (heads->late.timer_set) {
        ngx_del_timer(&heads->late);
    }
}


/* What nginx has of a refused head is freed when all of it has come. One that nginx refused by
 * itself counts from its refusal on. The connection may be gone afterwards. */
static void
look_at_refused(heads_t *heads)
{
    if (!is_without_stream(heads->connection)) {
        let_refused_go(heads);
        return;
    }
#if (NGX_HTTP_V2)
    if (!heads->kept.taken && !keep_refused(heads)) {
        end_connection(heads->connection);
    }
#endif
}


#if (NGX_HTTP_V2)

/* The connection may be gone afterwards. 0: it goes on. */
static ngx_uint_t
end_of_floods(ngx_connection_t *c)
{
    ngx_http_v2_connection_t  *h2c = http2_of(c);

    if (h2c == NULL || c->error || !edge_frames_are_too_many(h2c)) {
        return 0;   /* the usual case */
    }
    end_connection(c);
    return 1;
}

#endif


static void
on_look(ngx_event_t *ev)
{
    heads_t             *heads = ev->data;
    ngx_http_request_t  *r;

#if (NGX_HTTP_V2)
    if (end_of_floods(heads->connection)) {
        return;
    }
#endif
    r = unfinished(heads->connection);
    if (r == NULL) {
        give_portion(heads);
        look_at_refused(heads);
        return;
    }
    look_at_refused(heads);
    if (edge_heads_is_too_long(r)) {
        give_portion(heads);
        refuse_head(heads, r, NGX_HTTP_REQUEST_HEADER_TOO_LARGE);
    } else if (!charge(heads, r)) {
        refuse_head(heads, r, NGX_HTTP_SERVICE_UNAVAILABLE);
    }
}


static void
end_heads(void *data)
{
    heads_t  *heads = data;

    give_portion(heads);
    let_refused_go(heads);
    if (heads->look.posted) {
        ngx_delete_posted_event(&heads->look);
    }
}


/* A connection without TLS, to the port that redirects. */
static ssize_t
recv_plain(ngx_connection_t *c, u_char *buf, size_t size)
{
    ssize_t   n = ngx_recv(c, buf, size);
    heads_t  *heads = n > 0 ? heads_of(c) : NULL;

    if (heads) {
        ngx_post_event(&heads->look, &ngx_posted_events);
    }
    return n;
}


static ngx_event_t *
look_of(ngx_connection_t *c)
{
    heads_t  *heads = heads_of(c);

    return heads ? &heads->look : NULL;
}


ngx_int_t
edge_heads_watch(ngx_connection_t *c)
{
    heads_t             *heads;
    ngx_pool_cleanup_t  *cln = ngx_pool_cleanup_add(c->pool, sizeof(heads_t));

    if (cln == NULL) {
        return NGX_ERROR;
    }
    heads = cln->data;
    ngx_memzero(heads, sizeof(*heads));
    heads->connection = c;
    heads->look.data = heads;
    heads->look.handler = on_look;
    heads->look.log = c->log;
#if (NGX_HTTP_V2)
    heads->late.data = c;
    heads->late.handler = on_late;
    heads->late.log = c->log;
    heads->late.cancelable = 1;
#endif
    cln->handler = end_heads;
    c->recv = recv_plain;   /* TLS replaces it */
    return NGX_OK;
}


void
edge_heads_install(void)
{
    edge_bio_on_read(look_of);
}
