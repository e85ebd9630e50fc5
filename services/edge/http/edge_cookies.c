#include "services/edge/http/edge_cookies.h"
#include "services/edge/http/cookies.h"
#include "services/edge/http/edge_header.h"
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
is_ours(const void *names, const char *folded, size_t len)
{
    return cookie_names_have(names, folded, len);
}


/* nginx's own list of cookies leads to the same header, which gets another value. */
static ngx_int_t
cut_cookies(ngx_http_request_t *r, edge_ctx_t *ctx, ngx_table_elt_t *header,
    const strmap_t *names)
{
    char           *out;
    size_t          len;
    cookie_text_t   line = { (char *) header->value.data, header->value.len };

    if (!cookies_have(line, is_ours, names)) {
        return NGX_OK;
    }
    out = ngx_pnalloc(r->pool, line.len + 1);
    if (out == NULL) {
        return NGX_ERROR;
    }
    len = cookies_cut(out, line, is_ours, names);
    out[len] = '\0';
    header->value.data = (u_char *) out;
    header->value.len = len;
    return len ? NGX_OK : edge_header_hide(r, ctx, header);
}


ngx_int_t
edge_cookies_hide(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    ngx_uint_t        i;
    const char       *id = ctx->route->edge_id;
    const edge_t     *edge;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *header;

    if (!has_cookies(r)) {
        return NGX_OK;
    }
    edge = strmap_get(edge_worker_table()->edges, id, ngx_strlen(id));
    for (part = &r->headers_in.headers.part; part; part = part->next) {
        header = part->elts;
        for (i = 0; i < part->nelts; i++) {
            if (is_cookie(&header[i])
                && cut_cookies(r, ctx, &header[i], edge ? edge->cookies : NULL) != NGX_OK)
            {
                return NGX_ERROR;
            }
        }
    }
    return NGX_OK;
}
