/* /.well-known/jwks.json of the sign-in host: the keys that JWTs for upstreams are verified with.
 * Identity says them, a worker keeps them. */
#pragma once

#include "services/edge/http/edge_ctx.h"

/* Content handler: answers with the keys, and waits for identity where this worker has none. */
ngx_int_t edge_sign_in_keys(ngx_http_request_t *r);
