#include "services/edge/http/edge_sign_out.h"
#include "services/edge/http/edge_posted.h"
#include "services/edge/http/edge_share.h"
#include "services/edge/http/edge_sign_in_answer.h"
#include "services/edge/http/edge_sign_in_visit.h"
#include "services/edge/http/edge_sign_out_text.h"
#include "services/edge/http/params.h"
#include "services/edge/http/sign_out_share.h"
#include "services/edge/modules/module.h"
#include "services/edge/worker/edge_vitals.h"
#include "common/base/err.h"

enum {
    LOGOUT_MS = 20000,   /* identity may have to ask the provider for its keys */
    WAIT_MS = 100000,    /* see below */
    AGAIN_MS = 200,      /* until identity is tried again that nobody could ask */
    LOG_EVERY_S = 60
};

/* Identity answers when edges have acknowledged that the sessions are over, or after 2 s (HELD_MS
 * of common/resource/held.h). So the last of the 97 that one provider may have waiting at an
 * account, of which two at a time have their turn, has it after 97 s where nobody else waits. The
 * form of each is charged to its client and account as long as it waits. */

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
    ask_body_t           question;
    uint32_t             client;    /* of edge_share_asker */
    ngx_msec_t           until;     /* it may wait */
    ngx_event_t          timer;     /* while it waits */
    unsigned             asking:1;
    unsigned             waits:1;
    unsigned             passed:1;  /* in this turn: it has its place no more than before */
} logout_t;

static ngx_queue_t  logouts;        /* of this worker; next NULL: not begun */
static ngx_queue_t  waiting;        /* whose turn is next is first */
static ngx_event_t  next_turn;


/* Its place is free, however long its client takes to read the answer. */
static void
end_asking(logout_t *logout)
{
    ngx_queue_remove(&logout->link);
    logout->asking = 0;
}


static void
begin_next(void)
{
    if (!ngx_queue_empty(&waiting)) {
        ngx_post_event(&next_turn, &ngx_posted_events);
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
        end_asking(logout);
        begin_next();
    }
    end_waiting(logout);
    route_release(logout->route);
    logout->route = NULL;
}


/* ---- answers ---- */

/* A token that may have been good, and that its provider may not send again: people stay signed
 * in. */
static ngx_int_t
refuse_unheard(const logout_t *logout)
{
    uint64_t       *unheard = &edge_vitals(ngx_worker)->logouts_unheard;
    static time_t   said;

    (*unheard)++;
    if (said == 0 || ngx_time() - said >= LOG_EVERY_S) {
        said = ngx_time();
        ngx_log_error(NGX_LOG_WARN, logout->request->connection->log, 0,
                      "postern: a logout token of route %s was heard by nobody: too many wait, "
                      "or identity does not answer (number %uL; at most one line a minute)",
                      logout->route->id, *unheard);
    }
    return edge_sign_out_refuse_for_now(logout->request);
}


static ngx_int_t
send_answer(logout_t *logout, const ask_answer_t *answer)
{
    if (answer->code == 0) {
        return edge_sign_out_accept(logout->request);
    }
    ngx_log_error(NGX_LOG_INFO, logout->request->connection->log, 0,
                  "postern: a logout token of route %s is refused with %d",
                  logout->route->id, answer->code);
    if (answer->code == ERR_SIGN_IN_PROVIDER || answer->code == ERR_INVALID_FIELD) {
        return edge_sign_out_refuse(logout->request, answer->msg ? answer->msg : "");
    }
    return refuse_unheard(logout);
}


/* ---- waiting ---- */

static ngx_uint_t
is_of_account(const logout_t *one, const logout_t *other)
{
    return ngx_strcmp(one->route->account_id, other->route->account_id) == 0;
}


static within_part_t
count_in(ngx_queue_t *list, const logout_t *logout)
{
    logout_t       *other;
    ngx_queue_t    *q;
    within_part_t   out = { .all = 0 };

    for (q = ngx_queue_head(list); q != ngx_queue_sentinel(list); q = ngx_queue_next(q)) {
        other = ngx_queue_data(q, logout_t, link);
        within_count(&out, is_of_account(other, logout), other->client == logout->client,
                     portion_same_network(other->client, logout->client));
    }
    return out;
}


/* Whoever posts what has no signature of a provider keeps others from posting for no longer than
 * identity needs to see that. */
static ngx_uint_t
has_room(const logout_t *logout)
{
    const within_part_t  has = count_in(&logouts, logout);

    return sign_out_may_begin(&has);
}


static ngx_uint_t
may_wait(const logout_t *logout)
{
    const within_part_t  has = count_in(&waiting, logout);

    return sign_out_may_wait(&has);
}


static void
wait_for_turn(logout_t *logout)
{
    logout->waits = 1;
    ngx_queue_insert_tail(&waiting, &logout->link);
    ngx_add_timer(&logout->timer, logout->until - ngx_current_msec);
}


/* Identity is not there, stands still, or could not take it now: that passes, and who had a place
 * has one, however many came meanwhile. What identity did without saying so it does once: it takes
 * no token twice. */
static ngx_uint_t
is_worth_waiting(const logout_t *logout, int code)
{
    return (code == ASK_NOBODY || code == ASK_LATE || code == ERR_BUSY || code == ERR_MAINTENANCE)
           && (ngx_msec_int_t) (logout->until - ngx_current_msec) > 0;
}


static void
try_later(void)
{
    if (!next_turn.timer_set) {
        ngx_add_timer(&next_turn, AGAIN_MS);
    }
}


static void
on_answer(asker_t *asker, const ask_answer_t *answer)
{
    logout_t            *logout = (logout_t *) ((char *) asker - offsetof(logout_t, asker));
    ngx_connection_t    *c = logout->request->connection;
    ngx_http_request_t  *r = logout->request;

    end_asking(logout);
    if (is_worth_waiting(logout, answer->code)) {
        wait_for_turn(logout);
        try_later();
        return;
    }
    begin_next();
    ngx_http_set_log_request(c->log, r);
    ngx_http_finalize_request(r, send_answer(logout, answer));
    ngx_http_run_posted_requests(c);   /* r may have been freed */
}


static void
on_late(ngx_event_t *event)
{
    logout_t            *logout = event->data;
    ngx_connection_t    *c = logout->request->connection;
    ngx_http_request_t  *r = logout->request;

    end_waiting(logout);
    ngx_http_set_log_request(c->log, r);
    ngx_http_finalize_request(r, refuse_unheard(logout));
    ngx_http_run_posted_requests(c);   /* r may have been freed */
}


/* ---- questions ---- */

/* The question, which is made once, however often it is asked. NGX_OK | NGX_ERROR: no memory. */
static ngx_int_t
make_question(logout_t *logout)
{
    pack_t          pk;
    u_char         *start;
    shared_text_t  *sealed = route_sign_out(logout->route, MODULE_OIDC);

    if (edge_sign_in_body(logout->request->pool, &pk, &start, logout->token.len, 2) != NGX_OK) {
        return NGX_ERROR;
    }
    edge_sign_in_put(&pk, "token", logout->token.data, logout->token.len);
    edge_sign_in_put_head(&pk, "sealed", sealed->len);
    logout->question = (ask_body_t) { start, pk.at - start, sealed };
    return pk.full ? NGX_ERROR : NGX_OK;
}


/* NGX_OK | NGX_DECLINED: nobody can be asked now. */
static ngx_int_t
send_ask(logout_t *logout)
{
    route_t    *route = logout->route;
    ngx_str_t   account = { route->account_id_len, (u_char *) route->account_id };

    logout->asker.answered = on_answer;
    edge_ask_for(&logout->asker, edge_ctx(logout->request)->request_id);
    if (edge_ask_kind(&logout->asker, ASK_SLOW, "sign_in.logout", &account, logout->client,
                      &logout->question, LOGOUT_MS) != NGX_OK)
    {
        return NGX_DECLINED;
    }
    logout->asking = 1;
    ngx_queue_insert_tail(&logouts, &logout->link);
    return NGX_OK;
}


/* False: identity cannot be asked now, or not by this account or client, so that it keeps its
 * place. */
static ngx_uint_t
take_turn(logout_t *logout)
{
    ngx_queue_t  *before = ngx_queue_prev(&logout->link);

    ngx_queue_remove(&logout->link);
    if (send_ask(logout) != NGX_OK) {
        ngx_queue_insert_after(before, &logout->link);
        try_later();
        return 0;
    }
    logout->waits = 0;
    ngx_del_timer(&logout->timer);
    return 1;
}


/* One of a client's at an account has its turn: the others come behind all that wait, in their
 * order. */
static void
end_turn_of(const logout_t *logout)
{
    logout_t     *other;
    ngx_queue_t  *q, *next, *last = ngx_queue_last(&waiting);

    for (q = ngx_queue_head(&waiting); q != ngx_queue_sentinel(&waiting); q = next) {
        next = q == last ? ngx_queue_sentinel(&waiting) : ngx_queue_next(q);
        other = ngx_queue_data(q, logout_t, link);
        if (other->client == logout->client && is_of_account(other, logout)) {
            ngx_queue_remove(q);
            ngx_queue_insert_tail(&waiting, q);
        }
    }
}


/* The first that waits for whom there is room. NULL: nobody. */
static logout_t *
find_next(void)
{
    logout_t     *logout;
    ngx_queue_t  *q;

    for (q = ngx_queue_head(&waiting); q != ngx_queue_sentinel(&waiting); q = ngx_queue_next(q)) {
        logout = ngx_queue_data(q, logout_t, link);
        if (!logout->passed && has_room(logout)) {
            return logout;
        }
    }
    return NULL;
}


/* A place is free. */
static void
on_next_turn(ngx_event_t *event)
{
    logout_t     *logout;
    ngx_queue_t  *q;

    (void) event;
    for (q = ngx_queue_head(&waiting); q != ngx_queue_sentinel(&waiting); q = ngx_queue_next(q)) {
        logout = ngx_queue_data(q, logout_t, link);
        logout->passed = 0;
    }
    while ((logout = find_next()) != NULL) {
        if (take_turn(logout)) {
            end_turn_of(logout);
        } else if (edge_ask_is_there()) {
            logout->passed = 1;
        } else {
            return;
        }
    }
}


static void
begin_lists(void)
{
    static ngx_connection_t  dummy;

    ngx_queue_init(&logouts);
    ngx_queue_init(&waiting);
    dummy.fd = -1;
    next_turn.handler = on_next_turn;
    next_turn.data = &dummy;
    next_turn.log = ngx_cycle->log;
    next_turn.cancelable = 1;
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
        begin_lists();
    }
    logout = cln->data;
    ngx_memzero(logout, sizeof(*logout));
    logout->request = r;
    logout->client = edge_share_asker(r, edge_ctx(r)->client, route->account_id,
                                      route->account_id_len);
    route->refs++;
    logout->route = route;
    logout->until = ngx_current_msec + WAIT_MS;
    logout->timer.handler = on_late;
    logout->timer.data = logout;
    logout->timer.log = r->connection->log;
    cln->handler = forget_logout;
    return logout;
}


/* The request waits: it is finalized by on_answer or on_late. It waits, and has its place, also
 * when its client leaves: providers give up after seconds, and whom the token names is to be signed
 * out all the same. */
static ngx_int_t
ask_identity(logout_t *logout)
{
    ngx_uint_t           has_turn = has_room(logout);
    ngx_http_request_t  *r = logout->request;

    if (make_question(logout) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    if (!has_turn || send_ask(logout) != NGX_OK) {
        if (!may_wait(logout)) {
            return refuse_unheard(logout);
        }
        wait_for_turn(logout);
        if (has_turn) {
            try_later();
        }
    }
    r->main->count++;
    r->read_event_handler = ngx_http_block_reading;
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
        return edge_sign_out_refuse(r, "the form must have one logout_token");
    }
    route = route_named(r);
    if (route == NULL) {
        return edge_sign_out_refuse(r, "there is no such route with OpenID Connect");
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
        return edge_sign_out_refuse_for_now(r);
    case ERR_EDGE_FORM_LATE:
        return edge_sign_out_refuse(r, "the form did not come within 30 seconds");
    default:
        return edge_sign_out_refuse(r, "the form must have 1 to 16384 bytes, and say how many");
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
