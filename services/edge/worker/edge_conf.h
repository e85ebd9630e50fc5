/* The settings of the edge that nginx.conf holds: one set in a process. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>

#include "common/base/address.h"

typedef struct {
    ngx_str_t name;       /* of this edge, in events and logs */
    ngx_str_t config_log; /* endpoint */
    ngx_str_t events;     /* endpoint */
    ngx_str_t state_dir;
    ngx_str_t state_key; /* 32-byte file */
    ngx_str_t curve_dir;
    ngx_uint_t https_port;       /* public, for redirects */
    ngx_str_t event_memory;      /* directory; none: only the edge's own processes see events */
    size_t ring_size;            /* event memory of each worker */
    off_t spool_size;            /* event file of each worker */
    size_t response_header_size; /* of an upstream, at most */
    time_t ticket_period;        /* for which one key seals session tickets */
    ngx_array_t *trusted;        /* ngx_cidr_t: proxies that are believed: edge_forwarded.c */
    ngx_str_t own_sockets, denied_upstreams, allowed_upstreams; /* lists of common/base/address.h */
    address_rules_t *addresses;                                 /* made of them */
} edge_conf_t;

extern ngx_module_t ngx_http_postern_module;

/* In use; NULL: the module is loaded, and nothing of it is configured. Valid as long as the
 * cycle. */
edge_conf_t *edge_conf(void);
void edge_conf_use(edge_conf_t *conf);
