/* Responses of the edge itself: errors, as HTML or JSON by Accept. */
#include "services/edge/http/edge_page.h"
#include "services/edge/events/edge_ring.h"
#include "services/edge/http/edge_answer.h"
#include "services/edge/http/edge_body.h"
#include "services/edge/http/edge_ctx.h"
#include "services/edge/http/edge_failover.h"
#include "services/edge/http/edge_flow_cookies.h"
#include "services/edge/http/edge_host.h"
#include "services/edge/http/edge_nonce_cookies.h"
#include "services/edge/http/edge_refused.h"
#include "services/edge/http/edge_share.h"
#include "services/edge/http/edge_suspend.h"
#include "services/edge/http/edge_text.h"
#include "services/edge/worker/edge_vitals.h"
#include "common/base/err.h"

enum {
    BARE_LINGER_S = 2,   /* for the body of a request that is charged to nobody */
    PAGE_BYTES = 4096,
    UPGRADE_REQUIRED = 426
};

static const outcome_t  rows[] = {
#define OUTCOME(name, code, status, situation, text) { code, status, #name, situation, text },
#include "proto/errors.def"
};


static const outcome_t *
find(ngx_uint_t code)
{
    ngx_uint_t  i;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if ((ngx_uint_t) rows[i].code == code) {
            return &rows[i];
        }
    }
    return find(ERR_EDGE_INTERNAL);
}


static ngx_uint_t
wants_html(ngx_http_request_t *r)
{
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *header;

    for (part = &r->headers_in.headers.part; part; part = part->next) {
        header = part->elts;
        for (i = 0; i < part->nelts; i++) {
            if (header[i].key.len == 6
                && ngx_memcmp(header[i].lowcase_key, "accept", 6) == 0)
            {
                return ngx_strcasestrn(header[i].value.data, "text/html", 8)
                       != NULL;
            }
        }
    }
    return 0;
}


static ngx_int_t
add_header(ngx_http_request_t *r, char *name, char *value)
{
    ngx_table_elt_t  *h = ngx_list_push(&r->headers_out.headers);

    if (h == NULL) {
        return NGX_ERROR;
    }
    ngx_memzero(h, sizeof(*h));
    h->hash = 1;
    h->key.data = (u_char *) name;
    h->key.len = ngx_strlen(name);
    h->value.data = (u_char *) value;
    h->value.len = ngx_strlen(value);
    return NGX_OK;
}


/* What the page says is in a field of the head, too, for those that read no page or get none. */
static ngx_int_t
add_error_code(ngx_http_request_t *r, const edge_ctx_t *ctx)
{
    char  *text = ngx_pnalloc(r->pool, EDGE_ERROR_BYTES);

    if (text == NULL) {
        return NGX_ERROR;
    }
    edge_error_text(ctx->error, text);
    return add_header(r, "Postern-Error-Code", text);
}


/* The error for a failure of the proxy, or for a request that nginx refused. */
static ngx_uint_t
error_code(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    if (ctx->bad_tls) {
        return ERR_EDGE_BAD_TLS;
    }
    switch (r->err_status) {
    case NGX_HTTP_GATEWAY_TIME_OUT:
        return ERR_EDGE_TIMEOUT;
    case NGX_HTTP_BAD_GATEWAY:
        return ERR_EDGE_REFUSED;
    default:
        return edge_refused_code(r);
    }
}


/* What a status asks for beside the page (RFC 9110 15.5.6 and 15.5.22, RFC 6455 4.4). */
static ngx_int_t
add_status_headers(ngx_http_request_t *r, ngx_uint_t status)
{
    switch (status) {
    case NGX_HTTP_NOT_ALLOWED:
        return add_header(r, "Allow",
                          "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
    case UPGRADE_REQUIRED:
        if (add_header(r, "Upgrade", "websocket") != NGX_OK
            || add_header(r, "Connection", "upgrade") != NGX_OK)
        {
            return NGX_ERROR;
        }
        return add_header(r, "Sec-WebSocket-Version", "13");
    default:
        return NGX_OK;
    }
}


static ngx_uint_t
is_sign_in(ngx_uint_t code)
{
    return code == ERR_EDGE_SIGN_IN_DENIED || code == ERR_EDGE_SIGN_IN_FAILED
           || code == ERR_EDGE_SIGN_IN_UNAVAILABLE || code == ERR_EDGE_SIGN_IN_PATH
           || code == ERR_EDGE_SIGN_OUT_UNASKED;
}


/* Pages on the way of a sign-in: nobody frames them, and nobody is told where they were. */
static ngx_int_t
add_sign_in_headers(ngx_http_request_t *r, ngx_uint_t code)
{
    if (code == ERR_EDGE_SIGN_IN_UNAVAILABLE
        && add_header(r, "Retry-After", "5") != NGX_OK)
    {
        return NGX_ERROR;
    }
    if (!is_sign_in(code)) {
        return NGX_OK;
    }
    if (add_header(r, "Referrer-Policy", "no-referrer") != NGX_OK
        || add_header(r, "X-Content-Type-Options", "nosniff") != NGX_OK)
    {
        return NGX_ERROR;
    }
    return add_header(r, "Content-Security-Policy",
                      "default-src 'none'; style-src 'unsafe-inline'; "
                      "frame-ancestors 'none'; base-uri 'none'; form-action 'none'");
}


static ngx_uint_t
goes_on(const edge_ctx_t *ctx)
{
    return ctx->onward.len && ctx->error == ERR_EDGE_SIGN_IN_FAILED;
}


/* A page that tries again, or goes on, by itself, where a browser asked for it and may ask again;
 * ctx->onward has nothing that HTML knows. */
static u_char *
write_refresh(u_char *p, u_char *end, ngx_http_request_t *r, const edge_ctx_t *ctx)
{
    if (r->method != NGX_HTTP_GET) {
        return p;
    }
    if (goes_on(ctx)) {
        return ngx_slprintf(p, end, "<meta http-equiv=\"refresh\" content=\"%ui;url=%V\">",
                            ctx->onward_s, &ctx->onward);
    }
    return ctx->error == ERR_EDGE_SIGN_IN_UNAVAILABLE
           ? ngx_slprintf(p, end, "<meta http-equiv=\"refresh\" content=\"5\">") : p;
}


/* What the page offers beside its text; ctx->again has nothing that HTML knows. */
static u_char *
write_offer(u_char *p, u_char *end, const edge_ctx_t *ctx)
{
    const char  *what = "Sign in again";

    if (goes_on(ctx)) {
        p = ngx_slprintf(p, end, "<p>If you are signing in in another tab, this one goes on by "
                                 "itself in a moment.</p>");
    }
    if (ctx->again.len == 0 || !is_sign_in(ctx->error)) {
        return p;
    }
    if (ctx->error == ERR_EDGE_SIGN_OUT_UNASKED) {
        what = "Sign out";
    } else if (ctx->error == ERR_EDGE_SIGN_IN_DENIED) {
        what = "Sign in as somebody else";
    }
    return ngx_slprintf(p, end, "<p><a href=\"%V\">%s</a></p>", &ctx->again, what);
}


/* A request that is refused because there are too many of its client or account gets no page, which
 * they might not take: a head, and where that would have to wait for the client nothing. */
static ngx_int_t
send_bare(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    ngx_int_t  rc;

    r->headers_out.status = find(ctx->error)->status;
    r->err_status = 0;
    r->keepalive = 0;
    if (!edge_share_may_answer(r, ctx)) {
        return NGX_HTTP_CLOSE;
    }
    edge_body_discard(r, ctx);
    if (add_header(r, "Cache-Control", "no-store") != NGX_OK
        || add_error_code(r, ctx) != NGX_OK
        || add_header(r, "Retry-After", "1") != NGX_OK)
    {
        return NGX_HTTP_CLOSE;
    }
    r->headers_out.content_length_n = 0;
    r->header_only = 1;
    rc = ngx_http_send_header(r);
    edge_share_note_answered(r, ctx);
    return rc;
}


/* The upstream failed: an honest client, who knows nothing of that, may still be sending. */
static ngx_uint_t
is_upstreams(ngx_uint_t code)
{
    return code == ERR_EDGE_REFUSED || code == ERR_EDGE_TIMEOUT || code == ERR_EDGE_BAD_TLS;
}


/* Whoever is refused goes on sending for as long as it likes, and until then its request lasts. So
 * the event has the time of now, and what is sent from now on is read for a short while. */
static void
note_refused(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    ngx_time_t  *now = ngx_timeofday();

    ctx->refused_at = (uint64_t) now->sec * 1000 + now->msec;
    if (!is_upstreams(ctx->error)) {
        edge_body_linger(r, ctx->crowded ? BARE_LINGER_S : EDGE_BODY_LINGER_S);
    }
}


/* A head that is too long may be so because of what the edge had the browser keep. */
static ngx_int_t
clear_cookies(ngx_http_request_t *r)
{
    ngx_str_t  host = edge_host_asked(r);

    return edge_flow_cookies_clear(r, &host) == NGX_OK ? edge_nonces_clear(r, &host) : NGX_ERROR;
}


static u_char *
write_html(u_char *p, u_char *end, ngx_http_request_t *r, const edge_ctx_t *ctx,
    const outcome_t *row, ngx_uint_t status)
{
    p = ngx_slprintf(p, end, "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">"
                             "<meta name=\"viewport\" content=\"width=device-width\">");
    p = write_refresh(p, end, r, ctx);
    p = ngx_slprintf(p, end,
        "<title>%ui</title><style>body{font:16px/1.5 sans-serif;margin:15vh "
        "auto;max-width:34em;padding:0 1em}code{color:#666}</style>"
        "<h1>%s</h1><p><code>ERR_POSTERN_%d</code></p>"
        "<p><code>%s</code></p>",
        status, row->text, row->code, ctx->request_id);
    p = write_offer(p, end, ctx);
    return ngx_slprintf(p, end, "</html>\n");
}


/* Content handler, and error_page target for failures of the proxy. The page repeats nothing of the
 * request. */
ngx_int_t
edge_error_handler(ngx_http_request_t *r)
{
    u_char           *text, *last;
    ngx_uint_t        status;
    edge_ctx_t       *ctx = edge_ctx(r);
    const outcome_t  *row;

    if (ctx == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    if (ctx->answers && ctx->error == 0) {
        r->err_status = 0;
        return edge_answer(r);
    }
    if (ctx->failover) {
        edge_failover_leave(ctx);   /* the request may last, until its client has sent all */
    }
    edge_suspend_abort(ctx);   /* nginx may have refused its body while it waited */
    if (ctx->error == 0) {
        ctx->error = error_code(r, ctx);
    }
    if (ctx->refused) {
        r->expect_tested = 1;   /* a refused request gets no 100 Continue */
    }
    note_refused(r, ctx);
    if (ctx->crowded) {
        return send_bare(r, ctx);
    }
    row = find(ctx->error);
    status = ctx->status ? ctx->status : (ngx_uint_t) row->status;
    edge_body_discard(r, ctx);
    text = ngx_pnalloc(r->pool, PAGE_BYTES);
    if (text == NULL
        || add_header(r, "Cache-Control", "no-store") != NGX_OK
        || add_error_code(r, ctx) != NGX_OK
        || add_status_headers(r, status) != NGX_OK
        || add_sign_in_headers(r, ctx->error) != NGX_OK
        || (ctx->error == ERR_EDGE_HEADER_TOO_LARGE && clear_cookies(r) != NGX_OK))
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    r->err_status = 0;
    if (wants_html(r)) {
        last = write_html(text, text + PAGE_BYTES, r, ctx, row, status);
        return edge_text_send(r, status, "text/html; charset=utf-8", text,
                         last - text);
    }
    last = ngx_snprintf(text, PAGE_BYTES,
        "{\"error_code\":\"ERR_POSTERN_%d\",\"status_code\":%ui,\"msg\":\"%s\","
        "\"details\":{\"request_id\":\"%s\"}}\n",
        row->code, status, row->text, ctx->request_id);
    return edge_text_send(r, status, "application/json", text, last - text);
}


/* Denies by replacing the content handler: the proxy does not run. */
ngx_int_t
edge_page(ngx_http_request_t *r, edge_ctx_t *ctx, ngx_uint_t code)
{
    ctx->error = code;
    r->content_handler = edge_error_handler;
    return NGX_OK;   /* the next module must not run */
}
