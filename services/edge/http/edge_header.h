/* Header fields of requests and responses. */
#pragma once

#include "services/edge/http/edge_ctx.h"

/* Keep a client's header from the upstream; it stays in the event. */
ngx_int_t edge_header_hide(ngx_http_request_t *r, edge_ctx_t *ctx, ngx_table_elt_t *header);
/* Add one of ours, after all of the client's. The strings must live as long as the request. */
ngx_int_t edge_header_add(ngx_http_request_t *r, edge_ctx_t *ctx, const header_t *add);
/* Add one to the response; the type of its content replaces what was there. The strings as above. */
ngx_int_t edge_header_answer(ngx_http_request_t *r, const header_t *add);
/* True when the header was hidden. */
ngx_uint_t edge_header_hidden(const ngx_table_elt_t *header);
