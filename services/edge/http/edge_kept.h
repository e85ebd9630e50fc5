/* Connections to upstreams that are kept for the next request: nginx's keepalive module has them,
 * and this wraps it. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_http.h>

/* Directive inside upstream{}, behind keepalive: idle connections that are kept may be given up
 * when the worker's connections run short, and requests are sent on them as edge_sends.h says. */
char *edge_kept_directive(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/* The connection is kept from now on, for the first time or once more. Without the directive that
 * makes no difference. */
void edge_kept_mark(ngx_connection_t *c, ngx_uint_t is_new);
