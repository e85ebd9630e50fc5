/* The route modules; http/edge_route.c has the table of them. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>

#include "services/edge/table/table.h"

extern const edge_module_t module_backend, module_request_headers, module_response_headers;
/* Does response_headers of the route take this one from answers? */
ngx_uint_t edge_response_removes(const route_t *route, const char *name, size_t len);
