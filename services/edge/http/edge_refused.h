/* Requests that nginx refuses before they are routed. */
#pragma once

#include "services/edge/http/edge_ctx.h"

/* The request's context, made if there is none, for an error page; a waiting module is aborted.
 * NULL: no memory. */
edge_ctx_t *edge_refused(ngx_http_request_t *r);
/* The error (proto/errors.def) for nginx's r->err_status. */
ngx_uint_t edge_refused_code(ngx_http_request_t *r);
