/* Requests that wait for something in the middle of their modules. What modules call stands in
 * modules/module.h. */
#pragma once

#include "services/edge/http/edge_ctx.h"
#include "services/edge/modules/module.h"

/* Does the request wait? */
ngx_uint_t edge_suspend_is_waiting(const edge_ctx_t *ctx);
/* It came back to the route phase: the module at which it goes on, once for each time that it was
 * away; MODULE_COUNT: it was not. *expired: it waited as long as it might. */
module_id_t edge_suspend_take(edge_ctx_t *ctx, ngx_uint_t *expired);
/* It will not go on: its module's abort runs, once. Nothing, where it does not wait. */
void edge_suspend_abort(edge_ctx_t *ctx);
/* May modules that follow run? Not when its body was thrown away. */
ngx_uint_t edge_suspend_may_go_on(const edge_ctx_t *ctx);
/* More of a body came than the module takes: from here on it is thrown away, and the request can
 * only be denied. */
ngx_uint_t edge_suspend_body_is_cut(edge_ctx_t *ctx);
