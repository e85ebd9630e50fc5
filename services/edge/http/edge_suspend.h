/* Requests that one of their modules has suspended. Functions for modules are in
 * modules/module.h. */
#pragma once

#include "services/edge/http/edge_ctx.h"
#include "services/edge/modules/module.h"

/* Is the request suspended? */
ngx_uint_t edge_suspend_is_waiting(const edge_ctx_t *ctx);
/* For the route phase: the module with which a resumed request continues, returned once for each
 * suspension; MODULE_COUNT: the request was not resumed. *expired: its wait timed out. */
module_id_t edge_suspend_take(edge_ctx_t *ctx, ngx_uint_t *expired);
/* The request will not go on: calls abort of the module that waits, once, and stops reading a body.
 * No effect on a request that does neither. */
void edge_suspend_abort(edge_ctx_t *ctx);
/* May later modules run? Not if the body was discarded or is still being read. */
ngx_uint_t edge_suspend_may_go_on(const edge_ctx_t *ctx);
/* For the body filter, which got bytes in so many buffers: has more arrived than the module
 * accepts, or than there is room for? Then the rest is discarded, the module is resumed, and the
 * request can only be denied. */
ngx_uint_t edge_suspend_body_is_cut(edge_ctx_t *ctx, size_t bytes, ngx_uint_t pieces);
