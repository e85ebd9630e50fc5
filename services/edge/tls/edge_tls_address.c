/* nginx compares an upstream's certificate with names alone (X509_check_host, which finds no
 * address), and only behind the handshake. Here OpenSSL does all of it, within the handshake. */
#include "services/edge/tls/edge_tls_address.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>


/* nginx's own callback takes any certificate, and has the result looked at later. What is raised
 * here is the first of the errors with which nginx logs the end of the handshake, and one of those
 * for which it takes the level of the connection: "certificate verify failed" by itself, which is
 * all that OpenSSL has to say then, would have the one of nginx's own faults. */
static int
on_certificate(int is_valid, X509_STORE_CTX *store)
{
    int  error = X509_STORE_CTX_get_error(store);

    if (!is_valid) {
        ERR_clear_error();
        ERR_raise_data(ERR_LIB_SSL, SSL_R_CALLBACK_FAILED,
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


ngx_uint_t
edge_tls_address_is_verified(const ngx_connection_t *c)
{
    const SSL  *ssl = c->ssl->connection;

    return SSL_get0_peer_certificate(ssl) != NULL && SSL_get_verify_result(ssl) == X509_V_OK;
}
