/* Sign-in at the edge: what module_oauth.c, module_oidc.c and module_saml.c share. */
#pragma once

#include "services/edge/http/edge_sign_in_form.h"
#include "services/edge/control/edge_ask.h"
#include "services/edge/http/edge_ctx.h"
#include "services/edge/http/edge_event.h"
#include "services/edge/modules/module.h"
#include "services/edge/modules/sessions.h"
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
    ngx_str_t            token, nonce;   /* values of its cookies; empty: none that counts */
    u_char               hash[SESSION_HASH_BYTES];   /* of token; a machine's: its key here */
    u_char               named[SESSION_HASH_BYTES];  /* a machine's: the hash of its token */
    char                 hex[2 * SESSION_HASH_BYTES + 1];   /* of the token's hash */
    session_t           *session;        /* NULL: none was found, or given by identity */
    unsigned             found:1;        /* session was in the cache */
    unsigned             sealed:1;       /* identity is to look at the rules anew */
    unsigned             tries:3;
    unsigned             machine:1;      /* token is a service token of Authorization */
    unsigned             passed:1;       /* it goes upstream without a session */
    unsigned             admitted:1;     /* it goes upstream, as session says */
    unsigned             ended:1;        /* the session is over: it may not go on */
    unsigned             refused:1;      /* sent away to sign in */
    unsigned             asking:1;       /* asker is in use */
    unsigned             waiting:1;      /* in the queue of a check, or of a vouch */
    unsigned             vouched:1;      /* jwt is what there is */
    unsigned             live:1;         /* in the lists of edge_sign_in_live.c */
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

enum {   /* counters of each module */
    SIGN_IN_ADMITTED_CACHED, SIGN_IN_ADMITTED_ASKED, SIGN_IN_ADMITTED_TRUSTED,
    SIGN_IN_SENT_AWAY, SIGN_IN_SIGNED_IN, SIGN_IN_SIGNED_OUT, SIGN_IN_ASKS,
    SIGN_IN_UNANSWERED, SIGN_IN_REQUESTS_OVER, SIGN_IN_JWT_ASKS, SIGN_IN_WITHOUT_JWT
};
extern const char *const  edge_sign_in_counters[];

/* Hooks of module.h. */
intptr_t edge_sign_in_run(ngx_http_request_t *r, edge_ctx_t *ctx, const void *config);
uintptr_t edge_sign_in_judge(ngx_http_request_t *r, edge_ctx_t *ctx, const void *config);
void edge_sign_in_abort(ngx_http_request_t *r, edge_ctx_t *ctx);
void edge_sign_in_clean(void *state);
void edge_sign_in_describe(pack_t *pk, ngx_http_request_t *r, edge_ctx_t *ctx, module_id_t me);
size_t edge_sign_in_zone_size(void);
void *edge_sign_in_zone(void *slab_pool);
void edge_sign_in_start(ngx_cycle_t *cycle);
u_char *edge_sign_in_metrics(u_char *p, u_char *end);

/* ---- edge_sign_in_check.c: the cache, and what identity says of a session ---- */

/* In a worker, before it has requests. */
void edge_sign_in_check_start(void);
/* The sessions that all workers share. */
sessions_t *edge_sign_in_sessions(void);
/* Milliseconds of a clock that all workers share, and since 1970. */
int64_t edge_sign_in_clock(void);
int64_t edge_sign_in_now(void);
/* The moment from which on what identity said counts: before it sessions may have ended of which
 * this worker was not told. */
int64_t edge_sign_in_doubted(void);
/* Ask identity about the state's session; others that ask the same wait for the same answer.
 * Afterwards its outcome is set, session too where that is 0, and it is resumed. NGX_OK |
 * NGX_DECLINED: nobody can be asked. */
ngx_int_t edge_sign_in_check(edge_sign_in_state_t *state);
/* The same on behalf of a request that goes on meanwhile: what comes of it is told to those that
 * are live. NGX_OK | NGX_DECLINED: it was not asked. */
ngx_int_t edge_sign_in_check_again(edge_sign_in_state_t *state);
/* A time of this machine (edge_sign_in_now) as identity's clock has it, as far as it is known. */
int64_t edge_sign_in_identity_time(int64_t now);
/* The state does not wait any more. */
void edge_sign_in_check_leave(edge_sign_in_state_t *state);
/* Is the session to be trusted, where identity cannot be asked? */
ngx_uint_t edge_sign_in_is_trusted(const session_t *session, const u_char *bound);

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

/* ---- edge_sign_in_machine.c: service tokens ---- */

typedef enum {
    SIGN_IN_NO_MACHINE,   /* cookies count */
    SIGN_IN_MACHINE,      /* token and hashes of the state are its own */
    SIGN_IN_NO_TOKEN      /* its token is none, or was none a moment ago */
} sign_in_machine_t;

/* Does the request bring a service token, and does the route let them in? */
sign_in_machine_t edge_sign_in_machine(edge_sign_in_state_t *state);
/* Identity knows no such token for the route: it is not asked again for a moment. */
void edge_sign_in_machine_refuse(const edge_sign_in_state_t *state);
/* Keep a service token from the upstream, whether the route lets them in or not. NGX_OK |
 * NGX_ERROR. */
ngx_int_t edge_sign_in_machine_hide(edge_sign_in_state_t *state);
/* Is the hash that of the state's session, by its name here or at identity? */
ngx_uint_t edge_sign_in_is_of(const edge_sign_in_state_t *state, const u_char *hash);

/* ---- edge_sign_in_live.c: requests that go on by a session ---- */

/* In a worker, before it has requests. */
void edge_sign_in_live_start(ngx_cycle_t *cycle);
/* The state's request was admitted by its session. */
void edge_sign_in_live_add(edge_sign_in_state_t *state);
void edge_sign_in_live_remove(edge_sign_in_state_t *state);
/* The session is over: requests that it admitted may not go on; bound: those of that route and
 * those rules alone (sign_in_bind), NULL: all. sweep: judge them soon. Returns how many they
 * are. */
ngx_uint_t edge_sign_in_live_end(const u_char *hash, const u_char *bound, ngx_uint_t sweep);
/* Identity vouches for the session. */
void edge_sign_in_live_good(const session_t *session);
/* Identity could not be asked for the session, as it is bound. Those of its requests that could not
 * for as long as a session is trusted may not go on. */
void edge_sign_in_live_unasked(const u_char *hash, const u_char *bound);
/* The session was active now. */
void edge_sign_in_touch(session_t *session);

/* ---- edge_sign_in_upstream.c: what the upstream gets ---- */

/* Tell the upstream who it is. NGX_OK | NGX_ERROR. */
ngx_int_t edge_sign_in_tell(ngx_http_request_t *r, edge_ctx_t *ctx, const session_t *session);
/* The hash of the state's token. NGX_OK | NGX_ERROR. */
ngx_int_t edge_sign_in_hash(edge_sign_in_state_t *state);
/* Values of the cookies of sign-in into the state, and the hash of the session's. NGX_OK |
 * NGX_ERROR. */
ngx_int_t edge_sign_in_read(ngx_http_request_t *r, edge_sign_in_state_t *state);
