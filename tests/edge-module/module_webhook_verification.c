/* A module that waits for what the request's path says:
 *   /timer/MS     so many milliseconds
 *   /never        nothing that ever comes; /brief waits 300 ms for it
 *   /body         the body, of at most 1000 bytes; /read waits 300 ms for it
 *   /both/MS      the body, and so many milliseconds: woken by the one, it asks for the other again
 *   /careless/MS  the same, but it goes on without the body
 *   /hang         nothing: it returns NGX_AGAIN all the same
 *   /answer/PORT  a byte from a socket on that port: 'a' lets the request pass, anything else denies it
 *   /gate         another request, for /open, which passes itself
 *   /deny         nothing: it denies, with 418
 * A secret "broken" in its document is none that can be read. */
#include "services/edge/http/edge_ctx.h"
#include "services/edge/modules/module.h"
#include "services/edge/table/document.h"
#include "services/edge/table/slab.h"
#include "common/base/err.h"

#define ME  MODULE_WEBHOOK_VERIFICATION

enum { BODY_MAX = 1000, BRIEF_MS = 300, LOOK_MS = 200 };

enum { RUNS, REQUESTS, ABORTS, CLEANED, BODIES };

static const char *const  counters[] = { "runs", "requests", "aborts", "cleaned", "bodies", NULL };

/* Of all workers. */
typedef struct {
    ngx_atomic_t  seen;     /* requests */
    ngx_atomic_t  opened;   /* times that the gate was */
} shared_t;

typedef struct {
    edge_ctx_t             *ctx;
    ngx_event_t             timer;
    ngx_peer_connection_t   peer;
    struct sockaddr_in      address;
    ngx_atomic_uint_t       opened;   /* when it came to the gate */
    ngx_str_t               name;
    unsigned                begun:1;
    unsigned                passes:1;
} state_t;


static void *
parse(const msgpack_object *document, bool *bad)
{
    char  *secret = document_str(document, "secret", bad);

    *bad = *bad || (secret && ngx_strcmp(secret, "broken") == 0);
    return secret;
}


static void *
zone(void *slab_pool)
{
    return ngx_slab_calloc(slab_pool, sizeof(shared_t));
}


static void
let_go(state_t *state)
{
    if (state->timer.timer_set) {
        ngx_del_timer(&state->timer);
    }
    if (state->peer.connection) {
        ngx_close_connection(state->peer.connection);
        state->peer.connection = NULL;
    }
}


static void
on_timer(ngx_event_t *ev)
{
    state_t  *state = ev->data;

    state->passes = 1;
    edge_module_resume(state->ctx);
}


static void
on_look(ngx_event_t *ev)
{
    state_t   *state = ev->data;
    shared_t  *shared = edge_module_zone(ME);

    if (shared->opened == state->opened) {
        ngx_add_timer(ev, LOOK_MS);
    } else {
        on_timer(ev);
    }
}


static void
on_answer(ngx_event_t *ev)
{
    u_char             byte = 'd';
    ssize_t            n;
    ngx_connection_t  *c = ev->data;
    state_t           *state = c->data;

    n = c->recv(c, &byte, 1);
    if (n == NGX_AGAIN && ngx_handle_read_event(ev, 0) == NGX_OK) {
        return;
    }
    state->passes = n == 1 && byte == 'a';
    let_go(state);
    edge_module_resume(state->ctx);
}


static void
on_write(ngx_event_t *ev)
{
    (void) ev;
}


static ngx_int_t
connect_to(ngx_http_request_t *r, state_t *state, ngx_uint_t port)
{
    ngx_int_t  rc;

    ngx_str_set(&state->name, "answer");
    state->address.sin_family = AF_INET;
    state->address.sin_port = htons(port);
    state->address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    state->peer.sockaddr = (struct sockaddr *) &state->address;
    state->peer.socklen = sizeof(state->address);
    state->peer.name = &state->name;
    state->peer.get = ngx_event_get_peer;
    state->peer.log = r->connection->log;
    state->peer.log_error = NGX_ERROR_ERR;
    rc = ngx_event_connect_peer(&state->peer);
    if (rc != NGX_OK && rc != NGX_AGAIN) {
        return NGX_ERROR;
    }
    state->peer.connection->data = state;
    state->peer.connection->read->handler = on_answer;
    state->peer.connection->write->handler = on_write;
    return NGX_OK;
}


static ngx_uint_t
is_path(edge_ctx_t *ctx, const char *path, ngx_int_t *number)
{
    size_t  len = ngx_strlen(path);

    if (ctx->path.len < len || ngx_strncmp(ctx->path.data, path, len) != 0) {
        return 0;
    }
    *number = ngx_atoi(ctx->path.data + len, ctx->path.len - len);
    return 1;
}


/* The body first: what is there of it at once is no wait. */
static intptr_t
begin_both(ngx_http_request_t *r, edge_ctx_t *ctx, state_t *state, ngx_int_t ms)
{
    state->timer.handler = on_timer;
    state->timer.data = state;
    state->timer.log = r->connection->log;
    ngx_add_timer(&state->timer, (ngx_msec_t) ms);
    return edge_module_read_body(r, ctx, ME, BODY_MAX, 0);
}


/* Which body this path waits for. */
static ngx_uint_t
wants_body(edge_ctx_t *ctx, unsigned *ms)
{
    ngx_int_t  number;

    *ms = is_path(ctx, "/read", &number) ? BRIEF_MS : 0;
    return *ms || is_path(ctx, "/body", &number) || is_path(ctx, "/both/", &number);
}


static intptr_t
begin(ngx_http_request_t *r, edge_ctx_t *ctx, state_t *state)
{
    shared_t   *shared = edge_module_zone(ME);
    ngx_int_t   number;

    state->begun = 1;
    state->ctx = ctx;
    (void) ngx_atomic_fetch_add(&shared->seen, 1);
    edge_module_count(ME, REQUESTS);
    if (is_path(ctx, "/hang", &number)) {
        return NGX_AGAIN;
    }
    if (is_path(ctx, "/both/", &number) || is_path(ctx, "/careless/", &number)) {
        return begin_both(r, ctx, state, number);
    }
    if (is_path(ctx, "/timer/", &number)) {
        state->timer.handler = on_timer;
        state->timer.data = state;
        state->timer.log = r->connection->log;
        ngx_add_timer(&state->timer, (ngx_msec_t) number);
        return edge_module_suspend(r, ctx, ME, 0);
    }
    if (is_path(ctx, "/gate", &number)) {
        state->opened = shared->opened;
        state->timer.handler = on_look;
        state->timer.data = state;
        state->timer.log = r->connection->log;
        ngx_add_timer(&state->timer, LOOK_MS);
        return edge_module_suspend(r, ctx, ME, 0);
    }
    if (is_path(ctx, "/open", &number)) {
        (void) ngx_atomic_fetch_add(&shared->opened, 1);
    }
    if (is_path(ctx, "/answer/", &number)) {
        return connect_to(r, state, number) == NGX_OK
               ? edge_module_suspend(r, ctx, ME, 0)
               : edge_deny(r, ctx, ME, ERR_EDGE_MODULE, 0);
    }
    if (is_path(ctx, "/never", &number)) {
        return edge_module_suspend(r, ctx, ME, 0);
    }
    if (is_path(ctx, "/brief", &number)) {
        return edge_module_suspend(r, ctx, ME, BRIEF_MS);
    }
    state->passes = !is_path(ctx, "/deny", &number);
    return NGX_OK;
}


static intptr_t
run(ngx_http_request_t *r, edge_ctx_t *ctx, const void *config)
{
    unsigned    ms;
    intptr_t    rc;
    state_t    *state = edge_module_state(r, ctx, ME);

    (void) config;
    if (state == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    edge_module_count(ME, RUNS);
    if (!state->begun) {
        rc = begin(r, ctx, state);
        if (rc != NGX_OK || ctx->error) {
            return rc;
        }
    }
    if (wants_body(ctx, &ms)) {
        rc = edge_module_read_body(r, ctx, ME, BODY_MAX, ms);
        if (rc != NGX_OK && rc != NGX_DECLINED) {
            return rc;
        }
        state->passes = rc == NGX_OK;
        if (state->timer.timer_set) {   /* /both: there is more to wait for */
            return edge_module_suspend(r, ctx, ME, 0);
        }
    }
    return state->passes ? NGX_DECLINED
                         : edge_deny(r, ctx, ME, ERR_EDGE_MODULE, 418);
}


static void
on_abort(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    (void) r;
    edge_module_count(ME, ABORTS);
    let_go(edge_module_state_if_any(ctx, ME));
}


static void
clean(void *state)
{
    edge_module_count(ME, CLEANED);
    let_go(state);
}


static intptr_t
response_header(ngx_http_request_t *r, edge_ctx_t *ctx, const void *config)
{
    ngx_table_elt_t  *h = ngx_list_push(&r->headers_out.headers);

    (void) ctx;
    (void) config;
    if (h == NULL || (h->value.data = ngx_pnalloc(r->pool, NGX_INT64_LEN)) == NULL) {
        return NGX_ERROR;
    }
    h->hash = 1;
    ngx_str_set(&h->key, "X-Seen");
#if (nginx_version >= 1023000)
    h->next = NULL;
#endif
    h->value.len = ngx_sprintf(h->value.data, "%uA",
                               ((shared_t *) edge_module_zone(ME))->seen)
                   - h->value.data;
    return NGX_OK;
}


static intptr_t
response_body(ngx_http_request_t *r, edge_ctx_t *ctx, const void *config,
    ngx_chain_t **body)
{
    (void) r;
    (void) ctx;
    (void) config;
    (void) body;
    edge_module_count(ME, BODIES);
    return NGX_OK;
}


const edge_module_t  module_webhook_verification = {
    .parse = parse,
    .free = slab_free,
    .zone_size = 64 * 1024,
    .zone = zone,
    .state_size = sizeof(state_t),
    .clean = clean,
    .run = run,
    .abort = on_abort,
    .response_header = response_header,
    .response_body = response_body,
    .counters = counters,
};
