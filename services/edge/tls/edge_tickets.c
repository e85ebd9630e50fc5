/* Session tickets in a worker. The helper sends the keys (edge_ticket_file.c), so that no handshake
 * waits for a file. Keys are kept in memory that is excluded from core dumps and not inherited by
 * forked processes: no copy of a key survives its replacement. Without usable keys all handshakes
 * are full ones. */
#include "services/edge/tls/edge_tickets.h"
#include "common/base/invariant.h"
#include "services/edge/worker/edge_conf.h"

#include <openssl/core_names.h>
#include <openssl/rand.h>
#include <sys/mman.h>

enum { STALE = 2 };   /* overdue rotations: the helper has sent no keys for a whole period */

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
    INVARIANT(sizeof(*held) <= ngx_pagesize);
    (void) mlock(at, ngx_pagesize);   /* best effort: RLIMIT_MEMLOCK may forbid it */
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
           && tickets_due(held->since, ngx_time(), edge_conf()->ticket_period / 1000) < STALE;
}


/* Announces no tickets if there is no usable key: OpenSSL 3.0 would send an empty ticket, which TLS
 * 1.3 does not allow. */
void
edge_tickets_greet(SSL *ssl)
{
    if (!may_use()) {
        SSL_set_num_tickets(ssl, 0);
    }
}


static int
use_key(const ticket_key_t *key, const u_char *iv, EVP_CIPHER_CTX *cipher,
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


/* 1: sealed | 0: an empty ticket, which a client of TLS 1.2 ignores | -1: the handshake fails. If
 * the keys became unusable after the hello, a client of TLS 1.3 gets a ticket sealed with a random
 * key, which nothing can open. */
static int
seal_ticket(SSL *ssl, u_char *name, u_char *iv, EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac)
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
         && use_key(key, iv, cipher, mac, 1);
    ngx_explicit_memzero(&nobodys, sizeof(nobodys));
    return ok ? 1 : -1;
}


/* 0: no such key (any more): a full handshake, and a new ticket | 1: valid | 2: valid, and the
 * client gets a new ticket: in TLS 1.3 on each connection (RFC 8446 C.4), in TLS 1.2 if the
 * ticket's key is an older one than the key that seals now. */
static int
open_ticket(SSL *ssl, const u_char *name, const u_char *iv, EVP_CIPHER_CTX *cipher,
    EVP_MAC_CTX *mac)
{
    const ticket_key_t  *key = may_use() ? tickets_find(&held->tickets, name) : NULL;

    if (key == NULL || !use_key(key, iv, cipher, mac, 0)) {
        return 0;
    }
    return SSL_version(ssl) == TLS1_3_VERSION
           || key > &held->tickets.keys[TICKETS_CURRENT] ? 2 : 1;
}


static int
on_ticket(SSL *ssl, u_char *name, u_char *iv, EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac,
    int sealing)
{
    return sealing ? seal_ticket(ssl, name, iv, cipher, mac)
                   : open_ticket(ssl, name, iv, cipher, mac);
}


/* Fetches the cipher once, instead of for each ticket. */
ngx_int_t
edge_tickets_install(SSL_CTX *ctx)
{
    if (aes == NULL) {
        aes = EVP_CIPHER_fetch(NULL, "AES-256-CBC", NULL);
    }
    /* OpenSSL's buffer must hold the IV, and ticket_key_t a cipher key */
    INVARIANT(aes == NULL
              || (EVP_CIPHER_get_iv_length(aes) <= EVP_MAX_IV_LENGTH
                  && EVP_CIPHER_get_key_length(aes)
                     == sizeof(((ticket_key_t *) 0)->cipher)));
    return aes && SSL_CTX_set_tlsext_ticket_key_evp_cb(ctx, on_ticket)
           ? NGX_OK : NGX_ERROR;
}
