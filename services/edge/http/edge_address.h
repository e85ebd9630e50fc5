/* Where requests may go. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_http.h>

#include "services/edge/table/table.h"
#include "services/edge/worker/edge_conf.h"

char *edge_address_directive(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *edge_address_init(ngx_conf_t *cf, edge_conf_t *conf);
/* May a request go to this address of the backend? If not it is logged and counted. */
ngx_uint_t edge_address_permits(ngx_http_request_t *r, const backend_t *backend,
                                const struct sockaddr *address);
