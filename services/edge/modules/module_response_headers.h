/* What response_headers does with answers, for who passes on heads that are no answers yet. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>

#include "services/edge/table/table.h"

/* Does response_headers of the route take this one from answers? */
ngx_uint_t edge_response_removes(const route_t *route, const char *name, size_t len);
