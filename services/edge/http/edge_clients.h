/* Connections of clients: how many of a worker's one client may have. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "services/edge/worker/edge_conf.h"

/* While the configuration is read: the server that cf is in has the status port, whose connections
 * are not counted and may have the reserve. NGX_OK | NGX_ERROR: no memory. */
ngx_int_t edge_clients_exempt(ngx_conf_t *cf);
/* In the master, when the listening sockets are known, and behind edge_proxy_install. */
void edge_clients_install(ngx_cycle_t *cycle);

/* A connection of c->sockaddr was accepted: count it until its pool is destroyed. 0: its client, or
 * the network above, has its portion of the worker's connections, and none of the client's is idle,
 * or there are none but the last ones: it is counted as refused, and closed. */
ngx_uint_t edge_clients_admit(ngx_connection_t *c);
/* A client, by its hash for no account, has its portion of the worker's connections, and needs one
 * to an upstream: one of its own that is idle, if there is one, is closed. */
void edge_clients_give_up_idle(uint32_t hash);
/* Half of what edge_clients_admit does, where it is not known yet whose connection it is. */
ngx_uint_t edge_clients_has_room(ngx_connection_t *c);
