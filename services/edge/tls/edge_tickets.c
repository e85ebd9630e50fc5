/* Session tickets in a worker. Its helper brings the keys (edge_ticket_file.c): no handshake
 * waits for a file. They lie in memory that is in no core dump and that no process has which is
 * forked from this one, so that each key is gone when it is replaced. With none that may be used
 * handshakes go on, each of them in full. */
#include "services/edge/tls/edge_tickets.h"
#include "services/edge/worker/edge_conf.h"

#include <openssl/core_names.h>
#include <openssl/rand.h>
#include <sys/mman.h>

enum { STALE = 2 };   /* changes that are due: the helper has not brought them for a whole period */

static edge_tickets_t  *held;   /* NULL: none came yet */
static ngx_uint_t       has;
static EVP_CIPHER      *aes;


static ngx_int_t
make_memory(void)
{
    void  *at;

    if (held) {
        return NGX_OK;
    }
    at = mmap(NULL, ngx_pagesize, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED || madvise(at, ngx_pagesize, MADV_WIPEONFORK) != 0
        || madvise(at, ngx_pagesize, MADV_DONTDUMP) != 0)
    {
        ngx_log_error(NGX_LOG_ALERT, ngx_cycle->log, ngx_errno,
                      "postern: no memory for the keys of session tickets");
        if (at != MAP_FAILED) {
            munmap(at, ngx_pagesize);
        }
        return NGX_ERROR;
    }
    (void) mlock(at, ngx_pagesize);   /* where the user may */
    held = at;
    return NGX_OK;
}


void
edge_tickets_take(ngx_str_t *frame)
{
    has = frame->len == sizeof(*held) && make_memory() == NGX_OK;
    if (has) {
        ngx_memcpy(held, frame->data, sizeof(*held));
    } else if (held) {
        ngx_explicit_memzero(held, sizeof(*held));
    }
    if (frame->len) {
        ngx_explicit_memzero(frame->data, frame->len);
    }
}


static ngx_uint_t
may_use(void)
{
    return has
           && tickets_due(held->since, ngx_time(), edge_conf()->ticket_period) < STALE;
}


/* OpenSSL 3.0 makes an empty ticket of none, which TLS 1.3 does not have. */
void
edge_tickets_greet(SSL *ssl)
{
    if (!may_use()) {
        SSL_set_num_tickets(ssl, 0);
    }
}


static int
use(const ticket_key_t *key, const u_char *iv, EVP_CIPHER_CTX *cipher,
    EVP_MAC_CTX *mac, int sealing)
{
    OSSL_PARAM  params[3];

    params[0] = OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, (void *) key->mac,
                                                  sizeof(key->mac));
    params[1] = OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, (char *) "SHA256", 0);
    params[2] = OSSL_PARAM_construct_end();
    return EVP_CipherInit_ex(cipher, aes, NULL, key->cipher, iv, sealing) == 1
           && EVP_MAC_CTX_set_params(mac, params) == 1;
}


/* 0: an empty ticket, which a client of TLS 1.2 takes for none | -1: the handshake ends. Where
 * the keys went between the hello and here, a client of TLS 1.3 gets one that nobody can open. */
static int
seal(SSL *ssl, u_char *name, u_char *iv, EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac)
{
    int                  ok;
    ticket_key_t         nobodys;
    const ticket_key_t  *key = &nobodys;

    if (may_use()) {
        key = &held->tickets.keys[TICKETS_CURRENT];
    } else if (SSL_version(ssl) < TLS1_3_VERSION) {
        return 0;
    } else if (RAND_bytes((u_char *) &nobodys, sizeof(nobodys)) != 1) {
        return -1;
    }
    ngx_memcpy(name, key->name, TICKETS_NAME_BYTES);
    ok = RAND_bytes(iv, EVP_CIPHER_get_iv_length(aes)) == 1
         && use(key, iv, cipher, mac, 1);
    ngx_explicit_memzero(&nobodys, sizeof(nobodys));
    return ok ? 1 : -1;
}


/* 0: not one of ours, or of a key that is gone: a full handshake, and a new ticket | 1: good |
 * 2: good, and the client gets another one: of the key that seals now, and in TLS 1.3 for each
 * connection (RFC 8446 C.4). */
static int
unseal(SSL *ssl, const u_char *name, const u_char *iv, EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac)
{
    const ticket_key_t  *key = may_use() ? tickets_find(&held->tickets, name) : NULL;

    if (key == NULL || !use(key, iv, cipher, mac, 0)) {
        return 0;
    }
    return SSL_version(ssl) == TLS1_3_VERSION
           || key > &held->tickets.keys[TICKETS_CURRENT] ? 2 : 1;
}


static int
on_ticket(SSL *ssl, u_char *name, u_char *iv, EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac,
    int sealing)
{
    return sealing ? seal(ssl, name, iv, cipher, mac)
                   : unseal(ssl, name, iv, cipher, mac);
}


/* The cipher is looked up once, and not for each ticket. */
ngx_int_t
edge_tickets_install(SSL_CTX *ctx)
{
    if (aes == NULL) {
        aes = EVP_CIPHER_fetch(NULL, "AES-256-CBC", NULL);
    }
    return aes && SSL_CTX_set_tlsext_ticket_key_evp_cb(ctx, on_ticket)
           ? NGX_OK : NGX_ERROR;
}
