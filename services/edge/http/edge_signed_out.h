/* /signed-out of the sign-in host, where providers send browsers back to that signed out at a route
 * first (RP-Initiated Logout 1.0): a page that says so, and offers to sign in again. */
#pragma once

#include "services/edge/http/edge_ctx.h"

/* Content handler of that path. NGX_DECLINED: it is another path or method. */
ngx_int_t edge_signed_out_handler(ngx_http_request_t *r);
