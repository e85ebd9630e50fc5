/* Listeners of the PROXY protocol: connections of configured load balancers, which say in a header
 * whose connection each is. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "services/edge/worker/edge_conf.h"

/* At the end of the configuration: a header may take as long as the first server's heads. NGX_OK |
 * NGX_ERROR: ports without networks, or networks without ports; logged. */
ngx_int_t edge_proxy_check(ngx_conf_t *cf, edge_conf_t *conf);
/* In the master, when the listening sockets are known: those on the ports of
 * postern_proxy_protocol_ports speak the PROXY protocol from now on. NGX_OK | NGX_ERROR: nothing
 * listens on one of them; logged. */
ngx_int_t edge_proxy_install(ngx_cycle_t *cycle);
/* Setter of postern_proxy_protocol_ports. */
char *edge_proxy_ports_directive(ngx_conf_t *cf, ngx_command_t *cmd, void *data);
