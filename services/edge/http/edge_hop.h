#pragma once

#include "services/edge/http/edge_ctx.h"

/* Keep the fields of the client's connection from the upstream; set ctx->may_upgrade. NGX_OK | NGX_DECLINED: refused, as is a
 * value with a control character | NGX_ERROR. */
ngx_int_t edge_hop_hide(ngx_http_request_t *r, edge_ctx_t *ctx);
