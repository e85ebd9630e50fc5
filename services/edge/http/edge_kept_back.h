/* Cookies of applications that are, or look like, those of sign-in, and so do not come to browsers:
 * an operator has to learn why an application keeps no session. */
#pragma once

#include "services/edge/http/edge_ctx.h"

/* Call for each Set-Cookie field (its value) that is left out of an answer: counts it, and says so
 * with the cookie's name, once an hour for a route. */
void edge_kept_back(const ngx_http_request_t *r, route_t *route, const ngx_str_t *set_cookie);
