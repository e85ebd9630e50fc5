/* Certificate, lowest version and session context of a handshake, by server name. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

/* In the master: put the callbacks on every server with TLS. NGX_OK | NGX_ERROR */
ngx_int_t edge_tls_install(ngx_conf_t *cf);

/* A number of the certificate that the name is served with, other than that of another one; 0: it
 * is served with none. */
uint64_t edge_tls_certificate(const char *name, size_t len);

/* Free a parsed certificate and key (domain_t.parsed); not NULL. */
void edge_tls_free_parsed(void *parsed);
