/* The removals of response_headers, for interim (1xx) responses, which do not pass the module. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>

#include "services/edge/table/table.h"

/* Does response_headers of the route remove this header, in any case of letters? */
ngx_uint_t edge_response_removes(const route_t *route, const char *name, size_t len);
