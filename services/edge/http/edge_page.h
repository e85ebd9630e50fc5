/* Responses of the edge itself. */
#pragma once

#include "services/edge/http/edge_ctx.h"

/* Deny with the page of error code: it replaces the proxy. NGX_OK: no later module runs. Modules
 * use edge_deny (modules/module.h) instead. */
ngx_int_t edge_page(ngx_http_request_t *r, edge_ctx_t *ctx, ngx_uint_t code);
enum { EDGE_ERROR_BYTES = sizeof("ERR_POSTERN_999") };

/* The name of an error of proto/errors.def, as the page, Postern-Error-Code and the event have
 * it. */
static inline void
edge_error_text(ngx_uint_t code, char out[EDGE_ERROR_BYTES])
{
    (void) ngx_snprintf((u_char *) out, EDGE_ERROR_BYTES, "ERR_POSTERN_%03ui%Z", code);
}
/* Content handler: the page of ctx->error, or of the proxy's failure. */
ngx_int_t edge_error_handler(ngx_http_request_t *r);
