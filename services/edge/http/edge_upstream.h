/* The one upstream{} block, whose peers are the backends of routes. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_http.h>

#include "services/edge/table/table.h"

/* Where a static backend is right now, if it may be dialled. The length of *ret_address; 0: its
 * name has no address, or the address is denied, which is counted and logged. */
socklen_t edge_upstream_address(ngx_http_request_t *r, const backend_t *backend,
                                struct sockaddr_storage *ret_address);

/* Directive inside upstream{}: peers come from the request's backend, not from server lines. */
char *edge_upstream_directive(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
