#pragma once

#include "services/edge/http/edge_ctx.h"

/* Hide hop-by-hop headers (RFC 9110 7.6.1) from the upstream, and set ctx->may_upgrade. NGX_OK |
 * NGX_DECLINED: the request is to be refused, because of them or of a value with a control
 * character | NGX_ERROR. */
ngx_int_t edge_hop_hide(ngx_http_request_t *r, edge_ctx_t *ctx);
