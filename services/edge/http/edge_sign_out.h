/* /backchannel/<route id> of the sign-in host, where providers say that somebody has signed out
 * there (OpenID Connect Back-Channel Logout 1.0). */
#pragma once

#include "services/edge/http/edge_ctx.h"

/* Content handler of those paths. NGX_DECLINED: it is another path or method. */
ngx_int_t edge_sign_out_handler(ngx_http_request_t *r);
