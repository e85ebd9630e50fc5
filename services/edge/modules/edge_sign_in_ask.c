/* What a request at a route where people sign in asks for, and what identity is asked on its behalf
 * alone. */
#include "services/edge/modules/edge_sign_in.h"
#include "services/edge/http/edge_sign_in_answer.h"
#include "services/edge/modules/sign_in_rules.h"
#include "common/base/err.h"

enum { TARGET_MAX = 2048, TOKEN_LEN = 43 };


module_id_t
edge_sign_in_module_of(const route_t *route)
{
    return (module_id_t) __builtin_ctz(route->enabled & SIGN_IN_MODULES);
}


intptr_t
edge_sign_in_deny(edge_sign_in_state_t *state, ngx_uint_t code)
{
    ngx_str_t  host;

    if (code == ERR_EDGE_SIGN_IN_DENIED || code == ERR_EDGE_SIGN_IN_FAILED) {
        host = edge_sign_in_authority(state);
        edge_sign_in_offer(state->r, state->ctx, state->ctx->route, &host,
                           code == ERR_EDGE_SIGN_IN_DENIED ? "authn?other=1" : "authn");
    }
    return edge_deny(state->r, state->ctx, state->me, code, 0);
}


/* ---- what is asked ---- */

static sign_in_text_t
header_of(ngx_http_request_t *r, const char *name, size_t len)
{
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *header;

    for (part = &r->headers_in.headers.part; part; part = part->next) {
        header = part->elts;
        for (i = 0; i < part->nelts; i++) {
            if (header[i].key.len == len
                && ngx_memcmp(header[i].lowcase_key, name, len) == 0)
            {
                return (sign_in_text_t) { (char *) header[i].value.data,
                                          header[i].value.len };
            }
        }
    }
    return (sign_in_text_t) { NULL, 0 };
}


#define HEADER(r, name)  header_of(r, name, sizeof(name) - 1)


static sign_in_asked_t
asked_of(ngx_http_request_t *r, const edge_ctx_t *ctx)
{
    return (sign_in_asked_t) {
        .get = (r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD)) != 0,
        .post = r->method == NGX_HTTP_POST,
        .upgrade = ctx->upgrade || r->headers_in.upgrade,
        .fetch_mode = HEADER(r, "sec-fetch-mode"),
        .fetch_dest = HEADER(r, "sec-fetch-dest"),
        .accept = HEADER(r, "accept")
    };
}


ngx_uint_t
edge_sign_in_navigates(ngx_http_request_t *r, const edge_ctx_t *ctx)
{
    const sign_in_asked_t  asked = asked_of(r, ctx);

    return sign_in_navigates(&asked);
}


ngx_uint_t
edge_sign_in_is_framed(ngx_http_request_t *r, const edge_ctx_t *ctx)
{
    const sign_in_asked_t  asked = asked_of(r, ctx);

    return sign_in_is_framed(&asked);
}


ngx_uint_t
edge_sign_in_may_begin(ngx_http_request_t *r, const edge_ctx_t *ctx)
{
    const sign_in_asked_t  asked = asked_of(r, ctx);

    return sign_in_may_begin(&asked);
}


ngx_uint_t
edge_sign_in_may_leave(ngx_http_request_t *r, const edge_ctx_t *ctx)
{
    const sign_in_asked_t  asked = asked_of(r, ctx);

    return sign_in_may_leave(&asked, HEADER(r, "sec-fetch-site"));
}


/* Browsers have called it by several names. */
static sign_in_text_t
purpose_of(ngx_http_request_t *r)
{
    sign_in_text_t  purpose = HEADER(r, "sec-purpose");

    purpose = purpose.at ? purpose : HEADER(r, "purpose");
    purpose = purpose.at ? purpose : HEADER(r, "x-purpose");
    return purpose.at ? purpose : HEADER(r, "x-moz");
}


static sign_out_from_t
from_of(const edge_sign_in_state_t *state)
{
    ngx_str_t            host = edge_sign_in_authority(state);
    ngx_http_request_t  *r = state->r;

    return (sign_out_from_t) {
        .site = HEADER(r, "sec-fetch-site"),
        .origin = HEADER(r, "origin"),
        .purpose = purpose_of(r),
        .host = { (char *) host.data, host.len }
    };
}


ngx_uint_t
edge_sign_in_may_end(const edge_sign_in_state_t *state)
{
    const sign_in_asked_t  asked = asked_of(state->r, state->ctx);
    const sign_out_from_t  from = from_of(state);

    return sign_out_is_asked(&asked, &from);
}


ngx_uint_t
edge_sign_in_is_blind(const edge_sign_in_state_t *state)
{
    const sign_in_asked_t  asked = asked_of(state->r, state->ctx);
    const sign_out_from_t  from = from_of(state);

    return sign_out_is_blind(&asked, &from);
}


/* The form by which the browser goes on; NULL: there is none. */
static const edge_form_t *
take_form(ngx_pool_t *pool, const ask_answer_t *answer)
{
    edge_form_t  *form = ngx_palloc(pool, sizeof(edge_form_t));

    return form && edge_sign_in_form_take(pool, answer, form) == NGX_OK ? form : NULL;
}


static ngx_uint_t
answer_says(const ask_answer_t *answer, const char *key)
{
    const msgpack_object  *value = edge_sign_in_member(answer, key);

    return value && value->type == MSGPACK_OBJECT_BOOLEAN && value->via.boolean;
}


void
edge_sign_in_on_answer(asker_t *asker, const ask_answer_t *answer)
{
    ngx_pool_t            *pool;
    edge_sign_in_state_t  *state;

    state = (edge_sign_in_state_t *) ((char *) asker
                                      - offsetof(edge_sign_in_state_t, asker));
    pool = state->r->pool;
    state->asking = 0;
    state->outcome = answer->code;
    if (answer->code == 0 && state->step == SIGN_IN_STEP_BEGIN) {
        state->location = edge_sign_in_text(pool, answer, "location",
                                            EDGE_SIGN_IN_LOCATION_MAX);
        state->value = edge_sign_in_text(pool, answer, "nonce", TOKEN_LEN);
    }
    if (answer->code == 0 && state->step == SIGN_IN_STEP_REDEEM) {
        state->value = edge_sign_in_text(pool, answer, "token", TOKEN_LEN);
        state->target = edge_sign_in_text(pool, answer, "target", TARGET_MAX);
    }
    if (answer->code == 0 && state->step == SIGN_IN_STEP_END) {
        state->over = answer_says(answer, "ended");
        state->gone = answer_says(answer, "gone");
        state->form = take_form(pool, answer);
        state->location = edge_sign_in_text(pool, answer, "location",
                                            EDGE_SIGN_IN_LOCATION_MAX);
    }
    edge_module_resume(state->ctx);
}


/* The request is asked for. What run is to return. */
intptr_t
edge_sign_in_wait(edge_sign_in_state_t *state, sign_in_step_t step, unsigned ms)
{
    state->asking = 1;
    state->step = step;
    return edge_module_suspend(state->r, state->ctx, state->me, ms + 1000);
}


/* Ask for the request alone. What run is to return. */
intptr_t
edge_sign_in_ask(edge_sign_in_state_t *state, sign_in_step_t step, const char *verb,
    const u_char *start, pack_t *pk, shared_text_t *sealed, unsigned ms)
{
    ask_body_t      body;
    const route_t  *route = state->ctx->route;
    ngx_str_t       account = { route->account_id_len, (u_char *) route->account_id };

    if (sealed) {
        edge_sign_in_put_head(pk, "sealed", sealed->len);
    }
    body = (ask_body_t) { start, pk->at - start, sealed };
    state->asker.answered = edge_sign_in_on_answer;
    edge_ask_for(&state->asker, state->ctx->request_id);
    if (pk->full
        || edge_ask_kind(&state->asker, 0, verb, &account, edge_sign_in_client(state), &body, ms)
           != NGX_OK)
    {
        edge_module_count(state->me, SIGN_IN_UNANSWERED);
        return edge_sign_in_deny(state, ERR_EDGE_SIGN_IN_UNAVAILABLE);
    }
    return edge_sign_in_wait(state, step, ms);
}


/* The edge's page for what identity did not grant. */
intptr_t
edge_sign_in_deny_unanswered(edge_sign_in_state_t *state)
{
    ngx_uint_t  code = edge_sign_in_error(state->outcome);

    if (code == ERR_EDGE_SIGN_IN_UNAVAILABLE) {
        edge_module_count(state->me, SIGN_IN_UNANSWERED);
        ngx_log_error(NGX_LOG_WARN, state->r->connection->log, 0,
                      "postern: identity gives no answer to a sign-in of route "
                      "%s: %d", state->ctx->route->id, state->outcome);
    }
    return edge_sign_in_deny(state, code);
}
