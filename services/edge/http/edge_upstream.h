/* The one upstream{} block, whose peers are the backends of routes. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_http.h>

/* Directive inside upstream{}: peers come from the request's backend, not from server lines. */
char *edge_upstream_directive(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
