/* Requests that go on by a session. Each second all of them are looked at, some in each turn of the
 * event loop: what moved bytes keeps its session active, and what its session does not carry any
 * more is ended, as by a change of the configuration. When each session was active last is told to
 * identity, many at once. */
#include "services/edge/modules/edge_sign_in.h"
#include "services/edge/control/edge_session_log.h"
#include "services/edge/http/edge_sign_in_answer.h"
#include "services/edge/http/edge_streams.h"
#include "services/edge/modules/sign_in_rules.h"

enum {
    BUCKETS = 4096,
    LOOK_MS = 1000,
    LOOKED_AT = 256,      /* in one turn */
    ASKED = 32,
    TOLD_MAX = 512,       /* sessions in one message */
    TELL_AFTER_MS = 1000,
    TELL_MS = 10000,      /* how often for one session, at most */
    TELL_TIMEOUT_MS = 5000,
    TOLD_BYTES = 128      /* of one in the message */
};

static ngx_queue_t  buckets[BUCKETS];
static ngx_queue_t  all;
static ngx_uint_t   count, left;   /* left: not looked at in this pass */
static ngx_event_t  look_timer, tell_timer;

/* What identity is to be told. */
static struct {
    char     hex[2 * SESSION_HASH_BYTES];
    int64_t  last_active_ms;
} told[TOLD_MAX];
static ngx_uint_t  told_count;
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


ngx_uint_t
edge_sign_in_live_end(const u_char *hash, ngx_uint_t sweep)
{
    ngx_uint_t             n = 0;
    stream_key_t           key = { STREAM_SESSION, NULL, 2 * SESSION_HASH_BYTES };
    ngx_queue_t           *q, *bucket = bucket_of(hash);
    edge_sign_in_state_t  *state;

    for (q = ngx_queue_head(bucket); q != ngx_queue_sentinel(bucket);
         q = ngx_queue_next(q))
    {
        state = ngx_queue_data(q, edge_sign_in_state_t, bucket);
        if (!state->ended && edge_sign_in_is_of(state, hash)) {
            state->ended = 1;
            edge_module_count(state->me, SIGN_IN_REQUESTS_OVER);
            key.text = state->hex;
            n++;
        }
    }
    if (n && sweep) {
        edge_streams_touch(&key);
    }
    return n;
}


void
edge_sign_in_live_unasked(const u_char *hash)
{
    ngx_uint_t             over = 0;
    ngx_queue_t           *q, *bucket = bucket_of(hash);
    edge_sign_in_state_t  *state;

    for (q = ngx_queue_head(bucket); q != ngx_queue_sentinel(bucket);
         q = ngx_queue_next(q))
    {
        state = ngx_queue_data(q, edge_sign_in_state_t, bucket);
        if (ngx_memcmp(state->hash, hash, SESSION_HASH_BYTES) == 0
            && !edge_sign_in_is_trusted(state->session, state->session->bound))
        {
            over = 1;
        }
    }
    if (over) {
        edge_sign_in_live_end(hash, 1);
    }
}


/* ---- telling identity when they were active ---- */

static void
on_told(asker_t *asker, const ask_answer_t *answer)
{
    (void) asker;
    (void) answer;   /* what identity was not told now is told with the next activity */
    telling = 0;
    if (told_count && !tell_timer.timer_set) {
        ngx_add_timer(&tell_timer, TELL_AFTER_MS);
    }
}


static void
send_told(void)
{
    pack_t             pk;
    ngx_str_t          account = ngx_null_string;
    ngx_uint_t         i;
    static u_char      body[TOLD_MAX * TOLD_BYTES + 64];

    pk = (pack_t) { body, body + sizeof(body), false };
    pack_map(&pk, 1);
    pack_str(&pk, "sessions", 8);
    pack_array(&pk, told_count);
    for (i = 0; i < told_count; i++) {
        pack_map(&pk, 2);
        edge_sign_in_put(&pk, "hash", told[i].hex, sizeof(told[i].hex));
        pack_str(&pk, "last_active_ms", 14);
        pack_int64(&pk, told[i].last_active_ms);
    }
    told_count = 0;
    teller.answered = on_told;
    telling = edge_ask(&teller, "session.touch", &account, body, pk.at - body,
                       TELL_TIMEOUT_MS) == NGX_OK;
}


static void
on_tell(ngx_event_t *ev)
{
    (void) ev;
    if (told_count && !telling) {
        send_told();
    }
}


/* Where the list is full it is sent at once, and what comes meanwhile is told the next time. */
static void
tell_later(const u_char *hash, int64_t now)
{
    if (told_count == TOLD_MAX && !telling) {
        send_told();
    }
    if (told_count == TOLD_MAX) {
        return;
    }
    ngx_hex_dump((u_char *) told[told_count].hex, (u_char *) hash, SESSION_HASH_BYTES);
    told[told_count++].last_active_ms = now;
    if (!tell_timer.timer_set && !telling) {
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
edge_sign_in_touch(session_t *session)
{
    int64_t    now = edge_sign_in_now();
    session_t  known;

    if (now - session->last_active_ms < 1000) {
        return;
    }
    session->last_active_ms = now;
    if (!sessions_find(edge_sign_in_sessions(), session->hash, &known)) {
        tell_later(session->hash, now);   /* there is no room for it here */
    } else if (sessions_touch(edge_sign_in_sessions(), &known, now, tell_every(session))) {
        tell_later(session->hash, now);
    }
}


/* ---- looking at what goes on ---- */

/* What the cache knows by now, from whichever worker: all but the texts. */
static void
refresh(session_t *session)
{
    session_t  known;

    if (sessions_find(edge_sign_in_sessions(), session->hash, &known)
        && known.asked_ms >= session->asked_ms)
    {
        session->expires_ms = known.expires_ms;
        session->due_ms = known.due_ms;
        session->asked_ms = known.asked_ms;
        session->inactivity_s = known.inactivity_s;
        session->last_active_ms = ngx_max(session->last_active_ms, known.last_active_ms);
    }
}


/* To the client and to the upstream, whatever they mean. */
static off_t
bytes_of(ngx_http_request_t *r)
{
    ngx_connection_t  *upstream = r->upstream ? r->upstream->peer.connection : NULL;

    return r->connection->sent + (upstream ? upstream->sent : 0);
}


/* Is identity asked? */
static ngx_uint_t
look_at(edge_sign_in_state_t *state)
{
    off_t       bytes = bytes_of(state->r);
    session_t  *session = state->session;

    refresh(session);
    if (bytes != state->bytes) {
        state->bytes = bytes;
        if (!state->machine) {
            edge_sign_in_touch(session);
        }
    }
    if (state->ended) {
        return 0;
    }
    switch (sign_in_judge(session, session->bound, edge_sign_in_now(),
                          edge_session_log_is_current(), edge_sign_in_doubted()))
    {
    case SIGN_IN_ADMIT:
        return 0;
    case SIGN_IN_OVER:
        edge_sign_in_live_end(state->hash, 1);
        return 0;
    case SIGN_IN_ASK_RULES:
        state->sealed = 1;
        edge_sign_in_check_again(state);
        return 1;
    case SIGN_IN_ASK:
        state->sealed = state->machine;
        edge_sign_in_check_again(state);
        return 1;
    }
    return 0;
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
