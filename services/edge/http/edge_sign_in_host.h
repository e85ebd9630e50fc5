/* The sign-in host: where browsers are sent to sign in, and where providers send them back to. It
 * has no route, no module and no upstream. */
#pragma once

#include "services/edge/http/edge_ctx.h"

/* Content handler of a request whose host is that of postern_sign_in_url. */
ngx_int_t edge_sign_in_host_handler(ngx_http_request_t *r);
