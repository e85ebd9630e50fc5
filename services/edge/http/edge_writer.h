/* Writes of the request to the upstream, also when that responds early. */
#pragma once

#include "services/edge/http/edge_ctx.h"

/* Wrap nginx's writer to the upstream; called when the peer is initialised. */
void edge_writer_watch(ngx_http_request_t *r, edge_ctx_t *ctx);
/* While the response's head is sent: does the upstream close its connection although the client may
 * still be sending the request's body? */
ngx_uint_t edge_writer_is_refused(ngx_http_request_t *r);
