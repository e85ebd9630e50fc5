/* The edge: directives, phases, the worker's start and end. What a request goes through stands in
 * edge_route.c. */
#include "services/edge/control/edge_bus.h"
#include "services/edge/events/edge_handover.h"
#include "services/edge/control/edge_helper.h"
#include "services/edge/control/edge_resolve.h"
#include "services/edge/control/edge_session_log.h"
#include "services/edge/control/edge_state.h"
#include "services/edge/http/edge_log.h"
#include "services/edge/events/edge_ring.h"
#include "services/edge/http/edge_address.h"
#include "services/edge/http/edge_body.h"
#include "services/edge/http/edge_clients.h"
#include "services/edge/http/edge_cookies.h"
#include "services/edge/http/edge_ctx.h"
#include "services/edge/http/edge_gather.h"
#include "services/edge/http/edge_handshake.h"
#include "services/edge/http/edge_heads.h"
#include "services/edge/http/edge_modules.h"
#include "services/edge/http/edge_pace.h"
#include "services/edge/http/edge_page.h"
#include "services/edge/http/edge_proxy.h"
#include "services/edge/http/edge_reader.h"
#include "services/edge/http/edge_refused.h"
#include "services/edge/http/edge_resets.h"
#include "services/edge/http/edge_route.h"
#include "services/edge/http/edge_share.h"
#include "services/edge/http/edge_sign_in_url.h"
#include "services/edge/http/edge_streams.h"
#include "services/edge/http/edge_tally.h"
#include "services/edge/http/edge_upstream.h"
#include "services/edge/http/edge_trace.h"
#include "services/edge/http/edge_upload.h"
#include "services/edge/http/edge_writer.h"
#include "services/edge/http/forwarded.h"
#include "services/edge/tls/edge_tls.h"
#include "services/edge/worker/edge_conf.h"
#include "services/edge/worker/edge_seat.h"
#include "services/edge/worker/edge_worker.h"
#include "services/edge/worker/edge_vitals.h"
#include "common/base/err.h"
#include "common/base/invariant.h"

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


/* ---- variables ---- */

static ngx_int_t
set_value(ngx_http_variable_value_t *v, const char *text, size_t len)
{
    v->data = (u_char *) text;
    v->len = len;
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;
    return NGX_OK;
}


/* What the upstream's certificate must be for. */
static ngx_int_t
name_variable(ngx_http_request_t *r, ngx_http_variable_value_t *v,
    uintptr_t data)
{
    edge_ctx_t  *ctx = edge_ctx(r);

    (void) data;
    return ctx && ctx->backend
           ? set_value(v, ctx->backend->host, ngx_strlen(ctx->backend->host))
           : set_value(v, "", 0);
}


static ngx_int_t
host_variable(ngx_http_request_t *r, ngx_http_variable_value_t *v,
    uintptr_t data)
{
    edge_ctx_t  *ctx = edge_ctx(r);
    ngx_str_t   *host;

    (void) data;
    if (ctx == NULL) {
        return set_value(v, "", 0);
    }
    host = ctx->upstream_host.len ? &ctx->upstream_host : &ctx->authority;
    return set_value(v, (char *) host->data, host->len);
}


static ngx_int_t
upgrade_variable(ngx_http_request_t *r, ngx_http_variable_value_t *v,
    uintptr_t data)
{
    edge_ctx_t  *ctx = edge_ctx(r);

    if (ctx == NULL || !ctx->upgrade) {
        return set_value(v, "", 0);
    }
    return data ? set_value(v, "upgrade", 7) : set_value(v, "websocket", 9);
}


/* Where error_page sends requests. nginx goes to a named location only with a URI, and there is
 * none where the request line could not be read. */
static ngx_int_t
go_to(ngx_http_request_t *r, ngx_http_variable_value_t *v, const char *location)
{
    if (r->uri.len == 0) {
        ngx_str_set(&r->uri, "/");
    }
    return set_value(v, location, ngx_strlen(location));
}


/* The servers of the accounts' hosts: the location itself has its name in one place. */
static ngx_int_t
error_variable(ngx_http_request_t *r, ngx_http_variable_value_t *v,
    uintptr_t data)
{
    edge_ctx_t  *ctx = edge_refused(r);

    (void) data;
    if (ctx == NULL) {
        return NGX_ERROR;
    }
    if (!edge_share_charge(r, ctx)) {
        ctx->error = ERR_EDGE_CROWDED;
    }
    return go_to(r, v, "@error");
}


/* A server of another kind, which has its own page and leaves no event. An error ends the request
 * without a page. */
static ngx_int_t
refused_variable(ngx_http_request_t *r, ngx_http_variable_value_t *v,
    uintptr_t data)
{
    (void) data;
    if (!edge_share_charge_plain(r)) {
        return NGX_ERROR;
    }
    return go_to(r, v, "@refused");
}


static ngx_http_variable_t  variables[] = {
    { ngx_string("postern_error"), NULL, error_variable, 0, 0, 0 },
    { ngx_string("postern_refused"), NULL, refused_variable, 0, 0, 0 },
    { ngx_string("postern_name"), NULL, name_variable, 0, NGX_HTTP_VAR_NOCACHEABLE, 0 },
    { ngx_string("postern_host"), NULL, host_variable, 0, 0, 0 },
    { ngx_string("postern_upgrade"), NULL, upgrade_variable, 0, 0, 0 },
    { ngx_string("postern_connection"), NULL, upgrade_variable, 1, 0, 0 },
      ngx_http_null_variable
};


static ngx_int_t
add_variables(ngx_conf_t *cf)
{
    ngx_http_variable_t  *v, *added;

    for (v = variables; v->name.len; v++) {
        added = ngx_http_add_variable(cf, &v->name, v->flags);
        if (added == NULL) {
            return NGX_ERROR;
        }
        added->get_handler = v->get_handler;
        added->data = v->data;
    }
    return NGX_OK;
}


/* ---- directives ---- */

typedef struct {
    ngx_flag_t  on;
} location_conf_t;


ngx_uint_t
edge_is_on(ngx_http_request_t *r)
{
    location_conf_t  *conf;

    conf = ngx_http_get_module_loc_conf(r, ngx_http_postern_module);
    return conf->on;
}


/* Workers of two configurations in one master would write to the same memory of events, and what
 * the master has of the configuration belongs to the one that it began with. Here a reload has
 * changed nothing yet: nginx keeps what it has. In init_module it would end the master. */
static ngx_int_t
refuse_reload(ngx_conf_t *cf)
{
    if (!edge_seat_is_taken()) {
        return NGX_OK;
    }
    ngx_conf_log_error(NGX_LOG_ERR, cf, 0,
                       "postern: an edge is not reloaded, it goes on as it is. "
                       "To put another configuration in force replace it: "
                       "\"deploy/stack replace-edge\", or USR2 to process %P",
                       ngx_pid);
    return NGX_DECLINED;
}


static void *
create_main_conf(ngx_conf_t *cf)
{
    edge_conf_t  *conf;

    if (refuse_reload(cf) != NGX_OK) {
        return NULL;
    }
    conf = ngx_pcalloc(cf->pool, sizeof(edge_conf_t));
    if (conf) {
        conf->https_port = NGX_CONF_UNSET_UINT;
        conf->ring_size = NGX_CONF_UNSET_SIZE;
        conf->spool_size = NGX_CONF_UNSET;
        conf->response_header_size = NGX_CONF_UNSET_SIZE;
        conf->ticket_period = NGX_CONF_UNSET_MSEC;
        conf->trace_sampled = NGX_CONF_UNSET_UINT;
        conf->route_metrics = NGX_CONF_UNSET_UINT;
        conf->sessions_size = NGX_CONF_UNSET_SIZE;
        conf->session_trust = NGX_CONF_UNSET_MSEC;
        conf->user_jwts = NGX_CONF_UNSET_SIZE;
        conf->request_memory = NGX_CONF_UNSET_SIZE;
        conf->client_portion = NGX_CONF_UNSET_UINT;
        conf->account_portion = NGX_CONF_UNSET_UINT;
        conf->client_take_min = NGX_CONF_UNSET_SIZE;
        conf->client_give_min = NGX_CONF_UNSET_SIZE;
        conf->compress_credentials = NGX_CONF_UNSET;
    }
    return conf;
}


static char *
init_main_conf(ngx_conf_t *cf, void *data)
{
    edge_conf_t  *conf = data;

    ngx_conf_init_uint_value(conf->https_port, 443);
    ngx_conf_init_value(conf->compress_credentials, 1);
    if (edge_conf_settle(cf, conf) != NGX_OK) {
        return NGX_CONF_ERROR;
    }
    INVARIANT(conf->route_metrics <= EDGE_TALLY_ROUTES_MAX);
    if (conf->name.len > 64) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "POSTERN_EDGE_NAME (postern_edge_name) must be at "
                           "most 64 bytes: \"%V\"", &conf->name);
        return NGX_CONF_ERROR;
    }
    return edge_address_init(cf, conf);
}


static void *
create_location_conf(ngx_conf_t *cf)
{
    location_conf_t  *conf = ngx_pcalloc(cf->pool, sizeof(location_conf_t));

    if (conf) {
        conf->on = NGX_CONF_UNSET;
    }
    return conf;
}


static char *
merge_location_conf(ngx_conf_t *cf, void *parent, void *child)
{
    location_conf_t  *prev = parent, *conf = child;

    (void) cf;
    ngx_conf_merge_value(conf->on, prev->on, 0);
    return NGX_CONF_OK;
}


static char *
set_handler(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_core_loc_conf_t  *clcf;

    (void) conf;
    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);
    clcf->handler = (ngx_http_handler_pt) cmd->post;
    if (clcf->handler == edge_status_handler && edge_clients_exempt(cf) != NGX_OK) {
        return NGX_CONF_ERROR;
    }
    return NGX_CONF_OK;
}


/* The command's post is the variable that sets it. */
static char *
set_networks(ngx_conf_t *cf, ngx_command_t *cmd, void *data)
{
    ngx_int_t     rc;
    ngx_str_t    *value = cf->args->elts;
    ngx_uint_t    i;
    ngx_cidr_t   *cidr;
    ngx_array_t **networks = (ngx_array_t **) ((char *) data + cmd->offset);

    if (*networks == NULL) {
        *networks = ngx_array_create(cf->pool, 4, sizeof(ngx_cidr_t));
    }
    for (i = 1; *networks && i < cf->args->nelts; i++) {
        cidr = ngx_array_push(*networks);
        if (cidr == NULL) {
            return NGX_CONF_ERROR;
        }
        rc = ngx_ptocidr(&value[i], cidr);
        if (rc == NGX_ERROR) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "\"%V\" in %s (%V) is not a CIDR", &value[i],
                               (char *) cmd->post, &cmd->name);
            return NGX_CONF_ERROR;
        }
    }
    return *networks ? NGX_CONF_OK : NGX_CONF_ERROR;
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


#define MAIN_STR(name, field)                                                  \
    { ngx_string(name), NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,                     \
      ngx_conf_set_str_slot, NGX_HTTP_MAIN_CONF_OFFSET,                        \
      offsetof(edge_conf_t, field), NULL }

static ngx_command_t  commands[] = {

    MAIN_STR("postern_edge_name", name),
    MAIN_STR("postern_config_log", config_log),
    MAIN_STR("postern_session_log", session_log),
    MAIN_STR("postern_identity", identity),
    MAIN_STR("postern_sign_in_url", sign_in_url),
    MAIN_STR("postern_events", events),
    MAIN_STR("postern_state_dir", state_dir),
    MAIN_STR("postern_state_key", state_key),
    MAIN_STR("postern_curve_dir", curve_dir),
    MAIN_STR("postern_event_memory", event_memory),
    MAIN_STR("postern_fetch_program", fetch_program),
    MAIN_STR("postern_out_ca", out_ca),

    { ngx_string("postern_https_port"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_num_slot,
      NGX_HTTP_MAIN_CONF_OFFSET,
      offsetof(edge_conf_t, https_port),
      NULL },

    { ngx_string("postern_event_ring"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_size_slot,
      NGX_HTTP_MAIN_CONF_OFFSET,
      offsetof(edge_conf_t, ring_size),
      NULL },

    { ngx_string("postern_event_spool"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_off_slot,
      NGX_HTTP_MAIN_CONF_OFFSET,
      offsetof(edge_conf_t, spool_size),
      NULL },

    { ngx_string("postern_response_header_size"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_size_slot,
      NGX_HTTP_MAIN_CONF_OFFSET,
      offsetof(edge_conf_t, response_header_size),
      NULL },

    { ngx_string("postern_ticket_period"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_msec_slot,
      NGX_HTTP_MAIN_CONF_OFFSET,
      offsetof(edge_conf_t, ticket_period),
      NULL },

    { ngx_string("postern_trace_sampled"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_num_slot,
      NGX_HTTP_MAIN_CONF_OFFSET,
      offsetof(edge_conf_t, trace_sampled),
      NULL },

    { ngx_string("postern_route_metrics"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_num_slot,
      NGX_HTTP_MAIN_CONF_OFFSET,
      offsetof(edge_conf_t, route_metrics),
      NULL },

    { ngx_string("postern_sessions"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_size_slot,
      NGX_HTTP_MAIN_CONF_OFFSET,
      offsetof(edge_conf_t, sessions_size),
      NULL },

    { ngx_string("postern_session_trust"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_msec_slot,
      NGX_HTTP_MAIN_CONF_OFFSET,
      offsetof(edge_conf_t, session_trust),
      NULL },

    { ngx_string("postern_user_jwts"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_size_slot,
      NGX_HTTP_MAIN_CONF_OFFSET,
      offsetof(edge_conf_t, user_jwts),
      NULL },

    { ngx_string("postern_request_memory"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_size_slot,
      NGX_HTTP_MAIN_CONF_OFFSET,
      offsetof(edge_conf_t, request_memory),
      NULL },

    { ngx_string("postern_client_portion"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_num_slot,
      NGX_HTTP_MAIN_CONF_OFFSET,
      offsetof(edge_conf_t, client_portion),
      NULL },

    { ngx_string("postern_account_portion"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_num_slot,
      NGX_HTTP_MAIN_CONF_OFFSET,
      offsetof(edge_conf_t, account_portion),
      NULL },

    { ngx_string("postern_client_take_min"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_size_slot,
      NGX_HTTP_MAIN_CONF_OFFSET,
      offsetof(edge_conf_t, client_take_min),
      NULL },

    { ngx_string("postern_client_give_min"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_size_slot,
      NGX_HTTP_MAIN_CONF_OFFSET,
      offsetof(edge_conf_t, client_give_min),
      NULL },

    { ngx_string("postern_identity_headers"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_str_slot,
      NGX_HTTP_MAIN_CONF_OFFSET,
      offsetof(edge_conf_t, identity_headers),
      NULL },

    { ngx_string("postern_compress_credentials"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_FLAG,
      ngx_conf_set_flag_slot,
      NGX_HTTP_MAIN_CONF_OFFSET,
      offsetof(edge_conf_t, compress_credentials),
      NULL },

    { ngx_string("postern_trusted_proxies"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_1MORE,
      set_networks,
      NGX_HTTP_MAIN_CONF_OFFSET,
      offsetof(edge_conf_t, trusted),
      "POSTERN_TRUSTED_PROXIES" },

    { ngx_string("postern_proxy_protocol_from"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_1MORE,
      set_networks,
      NGX_HTTP_MAIN_CONF_OFFSET,
      offsetof(edge_conf_t, proxy_from),
      "POSTERN_PROXY_PROTOCOL_FROM" },

    { ngx_string("postern_proxy_protocol_ports"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_1MORE,
      edge_proxy_ports_directive,
      NGX_HTTP_MAIN_CONF_OFFSET,
      0,
      NULL },

#define ADDRESSES(name, field)                                                 \
    { ngx_string(name), NGX_HTTP_MAIN_CONF|NGX_CONF_1MORE,                     \
      edge_address_directive, NGX_HTTP_MAIN_CONF_OFFSET,                       \
      offsetof(edge_conf_t, field), NULL }

    ADDRESSES("postern_own_sockets", own_sockets),
    ADDRESSES("postern_denied_upstreams", denied_upstreams),
    ADDRESSES("postern_allowed_upstreams", allowed_upstreams),
    ADDRESSES("postern_out_allowed", out_allowed),
    ADDRESSES("postern_out_connect", out_connect),

    { ngx_string("postern_peer"),
      NGX_HTTP_UPS_CONF|NGX_CONF_NOARGS,
      edge_upstream_directive,
      0,
      0,
      NULL },

    { ngx_string("postern_kept"),
      NGX_HTTP_UPS_CONF|NGX_CONF_NOARGS,
      edge_upstream_kept_directive,
      0,
      0,
      NULL },

    { ngx_string("postern"),
      NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_FLAG,
      ngx_conf_set_flag_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(location_conf_t, on),
      NULL },

    { ngx_string("postern_redirect"),
      NGX_HTTP_LOC_CONF|NGX_CONF_NOARGS,
      set_handler,
      0,
      0,
      (void *) edge_redirect_handler },

    { ngx_string("postern_error_page"),
      NGX_HTTP_LOC_CONF|NGX_CONF_NOARGS,
      set_handler,
      0,
      0,
      (void *) edge_error_handler },

    { ngx_string("postern_status"),
      NGX_HTTP_LOC_CONF|NGX_CONF_NOARGS,
      set_handler,
      0,
      0,
      (void *) edge_status_handler },

      ngx_null_command
};


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
    next_header_filter = ngx_http_top_header_filter;
    ngx_http_top_header_filter = header_filter;
    edge_body_install();
    edge_heads_install();
    forwarded_begin((char *) conf->identity_headers.data, conf->identity_headers.len);
    if (edge_modules_install(cf) != NGX_OK || edge_tally_install(cf) != NGX_OK) {
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
    add_variables,
    postconfiguration,
    create_main_conf,
    init_main_conf,
    NULL,
    NULL,
    create_location_conf,
    merge_location_conf
};


ngx_module_t  ngx_http_postern_module = {
    NGX_MODULE_V1,
    &module_ctx,
    commands,
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
