/* What a route with the module saml has at the sign-in host: /saml/<route id>, its metadata, and
 * /saml/<route id>/acs, to which browsers bring responses of its identity provider. */
#pragma once

#include "services/edge/http/edge_ctx.h"

/* Is it one of these paths, or looks as if? */
ngx_uint_t edge_sign_in_saml_is(const ngx_http_request_t *r);

/* Content handler of such a request. */
ngx_int_t edge_sign_in_saml_handler(ngx_http_request_t *r);
