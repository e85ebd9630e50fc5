/* The sign-in host: where browsers are sent to sign in, and where providers send them back to. It
 * has no route, no module and no upstream. */
#pragma once

#include "services/edge/http/edge_ctx.h"

/* Content handler of a request whose host is that of postern_sign_in_url. */
ngx_int_t edge_sign_in_host_handler(ngx_http_request_t *r);

/* A host of the route: its own, or the first name of its edge, with the port. Empty: it has only
 * names with a wildcard. */
ngx_str_t edge_sign_in_host_of(ngx_pool_t *pool, const route_t *route);
