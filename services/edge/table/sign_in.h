/* What a route's module oauth, oidc or saml says to the edge: how its cookies are called, and what
 * identity needs to know of it, sealed. No nginx in here. */
#pragma once

#include "services/edge/table/shared_text.h"

#include <msgpack.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SIGN_IN_PREFIX_MAX = 128,     /* of cookies' names */
    SIGN_IN_DIGEST_LEN = 64,      /* hexadecimal digits */
    SIGN_IN_SEALED_MAX = 1 << 20, /* bytes of what only identity can read */
    SIGN_IN_PLACE_MAX = 1024,     /* the same */
    SIGN_IN_YEAR_S = 366 * 86400,
    SIGN_IN_BOUND_BYTES = 16,
    SIGN_IN_HOST_KEPT = 64 /* bytes of a host whose bound is kept */
};

typedef struct sign_in_bound {
    unsigned char bytes[SIGN_IN_BOUND_BYTES];
} sign_in_bound_t;

typedef struct sign_in {
    char *session_cookie, *nonce_cookie; /* names */
    size_t session_cookie_len, nonce_cookie_len;
    bool options_passthrough;                  /* requests of this method need no session */
    bool service_tokens;                       /* machines are let in by them */
    bool bearer_tokens;                        /* the same by JWTs of the issuer */
    uint32_t inactivity_s, maximum_s, check_s; /* 0: off */
    char *client_id;                           /* "": there is none */
    char *digest;                              /* of the rules, SIGN_IN_DIGEST_LEN digits */
    shared_text_t *shared;                     /* has sealed */
    const char *sealed;
    size_t sealed_len;
    char *place; /* the same without the rules, which is short; NULL: there is none */
    size_t place_len;
    bool is_bound; /* the next is set: sign_in_bind */
    unsigned char bound[SIGN_IN_BOUND_BYTES];
    size_t host_len; /* of the next: the host that sign_in_bind_at was asked for last; 0: none */
    char host[SIGN_IN_HOST_KEPT];
    sign_in_bound_t bound_at; /* what it said */
} sign_in_t;

/* The hooks parse and free of module.h; module is its name, which the document must have. */
sign_in_t *sign_in_parse(const msgpack_object *document, const char *module, bool *bad);
void sign_in_free(void *config);

/* What machines' tokens at the route under these rules are bound to. */
const unsigned char *sign_in_bind(sign_in_t *self, const char *route_id);

/* What sessions are bound to: the same, and the host (host_len bytes, without port) at which their
 * cookies are shown. */
sign_in_bound_t sign_in_bind_at(sign_in_t *self, const char *route_id, const char *host,
                                size_t host_len);
