#include "services/edge/http/edge_cookies.h"
#include "services/edge/http/cookies.h"
#include "services/edge/http/edge_header.h"
#include "services/edge/http/edge_kept_back.h"
#include "services/edge/table/cookie_names.h"
#include "services/edge/worker/edge_worker.h"


static ngx_uint_t
is_cookie(const ngx_table_elt_t *header)
{
    return header->key.len == sizeof("cookie") - 1
           && ngx_memcmp(header->lowcase_key, "cookie", sizeof("cookie") - 1) == 0;
}


static ngx_uint_t
has_cookies(const ngx_http_request_t *r)
{
#if (nginx_version >= 1023000)
    return r->headers_in.cookie != NULL;
#else
    return r->headers_in.cookies.nelts > 0;
#endif
}


static bool
is_ours(const void *names, const char *folded, size_t len, bool has_token)
{
    return cookie_names_have(names, folded, len, has_token);
}


/* Cuts a header in place: modules have read their cookies by now. One that the edge has added is
 * the route's, which other requests have, too. */
static ngx_int_t
cut_cookies(ngx_http_request_t *r, edge_ctx_t *ctx, ngx_table_elt_t *header,
    const strmap_t *names, ngx_uint_t is_own)
{
    char           *out = (char *) header->value.data;
    size_t          len;
    cookie_text_t   line = { out, header->value.len };

    if (!cookies_have(line, is_ours, names)) {
        return NGX_OK;
    }
    if (is_own) {
        out = ngx_pnalloc(r->pool, line.len);
        if (out == NULL) {
            return NGX_ERROR;
        }
    }
    len = cookies_cut(out, line, is_ours, names);
    header->value.data = (u_char *) out;
    header->value.len = len;
    return len ? NGX_OK : edge_header_hide(r, ctx, header);
}


static const strmap_t *
names_of(const edge_ctx_t *ctx)
{
    const char    *id = ctx->route->edge_id;
    const edge_t  *edge = strmap_get(edge_worker_table()->edges, id, ngx_strlen(id));

    return edge ? edge->cookies : NULL;
}


ngx_int_t
edge_cookies_hide(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    ngx_uint_t        i, is_own, behind = 0;
    const strmap_t   *names;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *header;

    if (!has_cookies(r)) {
        return NGX_OK;
    }
    names = names_of(ctx);
    for (part = &r->headers_in.headers.part; part; part = part->next) {
        header = part->elts;
        for (i = 0; i < part->nelts; i++) {
            is_own = behind || (part == ctx->own_part && i >= ctx->own_index);
            if (is_cookie(&header[i])
                && cut_cookies(r, ctx, &header[i], names, is_own) != NGX_OK)
            {
                return NGX_ERROR;
            }
        }
        behind |= part == ctx->own_part;
    }
    return NGX_OK;
}


ngx_uint_t
edge_cookies_sets(const edge_ctx_t *ctx, const char *value, size_t len)
{
    const char     *end = memchr(value, ';', len);   /* attributes follow: RFC 6265 4.1.1 */
    cookie_text_t   line = { value, end ? (size_t) (end - value) : len };

    return cookies_have(line, is_ours, names_of(ctx));
}


/* nginx sends no field whose hash is 0. */
void
edge_cookies_refuse(ngx_http_request_t *r, const edge_ctx_t *ctx)
{
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *field;

    for (part = &r->headers_out.headers.part; part; part = part->next) {
        field = part->elts;
        for (i = 0; i < part->nelts; i++) {
            if (field[i].hash && field[i].key.len == sizeof("Set-Cookie") - 1
                && ngx_strncasecmp(field[i].key.data, (u_char *) "Set-Cookie",
                                   sizeof("Set-Cookie") - 1) == 0
                && edge_cookies_sets(ctx, (char *) field[i].value.data, field[i].value.len))
            {
                field[i].hash = 0;
                edge_kept_back(r, ctx->route, &field[i].value);
            }
        }
    }
}
