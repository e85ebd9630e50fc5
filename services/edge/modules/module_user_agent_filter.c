/* user_agent_filter: who may come in, by the first User-Agent header. */
#include "common/base/err.h"
#include "services/edge/http/edge_ctx.h"
#include "services/edge/modules/agents.h"
#include "services/edge/modules/module.h"


static ngx_uint_t
is_permitted(ngx_http_request_t *r, const void *config)
{
    ngx_table_elt_t  *agent = r->headers_in.user_agent;   /* the first of several */

    return agent ? agents_permit(config, (char *) agent->value.data,
                                 agent->value.len)
                 : agents_permit(config, NULL, 0);
}


static intptr_t
filter_agent(ngx_http_request_t *r, edge_ctx_t *ctx, const void *config)
{
    return is_permitted(r, config)
           ? NGX_DECLINED
           : edge_deny(r, ctx, MODULE_USER_AGENT_FILTER, ERR_EDGE_USER_AGENT,
                       0);
}


/* What was let in is judged by the lists of now, where they are others than those that it was
 * judged by last: a search may take milliseconds, and a change of anything on the route asks
 * this of all of its requests. */
static uintptr_t
judge_agent(ngx_http_request_t *r, edge_ctx_t *ctx, const void *config)
{
    const route_t  *last = ctx->standing ? ctx->standing : ctx->route;

    if ((last->enabled & (1u << MODULE_USER_AGENT_FILTER))
        && agents_are_same(last->configs[MODULE_USER_AGENT_FILTER], config))
    {
        return 0;
    }
    return is_permitted(r, config) ? 0 : ERR_EDGE_USER_AGENT;
}


const edge_module_t  module_user_agent_filter = {
    .parse = agents_parse,
    .free = agents_free,
    .bytes = agents_bytes,
    .run = filter_agent,
    .judge = judge_agent,
};
