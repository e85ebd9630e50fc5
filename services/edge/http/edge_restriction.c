/* The connection's own address counts, as in the module ip_restriction: what a proxy says of
 * somebody behind it counts for nothing. */
#include "services/edge/http/edge_restriction.h"
#include "services/edge/http/edge_modules.h"
#include "services/edge/table/restriction.h"
#include "services/edge/worker/edge_worker.h"
#include "common/base/err.h"


static account_verdict_t
verdict_of(ngx_http_request_t *r, const edge_t *edge)
{
    return table_account_admits(edge_worker_table(), edge->account,
                                r->connection->sockaddr);
}


static ngx_uint_t
code_of(const account_verdict_t *verdict)
{
    switch (verdict->admission) {
    case ADMISSION_ALLOWED:
        return 0;
    case ADMISSION_UNKNOWN:
        return ERR_EDGE_ENTRY_REFUSED;
    default:
        return ERR_EDGE_ACCOUNT_IP_DENIED;
    }
}


/* The event names the restriction, which may be gone when it is written. */
static void
set_denied(ngx_http_request_t *r, edge_ctx_t *ctx,
    const restriction_t *restriction)
{
    ngx_str_t  id = { ngx_strlen(restriction->id), (u_char *) restriction->id };

    ctx->blocked_by = MODULE_IP_RESTRICTION;
    ctx->admitted = 0;
    ctx->restriction_id.data = ngx_pstrdup(r->pool, &id);
    ctx->restriction_id.len = ctx->restriction_id.data ? id.len : 0;
}


/* One that is not enforced is there to be read of: a line a second, and a counter for the rest. */
static void
log_told(ngx_http_request_t *r, const account_verdict_t *verdict)
{
    static time_t  second;

    if (second != ngx_time()) {
        second = ngx_time();
        ngx_log_error(NGX_LOG_WARN, r->connection->log, 0,
                      "postern: IP restriction %s of the account would deny the "
                      "connection's address: it is not enforced",
                      verdict->by->id);
    }
}


static void
log_denied(ngx_http_request_t *r, const account_verdict_t *verdict)
{
    if (verdict->admission == ADMISSION_UNKNOWN) {
        ngx_log_error(NGX_LOG_WARN, r->connection->log, 0,
                      "postern: IP restriction %s of the account, or IP policy "
                      "%s of it, is not there or cannot be applied: denied",
                      verdict->by->id, verdict->policy ? verdict->policy : "-");
        return;
    }
    ngx_log_error(NGX_LOG_INFO, r->connection->log, 0,
                  "postern: IP restriction %s of the account denies the "
                  "connection's address", verdict->by->id);
}


ngx_uint_t
edge_restriction_begin(ngx_http_request_t *r, edge_ctx_t *ctx,
    const edge_t *edge)
{
    ngx_uint_t         code;
    account_verdict_t  verdict;

    if (!edge_has_restriction(edge)) {
        return 0;
    }
    verdict = verdict_of(r, edge);
    code = code_of(&verdict);
    ctx->admitted = code == 0 && verdict.enforced;
    if (code) {
        log_denied(r, &verdict);
        edge_modules_note(MODULE_IP_RESTRICTION, EDGE_MODULE_DENIED);
        edge_module_count(MODULE_IP_RESTRICTION, EDGE_RESTRICTION_DENIED);
        set_denied(r, ctx, verdict.by);
    } else if (verdict.by) {
        log_told(r, &verdict);
        edge_module_count(MODULE_IP_RESTRICTION, EDGE_RESTRICTION_TOLD);
    }
    return code;
}


ngx_uint_t
edge_restriction_judge(ngx_http_request_t *r, edge_ctx_t *ctx,
    const edge_t *edge)
{
    ngx_uint_t         code;
    account_verdict_t  verdict;

    if (!edge_has_restriction(edge)) {
        return 0;
    }
    verdict = verdict_of(r, edge);
    code = code_of(&verdict);
    if (code && !r->header_sent) {
        set_denied(r, ctx, verdict.by);
    }
    return code;
}
