/* Bytes between a client's frames and the upstream's connection, in both directions. */
#pragma once

#include "services/edge/modules/edge_converter.h"

/* Carry what can be carried now; *more: other requests are to have their turn before the rest.
 * NGX_ERROR: the client is gone without a close frame. */
ngx_int_t edge_carry(ngx_http_request_t *r, edge_converter_t *self,
                     ngx_uint_t *more);
