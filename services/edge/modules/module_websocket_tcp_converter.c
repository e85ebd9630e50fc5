/* websocket_tcp_converter: a route that takes WebSockets only, and carries the bytes of their
 * messages to the backend's TCP port. Here is who gets in; edge_converter.c is what happens
 * then. What is open when the module is put on or off ends (edge_streams.c). */
#include "common/base/err.h"
#include "services/edge/http/edge_ctx.h"
#include "services/edge/modules/edge_converter.h"
#include "services/edge/modules/module.h"

/* The fields of a handshake. Each must be there once. */
typedef struct {
    const ngx_table_elt_t  *key, *version;
    ngx_uint_t              keys, versions;
} fields_t;

static const char *const  counters[] = {
    [EDGE_CONVERTER_OPENED] = "opened",
    [EDGE_CONVERTER_FAILED] = "failed",
    NULL
};


#define is_named(header, name)                                                \
    ((header)->key.len == sizeof(name) - 1                                    \
     && ngx_memcmp((header)->lowcase_key, name, sizeof(name) - 1) == 0)


static void
find_fields(ngx_http_request_t *r, fields_t *fields)
{
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *header;

    ngx_memzero(fields, sizeof(*fields));
    for (part = &r->headers_in.headers.part; part; part = part->next) {
        header = part->elts;
        for (i = 0; i < part->nelts; i++) {
            if (is_named(&header[i], "sec-websocket-key")) {
                fields->key = &header[i];
                fields->keys++;
            } else if (is_named(&header[i], "sec-websocket-version")) {
                fields->version = &header[i];
                fields->versions++;
            }
        }
    }
}


/* RFC 6455 4.2.1. 0, or the error of the page. */
static ngx_uint_t
handshake_fault(ngx_http_request_t *r, const edge_ctx_t *ctx,
    const fields_t *fields)
{
    const ngx_str_t  *version;

    if (!ctx->upgrade || r->headers_in.chunked
        || r->headers_in.content_length_n > 0 || fields->versions != 1)
    {
        return ERR_EDGE_WEBSOCKET;
    }
    version = &fields->version->value;
    if (version->len != 2 || ngx_memcmp(version->data, "13", 2) != 0) {
        return ERR_EDGE_WEBSOCKET_VERSION;
    }
    return fields->keys == 1
           && websocket_key_is_valid((char *) fields->key->value.data,
                                     fields->key->value.len)
           ? 0 : ERR_EDGE_WEBSOCKET;
}


static intptr_t
take_handshake(ngx_http_request_t *r, edge_ctx_t *ctx, const void *config)
{
    fields_t           fields;
    ngx_uint_t         code;
    edge_converter_t  *self;

    (void) config;
    find_fields(r, &fields);
    code = handshake_fault(r, ctx, &fields);
    if (code == 0 && ctx->backend->http_response) {
        code = ERR_EDGE_WEBSOCKET_BACKEND;
    }
    if (code) {
        return edge_deny(r, ctx, MODULE_WEBSOCKET_TCP_CONVERTER, code, 0);
    }
    self = edge_module_state(r, ctx, MODULE_WEBSOCKET_TCP_CONVERTER);
    if (self == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    self->key = fields.key->value;
    edge_converter_prepare(ctx);
    return NGX_DECLINED;
}


static void
free_converter(void *state)
{
    edge_converter_end(state);
}


const edge_module_t  module_websocket_tcp_converter = {
    .state_size = sizeof(edge_converter_t),
    .clean = free_converter,
    .run = take_handshake,
    .counters = counters,
};
