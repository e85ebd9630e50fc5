/* Machines at routes where people sign in: a service token in Authorization, or a JWT of the
 * issuer, is looked up like a session, under a key of its own for each route and its rules
 * (bearer.h), and ends as one. It is for the edge: the upstream does not get it. */
#include "services/edge/modules/edge_sign_in.h"
#include "services/edge/http/edge_header.h"
#include "services/edge/http/edge_sign_in_answer.h"
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


/* What of the header is for the edge: a service token, and where the issuer's JWTs are let in
 * whatever else has the scheme. at NULL: nothing is. */
static bearer_text_t
edge_text_of(const edge_sign_in_state_t *state, const ngx_table_elt_t *header)
{
    bearer_text_t  text = bearer_token((char *) header->value.data, header->value.len);

    if (text.at == NULL && state->config->bearer_tokens) {
        text = bearer_jwt((char *) header->value.data, header->value.len);
    }
    return text;
}


/* Which of the two it is, and whether the route lets it in. */
static sign_in_machine_t
take_text(edge_sign_in_state_t *state, const ngx_table_elt_t *header)
{
    bearer_text_t     text = edge_text_of(state, header);
    const sign_in_t  *config = state->config;

    if (text.at == NULL || !(config->service_tokens || config->bearer_tokens)) {
        return SIGN_IN_NO_MACHINE;
    }
    state->machine = 1;
    state->jwt_brought = bearer_token((char *) header->value.data, header->value.len).at == NULL;
    if (text.len == 0 || (!state->jwt_brought && !config->service_tokens)) {
        return SIGN_IN_NO_TOKEN;
    }
    state->token = (ngx_str_t) { text.len, (u_char *) text.at };
    return edge_sign_in_hash(state) == NGX_OK ? SIGN_IN_MACHINE : SIGN_IN_NO_TOKEN;
}


sign_in_machine_t
edge_sign_in_machine(edge_sign_in_state_t *state)
{
    const u_char       *bound = sign_in_bind(state->config, state->ctx->route->id);
    ngx_table_elt_t    *header = authorization_of(state->r);
    sign_in_machine_t   taken = header ? take_text(state, header) : SIGN_IN_NO_MACHINE;

    if (taken != SIGN_IN_MACHINE) {
        return taken;
    }
    bearer_key(state->named, bound, state->hash);
    state->sealed = 1;   /* identity reads there what the route is and admits */
    switch (bearer_refusal(&refused, state->hash,
                           sessions_generation(edge_sign_in_sessions(), state->hash),
                           edge_sign_in_clock()))
    {
    case 0:
        return SIGN_IN_MACHINE;
    case ERR_SIGN_IN_DENIED:
        return SIGN_IN_NOT_ADMITTED;
    default:
        return SIGN_IN_NO_TOKEN;
    }
}


void
edge_sign_in_machine_refuse(const edge_sign_in_state_t *state, int code)
{
    bearer_refuse(&refused, state->hash,
                  sessions_generation(edge_sign_in_sessions(), state->hash), code,
                  edge_sign_in_clock() + REFUSED_MS);
}


ngx_int_t
edge_sign_in_machine_hide(edge_sign_in_state_t *state)
{
    ngx_table_elt_t  *header = authorization_of(state->r);

    return header && edge_text_of(state, header).at
           ? edge_header_hide(state->r, state->ctx, header) : NGX_OK;
}


ngx_int_t
edge_sign_in_put_jwt(const edge_sign_in_state_t *state, ngx_pool_t *pool, pack_t *pk,
    u_char **start)
{
    const sign_in_t  *config = edge_sign_in_rules(state);

    if (edge_sign_in_body(pool, pk, start, state->token.len, 2) != NGX_OK) {
        return NGX_DECLINED;
    }
    edge_sign_in_put(pk, "token", state->token.data, state->token.len);
    edge_sign_in_put_head(pk, "sealed", config->sealed_len);
    return pk->full ? NGX_DECLINED : NGX_OK;
}


ngx_uint_t
edge_sign_in_is_of(const edge_sign_in_state_t *state, const u_char *hash)
{
    return ngx_memcmp(state->hash, hash, SESSION_HASH_BYTES) == 0
           || ngx_memcmp(state->named, hash, SESSION_HASH_BYTES) == 0;
}
