/* The addresses to which the edge may send requests. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_http.h>

#include "services/edge/table/table.h"
#include "services/edge/worker/edge_conf.h"

/* Setter of a directive that lists addresses: appends to the text of earlier occurrences. */
char *edge_address_directive(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
/* Make conf->addresses of those texts, once all directives are read; a wrong item is logged. */
char *edge_address_init(ngx_conf_t *cf, edge_conf_t *conf);
/* May a request go to this address of the backend? A denial is logged and counted. */
ngx_uint_t edge_address_permits(ngx_http_request_t *r, const backend_t *backend,
                                const struct sockaddr *address);
