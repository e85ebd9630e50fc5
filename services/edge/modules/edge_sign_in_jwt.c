/* The signed word for upstreams about who a session is (postern_user_jwts): identity signs it, a
 * worker keeps it as long as it lasts (vouched.c), and asks for another one in time. Requests that
 * lack the same one ask once. */
#include "services/edge/modules/edge_sign_in.h"
#include "services/edge/http/edge_header.h"
#include "services/edge/http/edge_sign_in_answer.h"
#include "services/edge/modules/vouched.h"
#include "services/edge/table/document.h"
#include "services/edge/worker/edge_conf.h"
#include "common/base/err.h"

#include <sodium.h>

enum {
    ASK_MS = 5000,
    VOUCHES_MAX = 512,     /* of this worker at once */
    RETRY_MS = 5000,       /* between two for one that still lasts */
    LASTS_MAX_MS = 3600000,
    BODY_BYTES = 512,
    NAME_BYTES = 96
};

/* One question, and who waits for its answer. */
typedef struct {
    asker_t      asker;
    ngx_queue_t  link, waiters;
    u_char       hash[SESSION_HASH_BYTES];
    uint64_t     said;   /* when it was asked for */
    int64_t      asked_ms;
    uint32_t     generation;
} vouch_ask_t;

static vouched_t    *kept;
static ngx_queue_t   pending;
static ngx_uint_t    count;


void
edge_sign_in_jwt_start(void)
{
    ngx_queue_init(&pending);
    if (edge_conf()->user_jwts) {
        kept = vouched_new(edge_conf()->user_jwts);
    }
}


ngx_uint_t
edge_sign_in_jwt_is_on(void)
{
    return kept != NULL;
}


void
edge_sign_in_jwt_drop(const u_char *hash)
{
    if (kept) {
        vouched_drop(kept, hash);
    }
}


/* ---- what identity answers ---- */

/* A copy for the request. */
static ngx_int_t
copy_jwt(edge_sign_in_state_t *state, const char *jwt, size_t len)
{
    state->jwt.data = ngx_pnalloc(state->r->pool, len + 1);
    if (state->jwt.data == NULL) {
        return NGX_ERROR;
    }
    *ngx_cpymem(state->jwt.data, jwt, len) = '\0';
    state->jwt.len = len;
    return NGX_OK;
}


static ngx_int_t
duration_of(const ask_answer_t *answer, const char *key, int64_t *out)
{
    const msgpack_object  *value = document_get(answer->body, key);

    if (value == NULL || value->type != MSGPACK_OBJECT_POSITIVE_INTEGER
        || value->via.u64 > LASTS_MAX_MS)
    {
        return NGX_DECLINED;
    }
    *out = (int64_t) value->via.u64;
    return NGX_OK;
}


/* Of base64url and dots, as any JWT (RFC 7515, 7.1). */
static ngx_uint_t
is_jwt(const msgpack_object *value)
{
    uint32_t     i;
    const char  *text;

    if (value == NULL || value->type != MSGPACK_OBJECT_STR
        || value->via.str.size == 0 || value->via.str.size > VOUCHED_JWT_MAX)
    {
        return 0;
    }
    text = value->via.str.ptr;
    for (i = 0; i < value->via.str.size; i++) {
        if (!((text[i] >= 'a' && text[i] <= 'z') || (text[i] >= 'A' && text[i] <= 'Z')
              || (text[i] >= '0' && text[i] <= '9') || text[i] == '.'
              || text[i] == '-' || text[i] == '_'))
        {
            return 0;
        }
    }
    return 1;
}


/* Keep it; *jwt is what to tell upstreams. 0, or the error that stands for it. */
static int
take_answer(const vouch_ask_t *ask, const ask_answer_t *answer,
    const msgpack_object **jwt)
{
    int64_t  lasts = 0, renew = 0;

    if (answer->code != 0) {
        return answer->code;
    }
    *jwt = document_get(answer->body, "jwt");
    if (!is_jwt(*jwt) || duration_of(answer, "lasts_ms", &lasts) != NGX_OK
        || duration_of(answer, "renew_ms", &renew) != NGX_OK)
    {
        return ERR_INTERNAL;
    }
    if (ask->generation == sessions_generation(edge_sign_in_sessions(), ask->hash)) {
        vouched_put(kept, ask->hash, ask->said, (*jwt)->via.str.ptr,
                    (*jwt)->via.str.size, ask->asked_ms + renew, ask->asked_ms + lasts);
    }
    return 0;
}


static void
on_vouched(asker_t *asker, const ask_answer_t *answer)
{
    int                    outcome;
    ngx_queue_t           *q;
    vouch_ask_t           *ask = (vouch_ask_t *) ((char *) asker
                                                  - offsetof(vouch_ask_t, asker));
    edge_sign_in_state_t  *state;
    const msgpack_object  *jwt = NULL;

    ngx_queue_remove(&ask->link);
    count--;
    outcome = take_answer(ask, answer, &jwt);
    while (!ngx_queue_empty(&ask->waiters)) {
        q = ngx_queue_head(&ask->waiters);
        state = ngx_queue_data(q, edge_sign_in_state_t, waiter);
        edge_sign_in_check_leave(state);
        state->outcome = outcome;
        if (outcome == 0
            && copy_jwt(state, jwt->via.str.ptr, jwt->via.str.size) != NGX_OK)
        {
            state->outcome = ERR_INTERNAL;
        }
        edge_module_resume(state->ctx);
    }
    ngx_free(ask);
}


/* ---- asking ---- */

/* A hash of what upstreams are told of the session in clear, and of which text is which: a JWT that
 * was made when something else was known is not handed out. */
static uint64_t
said_of(const edge_sign_in_state_t *state)
{
    int                       i;
    size_t                    len = 0;
    uint64_t                  said;
    const session_t          *session = state->session;
    crypto_generichash_state  sum;

    for (i = 0; i < SESSION_TEXTS; i++) {
        len += session->lens[i];
    }
    crypto_generichash_init(&sum, NULL, 0, sizeof(said));
    crypto_generichash_update(&sum, (const u_char *) session->lens, sizeof(session->lens));
    crypto_generichash_update(&sum, (const u_char *) session->text, len);
    crypto_generichash_final(&sum, (u_char *) &said, sizeof(said));
    return said;
}


static ngx_int_t
send_ask(vouch_ask_t *ask, const edge_sign_in_state_t *state)
{
    pack_t            pk;
    u_char           *start;
    const route_t    *route = state->ctx->route;
    ngx_str_t         account = { route->account_id_len, (u_char *) route->account_id };
    ask_body_t        body;
    const sign_in_t  *config = state->config;

    ask->asker.answered = on_vouched;
    edge_ask_for(&ask->asker, state->ctx->request_id);
    if (state->jwt_brought) {
        if (edge_sign_in_put_jwt(state, state->r->pool, &pk, &start) != NGX_OK) {
            return NGX_DECLINED;
        }
        body = (ask_body_t) { start, pk.at - start, edge_sign_in_rules(state)->shared };
        return edge_ask_kind(&ask->asker, ASK_SLOW, "bearer_token.vouch", &account,
                             edge_sign_in_client(state), &body, ASK_MS);
    }
    if (edge_sign_in_body(state->r->pool, &pk, &start, BODY_BYTES, state->machine ? 2 : 3)
        != NGX_OK)
    {
        return NGX_DECLINED;
    }
    edge_sign_in_put_hash(&pk, state);
    if (state->machine) {
        edge_sign_in_put_head(&pk, "sealed", config->sealed_len);
    } else {
        edge_sign_in_put(&pk, "route", route->id, ngx_strlen(route->id));
        pack_str(&pk, "last_active_ms", 14);
        pack_int64(&pk, edge_sign_in_identity_time(state->session->last_active_ms));
    }
    if (pk.full) {
        return NGX_DECLINED;
    }
    body = (ask_body_t) { start, pk.at - start, state->machine ? config->shared : NULL };
    return edge_ask_kind(&ask->asker, 0, state->machine ? "service_token.vouch" : "session.vouch",
                         &account, edge_sign_in_client(state), &body, ASK_MS);
}


/* NULL: nobody can be asked. */
static vouch_ask_t *
begin_ask(const edge_sign_in_state_t *state)
{
    vouch_ask_t  *ask;

    if (count >= VOUCHES_MAX || !edge_ask_is_there()) {
        return NULL;
    }
    ask = ngx_calloc(sizeof(vouch_ask_t), ngx_cycle->log);
    if (ask == NULL) {
        return NULL;
    }
    ngx_memcpy(ask->hash, state->hash, SESSION_HASH_BYTES);
    ask->said = said_of(state);
    ask->asked_ms = edge_sign_in_clock();
    ask->generation = sessions_generation(edge_sign_in_sessions(), state->hash);
    ngx_queue_init(&ask->waiters);
    if (send_ask(ask, state) != NGX_OK) {
        ngx_free(ask);
        return NULL;
    }
    ngx_queue_insert_tail(&pending, &ask->link);
    count++;
    edge_module_count(state->me, SIGN_IN_JWT_ASKS);
    return ask;
}


/* At most VOUCHES_MAX are looked at. */
static vouch_ask_t *
join_ask(const edge_sign_in_state_t *state)
{
    uint64_t      said = said_of(state);
    ngx_queue_t  *q;
    vouch_ask_t  *ask;

    for (q = ngx_queue_head(&pending); q != ngx_queue_sentinel(&pending);
         q = ngx_queue_next(q))
    {
        ask = ngx_queue_data(q, vouch_ask_t, link);
        if (ngx_memcmp(ask->hash, state->hash, SESSION_HASH_BYTES) == 0
            && ask->said == said
            && ask->generation == sessions_generation(edge_sign_in_sessions(), state->hash))
        {
            return ask;
        }
    }
    return begin_ask(state);
}


ngx_int_t
edge_sign_in_vouch(edge_sign_in_state_t *state)
{
    bool          late;
    size_t        len;
    const char   *jwt;
    vouch_ask_t  *ask;

    jwt = vouched_find(kept, state->hash, said_of(state), edge_sign_in_clock(), RETRY_MS, &len,
                       &late);
    if (jwt) {
        if (copy_jwt(state, jwt, len) != NGX_OK) {
            return NGX_ERROR;
        }
        if (late) {
            (void) join_ask(state);   /* this one still lasts, and nobody waits */
        }
        return NGX_OK;
    }
    ask = join_ask(state);
    if (ask == NULL) {
        return NGX_DECLINED;
    }
    ngx_queue_insert_tail(&ask->waiters, &state->waiter);
    state->waiting = 1;
    return NGX_AGAIN;
}


/* ---- telling ---- */

ngx_int_t
edge_sign_in_jwt_tell(ngx_http_request_t *r, edge_ctx_t *ctx,
    const ngx_str_t *jwt)
{
    header_t          add = { .value = (char *) jwt->data, .value_len = jwt->len };
    const ngx_str_t  *prefix = &edge_conf()->identity_headers;
    static char       name[NAME_BYTES], lower[NAME_BYTES];

    if (name[0] == '\0') {
        snprintf(name, NAME_BYTES, "%.*sUser-Jwt", (int) prefix->len, prefix->data);
        ngx_strlow((u_char *) lower, (u_char *) name, ngx_strlen(name) + 1);
    }
    add.name = name;
    add.name_len = ngx_strlen(name);
    add.lower = lower;
    add.hash = header_hash(lower);
    return edge_header_add(r, ctx, &add);
}
