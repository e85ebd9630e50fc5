/* TLS by server name: certificate, lowest version and session context are chosen per connection
 * in OpenSSL's callbacks, so nothing is ever reloaded.
 *
 * The client hello callback binds session tickets to the TLS profile of the name they were
 * issued for. Otherwise a ticket from an edge without client certificates would resume at one that
 * demands them (CVE-2025-23419), because the certificate callback does not run on resumption. For
 * a reserved name without an edge the profile is made of the reservation. The callback also ends
 * the handshake without a server name, or with an unknown one, before a certificate is shown. */
#include "services/edge/tls/edge_tls.h"
#include "services/edge/tls/edge_bio.h"
#include "common/base/invariant.h"
#include "common/base/private_key.h"
#include "services/edge/worker/edge_worker.h"
#include "services/edge/table/table.h"
#include "services/edge/tls/edge_tickets.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/sha.h>
#include <openssl/ssl.h>

typedef struct {
    X509            *leaf;
    EVP_PKEY        *key;
    STACK_OF(X509)  *chain;
    uint64_t         number;   /* of the leaf */
} pair_t;


void
edge_tls_free_parsed(void *parsed)
{
    pair_t  *pair = parsed;

    X509_free(pair->leaf);
    EVP_PKEY_free(pair->key);
    sk_X509_pop_free(pair->chain, X509_free);
    free(pair);
}


/* Why this pair is not served; NULL: it is. The short check of the key's numbers only: a new
 * certificate passed the long one when it came to postern-routes. */
static const char *
pair_fault(const pair_t *pair)
{
    const char  *fault;

    if (pair->leaf == NULL) {
        return "its first certificate cannot be read";
    }
    if (pair->key == NULL) {
        return "its private key cannot be read";
    }
    if (private_key_type(pair->key) == NULL) {
        return "its private key is of no kind that is served, or has numbers "
               "that are too long";
    }
    fault = private_key_fault(pair->key, 0);
    if (fault == NULL && X509_check_private_key(pair->leaf, pair->key) != 1) {
        fault = "its private key belongs to another certificate";
    }
    ERR_clear_error();
    return fault;
}


static uint64_t
number_of(const X509 *leaf)
{
    u_char    sum[EVP_MAX_MD_SIZE];
    uint64_t  number;

    if (!X509_digest(leaf, EVP_sha256(), sum, NULL)) {
        return 1;
    }
    ngx_memcpy(&number, sum, sizeof(number));
    return number ? number : 1;
}


/* NULL: *ret_fault says why it is not served; no memory: NULL. */
static pair_t *
parse_pair(const char *chain_pem, const char *key_pem, const char **ret_fault)
{
    BIO     *bio;
    X509    *one;
    pair_t  *pair = calloc(1, sizeof(*pair));

    *ret_fault = NULL;
    if (pair == NULL) {
        return NULL;
    }
    pair->chain = sk_X509_new_null();
    bio = BIO_new_mem_buf(chain_pem, -1);
    pair->leaf = PEM_read_bio_X509(bio, NULL, NULL, NULL);
    while ((one = PEM_read_bio_X509(bio, NULL, NULL, NULL)) != NULL) {
        sk_X509_push(pair->chain, one);
    }
    BIO_free(bio);
    bio = BIO_new_mem_buf(key_pem, -1);
    pair->key = PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL);
    BIO_free(bio);
    ERR_clear_error();
    *ret_fault = pair_fault(pair);
    if (*ret_fault) {
        edge_tls_free_parsed(pair);
        return NULL;
    }
    pair->number = number_of(pair->leaf);
    return pair;
}


/* Parsed once, also where it is refused: a client may say hello without end. */
static pair_t *
parse_once(domain_t *domain)
{
    const char  *fault;

    if (domain->parsed || domain->is_refused) {
        return domain->parsed;
    }
    domain->parsed = parse_pair(domain->chain_pem, domain->key_pem, &fault);
    if (domain->parsed == NULL && fault) {
        domain->is_refused = true;
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                      "certificate %s is not served, its names end handshakes: "
                      "%s", domain->id, fault);
    }
    return domain->parsed;
}


/* The certificate and key for a name; parsed at the first handshake that needs them. */
static pair_t *
pair_for(const char *name, size_t len)
{
    table_t   *table = edge_worker_table();
    domain_t  *domain = table_domain(table, name, len);

    if (domain && domain->certificate_id) {
        domain = strmap_get(table->certificates, domain->certificate_id,
                            ngx_strlen(domain->certificate_id));
    }
    if (domain == NULL || domain->chain_pem == NULL) {
        return NULL;
    }
    return parse_once(domain);
}


uint64_t
edge_tls_certificate(const char *name, size_t len)
{
    const pair_t  *pair = pair_for(name, len);

    return pair ? pair->number : 0;
}


/* Lower case, without a trailing dot: a.example. is a.example (CVE-2022-23632). 0: too long. */
static size_t
fold_name(const u_char *name, size_t len, char *out, size_t size)
{
    if (len && name[len - 1] == '.') {
        len--;
    }
    if (len == 0 || len >= size) {
        return 0;
    }
    ngx_strlow((u_char *) out, (u_char *) name, len);
    out[len] = '\0';
    return len;
}


/* Reads the server name extension (RFC 6066 3: list length, type 0, name length, name). 0: no valid
 * name, with the alert to send. */
static size_t
hello_name(SSL *ssl, char *out, size_t size, int *alert)
{
    size_t         len, name_len;
    const u_char  *data;

    if (!SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_server_name, &data, &len)) {
        *alert = SSL_AD_MISSING_EXTENSION;   /* RFC 8446 9.2 */
        return 0;
    }
    *alert = SSL_AD_UNRECOGNIZED_NAME;
    if (len < 5 || data[2] != TLSEXT_NAMETYPE_host_name) {
        return 0;
    }
    name_len = (size_t) data[3] << 8 | data[4];
    if (name_len > len - 5) {
        return 0;
    }
    return fold_name(data + 5, name_len, out, size);
}


static void
profile_of_name(const char *name, size_t len, u_char profile[32])
{
    u_char          text[512];   /* id (at most 128 bytes), space, name (at most 255) */
    size_t          n;
    const domain_t *domain = table_domain(edge_worker_table(), name, len);

    n = ngx_slprintf(text, text + sizeof(text), "%s %*s",
                     domain && domain->id ? domain->id : "", len, name) - text;
    INVARIANT(n < sizeof(text));
    SHA256(text, n, profile);
}


static int
on_client_hello(SSL *ssl, int *alert, void *unused)
{
    char            name[256];
    u_char          profile[32];
    edge_t         *edge;
    pair_t         *pair;
    size_t          len;
    edge_client_t  *client;

    (void) unused;
    edge_worker_refresh();
    len = hello_name(ssl, name, sizeof(name), alert);
    pair = len ? pair_for(name, len) : NULL;
    if (pair == NULL) {
        return SSL_CLIENT_HELLO_ERROR;   /* an unknown name, or one without a certificate */
    }
    edge = table_edge(edge_worker_table(), name, len);
    edge_tickets_greet(ssl);
    if (edge == NULL) {
        profile_of_name(name, len, profile);
    } else {
        ngx_memcpy(profile, edge->profile, sizeof(profile));
        SSL_set_min_proto_version(ssl, edge->min_version);
        if (edge->mutual_tls) {
            /* client certificates cannot be verified here: deny all clients */
            *alert = SSL_AD_HANDSHAKE_FAILURE;
            return SSL_CLIENT_HELLO_ERROR;
        }
    }
    client = edge_bio_attach(ssl, name, len);
    if (client == NULL
        || !SSL_set_session_id_context(ssl, profile, sizeof(profile)))
    {
        *alert = SSL_AD_INTERNAL_ERROR;
        return SSL_CLIENT_HELLO_ERROR;
    }
    ngx_memcpy(client->profile, profile, sizeof(profile));
    client->certificate = pair->number;
    client->had_edge = edge != NULL && edge->present;
    return SSL_CLIENT_HELLO_SUCCESS;
}


static int
on_certificate(SSL *ssl, void *unused)
{
    char         name[256];
    pair_t      *pair;
    size_t       len;
    const char  *sni = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);

    (void) unused;
    len = sni ? fold_name((u_char *) sni, ngx_strlen(sni), name, sizeof(name))
              : 0;
    pair = len ? pair_for(name, len) : NULL;
    if (pair == NULL) {
        return 0;   /* never show the placeholder certificate of nginx.conf */
    }
    SSL_certs_clear(ssl);   /* OpenSSL would prefer an EC placeholder to an RSA certificate */
    return SSL_use_cert_and_key(ssl, pair->leaf, pair->key, pair->chain, 1);
}


/* Sets the callbacks on every server's context. Variables in ssl_certificate cannot be used: nginx
 * would set the same callback. */
ngx_int_t
edge_tls_install(ngx_conf_t *cf)
{
    ngx_uint_t                   i;
    ngx_http_ssl_srv_conf_t     *ssl;
    ngx_http_core_srv_conf_t   **servers;
    ngx_http_core_main_conf_t   *cmcf;

    if (edge_bio_install() != NGX_OK) {
        return NGX_ERROR;
    }
    cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);
    servers = cmcf->servers.elts;
    for (i = 0; i < cmcf->servers.nelts; i++) {
        ssl = servers[i]->ctx->srv_conf[ngx_http_ssl_module.ctx_index];
        if (ssl->ssl.ctx == NULL) {
            continue;
        }
        SSL_CTX_set_client_hello_cb(ssl->ssl.ctx, on_client_hello, NULL);
        SSL_CTX_set_cert_cb(ssl->ssl.ctx, on_certificate, NULL);
        if (edge_tickets_install(ssl->ssl.ctx) != NGX_OK) {
            return NGX_ERROR;
        }
    }
    return NGX_OK;
}
