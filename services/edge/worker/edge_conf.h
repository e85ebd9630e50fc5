/* The settings of the edge from nginx.conf: one set for each process. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>

#include "common/base/address.h"

typedef struct {
    ngx_str_t name;       /* of this edge, in events and logs */
    ngx_str_t config_log; /* endpoints */
    ngx_str_t session_log; /* endpoints; empty: no session is followed */
    ngx_str_t identity;   /* endpoints of its requests; empty: nobody is asked */
    ngx_str_t sign_in_url, sign_in_host; /* where people sign in, and its name; empty: nowhere */
    ngx_str_t events;     /* endpoint */
    ngx_str_t state_dir;
    ngx_str_t state_key; /* 32-byte file */
    ngx_str_t curve_dir;
    ngx_uint_t https_port;           /* public, for redirects */
    ngx_str_t event_memory;          /* directory of the event rings; empty: anonymous memory */
    size_t ring_size;                /* event memory of each worker */
    off_t spool_size;                /* event file of each worker */
    size_t response_header_size;     /* limit of the head of an upstream's response, bytes */
    ngx_msec_t ticket_period;        /* for which one key seals session tickets */
    ngx_uint_t route_metrics;        /* routes that /metrics has by themselves */
    ngx_uint_t trace_sampled;        /* percent of the traces that begin here to be recorded */
    size_t sessions_size;            /* memory for sessions, of all workers */
    ngx_msec_t session_trust;        /* for which they are trusted unasked */
    size_t user_jwts;                /* memory of each worker for them; 0: off */
    size_t request_memory;           /* of each worker, for requests under way: edge_share.c */
    ngx_uint_t client_portion;       /* percent of what is left: portion.h */
    ngx_uint_t account_portion;      /* the same of an account */
    size_t client_take_min;          /* bytes of an answer within send_timeout: edge_pace.c */
    size_t client_give_min;          /* bytes of a body within body_timeout: edge_upload.c */
    ngx_msec_t send_timeout;         /* of the first server */
    ngx_msec_t body_timeout;         /* the same */
    ngx_array_t *status_servers;     /* ngx_http_core_srv_conf_t *: edge_clients.c */
    ngx_str_t identity_headers;      /* how names of headers begin that say who it is */
    ngx_flag_t compress_credentials; /* also responses that may hold secrets (BREACH) */
    ngx_array_t *trusted;            /* ngx_cidr_t: trusted proxies, see edge_forwarded.c */
    ngx_array_t *proxy_ports;        /* ngx_uint_t: with the PROXY protocol, see edge_proxy.c */
    ngx_array_t *proxy_from;         /* ngx_cidr_t: who may connect there */
    ngx_msec_t proxy_timeout;        /* for the header: the edge's client_header_timeout */
    ngx_str_t own_sockets, denied_upstreams, allowed_upstreams; /* lists of common/base/address.h */
    ngx_str_t fetch_program;                                    /* services/fetch; empty: none */
    ngx_str_t out_allowed, out_connect, out_ca;                 /* its settings */
    address_rules_t *addresses;                                 /* compiled from these lists */
} edge_conf_t;

extern ngx_module_t ngx_http_postern_module;

/* The settings in use, valid as long as the cycle; NULL: the module is loaded but not
 * configured. */
edge_conf_t *edge_conf(void);
void edge_conf_use(edge_conf_t *conf);

/* Give what nginx.conf does not set its default, by the rows of proto/edge_settings.def. NGX_OK |
 * NGX_ERROR: a value is out of its row's range, or no file of
 * authorities, which is logged with the setting's name and the rule. */
ngx_int_t edge_conf_settle(ngx_conf_t *cf, edge_conf_t *conf);
