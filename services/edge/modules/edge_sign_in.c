/* Sign-in at the edge: a request goes upstream by a session that identity vouches for, or not at
 * all (edge_sign_in_admit.c). What a session is, and who somebody is, identity decides
 * (edge_sign_in_check.c); the edge carries what is sealed for it, and sets cookies.
 * What a request without a session gets, and the edge's own paths, are in edge_sign_in_paths.c.
 * Here are the hooks of the modules. */
#include "services/edge/modules/edge_sign_in.h"
#include "services/edge/modules/sign_in_rules.h"
#include "common/base/err.h"

const char *const  edge_sign_in_counters[] = {
    "admitted_cached", "admitted_asked", "admitted_trusted", "sent_away",
    "signed_in", "signed_out", "asks", "unanswered", "requests_over", "jwt_asks",
    "without_jwt", "out_of_touch", NULL
};


static intptr_t
run_first(edge_sign_in_state_t *state)
{
    ngx_http_request_t    *r = state->r;
    const sign_in_path_t   path = edge_sign_in_path_of(state);

    if (path == SIGN_IN_UPSTREAM && r->method == NGX_HTTP_OPTIONS
        && state->config->options_passthrough)
    {
        return edge_sign_in_pass_without(state);
    }
    if (!state->prepared && edge_sign_in_read(r, state, state->config) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    switch (path) {
    case SIGN_IN_BEGIN:
        return edge_sign_in_begin_asked(state);
    case SIGN_IN_DONE:
        return edge_sign_in_redeem(state);
    case SIGN_IN_LOGOUT:
        return edge_sign_in_sign_out(state);
    case SIGN_IN_NOWHERE:
        return edge_sign_in_deny(state, ERR_EDGE_SIGN_IN_PATH);
    default:
        break;
    }
    switch (edge_sign_in_machine(state)) {
    case SIGN_IN_NO_TOKEN:
        return edge_sign_in_refuse_machine(state);
    case SIGN_IN_NOT_ADMITTED:
        return edge_sign_in_deny_machine(state);
    default:
        return edge_sign_in_admit(state);
    }
}


/* A route that matches one path only has nowhere for what a sign-in comes back to. */
static ngx_uint_t
has_own_paths(const route_t *route)
{
    uint32_t  on = route->enabled & SIGN_IN_MODULES;

    return route->match && !route->exact && (on & (on - 1)) == 0;
}


/* Whose the cookie is the memory of sessions says, which is larger than any cache: what is read of
 * it comes while the request's head is looked at. */
void
edge_sign_in_prepare(ngx_http_request_t *r, edge_ctx_t *ctx, const void *config)
{
    edge_sign_in_state_t  *state;

    state = edge_module_state(r, ctx, edge_sign_in_module_of(ctx->route));
    if (state == NULL || edge_sign_in_read(r, state, config) != NGX_OK) {
        return;   /* run tries again, and fails */
    }
    state->prepared = 1;
    if (state->token.len) {
        sessions_expect(edge_sign_in_sessions(), state->hash);
        edge_sign_in_live_expect(state);
    }
}


intptr_t
edge_sign_in_run(ngx_http_request_t *r, edge_ctx_t *ctx, const void *config)
{
    module_id_t            me = edge_sign_in_module_of(ctx->route);
    edge_sign_in_state_t  *state = edge_module_state(r, ctx, me);

    if (state == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    switch (state->step) {
    case SIGN_IN_STEP_CHECK:
        return edge_sign_in_after_check(state);
    case SIGN_IN_STEP_VOUCH:
        return edge_sign_in_after_vouch(state);
    case SIGN_IN_STEP_BEGIN:
        return edge_sign_in_send_away(state);
    case SIGN_IN_STEP_REDEEM:
        return edge_sign_in_finish(state);
    case SIGN_IN_STEP_END:
        return edge_sign_in_after_end(state);
    case SIGN_IN_STEP_NEW:
        break;
    }
    state->r = r;
    state->ctx = ctx;
    state->config = (sign_in_t *) config;
    state->me = me;
    if (!has_own_paths(ctx->route)) {
        ngx_log_error(NGX_LOG_WARN, r->connection->log, 0,
                      "postern: route %s cannot have a sign-in: it matches one "
                      "path only", ctx->route->id);
        return edge_sign_in_deny(state, ERR_EDGE_MODULE);
    }
    return run_first(state);
}


/* Whom other rules admitted identity judges by these, soon. What passed without a session may
 * finish, but no upgraded stream, which could stay for ever; what waits is to begin anew. */
uintptr_t
edge_sign_in_judge(ngx_http_request_t *r, edge_ctx_t *ctx, const void *config)
{
    const route_t               *began = ctx->route;
    const sign_in_t             *now = config, *then;
    const edge_sign_in_state_t  *state;

    if ((began->enabled & SIGN_IN_MODULES) == 0) {
        return r->upstream && !r->upstream->upgrade ? 0 : ERR_EDGE_CHANGED;
    }
    state = edge_module_state_if_any(ctx, edge_sign_in_module_of(began));
    if (state && state->admitted) {
        if (ngx_memcmp(state->session->bound, edge_sign_in_bind(state, (sign_in_t *) now).bytes,
                       SESSION_BOUND_BYTES) != 0)
        {
            edge_sign_in_live_soon();
        }
        return state->ended ? ERR_EDGE_SIGN_IN_NEEDED : 0;
    }
    then = began->configs[edge_sign_in_module_of(began)];
    if (ngx_memcmp(now->digest, then->digest, SIGN_IN_DIGEST_LEN) != 0) {
        return state && state->passed && r->upstream && !r->upstream->upgrade
               ? 0 : ERR_EDGE_CHANGED;
    }
    return 0;
}


void
edge_sign_in_clean(void *data)
{
    edge_sign_in_state_t  *state = data;

    edge_sign_in_check_leave(state);
    edge_sign_in_live_remove(state);
    if (state->asking) {
        state->asking = 0;
        edge_ask_leave(&state->asker);
    }
}


void
edge_sign_in_abort(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    edge_sign_in_state_t  *state;

    (void) r;
    state = edge_module_state_if_any(ctx, edge_sign_in_module_of(ctx->route));
    if (state) {
        edge_sign_in_clean(state);
    }
}


static void
put_text(pack_t *pk, unsigned field, const char *text, size_t len)
{
    if (len) {
        EVENT_FIELD(field);
        pack_str(pk, text, len);
    }
}


/* What it denied is said for it, but for who was sent away. */
void
edge_sign_in_describe(pack_t *pk, ngx_http_request_t *r, edge_ctx_t *ctx,
    module_id_t me)
{
    size_t                 len;
    const char            *text;
    edge_sign_in_state_t  *state = edge_module_state_if_any(ctx, me);

    (void) r;
    if (state == NULL || state->config == NULL) {
        return;
    }
    put_text(pk, EVENT_OAUTH_APP_CLIENT_ID, state->config->client_id,
             ngx_min(ngx_strlen(state->config->client_id), 1024));
    if (state->admitted || state->passed) {
        EVENT_WORD(EVENT_OAUTH_DECISION, "allow");
    } else if (state->refused && ctx->blocked_by != (int) me) {
        EVENT_WORD(EVENT_OAUTH_DECISION, "block");
    }
    if (state->admitted) {
        text = session_text(state->session, SESSION_USER, &len);
        put_text(pk, EVENT_OAUTH_USER_ID, text, len);
        text = session_text(state->session, SESSION_NAME, &len);
        put_text(pk, EVENT_OAUTH_USER_NAME, text, len);
    }
}


void
edge_sign_in_start(ngx_cycle_t *cycle)
{
    edge_sign_in_cache_start();
    edge_sign_in_check_start();
    edge_sign_in_jwt_start();
    edge_sign_in_live_start(cycle);
}
