/* Which certificate and which demands a handshake gets, and which requests may use its
 * connection. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

ngx_int_t edge_tls_install(ngx_conf_t *cf);
void edge_tls_free_parsed(void *parsed);
