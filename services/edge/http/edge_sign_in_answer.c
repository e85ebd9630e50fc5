#include "services/edge/http/edge_sign_in_answer.h"
#include "services/edge/http/cookies.h"
#include "services/edge/http/edge_body.h"
#include "services/edge/http/edge_header.h"
#include "services/edge/http/edge_sign_in_url.h"
#include "services/edge/http/edge_text.h"
#include "services/edge/modules/module.h"
#include "services/edge/table/document.h"
#include "common/base/err.h"
#include "common/base/utf8.h"

#include <ctype.h>
#include <string.h>

#define DONE  "/auth/done"

#define SIGN_IN_BITS  (1u << MODULE_OAUTH | 1u << MODULE_OIDC | 1u << MODULE_SAML)

enum { BETWEEN = 64 /* what a pair has beside its text */ };


void
edge_sign_in_conceal(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    u_char  *mark;

    ctx->concealed = 1;
    /* nginx's own lines of the error log repeat the request line */
    mark = ngx_strlchr(r->request_line.data,
                       r->request_line.data + r->request_line.len, '?');
    if (mark) {
        r->request_line.len = mark - r->request_line.data;
    }
}


/* As it was received: a browser sends what Location said. */
static ngx_uint_t
is_done(const ngx_http_request_t *r)
{
    size_t         len;
    const u_char  *mark;

    mark = ngx_strlchr(r->unparsed_uri.data, r->unparsed_uri.data + r->unparsed_uri.len, '?');
    len = mark ? (size_t) (mark - r->unparsed_uri.data) : 0;
    return len >= sizeof(DONE) - 1
           && ngx_memcmp(mark - (sizeof(DONE) - 1), DONE, sizeof(DONE) - 1) == 0;
}


void
edge_sign_in_conceal_early(ngx_http_request_t *r, edge_ctx_t *ctx, const edge_t *edge)
{
    if (edge_sign_in_url_is(ctx) || ((edge == NULL || edge->signing_in) && is_done(r))) {
        edge_sign_in_conceal(r, ctx);
    }
}


/* Requests with a query of another length cost nothing more. */
ngx_uint_t
edge_sign_in_is_stray(const ngx_http_request_t *r, const route_t *route)
{
    static const char  code[] = "code=postern-";
    const size_t       len = sizeof(code) - 1;

    return r->args.len == len + COOKIE_TOKEN_LEN && (route->enabled & SIGN_IN_BITS) == 0
           && ngx_memcmp(r->args.data, code, len) == 0 && is_done(r)
           && cookies_is_token((cookie_text_t) { (char *) r->args.data + len, COOKIE_TOKEN_LEN });
}


static ngx_int_t
add_header(ngx_http_request_t *r, const char *name, const char *value, size_t len)
{
    const header_t  add = {
        .name = (char *) name, .name_len = ngx_strlen(name), .lower = "",
        .value = (char *) value, .value_len = len
    };

    return edge_header_answer(r, &add);
}


#define ADD(name, value)  add_header(r, name, value, sizeof(value) - 1)


ngx_int_t
edge_sign_in_set_cookie(ngx_http_request_t *r, const ngx_str_t *name,
    const ngx_str_t *value, const char *attributes)
{
    size_t   size = name->len + value->len + ngx_strlen(attributes) + 64;
    u_char  *text = ngx_pnalloc(r->pool, size), *last;

    if (text == NULL) {
        return NGX_ERROR;
    }
    last = ngx_snprintf(text, size, "%V=%V; Path=/; Secure; HttpOnly%s%s", name,
                        value, value->len ? "" : "; Max-Age=0", attributes);
    return add_header(r, "Set-Cookie", (char *) text, last - text);
}


#define POLICY                                                                \
    "default-src 'none'; style-src 'unsafe-inline'; "                         \
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"


/* Not to be kept by anybody, framed by anybody, or told to whoever is visited next. */
static ngx_int_t
add_guards(ngx_http_request_t *r, const char *policy)
{
    if (ADD("Cache-Control", "no-store") != NGX_OK
        || ADD("Referrer-Policy", "no-referrer") != NGX_OK
        || ADD("X-Content-Type-Options", "nosniff") != NGX_OK)
    {
        return NGX_ERROR;
    }
    return add_header(r, "Content-Security-Policy", policy, ngx_strlen(policy));
}


/* nginx makes a Location of its own of one that has no host. */
ngx_int_t
edge_sign_in_redirect(ngx_http_request_t *r, edge_ctx_t *ctx,
    const ngx_str_t *location)
{
    ngx_int_t         rc;
    ngx_table_elt_t  *header;

    rc = edge_body_discard(r, ctx);
    if (rc != NGX_OK) {
        return rc;
    }
    ngx_http_clear_location(r);
    header = ngx_list_push(&r->headers_out.headers);
    if (header == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    ngx_memzero(header, sizeof(*header));
    header->hash = 1;
    ngx_str_set(&header->key, "Location");
    header->value = *location;
    r->headers_out.location = header;
    if (add_guards(r, POLICY) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    r->headers_out.status = NGX_HTTP_MOVED_TEMPORARILY;
    r->headers_out.content_length_n = 0;
    r->header_only = 1;
    return ngx_http_send_header(r);
}


ngx_int_t
edge_sign_in_page(ngx_http_request_t *r, edge_ctx_t *ctx, ngx_str_t *html)
{
    return edge_sign_in_document(r, ctx, html, "text/html; charset=utf-8", POLICY);
}


ngx_int_t
edge_sign_in_document(ngx_http_request_t *r, edge_ctx_t *ctx, ngx_str_t *text,
    const char *type, const char *policy)
{
    ngx_int_t  rc;

    rc = edge_body_discard(r, ctx);
    if (rc != NGX_OK) {
        return rc;
    }
    if (add_guards(r, policy ? policy : POLICY) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    return edge_text_send(r, NGX_HTTP_OK, type, text->data, text->len);
}


/* Of what paths and hosts are made of, all that HTML leaves as it is. */
static ngx_uint_t
is_plain(const char *text, size_t len)
{
    size_t  i;

    for (i = 0; i < len; i++) {
        if (!isalnum((u_char) text[i]) && strchr("/._~-:[]%", text[i]) == NULL) {
            return 0;
        }
    }
    return 1;
}


/* A URL of the route: its own path without a slash at its end, and more. Empty: no memory, or it
 * would have to be written otherwise in HTML. */
static ngx_str_t
plain_url(ngx_pool_t *pool, const route_t *route, const ngx_str_t *authority, const char *more,
    const char *rest)
{
    size_t       len;
    ngx_str_t    out = ngx_null_string;
    const char  *prefix = route->match ? route->match + route->host_len : "";

    len = ngx_strlen(prefix);
    if (len && prefix[len - 1] == '/') {
        len--;
    }
    if (authority->len == 0 || authority->len > 300 || len > 1024
        || !is_plain((char *) authority->data, authority->len)
        || !is_plain(prefix, len))
    {
        return out;
    }
    out.data = ngx_pnalloc(pool, authority->len + len + 64);
    if (out.data) {
        out.len = ngx_sprintf(out.data, "https://%V%*s%s%s", authority, len, prefix, more, rest)
                  - out.data;
    }
    return out;
}


void
edge_sign_in_offer(ngx_http_request_t *r, edge_ctx_t *ctx, const route_t *route,
    const ngx_str_t *authority, const char *path)
{
    ctx->again = plain_url(r->pool, route, authority, "/auth/", path);
}


void
edge_sign_in_go_round(ngx_http_request_t *r, edge_ctx_t *ctx, const route_t *route,
    const ngx_str_t *authority)
{
    size_t       len;
    const char  *prefix = route->match ? route->match + route->host_len : "";

    len = ngx_strlen(prefix);
    ctx->onward = plain_url(r->pool, route, authority,
                            len == 0 || prefix[len - 1] == '/' ? "/" : "", "");
}


ngx_uint_t
edge_sign_in_error(int code)
{
    switch (code) {
    case ERR_SIGN_IN_DENIED:
        return ERR_EDGE_SIGN_IN_DENIED;
    case ERR_SIGN_IN_STATE:
    case ERR_SIGN_IN_CODE:
    case ERR_SIGN_IN_PROVIDER:
        return ERR_EDGE_SIGN_IN_FAILED;
    default:   /* the provider or identity cannot be reached, or nobody knows what it is */
        return ERR_EDGE_SIGN_IN_UNAVAILABLE;
    }
}


const msgpack_object *
edge_sign_in_member(const ask_answer_t *answer, const char *key)
{
    return answer->body ? document_get(answer->body, key) : NULL;
}


ngx_str_t
edge_sign_in_text(ngx_pool_t *pool, const ask_answer_t *answer, const char *key,
    size_t max)
{
    size_t                 i;
    ngx_str_t              none = ngx_null_string, out;
    const msgpack_object  *value;

    value = answer->body ? document_get(answer->body, key) : NULL;
    if (value == NULL || value->type != MSGPACK_OBJECT_STR
        || value->via.str.size == 0 || value->via.str.size > max)
    {
        return none;
    }
    for (i = 0; i < value->via.str.size; i++) {
        if ((u_char) value->via.str.ptr[i] <= 0x20
            || (u_char) value->via.str.ptr[i] >= 0x7f)
        {
            return none;
        }
    }
    out.len = value->via.str.size;
    out.data = ngx_pnalloc(pool, out.len);
    if (out.data == NULL) {
        return none;
    }
    ngx_memcpy(out.data, value->via.str.ptr, out.len);
    return out;
}


/* ---- questions ---- */

ngx_int_t
edge_sign_in_body(ngx_pool_t *pool, pack_t *pk, u_char **start, size_t size,
    size_t pairs)
{
    size += BETWEEN * (pairs + 1);
    *start = ngx_palloc(pool, size);
    if (*start == NULL) {
        return NGX_ERROR;
    }
    *pk = (pack_t) { *start, *start + size, false };
    pack_map(pk, pairs);
    return NGX_OK;
}


void
edge_sign_in_put(pack_t *pk, const char *key, const void *text, size_t len)
{
    pack_str(pk, key, ngx_strlen(key));
    edge_sign_in_put_value(pk, text, len);
}


static void
put_text_head(pack_t *pk, size_t len)
{
    if (len <= UINT16_MAX) {
        pack_str_head(pk, len);
    } else {
        pack_number(pk, 0xdb, len, 4);
    }
}


void
edge_sign_in_put_head(pack_t *pk, const char *key, size_t len)
{
    pack_str(pk, key, ngx_strlen(key));
    put_text_head(pk, len);
}


void
edge_sign_in_put_value(pack_t *pk, const void *text, size_t len)
{
    put_text_head(pk, len);
    pack_append(pk, text, len);
}


void
edge_sign_in_put_clean(pack_t *pk, const char *key, const ngx_str_t *text,
    size_t max)
{
    size_t   n, len = ngx_min(text->len, max), i;
    u_char  *end = text->data + len, *p = text->data;

    pack_str(pk, key, ngx_strlen(key));
    pack_str_head(pk, len);
    while (p < end) {
        n = *p ? utf8_character(p, end) : 0;
        if (n == 0) {
            pack_byte(pk, '?');
            p++;
            continue;
        }
        for (i = 0; i < n; i++) {
            pack_byte(pk, *p++);
        }
    }
}
