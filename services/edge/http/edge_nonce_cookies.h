/* Cookies at a route's host: a nonce for the sign-ins that a browser begins there, by which the
 * code that comes back is known to be this browser's, in one of the places of flow_places.h. A
 * browser that has one begins further sign-ins with it; those that it begins at once before have
 * one each. Behind the places stands how often a page of it has gone on by itself of late. */
#pragma once

#include "services/edge/http/edge_ctx.h"
#include "services/edge/table/sign_in.h"

enum { EDGE_NONCES_MAX = 32 /* that identity takes for a code */ };

typedef struct {
    ngx_uint_t n;
    ngx_str_t each[EDGE_NONCES_MAX]; /* the first is that of further sign-ins */
    int place;                       /* of the first; -1: it has none */
    unsigned retries;
} edge_nonces_t;

/* Those of a module that the request brings, whose texts are the head's. NULL: no memory. */
edge_nonces_t *edge_nonces_read(ngx_http_request_t *r, const sign_in_t *config);

/* Add the cookie of a nonce to the answer, in the place of the first of those that the browser has
 * shown, or in a place of its own. NGX_OK | NGX_ERROR. */
ngx_int_t edge_nonce_set(ngx_http_request_t *r, const sign_in_t *config,
                         const edge_nonces_t *nonces, const ngx_str_t *value, ngx_uint_t is_framed);

/* May a page go on by itself? Counted in a cookie of the answer. A browser that never comes to a
 * session would go round and round, so it may a few times within a minute, and only one that keeps
 * cookies of this host, as the nonce shows that it has. NGX_OK | NGX_DECLINED: it may not |
 * NGX_ERROR. */
ngx_int_t edge_nonces_count_retry(ngx_http_request_t *r, const sign_in_t *config,
                                  const edge_nonces_t *nonces);

/* Take all of them away, where a head was too long for a host with routes where people sign in:
 * those of the route's module, or where that is not known those of modules without a prefix of
 * their own. NGX_OK: also nothing | NGX_ERROR. */
ngx_int_t edge_nonces_clear(ngx_http_request_t *r, const ngx_str_t *host);
