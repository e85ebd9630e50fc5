/* ip_restriction: admits connections whose own address a rule of the route's IP policies allows,
 * and none denies. What a proxy says of somebody behind it counts for nothing here, whoever
 * trusts that proxy. */
#include "services/edge/http/edge_ctx.h"
#include "services/edge/http/edge_event.h"
#include "services/edge/http/edge_restriction.h"
#include "services/edge/modules/module.h"
#include "services/edge/table/ip_policy.h"
#include "services/edge/worker/edge_worker.h"
#include "common/base/err.h"

/* There is one where run let the request pass. */
typedef struct {
    unsigned  allowed;
} state_t;


/* 0, or the error for which the connection may not use the route. *policy: as table_admits says. */
static ngx_uint_t
fault_of(ngx_http_request_t *r, const void *config, const char **policy)
{
    switch (table_admits(edge_worker_table(), config, r->connection->sockaddr,
                         policy))
    {
    case ADMISSION_ALLOWED:
        return 0;
    case ADMISSION_UNKNOWN:
        return ERR_EDGE_ENTRY_REFUSED;
    default:
        return ERR_EDGE_IP_DENIED;
    }
}


static intptr_t
admit_or_deny(ngx_http_request_t *r, edge_ctx_t *ctx, const void *config)
{
    state_t     *state;
    ngx_uint_t   code;
    const char  *policy;

    code = fault_of(r, config, &policy);
    if (code == ERR_EDGE_ENTRY_REFUSED) {
        ngx_log_error(NGX_LOG_WARN, r->connection->log, 0,
                      "postern: IP policy %s of route %s is not there, or a rule "
                      "of it cannot be applied: denied", policy, ctx->route->id);
    } else if (code) {
        ngx_log_error(NGX_LOG_INFO, r->connection->log, 0,
                      policy ? "postern: IP policy %s denies the connection's address"
                             : "postern: no IP policy allows the connection's address",
                      policy);
    }
    if (code) {
        return edge_deny(r, ctx, MODULE_IP_RESTRICTION, code, 0);
    }
    state = edge_module_state(r, ctx, MODULE_IP_RESTRICTION);
    if (state == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    state->allowed = 1;
    return NGX_DECLINED;
}


static uintptr_t
judge_address(ngx_http_request_t *r, edge_ctx_t *ctx, const void *config)
{
    const char  *policy;

    (void) ctx;
    return fault_of(r, config, &policy);
}


/* Where it denied, the event says so already. The account's restriction decides by policies. */
static void
describe_decision(pack_t *pk, ngx_http_request_t *r, edge_ctx_t *ctx)
{
    (void) r;
    if (ctx->blocked_by != MODULE_IP_RESTRICTION
        && (ctx->admitted || edge_module_state_if_any(ctx, MODULE_IP_RESTRICTION)))
    {
        EVENT_WORD(EVENT_IP_POLICY_DECISION, "allow");
    }
}


/* Those of the account's restriction, which runs before any module (http/edge_restriction.c). */
static const char *const  counters[] = {
    [EDGE_RESTRICTION_DENIED] = "account_denied",
    [EDGE_RESTRICTION_TOLD] = "account_would_deny",
    NULL
};

const edge_module_t  module_ip_restriction = {
    .parse = policy_names_parse,
    .free = policy_names_free,
    .state_size = sizeof(state_t),
    .run = admit_or_deny,
    .judge = judge_address,
    .entries = policy_names_entries,
    .entries_max = POLICY_ENTRIES_MAX,
    .describe = describe_decision,
    .counters = counters,
};
