/* What identity says of a session: session.check. Requests of a worker that ask the same at the
 * same time ask once. */
#include "services/edge/modules/edge_sign_in.h"
#include "services/edge/http/edge_share.h"
#include "services/edge/http/edge_sign_in_answer.h"
#include "services/edge/modules/session_texts.h"
#include "services/edge/modules/sign_in_rules.h"
#include "services/edge/table/document.h"
#include "common/base/err.h"

enum {
    BUCKETS = 256,
    CHECKS_MAX = 8192,     /* of this worker at once */
    CHECK_MS = 5000,
    RULES_MS = 25000,      /* identity may have to ask the provider */
    BODY_BYTES = 2048
};

/* One question, and who waits for its answer. */
typedef struct {
    asker_t              asker;
    ngx_queue_t          link, waiters;
    u_char               hash[SESSION_HASH_BYTES], bound[SESSION_BOUND_BYTES];
    char                 digest[SIGN_IN_DIGEST_LEN + 1];
    uint32_t             generation;
    int64_t              asked_ms;
    unsigned             sealed:1;
} check_t;

static ngx_queue_t  pending[BUCKETS];
static ngx_uint_t   count;


/* ---- what identity answers ---- */

static int64_t
number_of(const msgpack_object *map, const char *key, ngx_uint_t *bad)
{
    const msgpack_object  *value = document_get(map, key);

    if (value == NULL || value->type == MSGPACK_OBJECT_NIL) {
        return 0;
    }
    if (value->type != MSGPACK_OBJECT_POSITIVE_INTEGER
        || value->via.u64 > (uint64_t) 1 << 46)
    {
        *bad = 1;
        return 0;
    }
    return (int64_t) value->via.u64;
}


/* Whether identity admits it by the rules that this worker knows: it looked at those that it was
 * asked with. */
static ngx_uint_t
has_digest(const msgpack_object *map, const char *digest)
{
    const msgpack_object  *value = document_get(map, "digest");

    return value && value->type == MSGPACK_OBJECT_STR
           && value->via.str.size == SIGN_IN_DIGEST_LEN
           && ngx_memcmp(value->via.str.ptr, digest, SIGN_IN_DIGEST_LEN) == 0;
}


/* What identity's clock says, in an answer that came now. Its times are judged by this machine's
 * clock, which may go wrong by seconds. An older identity does not say it. */
static void
set_clock(const msgpack_object *body, ngx_uint_t *bad)
{
    int64_t  now = number_of(body, "now_ms", bad);

    if (now) {
        edge_sign_in_set_identity_clock(now);
    }
}


/* 0, or the error that stands for it. */
static int
read_session(const check_t *check, const ask_answer_t *answer, session_t *out)
{
    ngx_uint_t             bad = 0;
    const msgpack_object  *map;

    map = answer->body ? document_get(answer->body, "session") : NULL;
    if (map == NULL || map->type != MSGPACK_OBJECT_MAP) {
        return ERR_INTERNAL;
    }
    if (!has_digest(map, check->digest)) {
        return ERR_SESSION_STALE;
    }
    ngx_memcpy(out->hash, check->hash, sizeof(out->hash));
    ngx_memcpy(out->bound, check->bound, sizeof(out->bound));
    set_clock(answer->body, &bad);
    out->expires_ms = edge_sign_in_local_time(number_of(map, "expires_ms", &bad));
    out->due_ms = edge_sign_in_local_time(number_of(map, "due_ms", &bad));
    out->last_active_ms = edge_sign_in_local_time(number_of(map, "last_active_ms", &bad));
    out->inactivity_s = (uint32_t) ((number_of(map, "inactivity_ms", &bad) + 999) / 1000);
    out->asked_ms = check->asked_ms;
    out->generation = check->generation;
    return bad || !session_read_texts(map, out) ? ERR_INTERNAL : 0;
}


/* A copy for the waiter's request, no longer than its texts. NULL: no memory. */
static session_t *
copy_session(ngx_pool_t *pool, const session_t *session)
{
    int         i;
    size_t      size = offsetof(session_t, text);
    session_t  *copy;

    for (i = 0; i < SESSION_TEXTS; i++) {
        size += session->lens[i];
    }
    copy = ngx_palloc(pool, size);
    if (copy) {
        ngx_memcpy(copy, session, size);
    }
    return copy;
}


static void
tell_waiters(check_t *check, int outcome, const session_t *session)
{
    ngx_queue_t           *q;
    edge_sign_in_state_t  *state;

    while (!ngx_queue_empty(&check->waiters)) {
        q = ngx_queue_head(&check->waiters);
        state = ngx_queue_data(q, edge_sign_in_state_t, waiter);
        edge_sign_in_check_leave(state);
        state->outcome = outcome;
        if (outcome == 0) {
            state->session = copy_session(state->r->pool, session);
            state->found = 0;
            if (state->session == NULL) {
                state->outcome = ERR_INTERNAL;
            }
        }
        edge_module_resume(state->ctx);
    }
}


/* The session, as the check was bound, is over by identity's word. Elsewhere it may be good: with
 * the cookie of one route people come to others of the host, too. */
static void
end_session(const check_t *check)
{
    session_t  known;

    /* whoever makes up cookies is not to put other sessions in doubt */
    if (sessions_find(edge_sign_in_sessions(), check->hash, &known)
        && ngx_memcmp(known.bound, check->bound, SESSION_BOUND_BYTES) == 0)
    {
        sessions_end(edge_sign_in_sessions(), check->hash);
    }
    edge_sign_in_live_end(check->hash, check->bound, 1);
}


/* Requests that go on by the session. */
static void
tell_live(const check_t *check, int outcome, const session_t *session)
{
    switch (outcome) {
    case 0:
        edge_sign_in_live_good(session);
        return;
    case ERR_SESSION_STALE:   /* of rules that were sent: they are too old for identity to say */
        if (check->sealed) {
            edge_sign_in_live_unasked(check->hash, check->bound);
        } else {
            edge_sign_in_live_stale(check->hash, check->bound);
        }
        return;
    case ERR_SESSION_GONE:
    case ERR_SIGN_IN_DENIED:
        end_session(check);
        return;
    default:
        edge_sign_in_live_unasked(check->hash, check->bound);
    }
}


static void
on_answer(asker_t *asker, const ask_answer_t *answer)
{
    int        outcome = answer->code;
    check_t   *check = (check_t *) ((char *) asker - offsetof(check_t, asker));
    session_t  session;

    ngx_queue_remove(&check->link);
    count--;
    if (outcome == 0) {
        outcome = read_session(check, answer, &session);
    }
    if (outcome == 0) {
        (void) sessions_put(edge_sign_in_sessions(), &session);
    }
    tell_waiters(check, outcome, &session);
    tell_live(check, outcome, &session);
    ngx_free(check);
}


/* ---- asking ---- */

static ngx_queue_t *
bucket_of(const u_char *hash)
{
    return &pending[hash[0] % BUCKETS];
}


/* A question whose answer will do: asked since the session may have ended unseen, by the same
 * rules. */
static check_t *
find_check(const edge_sign_in_state_t *state, const u_char *bound)
{
    check_t      *check;
    ngx_queue_t  *q, *bucket = bucket_of(state->hash);

    for (q = ngx_queue_head(bucket); q != ngx_queue_sentinel(bucket);
         q = ngx_queue_next(q))
    {
        check = ngx_queue_data(q, check_t, link);
        if (ngx_memcmp(check->hash, state->hash, SESSION_HASH_BYTES) == 0
            && ngx_memcmp(check->bound, bound, SESSION_BOUND_BYTES) == 0
            && check->sealed == state->sealed
            && check->asked_ms >= edge_sign_in_doubted()
            && check->generation == sessions_generation(edge_sign_in_sessions(),
                                                        state->hash))
        {
            return check;
        }
    }
    return NULL;
}


uint32_t
edge_sign_in_client(const edge_sign_in_state_t *state)
{
    const route_t  *route = state->ctx->route;

    return state->live ? 0 : edge_share_asker(state->r, state->ctx->client, route->account_id,
                                              route->account_id_len);
}


/* Where identity is to look at the rules anew it may have to ask the provider, and of a JWT the
 * issuer for its keys. */
static unsigned
kind_of(const edge_sign_in_state_t *state)
{
    if (state->machine) {
        return ASK_MACHINE | (state->jwt_brought ? ASK_SLOW : 0);
    }
    return state->sealed ? ASK_SLOW : 0;
}


static ngx_int_t
send_jwt(check_t *check, const edge_sign_in_state_t *state, ngx_pool_t *pool)
{
    pack_t      pk;
    u_char     *start;
    ngx_str_t   account = { state->ctx->route->account_id_len,
                            (u_char *) state->ctx->route->account_id };
    ask_body_t  body;

    if (edge_sign_in_put_jwt(state, pool, &pk, &start) != NGX_OK) {
        return NGX_DECLINED;
    }
    body = (ask_body_t) { start, pk.at - start, edge_sign_in_rules(state)->shared };
    check->asker.answered = on_answer;
    edge_ask_for(&check->asker, state->ctx->request_id);
    return edge_ask_kind(&check->asker, kind_of(state), "bearer_token.check", &account,
                         edge_sign_in_client(state), &body, RULES_MS);
}


static ngx_int_t
send_check(check_t *check, const edge_sign_in_state_t *state, ngx_pool_t *pool)
{
    pack_t           pk;
    u_char          *start;
    ask_body_t       body;
    const route_t   *route = state->ctx->route;
    ngx_str_t        account = { route->account_id_len, (u_char *) route->account_id };
    const sign_in_t *config = edge_sign_in_rules(state);

    if (state->jwt_brought) {
        return send_jwt(check, state, pool);
    }
    if (edge_sign_in_body(pool, &pk, &start, BODY_BYTES, 5u + check->sealed) != NGX_OK) {
        return NGX_DECLINED;
    }
    edge_sign_in_put_hash(&pk, state);
    edge_sign_in_put(&pk, "route", route->id, ngx_strlen(route->id));
    edge_sign_in_put(&pk, "host", state->ctx->host.data, state->ctx->host.len);
    edge_sign_in_put(&pk, "digest", config->digest, SIGN_IN_DIGEST_LEN);
    pack_str(&pk, "last_active_ms", 14);
    pack_int64(&pk, state->session
                    ? edge_sign_in_identity_time(state->session->last_active_ms) : 0);
    if (check->sealed) {
        edge_sign_in_put_head(&pk, "sealed", config->sealed_len);
    }
    if (pk.full) {
        return NGX_DECLINED;
    }
    body = (ask_body_t) { start, pk.at - start, check->sealed ? config->shared : NULL };
    check->asker.answered = on_answer;
    edge_ask_for(&check->asker, state->ctx->request_id);
    return edge_ask_kind(&check->asker, kind_of(state),
                         state->machine ? "service_token.check" : "session.check", &account,
                         edge_sign_in_client(state), &body,
                         kind_of(state) & ASK_SLOW ? RULES_MS : CHECK_MS);
}


/* NULL: nobody can be asked. */
static check_t *
begin_check(edge_sign_in_state_t *state, const u_char *bound)
{
    check_t     *check;
    ngx_int_t    rc = NGX_DECLINED;
    ngx_pool_t  *pool;

    if (count >= CHECKS_MAX || !edge_ask_is_there()) {
        return NULL;
    }
    check = ngx_calloc(sizeof(check_t), ngx_cycle->log);
    pool = ngx_create_pool(4096, ngx_cycle->log);
    if (check && pool) {
        ngx_memcpy(check->hash, state->hash, SESSION_HASH_BYTES);
        ngx_memcpy(check->bound, bound, SESSION_BOUND_BYTES);
        ngx_memcpy(check->digest, edge_sign_in_rules(state)->digest, SIGN_IN_DIGEST_LEN);
        check->sealed = state->sealed;
        check->generation = sessions_generation(edge_sign_in_sessions(), state->hash);
        check->asked_ms = edge_sign_in_clock();
        ngx_queue_init(&check->waiters);
        rc = send_check(check, state, pool);
    }
    if (pool) {
        ngx_destroy_pool(pool);
    }
    if (rc != NGX_OK) {
        ngx_free(check);
        return NULL;
    }
    ngx_queue_insert_tail(bucket_of(state->hash), &check->link);
    count++;
    edge_module_count(state->me, SIGN_IN_ASKS);
    return check;
}


static check_t *
join_check(edge_sign_in_state_t *state)
{
    check_t               *check;
    ngx_str_t              account = { state->ctx->route->account_id_len,
                                       (u_char *) state->ctx->route->account_id };
    const sign_in_bound_t  bound = edge_sign_in_bind(state, edge_sign_in_rules(state));

    check = find_check(state, bound.bytes);
    if (check == NULL && edge_ask_has_room(&account, edge_sign_in_client(state), kind_of(state))) {
        check = begin_check(state, bound.bytes);
    }
    return check;
}


ngx_int_t
edge_sign_in_check(edge_sign_in_state_t *state)
{
    check_t  *check = join_check(state);

    if (check == NULL) {
        return NGX_DECLINED;
    }
    ngx_queue_insert_tail(&check->waiters, &state->waiter);
    state->waiting = 1;
    return NGX_OK;
}


ngx_int_t
edge_sign_in_check_again(edge_sign_in_state_t *state)
{
    return join_check(state) ? NGX_OK : NGX_DECLINED;
}


void
edge_sign_in_check_leave(edge_sign_in_state_t *state)
{
    if (state->waiting) {
        ngx_queue_remove(&state->waiter);
        state->waiting = 0;
    }
}


void
edge_sign_in_check_start(void)
{
    ngx_uint_t  i;

    for (i = 0; i < BUCKETS; i++) {
        ngx_queue_init(&pending[i]);
    }
}
