/* Answers to logout tokens: OpenID Connect Back-Channel Logout 1.0, 2.8. All return what a handler
 * of nginx returns. */
#pragma once

#include "services/edge/http/edge_ctx.h"

/* 200: whom it names is signed out. */
ngx_int_t edge_sign_out_accept(ngx_http_request_t *r);
/* 400 invalid_request; reason: why, of which the first 300 bytes are told. */
ngx_int_t edge_sign_out_refuse(ngx_http_request_t *r, const char *reason);
/* 400 temporarily_unavailable: it may be sent again. */
ngx_int_t edge_sign_out_refuse_for_now(ngx_http_request_t *r);
