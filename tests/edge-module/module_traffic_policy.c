/* A module that asks postern-identity what the request says, and goes on with what came of it:
 *   X-Verb   the verb
 *   X-Body   the body, a map in msgpack, in hexadecimal digits
 *   X-Pad    so many bytes behind that, which its last value says that it has
 *   X-Ms     the timeout
 *   X-Leave  so many milliseconds, after which it does not wait any more
 * The answer has X-Asked: the code, "busy" (too many wait), "declined", or "left", and X-Fields: how
 * many the body has. */
#include "services/edge/control/edge_ask.h"
#include "services/edge/http/edge_ctx.h"
#include "services/edge/modules/module.h"

#define ME  MODULE_TRAFFIC_POLICY

enum { ASKS, ANSWERS };

static const char *const  counters[] = { "asks", "answers", NULL };

typedef struct {
    asker_t       asker;
    ngx_event_t   timer;
    edge_ctx_t   *ctx;
    ngx_str_t     said;
    u_char        text[32];
    ngx_uint_t    fields;
    unsigned      begun:1;
} state_t;


static ngx_str_t
header(ngx_http_request_t *r, const char *name)
{
    ngx_uint_t        i;
    ngx_str_t         none = ngx_null_string;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    for (part = &r->headers_in.headers.part; part; part = part->next) {
        h = part->elts;
        for (i = 0; i < part->nelts; i++) {
            if (h[i].key.len == ngx_strlen(name)
                && ngx_memcmp(h[i].lowcase_key, name, h[i].key.len) == 0)
            {
                return h[i].value;
            }
        }
    }
    return none;
}


static ngx_uint_t
number(ngx_http_request_t *r, const char *name)
{
    ngx_str_t  value = header(r, name);
    ngx_int_t  n = ngx_atoi(value.data, value.len);

    return n < 0 ? 0 : n;
}


static void
on_answer(asker_t *asker, const ask_answer_t *answer)
{
    state_t  *state = (state_t *) asker;   /* its first field */

    edge_module_count(ME, ANSWERS);
    if (state->timer.timer_set) {
        ngx_del_timer(&state->timer);
    }
    state->said.data = state->text;
    state->said.len = ngx_sprintf(state->text, "%d", answer->code) - state->text;
    state->fields = answer->body ? answer->body->via.map.size : 0;
    edge_module_resume(state->ctx);
}


static void
on_timer(ngx_event_t *ev)
{
    state_t  *state = ev->data;

    edge_ask_leave(&state->asker);
    ngx_str_set(&state->said, "left");
    edge_module_resume(state->ctx);
}


static ngx_int_t
ask(ngx_http_request_t *r, edge_ctx_t *ctx, state_t *state)
{
    size_t      i, len, pad = number(r, "x-pad");
    u_char     *body;
    ngx_str_t   hex = header(r, "x-body"), verb = header(r, "x-verb");

    len = hex.len / 2 + pad;
    body = ngx_pcalloc(r->pool, len + 1);
    if (body == NULL) {
        return NGX_DECLINED;
    }
    for (i = 0; i < hex.len / 2; i++) {
        body[i] = ngx_hextoi(hex.data + 2 * i, 2);
    }
    ngx_memset(body + hex.len / 2, 'p', pad);
    state->asker.answered = on_answer;
    state->ctx = ctx;
    return edge_ask(&state->asker, verb.len ? (char *) verb.data : "", &ctx->account_id, 0, body,
                    len, number(r, "x-ms"));
}


static ngx_int_t
say(ngx_http_request_t *r, const char *name, const ngx_str_t *value)
{
    ngx_table_elt_t  *h = ngx_list_push(&r->headers_out.headers);

    if (h == NULL) {
        return NGX_ERROR;
    }
    ngx_memzero(h, sizeof(*h));
    h->hash = 1;
    h->key.data = (u_char *) name;
    h->key.len = ngx_strlen(name);
    h->value = *value;
    return NGX_OK;
}


static intptr_t
run(ngx_http_request_t *r, edge_ctx_t *ctx, const void *config)
{
    state_t    *state = edge_module_state(r, ctx, ME);
    ngx_int_t   rc;
    ngx_str_t   fields;

    (void) config;
    if (state == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    if (!state->begun) {
        state->begun = 1;
        edge_module_count(ME, ASKS);
        rc = ask(r, ctx, state);
        if (rc == NGX_OK) {
            if (number(r, "x-leave")) {
                state->timer.handler = on_timer;
                state->timer.data = state;
                state->timer.log = ngx_cycle->log;
                ngx_add_timer(&state->timer, number(r, "x-leave"));
            }
            return edge_module_suspend(r, ctx, ME, 0);
        }
        if (rc == NGX_BUSY) {
            ngx_str_set(&state->said, "busy");
        } else {
            ngx_str_set(&state->said, "declined");
        }
    }
    if (state->said.len == 0) {
        return edge_module_suspend(r, ctx, ME, 0);
    }
    fields.data = ngx_pnalloc(r->pool, NGX_INT_T_LEN);
    if (fields.data == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    fields.len = ngx_sprintf(fields.data, "%ui", state->fields) - fields.data;
    return say(r, "X-Asked", &state->said) == NGX_OK && say(r, "X-Fields", &fields) == NGX_OK
           ? NGX_DECLINED : NGX_HTTP_INTERNAL_SERVER_ERROR;
}


static void
clean(void *data)
{
    state_t  *state = data;

    if (state->timer.timer_set) {
        ngx_del_timer(&state->timer);
    }
    edge_ask_leave(&state->asker);
}


const edge_module_t  module_traffic_policy = {
    .run = run,
    .clean = clean,
    .state_size = sizeof(state_t),
    .counters = counters,
};
