/* nginx compares an upstream's certificate with names alone (X509_check_host, which finds no
 * address), and only behind the handshake. Here OpenSSL does all of it, within the handshake. */
#include "services/edge/tls/edge_tls_address.h"

#include <openssl/x509v3.h>


/* nginx's own callback takes any certificate, and has the result looked at later. */
static int
on_certificate(int is_valid, X509_STORE_CTX *store)
{
    int                error;
    SSL               *ssl;
    ngx_connection_t  *c;

    if (!is_valid) {
        ssl = X509_STORE_CTX_get_ex_data(store,
                                         SSL_get_ex_data_X509_STORE_CTX_idx());
        c = ngx_ssl_get_connection(ssl);
        error = X509_STORE_CTX_get_error(store);
        ngx_log_error(NGX_LOG_ERR, c->log, 0,
                      "upstream SSL certificate verify error: (%d:%s)", error,
                      X509_verify_cert_error_string(error));
    }
    return is_valid;
}


ngx_int_t
edge_tls_address_demand(ngx_connection_t *c, const char *address)
{
    SSL  *ssl = c->ssl->connection;

    SSL_set_verify(ssl, SSL_VERIFY_PEER, on_certificate);
    if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), address) != 1
        || SSL_set_tlsext_host_name(ssl, NULL) != 1)
    {
        return NGX_ERROR;
    }
    return NGX_OK;
}
