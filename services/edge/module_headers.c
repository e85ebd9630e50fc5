/* request_headers and response_headers, and the means to edit headers.
 *
 * The proxy module copies the request's header list, except names that proxy_set_header manages.
 * nginx keeps pointers into that list, so a header is hidden in place: it gets one of those names. */
#include "edge.h"
#include "common/err.h"

static u_char  hidden_name[] = "keep-alive";


ngx_uint_t
edge_header_hidden(const ngx_table_elt_t *header)
{
    return header->lowcase_key == hidden_name;
}


ngx_int_t
edge_header_hide(ngx_http_request_t *r, edge_ctx_t *ctx,
    ngx_table_elt_t *header)
{
    ngx_table_elt_t  *copy;

    if (edge_header_hidden(header)) {
        return NGX_OK;
    }
    if (ctx->hidden == NULL) {
        ctx->hidden = ngx_array_create(r->pool, 4, sizeof(ngx_table_elt_t));
        if (ctx->hidden == NULL) {
            return NGX_ERROR;
        }
    }
    copy = ngx_array_push(ctx->hidden);
    if (copy == NULL) {
        return NGX_ERROR;
    }
    *copy = *header;
    header->key.data = hidden_name;
    header->key.len = sizeof(hidden_name) - 1;
    header->lowcase_key = hidden_name;
    header->hash = ngx_hash_key(hidden_name, sizeof(hidden_name) - 1);
    return NGX_OK;
}


ngx_int_t
edge_header_add(ngx_http_request_t *r, edge_ctx_t *ctx, const header_t *add)
{
    ngx_table_elt_t  *header;

    if (ctx->own_part == NULL) {
        /* the client's headers end here */
        ctx->own_part = r->headers_in.headers.last;
        ctx->own_index = ctx->own_part->nelts;
    }
    header = ngx_list_push(&r->headers_in.headers);
    if (header == NULL) {
        return NGX_ERROR;
    }
    ngx_memzero(header, sizeof(*header));
    header->key.data = (u_char *) add->name;
    header->key.len = add->name_len;
    header->value.data = (u_char *) add->value;
    header->value.len = add->value_len;
    header->lowcase_key = (u_char *) add->lower;
    header->hash = add->hash;
    return NGX_OK;
}


static ngx_int_t
hide_all(ngx_http_request_t *r, edge_ctx_t *ctx, const header_t *name)
{
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *header;

    for (part = &r->headers_in.headers.part; part; part = part->next) {
        header = part->elts;
        for (i = 0; i < part->nelts; i++) {
            if (header[i].key.len == name->name_len
                && ngx_memcmp(header[i].lowcase_key, name->lower,
                              name->name_len) == 0
                && edge_header_hide(r, ctx, &header[i]) != NGX_OK)
            {
                return NGX_ERROR;
            }
        }
    }
    return NGX_OK;
}


/* The strings belong to the route, which ctx holds. */
ngx_int_t
module_request_headers_run(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    size_t            i;
    const header_t   *header;
    const headers_t  *headers = &ctx->route->request_headers;

    for (i = 0; i < headers->remove_count; i++) {
        if (hide_all(r, ctx, &headers->remove[i]) != NGX_OK) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }
    }
    for (i = 0; i < headers->add_count; i++) {
        header = &headers->add[i];
        if (ngx_strcmp(header->lower, "host") == 0) {
            ctx->upstream_host.data = (u_char *) header->value;
            ctx->upstream_host.len = header->value_len;
            continue;
        }
        if (edge_header_add(r, ctx, header) != NGX_OK) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }
    }
    return NGX_DECLINED;
}


static void
remove_response(ngx_http_request_t *r, const header_t *name)
{
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *header;

    if (ngx_strcmp(name->lower, "content-type") == 0) {
        r->headers_out.content_type.len = 0;
        r->headers_out.content_type_len = 0;
    }
    if (ngx_strcmp(name->lower, "last-modified") == 0) {
        ngx_http_clear_last_modified(r);
    }
    for (part = &r->headers_out.headers.part; part; part = part->next) {
        header = part->elts;
        for (i = 0; i < part->nelts; i++) {
            if (header[i].hash && header[i].key.len == name->name_len
                && ngx_strncasecmp(header[i].key.data, (u_char *) name->lower,
                                   name->name_len) == 0)
            {
                header[i].hash = 0;
            }
        }
    }
}


ngx_int_t
module_response_headers_filter(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    size_t            i;
    ngx_table_elt_t  *out;
    const header_t   *header;
    const headers_t  *headers = &ctx->route->response_headers;

    for (i = 0; i < headers->remove_count; i++) {
        remove_response(r, &headers->remove[i]);
    }
    for (i = 0; i < headers->add_count; i++) {
        header = &headers->add[i];
        if (ngx_strcmp(header->lower, "content-type") == 0) {
            r->headers_out.content_type.data = (u_char *) header->value;
            r->headers_out.content_type.len = header->value_len;
            r->headers_out.content_type_len = header->value_len;
            r->headers_out.charset.len = 0;
            continue;
        }
        out = ngx_list_push(&r->headers_out.headers);
        if (out == NULL) {
            return NGX_ERROR;
        }
        ngx_memzero(out, sizeof(*out));
        out->hash = 1;
        out->key.data = (u_char *) header->name;
        out->key.len = header->name_len;
        out->value.data = (u_char *) header->value;
        out->value.len = header->value_len;
    }
    return NGX_OK;
}
