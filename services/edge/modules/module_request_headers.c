/* request_headers: removes headers from a request, and adds some, before the upstream sees it. */
#include "services/edge/http/edge_ctx.h"
#include "services/edge/http/edge_header.h"
#include "services/edge/modules/module.h"


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


/* Fields that mean nothing, or something else to each reader, where there are two: of these what
 * the route says takes the place of what is there. */
static ngx_uint_t
is_single(const header_t *header)
{
    static const char *const  names[] = {
        "traceparent", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"
    };
    ngx_uint_t  i;

    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (ngx_strcmp(header->lower, names[i]) == 0) {
            return 1;
        }
    }
    return 0;
}


/* Header strings are not copied: they belong to the route, to which ctx holds a reference. */
static ngx_int_t
run(ngx_http_request_t *r, edge_ctx_t *ctx, const void *config)
{
    size_t            i;
    const header_t   *header;
    const headers_t  *headers = config;

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
        if ((is_single(header) && hide_all(r, ctx, header) != NGX_OK)
            || edge_header_add(r, ctx, header) != NGX_OK)
        {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }
    }
    return NGX_DECLINED;
}


const edge_module_t  module_request_headers = {
    .parse = headers_module_parse,
    .free = headers_module_free,
    .beyond = headers_module_beyond,
    .run = run,
};
