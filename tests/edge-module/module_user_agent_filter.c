/* A module that waits for nothing: it resumes from within run. Its counters tell how often it ran and for how many requests. */
#include "services/edge/http/edge_ctx.h"
#include "services/edge/modules/module.h"

typedef struct {
    unsigned  resumed;
} state_t;

enum { RUNS, REQUESTS, CLEANED };

static const char *const  counters[] = { "runs", "requests", "cleaned", NULL };


static intptr_t
run(ngx_http_request_t *r, edge_ctx_t *ctx, const void *config)
{
    state_t   *state = edge_module_state(r, ctx, MODULE_USER_AGENT_FILTER);
    intptr_t   rc;

    (void) config;
    if (state == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    edge_module_count(MODULE_USER_AGENT_FILTER, RUNS);
    if (state->resumed) {
        return NGX_DECLINED;
    }
    edge_module_count(MODULE_USER_AGENT_FILTER, REQUESTS);
    state->resumed = 1;
    rc = edge_module_suspend(r, ctx, MODULE_USER_AGENT_FILTER, 0);
    edge_module_resume(ctx);
    edge_module_resume(ctx);
    return rc;
}


static void
clean(void *state)
{
    (void) state;
    edge_module_count(MODULE_USER_AGENT_FILTER, CLEANED);
}


const edge_module_t  module_user_agent_filter = {
    .run = run,
    .clean = clean,
    .state_size = sizeof(state_t),
    .counters = counters,
};
