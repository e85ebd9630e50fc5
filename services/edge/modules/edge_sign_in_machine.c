/* Machines at routes where people sign in: a service token in Authorization is looked up like a
 * session, under a key of its own for each route (bearer.h), and ends as one. It is for the edge:
 * the upstream does not get it. */
#include "services/edge/modules/edge_sign_in.h"
#include "services/edge/http/edge_header.h"
#include "services/edge/modules/bearer.h"
#include "common/base/err.h"

enum { REFUSED_MS = 2000 };

static bearer_refused_t  refused;   /* of this worker */


/* Of several Authorization none counts, as of several cookies; nginx refuses such a request by
 * itself where it knows the header. */
static ngx_table_elt_t *
authorization_of(ngx_http_request_t *r)
{
    ngx_table_elt_t  *header = r->headers_in.authorization;

    return header && header->value.len && !edge_header_hidden(header) ? header : NULL;
}


sign_in_machine_t
edge_sign_in_machine(edge_sign_in_state_t *state)
{
    bearer_text_t     text;
    const u_char     *bound = sign_in_bind(state->config, state->ctx->route->id);
    ngx_table_elt_t  *header = authorization_of(state->r);

    if (!state->config->service_tokens || header == NULL) {
        return SIGN_IN_NO_MACHINE;
    }
    text = bearer_token((char *) header->value.data, header->value.len);
    if (text.at == NULL) {
        return SIGN_IN_NO_MACHINE;
    }
    state->machine = 1;
    if (text.len == 0) {
        return SIGN_IN_NO_TOKEN;
    }
    state->token = (ngx_str_t) { text.len, (u_char *) text.at };
    if (edge_sign_in_hash(state) != NGX_OK) {
        return SIGN_IN_NO_TOKEN;
    }
    ngx_memcpy(state->named, state->hash, SESSION_HASH_BYTES);
    bearer_key(state->named, bound, state->hash);
    state->sealed = 1;   /* identity reads there what the route is and admits */
    if (bearer_is_refused(&refused, state->hash,
                          sessions_generation(edge_sign_in_sessions(), state->hash),
                          edge_sign_in_clock()))
    {
        return SIGN_IN_NO_TOKEN;
    }
    return SIGN_IN_MACHINE;
}


void
edge_sign_in_machine_refuse(const edge_sign_in_state_t *state)
{
    bearer_refuse(&refused, state->hash,
                  sessions_generation(edge_sign_in_sessions(), state->hash),
                  edge_sign_in_clock() + REFUSED_MS);
}


ngx_int_t
edge_sign_in_machine_hide(edge_sign_in_state_t *state)
{
    bearer_text_t     text;
    ngx_table_elt_t  *header = authorization_of(state->r);

    if (header == NULL) {
        return NGX_OK;
    }
    text = bearer_token((char *) header->value.data, header->value.len);
    return text.at ? edge_header_hide(state->r, state->ctx, header) : NGX_OK;
}


ngx_uint_t
edge_sign_in_is_of(const edge_sign_in_state_t *state, const u_char *hash)
{
    return ngx_memcmp(state->hash, hash, SESSION_HASH_BYTES) == 0
           || (state->machine
               && ngx_memcmp(state->named, hash, SESSION_HASH_BYTES) == 0);
}
