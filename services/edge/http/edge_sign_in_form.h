/* The page by which a browser posts a message to an identity provider (SAML bindings 3.5). */
#pragma once

#include "services/edge/http/edge_sign_in_answer.h"

/* What it posts, and where: url is https. */
typedef struct {
    ngx_str_t url, name, message, relay_state;
} edge_form_t;

/* The form of an answer, copied into the pool. NGX_OK | NGX_DECLINED: it has none, or not a good
 * one | NGX_ERROR. */
ngx_int_t edge_sign_in_form_take(ngx_pool_t *pool, const ask_answer_t *answer, edge_form_t *out);

/* Send the page: it posts itself, or where there are no scripts by a button. For content handlers.
 */
ngx_int_t edge_sign_in_form(ngx_http_request_t *r, edge_ctx_t *ctx, const edge_form_t *form);
