/* Certificate, lowest version and session context of a handshake, by server name. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

/* In the master: put the callbacks on every server with TLS. NGX_OK | NGX_ERROR */
ngx_int_t edge_tls_install(ngx_conf_t *cf);

/* Free a parsed certificate and key (domain_t.parsed); not NULL. */
void edge_tls_free_parsed(void *parsed);
