/* Directives of nginx.conf, and their values before they are set. */
#include "services/edge/edge_directives.h"
#include "services/edge/http/edge_address.h"
#include "services/edge/http/edge_clients.h"
#include "services/edge/http/edge_ctx.h"
#include "services/edge/http/edge_kept.h"
#include "services/edge/http/edge_page.h"
#include "services/edge/http/edge_proxy.h"
#include "services/edge/http/edge_redirect.h"
#include "services/edge/http/edge_status.h"
#include "services/edge/http/edge_tally.h"
#include "services/edge/http/edge_upstream.h"
#include "services/edge/worker/edge_conf.h"
#include "services/edge/worker/edge_seat.h"
#include "common/base/invariant.h"


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


void *
edge_directives_create_main(ngx_conf_t *cf)
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


char *
edge_directives_init_main(ngx_conf_t *cf, void *data)
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


void *
edge_directives_create_location(ngx_conf_t *cf)
{
    location_conf_t  *conf = ngx_pcalloc(cf->pool, sizeof(location_conf_t));

    if (conf) {
        conf->on = NGX_CONF_UNSET;
    }
    return conf;
}


char *
edge_directives_merge_location(ngx_conf_t *cf, void *parent, void *child)
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


#define MAIN_STR(name, field)                                                  \
    { ngx_string(name), NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,                     \
      ngx_conf_set_str_slot, NGX_HTTP_MAIN_CONF_OFFSET,                        \
      offsetof(edge_conf_t, field), NULL }

ngx_command_t  edge_directives[] = {

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
      edge_kept_directive,
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
