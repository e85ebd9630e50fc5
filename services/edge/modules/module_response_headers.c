/* response_headers: removes headers from a response, and adds some, on its way to the client. */
#include "services/edge/http/edge_ctx.h"
#include "services/edge/http/edge_header.h"
#include "services/edge/modules/module.h"
#include "services/edge/modules/module_response_headers.h"
#include "services/edge/table/table.h"


static ngx_table_elt_t  nothing;   /* in the place of a header that nginx is not to write */


static void
remove_response(ngx_http_request_t *r, const header_t *name)
{
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *header, **own = edge_header_own(r, name->lower);

    if (own) {
        *own = &nothing;
    }
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


ngx_uint_t
edge_response_removes(const route_t *route, const char *name, size_t len)
{
    size_t            i;
    const headers_t  *headers;

    if (route == NULL
        || (route->enabled & (1u << MODULE_RESPONSE_HEADERS)) == 0)
    {
        return 0;
    }
    headers = route->configs[MODULE_RESPONSE_HEADERS];
    for (i = 0; i < headers->remove_count; i++) {
        if (headers->remove[i].name_len == len
            && ngx_strncasecmp((u_char *) headers->remove[i].lower,
                               (u_char *) name, len) == 0)
        {
            return 1;
        }
    }
    return 0;
}


/* Header strings are not copied: they belong to the route, to which ctx holds a reference. */
static ngx_int_t
response_header(ngx_http_request_t *r, edge_ctx_t *ctx, const void *config)
{
    size_t            i;
    const headers_t  *headers = config;

    for (i = 0; i < headers->remove_count; i++) {
        remove_response(r, &headers->remove[i]);
    }
    for (i = 0; i < headers->add_count; i++) {
        if (edge_header_answer(r, &headers->add[i]) != NGX_OK) {
            return NGX_ERROR;
        }
    }
    return NGX_OK;
}


const edge_module_t  module_response_headers = {
    .parse = headers_module_parse,
    .free = headers_module_free,
    .beyond = headers_module_beyond,
    .response_header = response_header,
};
