/* nginx bounds the time between two reads of a body, so a byte now and then keeps a form, and its
 * buffer, for ever: here all of it has to come within FORM_MS. */
#include "services/edge/http/edge_posted.h"
#include "services/edge/http/edge_share.h"
#include "common/base/err.h"

enum {
    FORM_MS = 30000,
    LINGER_S = 5,   /* for a client that is still sending, to read the page */
    COPIES = 4      /* of a form: as it came, in one text, its parameters, and for identity */
};

/* A form that is being read. */
typedef struct edge_posted {
    ngx_http_request_t      *request;
    const edge_posted_to_t  *to;
    ngx_event_t              timer;
    ngx_connection_t         dummy;   /* of the timer, for nginx's log */
} edge_posted_t;


static void
stop_timer(void *data)
{
    edge_posted_t  *posted = data;

    if (posted->timer.timer_set) {
        ngx_del_timer(&posted->timer);
    }
}


/* What still comes of the body is thrown away. */
static void
stop_reading(ngx_http_request_t *r)
{
    ngx_connection_t  *c = r->connection;

    if (c->read->timer_set) {
        ngx_del_timer(c->read);
    }
    r->read_event_handler = ngx_http_block_reading;
    r->keepalive = 0;
    r->lingering_close = 1;
    r->lingering_time = ngx_time() + LINGER_S;
#if (NGX_HTTP_V2)
    if (r->stream) {
        r->stream->skip_data = 1;
    }
#endif
}


static void
on_late(ngx_event_t *ev)
{
    edge_posted_t       *posted = (edge_posted_t *) ((char *) ev - offsetof(edge_posted_t, timer));
    ngx_http_request_t  *r = posted->request;
    ngx_connection_t    *c = r->connection;

    if (r->header_sent || edge_ctx(r)->error) {
        return;   /* nginx has refused the body meanwhile */
    }
    ngx_http_set_log_request(c->log, r);
    stop_reading(r);
    ngx_http_finalize_request(r, posted->to->refuse(r, ERR_EDGE_FORM_LATE));
    ngx_http_run_posted_requests(c);   /* r may have been freed */
}


/* All buffers of the body in one text. NGX_OK | NGX_DECLINED: not all of it is in memory |
 * NGX_ERROR. */
static ngx_int_t
join_body(ngx_http_request_t *r, ngx_str_t *text)
{
    size_t        len;
    u_char       *last;
    ngx_chain_t  *all = r->request_body ? r->request_body->bufs : NULL, *body;

    text->len = 0;
    for (body = all; body; body = body->next) {
        if (body->buf->in_file) {
            return NGX_DECLINED;
        }
        text->len += body->buf->last - body->buf->pos;
    }
    if (text->len == 0) {
        return NGX_DECLINED;
    }
    if (all->next == NULL) {
        text->data = all->buf->pos;
        return NGX_OK;
    }
    text->data = ngx_pnalloc(r->pool, text->len);
    if (text->data == NULL) {
        return NGX_ERROR;
    }
    last = text->data;
    for (body = all; body; body = body->next) {
        len = body->buf->last - body->buf->pos;
        if (len) {   /* the last one may have no memory */
            last = ngx_cpymem(last, body->buf->pos, len);
        }
    }
    return NGX_OK;
}


static void
on_form(ngx_http_request_t *r)
{
    ngx_int_t       rc;
    ngx_str_t       text;
    edge_posted_t  *posted = edge_ctx(r)->posted;

    stop_timer(posted);
    rc = join_body(r, &text);
    if (rc == NGX_OK) {
        rc = posted->to->take(r, &text);
    } else {
        rc = rc == NGX_ERROR ? NGX_HTTP_INTERNAL_SERVER_ERROR
                             : posted->to->refuse(r, ERR_EDGE_SIGN_IN_FAILED);
    }
    ngx_http_finalize_request(r, rc);
}


static edge_posted_t *
posted_new(ngx_http_request_t *r, const edge_posted_to_t *to)
{
    edge_posted_t       *posted;
    ngx_pool_cleanup_t  *cln = ngx_pool_cleanup_add(r->pool, sizeof(edge_posted_t));

    if (cln == NULL) {
        return NULL;
    }
    posted = cln->data;
    ngx_memzero(posted, sizeof(*posted));
    posted->request = r;
    posted->to = to;
    posted->dummy.fd = -1;
    posted->timer.handler = on_late;
    posted->timer.data = &posted->dummy;
    posted->timer.log = r->connection->log;
    cln->handler = stop_timer;
    return posted;
}


/* The buffer has room for all of it: a file would make the worker wait, and keep what is in it. */
ngx_int_t
edge_posted_read(ngx_http_request_t *r, const edge_posted_to_t *to, const route_t *route)
{
    off_t                      len = r->headers_in.content_length_n;
    size_t                     usual;
    ngx_int_t                  rc;
    edge_ctx_t                *ctx = edge_ctx(r);
    ngx_http_core_loc_conf_t  *clcf;

    if (len <= 0 || len > (off_t) to->max) {
        return to->refuse(r, ERR_EDGE_SIGN_IN_FAILED);
    }
    if (!edge_share_charge_body(r, ctx, COPIES * (size_t) len, route)) {
        return to->refuse(r, ERR_EDGE_CROWDED);
    }
    ctx->posted = posted_new(r, to);
    if (ctx->posted == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    ngx_add_timer(&ctx->posted->timer, FORM_MS);
    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);
    usual = clcf->client_body_buffer_size;
    clcf->client_body_buffer_size = ngx_max(usual, to->max);
    rc = ngx_http_read_client_request_body(r, on_form);
    clcf->client_body_buffer_size = usual;
    if (rc >= NGX_HTTP_SPECIAL_RESPONSE) {
        stop_timer(ctx->posted);
        return rc;
    }
    return NGX_DONE;
}
