/* What nginx refuses before it is routed. */
#pragma once

#include "services/edge/http/edge_ctx.h"

/* The request's context, or a new one; NULL: no memory. */
edge_ctx_t *edge_refused(ngx_http_request_t *r);
/* For nginx's r->err_status. */
ngx_uint_t edge_refused_code(ngx_http_request_t *r);
