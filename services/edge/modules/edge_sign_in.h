/* Sign-in at the edge: what module_oauth.c, module_oidc.c and module_saml.c share. */
#pragma once

#include "services/edge/http/edge_sign_in_form.h"
#include "services/edge/control/edge_ask.h"
#include "services/edge/http/edge_ctx.h"
#include "services/edge/http/edge_event.h"
#include "services/edge/http/edge_nonce_cookies.h"
#include "services/edge/modules/module.h"
#include "services/edge/modules/sessions.h"
#include "services/edge/modules/sign_in_rules.h"
#include "services/edge/table/sign_in.h"

/* What a request waits for, or waited for. */
typedef enum {
    SIGN_IN_STEP_NEW,
    SIGN_IN_STEP_CHECK,    /* what identity says of its session */
    SIGN_IN_STEP_VOUCH,    /* what upstreams are told of it, signed */
    SIGN_IN_STEP_BEGIN,    /* where to sign in */
    SIGN_IN_STEP_REDEEM,   /* a session for its code */
    SIGN_IN_STEP_END       /* the end of its session */
} sign_in_step_t;

/* A request's. */
typedef struct edge_sign_in_state {
    ngx_http_request_t  *r;
    edge_ctx_t          *ctx;
    sign_in_t           *config;
    module_id_t          me;
    sign_in_step_t       step;
    ngx_str_t            token;          /* value of its cookie; empty: none that counts */
    edge_nonces_t       *nonces;         /* of its sign-ins, where it has to do with one */
    ngx_str_t           *others;         /* of several cookies of a session: what can be one */
    unsigned             others_n;
    u_char               hash[SESSION_HASH_BYTES];   /* of token; a machine's: its key here */
    u_char               named[SESSION_HASH_BYTES];  /* of token: its name at identity */
    session_t           *session;        /* NULL: none was found, or given by identity */
    unsigned             prepared:1;     /* token is read */
    unsigned             found:1;        /* session was in the cache */
    unsigned             sealed:1;       /* identity is to look at the rules anew */
    unsigned             tries:3;
    unsigned             machine:1;      /* token is one of Authorization: a service token, or */
    unsigned             jwt_brought:1;  /* a JWT of the issuer */
    unsigned             passed:1;       /* it goes upstream without a session */
    unsigned             admitted:1;     /* it goes upstream, as session says */
    unsigned             ended:1;        /* the session is over: it may not go on */
    unsigned             refused:1;      /* sent away to sign in */
    unsigned             asking:1;       /* asker is in use */
    unsigned             waiting:1;      /* in the queue of a check, or of a vouch */
    unsigned             vouched:1;      /* jwt is what there is */
    unsigned             too_many:1;     /* cookies of a session: not all are in others */
    unsigned             back:1;         /* its sign-in failed: with a session it goes on */
    unsigned             over:1;         /* identity says that the session has ended */
    unsigned             gone:1;         /* and that there was none by then */
    unsigned             live:1;         /* in the lists of edge_sign_in_live.c */
    unsigned             stale:1;        /* live: identity wants to see the rules */
    int                  outcome;        /* of what it waited for: ask_answer_t.code */
    asker_t              asker;
    ngx_queue_t          waiter;         /* in edge_sign_in_check.c or edge_sign_in_jwt.c */
    unsigned             how;            /* it is admitted: a counter, while it is vouched for */
    ngx_str_t            jwt;            /* for its upstream; empty: none */
    ngx_str_t            location, value, target;   /* what identity answered */
    const edge_form_t   *form;           /* the same; NULL: none */
    ngx_queue_t          bucket, all;    /* in edge_sign_in_live.c */
    off_t                bytes;          /* of its bodies, when it was looked at last */
    int64_t              doubted_ms;     /* live: since when identity is asked in vain; 0: no */
} edge_sign_in_state_t;

_Static_assert(sizeof(edge_sign_in_state_t) <= MODULE_STATE_MAX,
               "a state is small");

enum {
    SIGN_IN_MODULES = 1u << MODULE_OAUTH | 1u << MODULE_OIDC | 1u << MODULE_SAML
};

enum {
    SIGN_IN_COOKIES_MAX = 4    /* of one name that a request may have */
};

enum {   /* counters of each module */
    SIGN_IN_ADMITTED_CACHED, SIGN_IN_ADMITTED_ASKED, SIGN_IN_ADMITTED_TRUSTED,
    SIGN_IN_SENT_AWAY, SIGN_IN_SIGNED_IN, SIGN_IN_SIGNED_OUT, SIGN_IN_ASKS,
    SIGN_IN_UNANSWERED, SIGN_IN_REQUESTS_OVER, SIGN_IN_JWT_ASKS, SIGN_IN_WITHOUT_JWT,
    SIGN_IN_OUT_OF_TOUCH
};
extern const char *const  edge_sign_in_counters[];

/* Hooks of module.h. */
void edge_sign_in_prepare(ngx_http_request_t *r, edge_ctx_t *ctx, const void *config);
intptr_t edge_sign_in_run(ngx_http_request_t *r, edge_ctx_t *ctx, const void *config);
uintptr_t edge_sign_in_judge(ngx_http_request_t *r, edge_ctx_t *ctx, const void *config);
void edge_sign_in_abort(ngx_http_request_t *r, edge_ctx_t *ctx);
void edge_sign_in_clean(void *state);
void edge_sign_in_describe(pack_t *pk, ngx_http_request_t *r, edge_ctx_t *ctx, module_id_t me);
size_t edge_sign_in_zone_size(void);
void *edge_sign_in_zone(void *slab_pool);
void edge_sign_in_start(ngx_cycle_t *cycle);
u_char *edge_sign_in_metrics(u_char *p, u_char *end);

/* ---- edge_sign_in_admit.c: by a session, or not at all ---- */

/* What the state's session has to be bound to by these rules of its route: to the request's host,
 * too, but where it is a machine's. */
sign_in_bound_t edge_sign_in_bind(const edge_sign_in_state_t *state, sign_in_t *rules);
/* Go on by the state's session, or ask for it. What run is to return. */
intptr_t edge_sign_in_admit(edge_sign_in_state_t *state);
/* What the state's session was checked for, or vouched for, is answered. What run is to return. */
intptr_t edge_sign_in_after_check(edge_sign_in_state_t *state);
intptr_t edge_sign_in_after_vouch(edge_sign_in_state_t *state);
/* Go on without a session: nobody is asked who it is. What run is to return. */
intptr_t edge_sign_in_pass_without(edge_sign_in_state_t *state);
/* One answer for all tokens that are not good here: who guesses learns nothing (RFC 6750 3). What
 * run is to return. */
intptr_t edge_sign_in_refuse_machine(edge_sign_in_state_t *state);
/* The token is good, and the rules do not admit who has it: nobody is offered to sign in as
 * somebody else. What run is to return. */
intptr_t edge_sign_in_deny_machine(edge_sign_in_state_t *state);

/* ---- edge_sign_in_ask.c: what is asked for, and of identity ---- */

/* The module with which people sign in at the route. */
module_id_t edge_sign_in_module_of(const route_t *route);
/* Deny the request with one of the edge's pages, which offers to begin anew where that helps. What
 * run is to return. */
intptr_t edge_sign_in_deny(edge_sign_in_state_t *state, ngx_uint_t code);
/* The edge's page for what identity did not grant. What run is to return. */
intptr_t edge_sign_in_deny_unanswered(edge_sign_in_state_t *state);
/* Does a person wait for a page? Is it framed? May such a request begin a sign-in where it asks for
 * one? */
ngx_uint_t edge_sign_in_navigates(ngx_http_request_t *r, const edge_ctx_t *ctx);
ngx_uint_t edge_sign_in_is_framed(ngx_http_request_t *r, const edge_ctx_t *ctx);
ngx_uint_t edge_sign_in_may_begin(ngx_http_request_t *r, const edge_ctx_t *ctx);
/* Does somebody ask for a sign-out by this request (sign_out_is_asked), and may no cookie have come
 * with it because of where it comes from (sign_out_is_blind)? */
ngx_uint_t edge_sign_in_may_end(const edge_sign_in_state_t *state);
ngx_uint_t edge_sign_in_is_blind(const edge_sign_in_state_t *state);
/* May a sign-out of the request's end the session at the provider, too? */
ngx_uint_t edge_sign_in_may_leave(ngx_http_request_t *r, const edge_ctx_t *ctx);
/* Identity is asked, by the state's asker, for at most ms: wait for that in this step. What run is
 * to return. */
intptr_t edge_sign_in_wait(edge_sign_in_state_t *state, sign_in_step_t step, unsigned ms);
/* Ask for the request alone, and wait. pk: a body, whose last text, "sealed", this adds, shared
 * with whoever has it; sealed NULL: the body has none. What run is to return. */
intptr_t edge_sign_in_ask(edge_sign_in_state_t *state, sign_in_step_t step, const char *verb,
    const u_char *start, pack_t *pk, shared_text_t *sealed, unsigned ms);
/* What identity answers the state's asker. */
void edge_sign_in_on_answer(asker_t *asker, const ask_answer_t *answer);

/* ---- edge_sign_in_paths.c: signing in; what run is to return ---- */

/* Path and query as text of a URL: bytes that it may not have are percent-encoded. "/" where that
 * is too long. */
ngx_str_t edge_sign_in_target(ngx_http_request_t *r, const ngx_str_t *target);
/* Host and port by which browsers reach the route, whatever port the request's host has. Empty: no
 * memory. */
ngx_str_t edge_sign_in_authority(const edge_sign_in_state_t *state);
/* Content handler: to the state's location. */
ngx_int_t edge_sign_in_redirects(ngx_http_request_t *r);
/* Ask where to sign in, to come back to that target; other: as somebody else. */
intptr_t edge_sign_in_begin(edge_sign_in_state_t *state, const ngx_str_t *target, ngx_uint_t other);
/* It is answered. */
intptr_t edge_sign_in_send_away(edge_sign_in_state_t *state);
/* Which of the edge's own paths of the route it is. */
sign_in_path_t edge_sign_in_path_of(const edge_sign_in_state_t *state);
/* .../auth/authn. */
intptr_t edge_sign_in_begin_asked(edge_sign_in_state_t *state);
/* .../auth/done, and when it is answered. */
intptr_t edge_sign_in_redeem(edge_sign_in_state_t *state);
intptr_t edge_sign_in_finish(edge_sign_in_state_t *state);
/* To the route's own path: there was no good code, and the session is good. */
intptr_t edge_sign_in_go_back(edge_sign_in_state_t *state);
/* The page of a sign-in that leads to nothing, and to no session yet. */
intptr_t edge_sign_in_fail(edge_sign_in_state_t *state);

/* ---- edge_sign_in_target.c ---- */

/* Does a target lead to one of the edge's own paths, of whatever route of the host, or nowhere? It
 * would end the session, or begin another sign-in. */
ngx_uint_t edge_sign_in_is_own(const edge_sign_in_state_t *state, const ngx_str_t *target);

/* ---- edge_sign_in_leave.c: signing out; what run is to return ---- */

/* .../auth/logout, and when it is answered. */
intptr_t edge_sign_in_sign_out(edge_sign_in_state_t *state);
intptr_t edge_sign_in_after_end(edge_sign_in_state_t *state);

/* ---- edge_sign_in_cache.c: sessions that are known, and clocks ---- */

/* In a worker, before it has requests. */
void edge_sign_in_cache_start(void);
/* The sessions that all workers share. */
sessions_t *edge_sign_in_sessions(void);
/* Milliseconds of a clock that all workers share, and since 1970. */
int64_t edge_sign_in_clock(void);
int64_t edge_sign_in_now(void);
/* The moment from which on what identity said counts: before it sessions may have ended of which
 * this worker was not told. */
int64_t edge_sign_in_doubted(void);
/* A time of this machine (edge_sign_in_now) as identity's clock has it, as far as it is known, and
 * one of identity's as this machine's has it (sign_in_local_time). */
int64_t edge_sign_in_identity_time(int64_t time);
int64_t edge_sign_in_local_time(int64_t identity_time);
/* Identity says that it is this late, in milliseconds since 1970, in an answer that came now. */
void edge_sign_in_set_identity_clock(int64_t identity_now);
/* Is the session to be trusted, where identity cannot be asked? */
ngx_uint_t edge_sign_in_is_trusted(const session_t *session, const u_char *bound);

/* ---- edge_sign_in_check.c: what identity says of a session ---- */

/* In a worker, before it has requests. */
void edge_sign_in_check_start(void);
/* Ask identity about the state's session; others that ask the same wait for the same answer.
 * Afterwards its outcome is set, session too where that is 0, and it is resumed. NGX_OK |
 * NGX_DECLINED: nobody can be asked. */
ngx_int_t edge_sign_in_check(edge_sign_in_state_t *state);
/* The same on behalf of a request that goes on meanwhile: what comes of it is told to those that
 * are live. NGX_OK | NGX_DECLINED: it was not asked. */
ngx_int_t edge_sign_in_check_again(edge_sign_in_state_t *state);
/* Who has identity asked (edge_ask_kind); nobody for a request that goes on: the worker looks after
 * that. */
uint32_t edge_sign_in_client(const edge_sign_in_state_t *state);
/* The state does not wait any more. */
void edge_sign_in_check_leave(edge_sign_in_state_t *state);

/* ---- edge_sign_in_jwt.c: what upstreams are told of a session, signed ---- */

/* In a worker, before it has requests. */
void edge_sign_in_jwt_start(void);
/* Are upstreams to be told so? */
ngx_uint_t edge_sign_in_jwt_is_on(void);
/* Where it is on: set jwt of the state, which has a session. NGX_OK | NGX_AGAIN: identity is asked;
 * afterwards its outcome is set, jwt too where that is 0, and it is resumed | NGX_DECLINED: nobody
 * can be asked | NGX_ERROR. edge_sign_in_check_leave: it does not wait any more. */
ngx_int_t edge_sign_in_vouch(edge_sign_in_state_t *state);
/* The session is over. */
void edge_sign_in_jwt_drop(const u_char *hash);
/* Tell the upstream. NGX_OK | NGX_ERROR. */
ngx_int_t edge_sign_in_jwt_tell(ngx_http_request_t *r, edge_ctx_t *ctx, const ngx_str_t *jwt);

/* ---- edge_sign_in_machine.c: service tokens, and JWTs of the issuer ---- */

typedef enum {
    SIGN_IN_NO_MACHINE,   /* cookies count */
    SIGN_IN_MACHINE,      /* token and hashes of the state are its own */
    SIGN_IN_NO_TOKEN,     /* its token is none, or was none a moment ago */
    SIGN_IN_NOT_ADMITTED  /* the rules did not admit who has it, a moment ago */
} sign_in_machine_t;

/* Does the request bring a service token or a JWT, and does the route let them in? Where it lets
 * JWTs in, whatever has the scheme Bearer is taken for one. */
sign_in_machine_t edge_sign_in_machine(edge_sign_in_state_t *state);
/* Identity refused the token with that code, ERR_SESSION_GONE or ERR_SIGN_IN_DENIED: it is not
 * asked again for a moment. */
void edge_sign_in_machine_refuse(const edge_sign_in_state_t *state, int code);
/* Keep a service token from the upstream, whether the route lets them in or not, and all that has
 * the scheme Bearer where it lets JWTs in. NGX_OK | NGX_ERROR. */
ngx_int_t edge_sign_in_machine_hide(edge_sign_in_state_t *state);
/* The body of a question about the JWT that the request brings: {token, sealed}, up to what is
 * shared of the rules (edge_sign_in_rules). NGX_OK | NGX_DECLINED: there is no memory. */
ngx_int_t edge_sign_in_put_jwt(const edge_sign_in_state_t *state, ngx_pool_t *pool, pack_t *pk,
    u_char **start);
/* Is the hash that of the state's session, by its name here or at identity? */
ngx_uint_t edge_sign_in_is_of(const edge_sign_in_state_t *state, const u_char *hash);

/* ---- edge_sign_in_live.c: requests that go on by a session ---- */

/* In a worker, before it has requests. */
void edge_sign_in_live_start(ngx_cycle_t *cycle);
/* The rules by which the state's request may go on: of one that is live those of its route as it
 * was judged last, which need not be those that admitted it. Borrowed: for this turn. */
sign_in_t *edge_sign_in_rules(const edge_sign_in_state_t *state);
/* What is live is to be looked at soon: rules have changed. */
void edge_sign_in_live_soon(void);
/* The state's request is soon to be added: memory that takes is fetched meanwhile. */
void edge_sign_in_live_expect(const edge_sign_in_state_t *state);
/* The state's request was admitted by its session. */
void edge_sign_in_live_add(edge_sign_in_state_t *state);
void edge_sign_in_live_remove(edge_sign_in_state_t *state);
/* The session is over: requests that it admitted may not go on; bound: those alone that have to
 * keep to that route, host and rules now (edge_sign_in_bind), NULL: all. sweep: judge them soon.
 * Returns how many they are. */
ngx_uint_t edge_sign_in_live_end(const u_char *hash, const u_char *bound, ngx_uint_t sweep);
/* Identity vouches for the session. */
void edge_sign_in_live_good(const session_t *session);
/* Identity could not be asked for the session, as it is bound. Those of its requests that could not
 * for as long as a session is trusted may not go on. */
void edge_sign_in_live_unasked(const u_char *hash, const u_char *bound);
/* Identity can say nothing of the session, as it is bound, without the rules: what asks for it next
 * has them sent. */
void edge_sign_in_live_stale(const u_char *hash, const u_char *bound);
/* The session was active now. is_found: sessions_find has just found it, so that its place is
 * known. */
void edge_sign_in_touch(session_t *session, ngx_uint_t is_found);

/* ---- edge_sign_in_upstream.c: what the upstream gets ---- */

/* Tell the upstream who it is. NGX_OK | NGX_ERROR. */
ngx_int_t edge_sign_in_tell(ngx_http_request_t *r, edge_ctx_t *ctx, const session_t *session);
/* The hash of the state's token. NGX_OK | NGX_ERROR. */
ngx_int_t edge_sign_in_hash(edge_sign_in_state_t *state);
/* The token's hash, as identity names it, into the body of a question. */
void edge_sign_in_put_hash(pack_t *pk, const edge_sign_in_state_t *state);
/* Values of the session's cookies by the rules into the state, which may not know them yet, and the
 * hash of it. NGX_OK | NGX_ERROR. */
ngx_int_t edge_sign_in_read(ngx_http_request_t *r, edge_sign_in_state_t *state,
    const sign_in_t *config);
