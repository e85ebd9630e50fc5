#include "services/edge/table/sign_in.h"

#include "services/edge/table/document.h"
#include "services/edge/table/slab.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

/* A cookie that only this host can set, and that goes to no other (RFC 6265bis 4.1.3.2). */
/* Browsers take no cookie of this name from another host, nor for one: what stands below a name is
 * often another account's (RFC 6265bis, 4.1.3.2). */
#define HOST_PREFIX "__Host-"

/* Of a cookie's name (RFC 6265 4.1.1) only what the API takes in a prefix. */
static bool is_prefix(const char *text)
{
    return text && strlen(text) <= SIGN_IN_PREFIX_MAX
           && strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
                  == strlen(text);
}

static bool is_digest(const char *text)
{
    return text && strlen(text) == SIGN_IN_DIGEST_LEN
           && strspn(text, "0123456789abcdef") == SIGN_IN_DIGEST_LEN;
}

static char *cookie_named(const char *prefix, const char *name, size_t *len)
{
    const char *front = *prefix ? prefix : "postern.";
    char *out;

    *len = strlen(HOST_PREFIX) + strlen(front) + strlen(name);
    out = slab_alloc(*len + 1);
    snprintf(out, *len + 1, "%s%s%s", HOST_PREFIX, front, name);
    return out;
}

/* A text that must be there. */
static char *needed(const msgpack_object *document, const char *key, bool *bad)
{
    char *text = document_str(document, key, bad);

    *bad = *bad || !text;
    return text;
}

/* Questions to identity share it with the route. */
static void set_sealed(sign_in_t *self, const msgpack_object *document, bool *bad)
{
    char *text = needed(document, "sealed", bad);

    self->shared = shared_text_new(text ? text : "", text ? strlen(text) : 0);
    self->sealed = self->shared->at;
    self->sealed_len = self->shared->len;
    slab_free(text);
}

/* A document that is here is that of a module which is on. */
static void check_module(const msgpack_object *document, const char *module, bool *bad)
{
    char *name = needed(document, "module", bad);

    *bad =
        *bad || !document_bool(document, "enabled", bad) || strcmp(name ? name : "", module) != 0;
    slab_free(name);
}

sign_in_t *sign_in_parse(const msgpack_object *document, const char *module, bool *bad)
{
    sign_in_t *self = slab_alloc(sizeof(*self));
    char *prefix = needed(document, "cookie_prefix", bad);

    check_module(document, module, bad);
    self->options_passthrough = document_bool(document, "options_passthrough", bad);
    self->service_tokens = document_bool(document, "service_tokens", bad);
    self->bearer_tokens = document_bool(document, "bearer_tokens", bad);
#define SECONDS(key) document_number(document, key, 0, SIGN_IN_YEAR_S, 0, bad)
    self->inactivity_s = SECONDS("inactivity_timeout");
    self->maximum_s = SECONDS("maximum_duration");
    self->check_s = SECONDS("auth_check_interval");
#undef SECONDS
    self->client_id = needed(document, "client_id", bad);
    self->digest = needed(document, "digest", bad);
    set_sealed(self, document, bad);
    self->place = document_str(document, "place", bad);
    self->place_len = self->place ? strlen(self->place) : 0;
    if (!is_prefix(prefix) || !is_digest(self->digest) || !self->sealed_len
        || self->sealed_len > SIGN_IN_SEALED_MAX || self->place_len > SIGN_IN_PLACE_MAX) {
        *bad = true;
    } else {
        self->session_cookie = cookie_named(prefix, "session", &self->session_cookie_len);
        self->nonce_cookie = cookie_named(prefix, "nonce", &self->nonce_cookie_len);
    }
    slab_free(prefix);
    return self;
}

void sign_in_free(void *config)
{
    sign_in_t *self = config;

    slab_free(self->session_cookie);
    slab_free(self->nonce_cookie);
    slab_free(self->client_id);
    slab_free(self->digest);
    shared_text_unref(&self->shared);
    slab_free(self->place);
    slab_free(self);
}

const unsigned char *sign_in_bind(sign_in_t *self, const char *route_id)
{
    crypto_hash_sha256_state state;
    unsigned char sum[crypto_hash_sha256_BYTES];

    if (!self->is_bound) {
        crypto_hash_sha256_init(&state);
        crypto_hash_sha256_update(&state, (const unsigned char *)route_id, strlen(route_id) + 1);
        crypto_hash_sha256_update(&state, (const unsigned char *)self->digest, SIGN_IN_DIGEST_LEN);
        crypto_hash_sha256_final(&state, sum);
        memcpy(self->bound, sum, sizeof(self->bound));
        self->is_bound = true;
    }
    return self->bound;
}

/* A host may be any below a wildcard: most requests of a route have the same one all the same. */
sign_in_bound_t sign_in_bind_at(sign_in_t *self, const char *route_id, const char *host,
                                size_t host_len)
{
    sign_in_bound_t out;

    _Static_assert(sizeof(out.bytes) == crypto_shorthash_siphashx24_BYTES
                       && sizeof(self->bound) == crypto_shorthash_siphashx24_KEYBYTES,
                   "one is the other's key");
    if (host_len && host_len == self->host_len && !memcmp(self->host, host, host_len))
        return self->bound_at;
    crypto_shorthash_siphashx24(out.bytes, (const unsigned char *)host, host_len,
                                sign_in_bind(self, route_id));
    if (host_len <= SIGN_IN_HOST_KEPT) {
        memcpy(self->host, host, host_len);
        self->host_len = host_len;
        self->bound_at = out;
    }
    return out;
}
