/* Header fields of requests and responses. */
#pragma once

#include "services/edge/http/edge_ctx.h"

/* Keep a client's header from the upstream, at no cost of memory; it stays in the event, under its
 * name. NGX_OK. */
ngx_int_t edge_header_hide(ngx_http_request_t *r, edge_ctx_t *ctx, ngx_table_elt_t *header);
/* Add a header to the request, after all of the client's. Its strings must live as long as the
 * request. NGX_OK | NGX_ERROR. */
ngx_int_t edge_header_add(ngx_http_request_t *r, edge_ctx_t *ctx, const header_t *add);
/* Where nginx looks for the header of a response that it writes itself where there is none there:
 * Server, Date. lower: a name in lower case. NULL: it is another header. */
ngx_table_elt_t **edge_header_own(ngx_http_request_t *r, const char *lower);
/* Add a header to the response; Content-Type, Server and Date are replaced. Its strings must live
 * as long as the request. NGX_OK | NGX_ERROR. */
ngx_int_t edge_header_answer(ngx_http_request_t *r, const header_t *add);
/* Was the header hidden by edge_header_hide? Then key is not its name. */
ngx_uint_t edge_header_hidden(const ngx_table_elt_t *header);
/* The name of a header of the request as it came, hidden or not. */
ngx_str_t edge_header_name(const ngx_table_elt_t *header);
