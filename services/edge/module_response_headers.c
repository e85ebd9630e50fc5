/* response_headers: what is taken from a response, and added to it, on its way to the client. */
#include "edge.h"


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


/* The strings belong to the route, which ctx holds. */
static ngx_int_t
filter(ngx_http_request_t *r, edge_ctx_t *ctx, const void *config)
{
    size_t            i;
    ngx_table_elt_t  *out;
    const header_t   *header;
    const headers_t  *headers = config;

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


const edge_module_t  module_response_headers = {
    .parse = headers_module_parse,
    .free = headers_module_free,
    .filter = filter,
};
