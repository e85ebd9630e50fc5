/* What the edge itself answers where somebody signs in: redirects, cookies, and which of its pages
 * stands for what identity says. */
#pragma once

#include <msgpack.h>

#include "services/edge/control/edge_ask.h"
#include "services/edge/events/edge_pack.h"
#include "services/edge/http/edge_ctx.h"

enum { EDGE_SIGN_IN_LOCATION_MAX = 8192, EDGE_SIGN_IN_COOKIE_MAX = 3800 };

/* The request's URL has a code, a ticket or a state: from here on neither log nor event repeats its
 * query, nor where it is sent. */
void edge_sign_in_conceal(ngx_http_request_t *r, edge_ctx_t *ctx);

/* The same where the URL may have one, before anything can deny the request: at the sign-in host,
 * and at the path of a route to which it sends browsers back. edge NULL: it is not known. */
void edge_sign_in_conceal_early(ngx_http_request_t *r, edge_ctx_t *ctx, const edge_t *edge);

/* Has the URL a code of ours, which identity marks ("postern-"), though nobody signs in at the
 * route (any more)? No upstream is to have it: it may still be redeemed for 30 s. */
ngx_uint_t edge_sign_in_is_stray(const ngx_http_request_t *r, const route_t *route);

/* Add Set-Cookie: name=value; and attributes, and what keeps such answers from being stored. Value
 * empty: the cookie is to be forgotten. NGX_OK | NGX_ERROR. */
ngx_int_t edge_sign_in_set_cookie(ngx_http_request_t *r, const ngx_str_t *name,
                                  const ngx_str_t *value, const char *attributes);

/* Send the client away: 302. location lives as long as the request. For content handlers. */
ngx_int_t edge_sign_in_redirect(ngx_http_request_t *r, edge_ctx_t *ctx, const ngx_str_t *location);

/* Send a page of ours, which is HTML. For content handlers. */
ngx_int_t edge_sign_in_page(ngx_http_request_t *r, edge_ctx_t *ctx, ngx_str_t *html);

/* The same with another type, and another Content-Security-Policy; NULL: that of our pages. */
ngx_int_t edge_sign_in_document(ngx_http_request_t *r, edge_ctx_t *ctx, ngx_str_t *text,
                                const char *type, const char *policy);

/* Let the page offer what is at a path below the route's own /auth/ (authn: to begin again), at
 * authority, a host of the route. Without effect where the route's path has what would
 * have to be written otherwise in HTML. */
void edge_sign_in_offer(ngx_http_request_t *r, edge_ctx_t *ctx, const route_t *route,
                        const ngx_str_t *authority, const char *path);

/* The same for the route's own path, to which the page goes by itself after a moment. */
void edge_sign_in_go_round(ngx_http_request_t *r, edge_ctx_t *ctx, const route_t *route,
                           const ngx_str_t *authority);

/* The edge's page for what identity answered, or for that nobody did. */
ngx_uint_t edge_sign_in_error(int code);

/* A text of an answer, copied into the pool; empty: it is not there, is longer than max, or has
 * what a header may not have. */
ngx_str_t edge_sign_in_text(ngx_pool_t *pool, const ask_answer_t *answer, const char *key,
                            size_t max);

/* A member of an answer, whatever it is; NULL: it is not there. */
const msgpack_object *edge_sign_in_member(const ask_answer_t *answer, const char *key);

/* The body of a question to identity: begin allocates size bytes for the texts beside what is
 * between them, put adds a text with its key, put_value a text alone, put_clean one of outside
 * that may be no UTF-8, and put_head all of a text with its key but the text itself, which is last
 * then, and shared (ask_body_t). NGX_OK | NGX_ERROR. */
ngx_int_t edge_sign_in_body(ngx_pool_t *pool, pack_t *pk, u_char **start, size_t size,
                            size_t pairs);
void edge_sign_in_put(pack_t *pk, const char *key, const void *text, size_t len);
void edge_sign_in_put_head(pack_t *pk, const char *key, size_t len);
void edge_sign_in_put_value(pack_t *pk, const void *text, size_t len);
void edge_sign_in_put_clean(pack_t *pk, const char *key, const ngx_str_t *text, size_t max);
