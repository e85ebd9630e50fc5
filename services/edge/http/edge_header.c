/* Hides and adds headers of requests, and adds headers of responses.
 *
 * The proxy module copies the request's header list, except names that proxy_set_header manages. It
 * looks for them by hash, length and name in lower case. nginx keeps pointers into that list, so a
 * header is hidden in place: it gets these three of one of those names. Its own name stays where it
 * is, for the event: nginx ends each name with a NUL, and no name has one. */
#include "services/edge/http/edge_header.h"
#include "services/edge/http/edge_ctx.h"
#include "common/base/err.h"

static u_char  hidden_name[] = "keep-alive";


ngx_uint_t
edge_header_hidden(const ngx_table_elt_t *header)
{
    return header->lowcase_key == hidden_name;
}


ngx_int_t
edge_header_hide(ngx_http_request_t *r, edge_ctx_t *ctx, ngx_table_elt_t *header)
{
    (void) r;
    (void) ctx;
    header->key.len = sizeof(hidden_name) - 1;
    header->lowcase_key = hidden_name;
    header->hash = ngx_hash_key(hidden_name, sizeof(hidden_name) - 1);
    return NGX_OK;
}


ngx_str_t
edge_header_name(const ngx_table_elt_t *header)
{
    return edge_header_hidden(header)
           ? (ngx_str_t) { ngx_strlen(header->key.data), header->key.data } : header->key;
}


ngx_int_t
edge_header_add(ngx_http_request_t *r, edge_ctx_t *ctx, const header_t *add)
{
    ngx_table_elt_t  *header;

    if (ctx->own_part == NULL) {
        /* headers from here on are the edge's, not the client's */
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


ngx_table_elt_t **
edge_header_own(ngx_http_request_t *r, const char *lower)
{
    if (ngx_strcmp(lower, "server") == 0) {
        return &r->headers_out.server;
    }
    return ngx_strcmp(lower, "date") == 0 ? &r->headers_out.date : NULL;
}


ngx_int_t
edge_header_answer(ngx_http_request_t *r, const header_t *add)
{
    ngx_table_elt_t  *header, **own = edge_header_own(r, add->lower);

    if (ngx_strcmp(add->lower, "content-type") == 0) {
        r->headers_out.content_type.data = (u_char *) add->value;
        r->headers_out.content_type.len = add->value_len;
        r->headers_out.content_type_len = add->value_len;
        r->headers_out.charset.len = 0;
        return NGX_OK;
    }
    header = ngx_list_push(&r->headers_out.headers);
    if (header == NULL) {
        return NGX_ERROR;
    }
    ngx_memzero(header, sizeof(*header));
    if (own) {
        if (*own) {
            (*own)->hash = 0;
        }
        *own = header;
    }
    header->hash = 1;
    header->key.data = (u_char *) add->name;
    header->key.len = add->name_len;
    header->value.data = (u_char *) add->value;
    header->value.len = add->value_len;
    return NGX_OK;
}
