/* A verb that drives an engine (provider.h): what it has opened, the engine's flow, and how that
 * ended. Between two steps, while the provider is asked, it lies with the request (waits.h). */
#pragma once

#include "services/identity/key_waits.h"
#include "services/identity/person.h"
#include "services/identity/session_tokens.h"
#include "services/identity/sign_in_sealed.h"
#include "common/base/config.h"
#include "services/identity/sign_in_state.h"

typedef struct run {
    sealed_t sealed;
    void *engine_flow;
    int64_t began_ms; /* bus_mono_ms */
    bool ended;       /* step is how */
    provider_step_t step;
    bool is_asking; /* want is the flow's next request, and not handed over yet */
    bool is_told; /* the provider has said something of the person, so the end is what that says */
    fetch_t want;

    /* The verb's own. */
    flow_t flow;     /* the sign-in that it is about */
    person_t person; /* of a check: the tokens that the session has */
    char session[ID_MAX], tokens_hash[WORDS_HEX_SIZE]; /* of a check: whose they are, as stored */
    char turn[SESSION_TURN_SIZE]; /* of a check: what the session's row has while it is this run's
                                   * to ask the provider; given back with the run. "": it is not */
    bool are_tokens_kept;         /* new ones, of an answer to it: session_tokens.h */
    int64_t revision;             /* of the session log, before it asked somebody */
    int64_t lost_to;     /* of a check: it asks which rules are in force (rules_restored.h) */
    key_wait_t key_wait; /* of a logout token */
} run_t;

/* An empty one; the caller frees it. */
run_t *run_new(void);
/* For crud_fetch and _cleanup_. */
void run_free(run_t **self_p);
void run_free_state(void **state_p);

enum { RUN_PLACE_SIZE = 25, RUN_URL_SIZE = 640 };

/* Responses of SAML come to a place of their route's own, and nothing else does. */
#define RUN_PLACE_SAML "acs"

/* Where the provider of a module sends browsers back to: what stands behind /oauth2/callback/, 24
 * digits of the issuer's SHA-256; "" for providers that are rows of a table. A hostile issuer that
 * sends a browser on to another provider has the code of that one come to another place than its
 * own, where it is refused (RFC 9700 4.4). */
void run_callback_place(const sealed_t *sealed, char out[RUN_PLACE_SIZE]);

/* Who a route with the module saml is to identity providers, and where it takes responses. */
void run_saml_urls(const sealed_t *sealed, char entity_id[RUN_URL_SIZE], char acs[RUN_URL_SIZE]);

/* Where it takes messages of single logout. */
void run_saml_logout_url(const sealed_t *sealed, char out[RUN_URL_SIZE]);

/* What the ID of a LogoutRequest is made of, by the state that goes with it: 43 characters
 * base64url that nobody else can tell. So the answer is known by the state that comes with it, and
 * nothing is stored for it. */
void run_logout_nonce(const crud_t *crud, const char *state, char out[WORDS_TOKEN_LEN + 1]);

/* Begin the engine's flow. ask: all but config, module, account, entity_id, now and cache, which
 * this adds, and redirect_uri where it has none. 0 | fault. */
int run_start(run_t *self, int operation, provider_ask_t *ask);

/* One step: with the answer that came, or from the beginning (NULL). Until run_ask it is the same
 * step, whose answer is not taken twice. False: it has ended; true: it needs run_ask. */
bool run_step(run_t *self, const wait_answer_t *answer);
/* Make the request that a step needs. self_p: the run, which is taken over. VERB_WAITS | fault. */
int run_ask(crud_t *crud, run_t *self, run_t **self_p);

/* Ask another service (service_spec_t.asks), for the account of the sealed module; body is taken
 * over in any case. VERB_WAITS, with the run taken from *self_p | fault. */
int run_ask_verb(crud_t *crud, run_t **self_p, const char *verb, json_t *body, unsigned timeout_ms);

/* Others have their turn; the verb is run again after that. VERB_WAITS, with the run taken from
 * *self_p | fault. */
int run_pause(crud_t *crud, run_t **self_p, unsigned ms);
/* The same between two parts of work, which is not refused however many wait. */
int run_go_on(crud_t *crud, run_t **self_p);

/* Bytes that it holds, about: for crud_weigh. */
size_t run_weight(const run_t *self);

/* Both. 0: it has ended | VERB_WAITS | fault. */
int run_advance(crud_t *crud, run_t *self, run_t **self_p, const wait_answer_t *answer);

/* After PROVIDER_DONE of begin or leave: how the browser is sent on, {location: URL}, {post: form},
 * or {}: not at all. A new reference. NULL: no memory. */
json_t *run_way_on(const run_t *self);

/* How it ended, if not well: 0: PROVIDER_DONE | ERR_SIGN_IN_PROVIDER | ERR_SIGN_IN_UNAVAILABLE,
 * with the engine's reason. */
int run_refusal(const run_t *self, problem_t *problem);

/* The settings that sign-ins need, from service_spec_t.setup. 0. */
int sign_in_setup(crud_t *crud, const config_t *config);
/* "https://host:port" of the sign-in host, without a slash at the end; ms that a session lasts
 * whose module says nothing. */
const char *sign_in_url(void);
int64_t sign_in_session_max_ms(void);
/* How many sessions one user may have. */
int sign_in_user_sessions(void);
/* The key under which postern-routes sealed the modules of routes; borrowed. */
const secret_key_t *sign_in_key(const crud_t *crud);
