/* Requests that go on by a session. Each second all of them are looked at, some in each turn of the
 * event loop: what moved bytes keeps its session active, and what its session does not carry any
 * more is ended, as by a change of the configuration. When each session was active last is told to
 * identity, many at once. */
#include "services/edge/modules/edge_sign_in.h"
#include "services/edge/control/edge_session_log.h"
#include "services/edge/http/edge_sign_in_answer.h"
#include "services/edge/http/edge_streams.h"
#include "services/edge/modules/sign_in_rules.h"
#include "services/edge/modules/told.h"
#include "services/edge/worker/edge_conf.h"
#include "common/base/err.h"

enum {
    BUCKETS = 4096,
    LOOK_MS = 1000,
    LOOKED_AT = 256,      /* in one turn */
    ASKED = 32,
    TELL_AFTER_MS = 1000,
    TELL_MS = 10000,      /* how often for one session, at most */
    TELL_TIMEOUT_MS = 5000,
    TOLD_BYTES = 128,     /* of one in the message */
    SOON_MS = 10
};

static ngx_queue_t  buckets[BUCKETS];
static ngx_queue_t  all;
static ngx_uint_t   count, left;   /* left: not looked at in this pass */
static ngx_event_t  look_timer, tell_timer;

static told_t      told;
static ngx_uint_t  telling;   /* the teller waits for its answer */
static asker_t     teller;


/* ---- which requests go on by a session ---- */

/* By the end of it, which all keys of a token have in common with its hash (bearer.h). */
static ngx_queue_t *
bucket_of(const u_char *hash)
{
    return &buckets[(hash[SESSION_HASH_BYTES - 2] << 8 | hash[SESSION_HASH_BYTES - 1]) % BUCKETS];
}


void
edge_sign_in_live_expect(const edge_sign_in_state_t *state)
{
    __builtin_prefetch(bucket_of(state->hash), 1);
}


void
edge_sign_in_live_add(edge_sign_in_state_t *state)
{
    ngx_queue_insert_tail(bucket_of(state->hash), &state->bucket);
    ngx_queue_insert_tail(&all, &state->all);
    state->live = 1;
    if (count++ == 0 && !look_timer.timer_set) {
        ngx_add_timer(&look_timer, LOOK_MS);
    }
}


void
edge_sign_in_live_remove(edge_sign_in_state_t *state)
{
    if (state->live) {
        ngx_queue_remove(&state->bucket);
        ngx_queue_remove(&state->all);
        state->live = 0;
        count--;
    }
}


sign_in_t *
edge_sign_in_rules(const edge_sign_in_state_t *state)
{
    const route_t  *standing = state->live ? state->ctx->standing : NULL;

    return standing && standing->configs[state->me] ? standing->configs[state->me]
                                                    : state->config;
}


static sign_in_bound_t
bound_now(const edge_sign_in_state_t *state)
{
    return edge_sign_in_bind(state, edge_sign_in_rules(state));
}


/* Is the state's session this one, and what it has to be bound to this? bound NULL: whatever. */
static ngx_uint_t
is_by(const edge_sign_in_state_t *state, const u_char *hash, const u_char *bound)
{
    return edge_sign_in_is_of(state, hash)
           && (bound == NULL
               || ngx_memcmp(bound_now(state).bytes, bound, SESSION_BOUND_BYTES) == 0);
}


ngx_uint_t
edge_sign_in_live_end(const u_char *hash, const u_char *bound, ngx_uint_t sweep)
{
    ngx_uint_t             n = 0;
    ngx_queue_t           *q, *bucket = bucket_of(hash);
    const u_char          *named = NULL;
    edge_sign_in_state_t  *state;

    for (q = ngx_queue_head(bucket); q != ngx_queue_sentinel(bucket);
         q = ngx_queue_next(q))
    {
        state = ngx_queue_data(q, edge_sign_in_state_t, bucket);
        if (!state->ended && is_by(state, hash, bound)) {
            state->ended = 1;
            edge_module_count(state->me, SIGN_IN_REQUESTS_OVER);
            named = state->named;
            n++;
        }
    }
    if (n && sweep) {
        edge_streams_touch_here(named);
    }
    return n;
}


/* All but the texts: by which rules it is admitted, and for how long. */
static void
take_times(session_t *session, const session_t *known)
{
    ngx_memcpy(session->bound, known->bound, SESSION_BOUND_BYTES);
    session->expires_ms = known->expires_ms;
    session->due_ms = known->due_ms;
    session->asked_ms = known->asked_ms;
    session->generation = known->generation;
    session->inactivity_s = known->inactivity_s;
    session->last_active_ms = ngx_max(session->last_active_ms, known->last_active_ms);
}


void
edge_sign_in_live_good(const session_t *session)
{
    ngx_queue_t           *q, *bucket = bucket_of(session->hash);
    edge_sign_in_state_t  *state;

    for (q = ngx_queue_head(bucket); q != ngx_queue_sentinel(bucket);
         q = ngx_queue_next(q))
    {
        state = ngx_queue_data(q, edge_sign_in_state_t, bucket);
        if (is_by(state, session->hash, session->bound)
            && session->asked_ms >= state->session->asked_ms)
        {
            take_times(state->session, session);
        }
    }
}


static int64_t
trust_ms(const edge_sign_in_state_t *state)
{
    return sign_in_trust_ms(ngx_memcmp(state->session->bound, bound_now(state).bytes,
                                       SESSION_BOUND_BYTES) == 0,
                            edge_ask_is_there(), (int64_t) edge_conf()->session_trust);
}


void
edge_sign_in_live_unasked(const u_char *hash, const u_char *bound)
{
    ngx_uint_t             over = 0;
    ngx_queue_t           *q, *bucket = bucket_of(hash);
    edge_sign_in_state_t  *state;

    for (q = ngx_queue_head(bucket); q != ngx_queue_sentinel(bucket);
         q = ngx_queue_next(q))
    {
        state = ngx_queue_data(q, edge_sign_in_state_t, bucket);
        over |= is_by(state, hash, bound)
                && sign_in_is_doubted_long(state->doubted_ms, edge_sign_in_clock(),
                                           trust_ms(state));
    }
    if (over) {
        edge_sign_in_live_end(hash, bound, 1);
    }
}


void
edge_sign_in_live_stale(const u_char *hash, const u_char *bound)
{
    ngx_queue_t           *q, *bucket = bucket_of(hash);
    edge_sign_in_state_t  *state;

    for (q = ngx_queue_head(bucket); q != ngx_queue_sentinel(bucket);
         q = ngx_queue_next(q))
    {
        state = ngx_queue_data(q, edge_sign_in_state_t, bucket);
        if (is_by(state, hash, bound)) {
            state->stale = 1;
        }
    }
}


/* ---- telling identity when they were active ---- */

/* Could identity not take it now? What it refuses for another reason it would refuse again. */
static ngx_uint_t
is_later(int code)
{
    return code < 0 || code == ERR_BUSY || code == ERR_MAINTENANCE || code == ERR_INTERNAL;
}


static void
on_told(asker_t *asker, const ask_answer_t *answer)
{
    (void) asker;
    told_end(&told, !is_later(answer->code));
    telling = 0;
    if (told.count && !tell_timer.timer_set) {
        ngx_add_timer(&tell_timer, TELL_AFTER_MS);
    }
}


/* Where it cannot be asked all wait for the next time. */
static void
send_told(void)
{
    pack_t             pk;
    ngx_str_t          account = ngx_null_string;
    ngx_uint_t         i, n = ngx_min(told.count, TOLD_MAX);
    u_char             hex[2 * SESSION_HASH_BYTES];
    static u_char      body[TOLD_MAX * TOLD_BYTES + 64];

    pk = (pack_t) { body, body + sizeof(body), false };
    pack_map(&pk, 1);
    pack_str(&pk, "sessions", 8);
    pack_array(&pk, n);
    for (i = 0; i < n; i++) {
        ngx_hex_dump(hex, told.list[i].hash, SESSION_HASH_BYTES);
        pack_map(&pk, 2);
        edge_sign_in_put(&pk, "hash", hex, sizeof(hex));
        pack_str(&pk, "last_active_ms", 14);
        pack_int64(&pk, edge_sign_in_identity_time(told.list[i].last_active_ms));
    }
    teller.answered = on_told;
    telling = edge_ask(&teller, "session.touch", &account, 0, body, pk.at - body,
                       TELL_TIMEOUT_MS) == NGX_OK;
    if (telling) {
        told_send(&told);
    } else if (!tell_timer.timer_set) {
        ngx_add_timer(&tell_timer, TELL_AFTER_MS);
    }
}


static void
on_tell(ngx_event_t *ev)
{
    (void) ev;
    if (told.count && !telling) {
        send_told();
    }
}


/* Where a message is full it is sent at once; where there is no room the session's next activity is
 * told. */
static void
tell_later(const u_char *hash, int64_t now)
{
    size_t  before = told.count;

    (void) told_add(&told, hash, now);
    if (before < told.count && told.count == TOLD_MAX && !telling) {
        send_told();
    } else if (!tell_timer.timer_set && !telling) {
        ngx_add_timer(&tell_timer, TELL_AFTER_MS);
    }
}


/* A session that ends when it is idle for a short time is told more often: another edge may have
 * to know. */
static int64_t
tell_every(const session_t *session)
{
    int64_t  third = session->inactivity_s * (int64_t) 1000 / 3;

    return third && third < TELL_MS ? third : TELL_MS;
}


void
edge_sign_in_touch(session_t *session, ngx_uint_t is_found)
{
    int64_t           now = edge_sign_in_now();
    session_t         known;
    const session_t  *placed = is_found ? session : &known;

    if (now - session->last_active_ms < 1000) {
        return;
    }
    session->last_active_ms = now;
    if (!is_found && !sessions_find(edge_sign_in_sessions(), session->hash, &known)) {
        tell_later(session->hash, now);   /* there is no room for it here */
    } else if (sessions_touch(edge_sign_in_sessions(), placed, now, tell_every(session))) {
        tell_later(session->hash, now);
    }
}


/* ---- looking at what goes on ---- */

/* What the cache knows by now, from whichever worker. */
static void
refresh(edge_sign_in_state_t *state)
{
    session_t  known, *session = state->session;

    if (sessions_find(edge_sign_in_sessions(), session->hash, &known)
        && known.asked_ms >= session->asked_ms
        && ngx_memcmp(known.bound, bound_now(state).bytes, SESSION_BOUND_BYTES) == 0)
    {
        take_times(session, &known);
    }
}


/* To the client and to the upstream, whatever they mean. */
static off_t
bytes_of(ngx_http_request_t *r)
{
    ngx_connection_t  *upstream = r->upstream ? r->upstream->peer.connection : NULL;

    return r->connection->sent + (upstream ? upstream->sent : 0);
}


/* A session that may have ended since identity vouched for it is to be asked for, and so is one
 * that other rules have admitted. */
static sign_in_verdict_t
judge_live(const edge_sign_in_state_t *state)
{
    const session_t    *session = state->session;
    sign_in_verdict_t   verdict;

    verdict = sign_in_judge(session, bound_now(state).bytes, edge_sign_in_now(),
                            edge_session_log_is_current(), edge_sign_in_doubted());
    return verdict == SIGN_IN_ADMIT
           && session->generation != sessions_generation(edge_sign_in_sessions(), session->hash)
           ? SIGN_IN_ASK : verdict;
}


/* Where there is no room for the question it is asked again with the next look. */
static void
ask_again(edge_sign_in_state_t *state, sign_in_verdict_t verdict)
{
    if (state->doubted_ms == 0) {
        state->doubted_ms = edge_sign_in_clock();
    }
    state->sealed = verdict == SIGN_IN_ASK_RULES || state->stale || state->machine;
    if (edge_sign_in_check_again(state) != NGX_OK) {
        edge_sign_in_live_unasked(state->hash, bound_now(state).bytes);
    }
}


/* Is identity asked? */
static ngx_uint_t
look_at(edge_sign_in_state_t *state)
{
    off_t               bytes = bytes_of(state->r);
    session_t          *session = state->session;
    sign_in_verdict_t   verdict;

    refresh(state);
    if (bytes != state->bytes) {
        state->bytes = bytes;
        if (!state->machine) {
            edge_sign_in_touch(session, 0);
        }
    }
    if (state->ended) {
        return 0;
    }
    verdict = judge_live(state);
    switch (verdict) {
    case SIGN_IN_ADMIT:
        state->doubted_ms = 0;
        state->stale = 0;
        return 0;
    case SIGN_IN_OVER:
        edge_sign_in_live_end(state->hash, bound_now(state).bytes, 1);
        return 0;
    default:
        ask_again(state, verdict);
        return 1;
    }
}


/* Those that were looked at go to the end of the list, where new ones are, too. */
static void
on_look(ngx_event_t *ev)
{
    ngx_uint_t             budget = LOOKED_AT, asked = 0;
    ngx_queue_t           *q;
    edge_sign_in_state_t  *state;

    if (left == 0) {
        left = count;
    }
    for (left = ngx_min(left, count); left && budget && asked < ASKED; left--, budget--) {
        q = ngx_queue_head(&all);
        ngx_queue_remove(q);
        ngx_queue_insert_tail(&all, q);
        state = ngx_queue_data(q, edge_sign_in_state_t, all);
        asked += look_at(state);
    }
    if (count) {
        ngx_add_timer(ev, left ? 10 : LOOK_MS);
    }
}


void
edge_sign_in_live_soon(void)
{
    if (count) {
        ngx_add_timer(&look_timer, SOON_MS);
    }
}


void
edge_sign_in_live_start(ngx_cycle_t *cycle)
{
    ngx_uint_t               i;
    static ngx_connection_t  dummy;

    for (i = 0; i < BUCKETS; i++) {
        ngx_queue_init(&buckets[i]);
    }
    ngx_queue_init(&all);
    dummy.fd = -1;
    look_timer.handler = on_look;
    tell_timer.handler = on_tell;
    look_timer.log = tell_timer.log = cycle->log;
    look_timer.data = tell_timer.data = &dummy;
    look_timer.cancelable = tell_timer.cancelable = 1;
}
