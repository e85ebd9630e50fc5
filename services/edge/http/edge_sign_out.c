#include "services/edge/http/edge_sign_out.h"
#include "services/edge/http/edge_body.h"
#include "services/edge/http/edge_header.h"
#include "services/edge/http/edge_posted.h"
#include "services/edge/http/edge_share.h"
#include "services/edge/http/edge_sign_in_answer.h"
#include "services/edge/http/edge_sign_in_visit.h"
#include "services/edge/http/params.h"
#include "services/edge/http/portion.h"
#include "services/edge/modules/module.h"
#include "common/base/err.h"

enum {
    LOGOUT_MS = 20000,       /* identity may have to ask the provider for its keys */
    LOGOUTS_MAX = 32,        /* under way in this worker: anybody can post one */
    LOGOUTS_ACCOUNT_MAX = 8, /* of one account's routes, while half of all are free; see below */
    LOGOUTS_CLIENT_MAX = 2,  /* of one client, whatever the accounts */
    WAITING_MAX = 256,       /* that wait until one of these has its answer */
    WAIT_MS = 10000,
    REASON_MAX = 300
};

#define BACKCHANNEL      "/backchannel/"
#define BACKCHANNEL_LEN  (sizeof(BACKCHANNEL) - 1)

/* A logout token, while identity is asked, or before it is: a provider is one client, and signs out
 * many people at once. */
typedef struct {
    asker_t              asker;
    ngx_queue_t          link;      /* in logouts, or in waiting */
    ngx_http_request_t  *request;
    route_t             *route;
    ngx_str_t            token;
    uint32_t             client;    /* of edge_share_asker */
    ngx_event_t          timer;     /* while it waits */
    unsigned             asking:1;
    unsigned             waits:1;
} logout_t;

static ngx_queue_t  logouts;        /* of this worker; next NULL: not begun */
static ngx_queue_t  waiting;        /* who came first is first */
static ngx_event_t  next_turn;


/* Its place is free, however long its client takes to read the answer. */
static void
end_asking(logout_t *logout)
{
    if (logout->asking) {
        ngx_queue_remove(&logout->link);
        logout->asking = 0;
        if (!ngx_queue_empty(&waiting)) {
            ngx_post_event(&next_turn, &ngx_posted_events);
        }
    }
}


static void
end_waiting(logout_t *logout)
{
    if (logout->waits) {
        ngx_queue_remove(&logout->link);
        logout->waits = 0;
    }
    if (logout->timer.timer_set) {
        ngx_del_timer(&logout->timer);
    }
}


static void
forget_logout(void *data)
{
    logout_t  *logout = data;

    if (logout->asking) {
        edge_ask_leave(&logout->asker);
    }
    end_asking(logout);
    end_waiting(logout);
    route_release(logout->route);
    logout->route = NULL;
}


/* ---- answers ---- */

static ngx_int_t
send_text(ngx_http_request_t *r, ngx_uint_t status, ngx_str_t *json)
{
    ngx_int_t       rc;
    ngx_buf_t      *b;
    ngx_chain_t     out;
    const header_t  unkept = {
        .name = "Cache-Control", .name_len = 13, .lower = "",
        .value = "no-store", .value_len = 8
    };

    rc = edge_body_discard(r, edge_ctx(r));
    if (rc != NGX_OK) {
        return rc;
    }
    if (edge_header_answer(r, &unkept) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    r->headers_out.status = status;
    r->headers_out.content_length_n = json->len;
    r->header_only = json->len == 0;
    if (json->len) {
        ngx_str_set(&r->headers_out.content_type, "application/json");
        r->headers_out.content_type_len = r->headers_out.content_type.len;
    }
    rc = ngx_http_send_header(r);
    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
        return rc;
    }
    b = ngx_calloc_buf(r->pool);
    if (b == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    b->pos = json->data;
    b->last = json->data + json->len;
    b->memory = 1;
    b->last_buf = 1;
    b->last_in_chain = 1;
    out.buf = b;
    out.next = NULL;
    return ngx_http_output_filter(r, &out);
}


/* 2.8: what failed, for whatever reason, is answered with 400. */
static ngx_int_t
refuse_logout(ngx_http_request_t *r, const char *error, const char *reason)
{
    size_t     len = ngx_min(ngx_strlen(reason), REASON_MAX);
    u_char    *p;
    ngx_str_t  json;

    json.data = ngx_pnalloc(r->pool, 6 * REASON_MAX + 128);
    if (json.data == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    p = ngx_sprintf(json.data, "{\"error\":\"%s\",\"error_description\":\"", error);
    p = (u_char *) ngx_escape_json(p, (u_char *) reason, len);
    p = ngx_cpymem(p, "\"}\n", 3);
    json.len = p - json.data;
    return send_text(r, NGX_HTTP_BAD_REQUEST, &json);
}


static ngx_int_t
refuse_request(ngx_http_request_t *r, const char *reason)
{
    return refuse_logout(r, "invalid_request", reason);
}


static ngx_int_t
refuse_for_now(ngx_http_request_t *r)
{
    return refuse_logout(r, "temporarily_unavailable", "nobody can tell now: send it again");
}


static ngx_int_t
send_answer(logout_t *logout, const ask_answer_t *answer)
{
    ngx_str_t  nothing = ngx_null_string;

    if (answer->code == 0) {
        return send_text(logout->request, NGX_HTTP_OK, &nothing);
    }
    ngx_log_error(NGX_LOG_INFO, logout->request->connection->log, 0,
                  "postern: a logout token of route %s is refused with %d",
                  logout->route->id, answer->code);
    if (answer->code == ERR_SIGN_IN_PROVIDER || answer->code == ERR_INVALID_FIELD) {
        return refuse_request(logout->request, answer->msg ? answer->msg : "");
    }
    return refuse_for_now(logout->request);
}


static void
on_answer(asker_t *asker, const ask_answer_t *answer)
{
    logout_t            *logout = (logout_t *) ((char *) asker - offsetof(logout_t, asker));
    ngx_connection_t    *c = logout->request->connection;
    ngx_http_request_t  *r = logout->request;

    end_asking(logout);
    ngx_http_set_log_request(c->log, r);
    ngx_http_finalize_request(r, send_answer(logout, answer));
    ngx_http_run_posted_requests(c);   /* r may have been freed */
}


/* ---- questions ---- */

/* How many of a list there are, and of them of the same account, client and network. */
typedef struct {
    ngx_uint_t  all, account, client, network;
} counted_t;


static counted_t
count_in(ngx_queue_t *list, const logout_t *logout)
{
    logout_t     *other;
    counted_t     out = { 0, 0, 0, 0 };
    ngx_queue_t  *q;

    for (q = ngx_queue_head(list); q != ngx_queue_sentinel(list); q = ngx_queue_next(q)) {
        other = ngx_queue_data(q, logout_t, link);
        out.all++;
        out.account += ngx_strcmp(other->route->account_id, logout->route->account_id) == 0;
        out.client += other->client == logout->client;
        out.network += portion_same_network(other->client, logout->client);
    }
    return out;
}


/* Whoever posts what has no signature of a provider keeps others from posting for no longer than
 * identity needs to see that. An account, and the network above a client, has its portion
 * (portion.h) at most. */
static ngx_uint_t
has_room(const logout_t *logout)
{
    const counted_t  n = count_in(&logouts, logout);

    return n.account < LOGOUTS_ACCOUNT_MAX && n.client < LOGOUTS_CLIENT_MAX
           && portion_allows_one(n.account, LOGOUTS_MAX, LOGOUTS_MAX - n.all, 100)
           && portion_network_allows_one(n.network, n.client, LOGOUTS_MAX, LOGOUTS_MAX - n.all,
                                         100);
}


static ngx_uint_t
may_wait(const logout_t *logout)
{
    const counted_t   n = count_in(&waiting, logout);
    const ngx_uint_t  left = WAITING_MAX - n.all;

    return portion_allows_one(n.account, WAITING_MAX, left, 400)
           && portion_allows_one(n.client, WAITING_MAX, left, 100)
           && portion_network_allows_one(n.network, n.client, WAITING_MAX, left, 100);
}


static logout_t *
logout_new(ngx_http_request_t *r, route_t *route)
{
    logout_t            *logout;
    ngx_pool_cleanup_t  *cln = ngx_pool_cleanup_add(r->pool, sizeof(logout_t));

    if (cln == NULL) {
        return NULL;
    }
    if (logouts.next == NULL) {
        ngx_queue_init(&logouts);
        ngx_queue_init(&waiting);
    }
    logout = cln->data;
    ngx_memzero(logout, sizeof(*logout));
    logout->request = r;
    logout->client = edge_share_asker(r, edge_ctx(r)->client, route->account_id,
                                      route->account_id_len);
    route->refs++;
    logout->route = route;
    cln->handler = forget_logout;
    return logout;
}


/* NGX_OK | NGX_DECLINED: nobody can be asked now | NGX_ERROR: no memory. */
static ngx_int_t
send_ask(logout_t *logout)
{
    pack_t               pk;
    u_char              *start;
    route_t             *route = logout->route;
    ngx_str_t            account = { route->account_id_len, (u_char *) route->account_id };
    ask_body_t           body;
    shared_text_t       *sealed = route_sign_out(route, MODULE_OIDC);
    ngx_http_request_t  *r = logout->request;

    if (edge_sign_in_body(r->pool, &pk, &start, logout->token.len, 2) != NGX_OK) {
        return NGX_ERROR;
    }
    edge_sign_in_put(&pk, "token", logout->token.data, logout->token.len);
    edge_sign_in_put_head(&pk, "sealed", sealed->len);
    body = (ask_body_t) { start, pk.at - start, sealed };
    logout->asker.answered = on_answer;
    edge_ask_for(&logout->asker, edge_ctx(r)->request_id);
    if (pk.full
        || edge_ask_kind(&logout->asker, ASK_SLOW, "sign_in.logout", &account, logout->client,
                         &body, LOGOUT_MS) != NGX_OK)
    {
        return NGX_DECLINED;
    }
    logout->asking = 1;
    ngx_queue_insert_tail(&logouts, &logout->link);
    return NGX_OK;
}


/* What had to wait is answered now, or identity is asked. */
static void
end_wait(logout_t *logout, ngx_uint_t is_late)
{
    ngx_int_t            rc;
    ngx_connection_t    *c = logout->request->connection;
    ngx_http_request_t  *r = logout->request;

    end_waiting(logout);
    rc = is_late ? NGX_DECLINED : send_ask(logout);
    if (rc == NGX_OK) {
        return;
    }
    ngx_http_set_log_request(c->log, r);
    ngx_http_finalize_request(r, rc == NGX_ERROR ? NGX_HTTP_INTERNAL_SERVER_ERROR
                                                 : refuse_for_now(r));
    ngx_http_run_posted_requests(c);   /* r may have been freed */
}


static void
on_late(ngx_event_t *event)
{
    end_wait(event->data, 1);
}


/* A place is free: it is of the first for whom there is room. Who ends may free others, so the walk
 * begins anew with each. */
static void
on_next_turn(ngx_event_t *event)
{
    logout_t     *logout;
    ngx_queue_t  *q;

    for (q = ngx_queue_head(&waiting); q != ngx_queue_sentinel(&waiting);
         q = ngx_queue_next(q))
    {
        logout = ngx_queue_data(q, logout_t, link);
        if (has_room(logout)) {
            end_wait(logout, 0);
            ngx_post_event(event, &ngx_posted_events);
            return;
        }
    }
}


/* The request waits: it is finalized by on_answer or end_wait, or when its client leaves. */
static ngx_int_t
ask_identity(logout_t *logout)
{
    ngx_int_t            rc;
    ngx_http_request_t  *r = logout->request;

    if (has_room(logout)) {
        rc = send_ask(logout);
        if (rc != NGX_OK) {
            return rc == NGX_ERROR ? NGX_HTTP_INTERNAL_SERVER_ERROR : refuse_for_now(r);
        }
    } else if (may_wait(logout)) {
        next_turn.handler = on_next_turn;
        next_turn.log = ngx_cycle->log;
        logout->waits = 1;
        ngx_queue_insert_tail(&waiting, &logout->link);
        logout->timer.handler = on_late;
        logout->timer.data = logout;
        logout->timer.log = r->connection->log;
        ngx_add_timer(&logout->timer, WAIT_MS);
    } else {
        ngx_log_error(NGX_LOG_WARN, r->connection->log, 0,
                      "postern: a logout token of route %s is refused: too many wait",
                      logout->route->id);
        return refuse_for_now(r);
    }
    r->main->count++;
    r->read_event_handler = ngx_http_test_reading;
    r->write_event_handler = ngx_http_request_empty_handler;
    return NGX_DONE;
}


/* The route whose sessions a logout token may end, by the path: also where its module is off.
 * NULL: there is none. */
static route_t *
route_named(const ngx_http_request_t *r)
{
    route_t  *route = edge_visit_find((char *) r->uri.data + BACKCHANNEL_LEN,
                                      r->uri.len - BACKCHANNEL_LEN);

    return route && route_sign_out(route, MODULE_OIDC) ? route : NULL;
}


static ngx_int_t
take_form(ngx_http_request_t *r, ngx_str_t *text)
{
    char           *memory = ngx_pnalloc(r->pool, text->len + 1);
    route_t        *route;
    logout_t       *logout;
    params_t        params = { .count = 0 };
    const param_t  *token;

    if (memory == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    token = params_parse(&params, (char *) text->data, text->len, memory) == 0
            ? params_one(&params, "logout_token") : NULL;
    if (token == NULL || token->value_len == 0) {
        return refuse_request(r, "the form must have one logout_token");
    }
    route = route_named(r);
    if (route == NULL) {
        return refuse_request(r, "there is no such route with OpenID Connect");
    }
    logout = logout_new(r, route);
    if (logout == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    logout->token = (ngx_str_t) { token->value_len, (u_char *) token->value };
    return ask_identity(logout);
}


static ngx_int_t
refuse_form(ngx_http_request_t *r, ngx_uint_t code)
{
    switch (code) {
    case ERR_EDGE_CROWDED:
        return refuse_for_now(r);
    case ERR_EDGE_FORM_LATE:
        return refuse_request(r, "the form did not come within 30 seconds");
    default:
        return refuse_request(r, "the form must have 1 to 16384 bytes, and say how many");
    }
}


static const edge_posted_to_t  logout_form = { PARAMS_BYTES, take_form, refuse_form };


ngx_int_t
edge_sign_out_handler(ngx_http_request_t *r)
{
    if (r->method == NGX_HTTP_POST && r->uri.len > BACKCHANNEL_LEN
        && ngx_memcmp(r->uri.data, BACKCHANNEL, BACKCHANNEL_LEN) == 0)
    {
        return edge_posted_read(r, &logout_form, route_named(r));
    }
    return NGX_DECLINED;
}
