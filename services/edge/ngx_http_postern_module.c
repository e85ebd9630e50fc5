/* The edge: phases, the worker's start and end. What a request goes through stands in edge_route.c,
 * and what nginx.conf may say in edge_directives.c. */
#include "services/edge/control/edge_bus.h"
#include "services/edge/edge_directives.h"
#include "services/edge/events/edge_handover.h"
#include "services/edge/control/edge_helper.h"
#include "services/edge/control/edge_resolve.h"
#include "services/edge/control/edge_session_log.h"
#include "services/edge/control/edge_state.h"
#include "services/edge/http/edge_log.h"
#include "services/edge/events/edge_ring.h"
#include "services/edge/http/edge_agent.h"
#include "services/edge/http/edge_body.h"
#include "services/edge/http/edge_clients.h"
#include "services/edge/http/edge_cookies.h"
#include "services/edge/http/edge_ctx.h"
#include "services/edge/http/edge_gather.h"
#include "services/edge/http/edge_handshake.h"
#include "services/edge/http/edge_heads.h"
#include "services/edge/http/edge_modules.h"
#include "services/edge/http/edge_pace.h"
#include "services/edge/http/edge_proxy.h"
#include "services/edge/http/edge_reader.h"
#include "services/edge/http/edge_refused.h"
#include "services/edge/http/edge_resets.h"
#include "services/edge/http/edge_route.h"
#include "services/edge/http/edge_share.h"
#include "services/edge/http/edge_sign_in_url.h"
#include "services/edge/http/edge_status.h"
#include "services/edge/http/edge_streams.h"
#include "services/edge/http/edge_tally.h"
#include "services/edge/http/edge_trace.h"
#include "services/edge/http/edge_unsent_left.h"
#include "services/edge/http/edge_upload.h"
#include "services/edge/http/edge_variables.h"
#include "services/edge/http/edge_writer.h"
#include "services/edge/http/forwarded.h"
#include "services/edge/tls/edge_tls.h"
#include "services/edge/worker/edge_conf.h"
#include "services/edge/worker/edge_log_lines.h"
#include "services/edge/worker/edge_seat.h"
#include "services/edge/worker/edge_worker.h"
#include "services/edge/worker/edge_vitals.h"

#include <sodium.h>


static ngx_http_output_header_filter_pt  next_header_filter;


/* Of a connection that is not to have another request: HTTP/1 says so in this answer, HTTP/2 at
 * the stream that comes next. */
static void
end_connection(ngx_http_request_t *r)
{
    r->keepalive = 0;
#if (NGX_HTTP_V2)
    if (r->stream) {
        r->stream->connection->connection->requests = NGX_MAX_INT32_VALUE;
    }
#endif
}


static ngx_int_t
header_filter(ngx_http_request_t *r)
{
    ngx_int_t    rc;
    edge_ctx_t  *ctx = edge_ctx(r);

    if (ctx && r == r->main && r->upstream && ctx->route) {
        edge_cookies_refuse(r, ctx);
    }
    rc = edge_modules_response_header(r);
    if (rc != NGX_OK) {
        return rc;
    }
    if (ctx && r == r->main && edge_trace_answer(r, ctx) != NGX_OK) {
        return NGX_ERROR;
    }
    if (edge_handover_is_yielding()) {
        end_connection(r);
    } else if (r == r->main) {
        edge_tls_check_certificate(r);
    }
    if (edge_writer_is_refused(r)) {
        r->keepalive = 0;   /* a client that is told so stops sending */
    }
    if (r->headers_out.status == NGX_HTTP_NO_CONTENT
        || r->headers_out.status == NGX_HTTP_SWITCHING_PROTOCOLS)
    {
        ngx_http_clear_content_length(r);   /* RFC 9110 8.6, whatever an upstream says */
    }
    edge_gather_begin(r);
    rc = next_header_filter(r);
    edge_gather_end();
    if (ctx && r == r->main) {
        /* what is sent beyond it is body */
        r->header_size += ctx->head.passed + edge_body_continued(r, ctx);
        ctx->sent.time = ngx_time();
        ctx->sent.keepalive = r->keepalive;
    }
    return rc;
}


/* The log phase runs for every request of every server. One without a context ended before it
 * was routed, and without a page: its connection or stream broke, or was reset. */
static ngx_int_t
log_handler(ngx_http_request_t *r)
{
    edge_ctx_t  *ctx = edge_ctx(r);

    edge_resets_note(r);
    if (ctx == NULL && r == r->main && edge_is_on(r)) {
        ctx = edge_refused(r);
        if (r->headers_out.status == 0 && r->err_status == 0) {
            r->headers_out.status = NGX_HTTP_BAD_REQUEST;
        }
    }
    if (ctx && !ctx->redirect) {
        edge_tally_count(r, ctx);
        edge_event_log(r, ctx);
    }
    return NGX_OK;
}


static ngx_int_t
route_phase(ngx_http_request_t *r)
{
    ngx_http_core_loc_conf_t  *clcf;

    if (edge_is_on(r)) {
        return edge_route_handler(r);
    }
    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);
    if (r->internal || r != r->main || clcf->handler == edge_status_handler
        || edge_share_charge_plain(r))
    {
        return NGX_DECLINED;
    }
    return NGX_HTTP_CLOSE;   /* a page would have to be kept until it is taken */
}


/* ---- configuration's end ---- */

static ngx_int_t
add_phase(ngx_conf_t *cf, ngx_http_phases phase, ngx_http_handler_pt handler)
{
    ngx_http_handler_pt        *h;
    ngx_http_core_main_conf_t  *cmcf;

    cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);
    h = ngx_array_push(&cmcf->phases[phase].handlers);
    if (h == NULL) {
        return NGX_ERROR;
    }
    *h = handler;
    return NGX_OK;
}


/* Endpoints of the copies of a service; none: the directive is not there. */
static ngx_int_t
check_endpoints(ngx_conf_t *cf, const char *name, const ngx_str_t *endpoints)
{
    if (endpoints->len == 0 || edge_helper_copies(endpoints) != NGX_ERROR) {
        return NGX_OK;
    }
    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "%s \"%V\" must be 1 to 16 endpoints with commas "
                       "between", name, endpoints);
    return NGX_ERROR;
}


static ngx_int_t
postconfiguration(ngx_conf_t *cf)
{
    edge_conf_t  *conf;

    conf = ngx_http_conf_get_module_main_conf(cf, ngx_http_postern_module);
    if (conf->config_log.len == 0) {
        return NGX_OK;   /* loaded, not used */
    }
    if (conf->events.len == 0 || conf->state_dir.len == 0
        || conf->state_key.len == 0 || conf->name.len == 0)
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "postern_edge_name, postern_config_log, "
                           "postern_events, postern_state_dir and "
                           "postern_state_key belong together");
        return NGX_ERROR;
    }
    if (check_endpoints(cf, "postern_config_log", &conf->config_log) != NGX_OK
        || check_endpoints(cf, "postern_session_log", &conf->session_log) != NGX_OK
        || check_endpoints(cf, "postern_identity", &conf->identity) != NGX_OK
        || edge_sign_in_url_check(cf, conf) != NGX_OK)
    {
        return NGX_ERROR;
    }
    if (edge_proxy_check(cf, conf) != NGX_OK) {
        return NGX_ERROR;
    }
    edge_pace_check(cf, conf);
    edge_conf_use(conf);
    edge_log_lines_install(cf->cycle);
    next_header_filter = ngx_http_top_header_filter;
    ngx_http_top_header_filter = header_filter;
    edge_body_install();
    edge_heads_install();
    forwarded_begin((char *) conf->identity_headers.data, conf->identity_headers.len);
    if (edge_modules_install(cf) != NGX_OK || edge_tally_install(cf) != NGX_OK
        || edge_agent_install(cf) != NGX_OK)
    {
        return NGX_ERROR;
    }
    if (add_phase(cf, NGX_HTTP_PREACCESS_PHASE, route_phase) != NGX_OK
        || add_phase(cf, NGX_HTTP_LOG_PHASE, log_handler) != NGX_OK)
    {
        return NGX_ERROR;
    }
    if (edge_tls_install(cf) != NGX_OK) {
        return NGX_ERROR;
    }
    return edge_seat_check(cf);
}


/* ---- processes ---- */

static const edge_worker_hooks_t  worker_hooks = {
    edge_resolve_add,
    edge_tls_free_parsed,
    edge_streams_touch,
    edge_tally_add_route,
    edge_tally_drop_route,
    edge_tally_sweep
};


/* In the master: workers start with its table and share its pages. */
static ngx_int_t
init_module(ngx_cycle_t *cycle)
{
    if (edge_conf() == NULL) {
        return NGX_OK;
    }
    if (edge_proxy_install(cycle) != NGX_OK) {
        return NGX_ERROR;
    }
    edge_clients_install(cycle);
    if (ngx_test_config) {
        return NGX_OK;
    }
    if (edge_seat_take(cycle) != NGX_OK
        || edge_vitals_make(cycle->log) != NGX_OK)
    {
        return NGX_ERROR;
    }
    edge_worker_init(&worker_hooks);
    edge_state_try(cycle);
    if (edge_state_load(cycle) != NGX_OK) {
        return NGX_ERROR;
    }
    return edge_ring_make(cycle);   /* its name comes from the state's key */
}


static void
exit_master(ngx_cycle_t *cycle)
{
    (void) cycle;
    if (edge_conf()) {
        edge_ring_end();
    }
}


static ngx_int_t
begin_worker(ngx_cycle_t *cycle)
{
    ngx_int_t  rc = edge_ring_open(cycle);

    if (rc != NGX_OK) {
        return rc;
    }
    edge_vitals_open(ngx_worker, cycle->log);
    if (edge_bus_open(cycle) != NGX_OK
        || edge_state_load(cycle) != NGX_OK)
    {
        return NGX_ERROR;
    }
    edge_streams_start(cycle);
    edge_session_log_set_touched(edge_streams_touch_session);
    edge_reader_start(cycle);
    edge_pace_start(cycle);
    edge_unsent_left_start(cycle);
    edge_upload_start(cycle);
    edge_modules_start(cycle);
    edge_bus_start(cycle);
    edge_handover_start(cycle);
    return NGX_OK;
}


/* A worker whose modules cannot begin ends in a way that nginx takes for final, while the kernel
 * goes on giving its sockets connections, which nobody takes. What failed may have been for a
 * moment (a helper that was slow, memory, open files): so it ends in another way, and the next
 * one tries. Only a place that another process has is not tried for. */
static ngx_int_t
init_process(ngx_cycle_t *cycle)
{
    enum { AGAIN_MS = 500 };
    ngx_int_t  rc;

    /* the cache manager and loader come by here too, and must not make sockets */
    if (edge_conf() == NULL
        || (ngx_process != NGX_PROCESS_WORKER
            && ngx_process != NGX_PROCESS_SINGLE))
    {
        return NGX_OK;
    }
    /* event ids: a generator in this process instead of a system call each */
    randombytes_set_implementation(&randombytes_internal_implementation);
    rc = begin_worker(cycle);
    if (rc == NGX_ERROR && ngx_process == NGX_PROCESS_WORKER) {
        ngx_log_error(NGX_LOG_ALERT, cycle->log, 0,
                      "postern: worker %ui cannot begin: another one tries in "
                      "its place", ngx_worker);
        ngx_msleep(AGAIN_MS);
        exit(1);
    }
    return rc == NGX_OK ? NGX_OK : NGX_ERROR;
}


static void
exit_process(ngx_cycle_t *cycle)
{
    (void) cycle;
    edge_bus_stop();
    edge_resolve_stop();
}


static ngx_http_module_t  module_ctx = {
    edge_variables_add,
    postconfiguration,
    edge_directives_create_main,
    edge_directives_init_main,
    NULL,
    NULL,
    edge_directives_create_location,
    edge_directives_merge_location
};


ngx_module_t  ngx_http_postern_module = {
    NGX_MODULE_V1,
    &module_ctx,
    edge_directives,
    NGX_HTTP_MODULE,
    NULL,
    init_module,
    init_process,
    NULL,
    NULL,
    exit_process,
    exit_master,
    NGX_MODULE_V1_PADDING
};
