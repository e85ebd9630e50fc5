/* Beginning and end of what the edge keeps of a request. */
#include "services/edge/http/edge_ctx.h"
#include "services/edge/http/edge_body.h"
#include "services/edge/http/edge_failover.h"
#include "services/edge/http/edge_grpc.h"
#include "services/edge/http/edge_modules.h"
#include "services/edge/http/edge_pace.h"
#include "services/edge/http/edge_reader.h"
#include "services/edge/http/edge_share.h"
#include "services/edge/http/edge_streams.h"
#include "services/edge/http/edge_trace.h"
#include "services/edge/http/edge_upload.h"
#include "services/edge/worker/edge_conf.h"


static void
cleanup(void *data)
{
    edge_ctx_t  *ctx = data;

    edge_streams_remove(ctx);
    edge_grpc_end(ctx);   /* before the reset is sent */
    edge_body_end(ctx);
    edge_reader_end(ctx);
    edge_modules_clean(ctx);
    edge_failover_end(ctx);
    edge_pace_end(ctx);
    edge_upload_end(ctx);
    edge_share_give(ctx);
    route_release(ctx->route);
    backend_release(ctx->backend);
}


edge_ctx_t *
edge_ctx(ngx_http_request_t *r)
{
    edge_ctx_t          *ctx;
    ngx_pool_cleanup_t  *cln;

    ctx = ngx_http_get_module_ctx(r, ngx_http_postern_module);
    if (ctx || (!r->internal && !r->filter_finalize)) {
        return ctx;
    }
    /* an internal redirect clears r->ctx, not the pool */
    for (cln = r->pool->cleanup; cln; cln = cln->next) {
        if (cln->handler == cleanup) {
            ngx_http_set_ctx(r, cln->data, ngx_http_postern_module);
            return cln->data;
        }
    }
    return NULL;
}


edge_ctx_t *
edge_ctx_new(ngx_http_request_t *r)
{
    edge_ctx_t          *ctx;
    ngx_pool_cleanup_t  *cln;

    cln = ngx_pool_cleanup_add(r->pool, sizeof(edge_ctx_t));
    if (cln == NULL) {
        return NULL;
    }
    ctx = cln->data;
    ngx_memzero(ctx, offsetof(edge_ctx_t, stream.links));
    ctx->blocked_by = -1;
    edge_trace_id(r, ctx);
    edge_body_begin(r, ctx);
    edge_pace_begin(r, ctx);
    cln->handler = cleanup;
    ngx_http_set_ctx(r, ctx, ngx_http_postern_module);
    return ctx;
}
