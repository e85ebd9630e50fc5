/* user_agent_filter: who may come in, by the first User-Agent header. A header that is not
 * remembered is searched by the lists within the turn's budget of searches (searches.h); beyond it
 * the request waits for a later turn. */
#include "common/base/err.h"
#include "services/edge/control/edge_clock.h"
#include "services/edge/http/edge_ctx.h"
#include "services/edge/http/edge_share.h"
#include "services/edge/modules/agents.h"
#include "services/edge/modules/module.h"
#include "services/edge/modules/searches.h"

enum { WAIT_MS = 10000 };

typedef struct {
    search_wait_t   wait;   /* first: what is next in line is a state */
    edge_ctx_t     *ctx;
    unsigned        next:1;   /* it waited, and searches now */
} state_t;

static searches_t   searches;   /* of this worker */
static ngx_event_t  turn;       /* the next one: while time was spent, or somebody waits */


static void
resume_next(void)
{
    state_t  *state = (state_t *) searches_next(&searches);

    if (state) {
        state->next = 1;
        edge_module_resume(state->ctx);
    }
}


/* Who is resumed runs behind this event, in the same turn, and resumes who is next while the budget
 * lasts. This event goes on also where one of them ends before it runs. */
static void
on_turn(ngx_event_t *ev)
{
    searches_begin_turn(&searches);
    resume_next();
    if (searches_are_awaited(&searches)) {
        ngx_post_event(ev, &ngx_posted_next_events);
    }
}


static void
await_turn(void)
{
    if (!turn.posted) {
        turn.handler = on_turn;
        turn.log = ngx_cycle->log;
        ngx_post_event(&turn, &ngx_posted_next_events);
    }
}


static ngx_str_t
agent_of(ngx_http_request_t *r)
{
    ngx_table_elt_t  *agent = r->headers_in.user_agent;   /* the first of several */

    return agent ? agent->value : (ngx_str_t) ngx_null_string;
}


static ngx_uint_t
is_permitted(ngx_http_request_t *r, const void *config)
{
    uint64_t   begin;
    ngx_str_t  agent = agent_of(r);
    bool       permitted;

    if (agents_recall(config, (char *) agent.data, agent.len, &permitted)) {
        return permitted;
    }
    begin = edge_clock_turn_begin();
    permitted = agents_permit(config, (char *) agent.data, agent.len);
    if (searches_spend(&searches, edge_clock_turn_begin() - begin)) {
        await_turn();
    }
    return permitted;
}


static intptr_t
wait_in_line(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    state_t   *state = edge_module_state(r, ctx, MODULE_USER_AGENT_FILTER);
    intptr_t   rc;

    if (state == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    rc = edge_module_suspend(r, ctx, MODULE_USER_AGENT_FILTER, WAIT_MS);
    if (rc == NGX_AGAIN) {
        state->ctx = ctx;
        searches_wait(&searches, &state->wait,
                      edge_share_account_of(ctx));
        await_turn();
    }
    return rc;
}


static intptr_t
filter_agent(ngx_http_request_t *r, edge_ctx_t *ctx, const void *config)
{
    state_t     *state = edge_module_state_if_any(ctx, MODULE_USER_AGENT_FILTER);
    ngx_str_t    agent = agent_of(r);
    bool         known;
    ngx_uint_t   waited = state && state->next, permitted;

    if (!waited && !searches_may(&searches)
        && !agents_recall(config, (char *) agent.data, agent.len, &known))
    {
        return wait_in_line(r, ctx);
    }
    permitted = is_permitted(r, config);
    if (waited) {
        resume_next();
    }
    return permitted
           ? NGX_DECLINED
           : edge_deny(r, ctx, MODULE_USER_AGENT_FILTER, ERR_EDGE_USER_AGENT,
                       0);
}


static void
leave_line(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    state_t  *state = edge_module_state_if_any(ctx, MODULE_USER_AGENT_FILTER);

    (void) r;
    if (state) {
        searches_leave(&searches, &state->wait);
    }
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
    .state_size = sizeof(state_t),
    .run = filter_agent,
    .abort = leave_line,
    .judge = judge_agent,
};
