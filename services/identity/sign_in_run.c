#include "services/identity/sign_in_run.h"
#include "common/base/cleanup.h"
#include "common/base/memory.h"
#include "services/identity/provider_cache.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { FETCH_BYTES_MAX = 1 << 20, FETCH_MS = 10000 };

/* Set once, before the workers start. */
static char url[512];
static int64_t session_max_ms;
static int user_sessions;
static secret_key_t *routes_key; /* NULL: the master key */

int sign_in_setup(crud_t *crud, const config_t *config)
{
    size_t len = strlen(config_str(config, "idp-url"));

    (void)crud;
    if (len >= sizeof(url) || strncmp(config_str(config, "idp-url"), "https://", 8))
        return fault(-EINVAL, "idp-url must be https:// and a host, in less than 512 bytes");
    snprintf(url, sizeof(url), "%s", config_str(config, "idp-url"));
    while (len && url[len - 1] == '/')
        url[--len] = '\0';
    user_sessions = (int)config_int(config, "user-sessions");
    session_max_ms = 1000 * (int64_t)config_int(config, "session-max");
    return *config_str(config, "sign-in-key")
               ? secret_key_load(&routes_key, config_str(config, "sign-in-key"))
               : 0;
}

const secret_key_t *sign_in_key(const crud_t *crud)
{
    return routes_key ? routes_key : crud->key;
}

const char *sign_in_url(void)
{
    return url;
}

int64_t sign_in_session_max_ms(void)
{
    return session_max_ms;
}

int sign_in_user_sessions(void)
{
    return user_sessions;
}

run_t *run_new(void)
{
    run_t *self = memory_new(sizeof(run_t), "a sign-in");

    self->began_ms = bus_mono_ms();
    return self;
}

void run_free(run_t **self_p)
{
    run_t *self = *self_p;

    if (!self)
        return;
    if (*self->turn)
        session_tokens_give_turn(self->session, self->turn);
    if (self->engine_flow)
        self->sealed.engine->free(&self->engine_flow);
    key_wait_done(&self->key_wait);
    sealed_done(&self->sealed);
    person_done(&self->person);
    free(self);
    *self_p = NULL;
}

void run_free_state(void **state_p)
{
    run_free((run_t **)state_p);
}

void run_callback_place(const sealed_t *sealed, char out[RUN_PLACE_SIZE])
{
    const char *issuer = json_string_value(json_object_get(sealed->config, "issuer"));
    char hex[WORDS_HEX_SIZE];

    out[0] = '\0';
    if (!strcmp(sealed->module, "saml"))
        snprintf(out, RUN_PLACE_SIZE, "%s", RUN_PLACE_SAML);
    if (strcmp(sealed->module, "oidc"))
        return;
    words_hex(issuer ? issuer : "", hex);
    snprintf(out, RUN_PLACE_SIZE, "%.*s", RUN_PLACE_SIZE - 1, hex);
}

void run_saml_urls(const sealed_t *sealed, char entity_id[RUN_URL_SIZE], char acs[RUN_URL_SIZE])
{
    snprintf(entity_id, RUN_URL_SIZE, "%s/saml/%s", url, sealed->route);
    snprintf(acs, RUN_URL_SIZE, "%s/saml/%s/acs", url, sealed->route);
}

void run_saml_logout_url(const sealed_t *sealed, char out[RUN_URL_SIZE])
{
    snprintf(out, RUN_URL_SIZE, "%s/saml/%s/slo", url, sealed->route);
}

void run_logout_nonce(const crud_t *crud, const char *state, char out[WORDS_TOKEN_LEN + 1])
{
    unsigned char bytes[WORDS_HASH_BYTES];

    secret_derive(crud->key, "ID of a SAML logout", state, bytes);
    sodium_bin2base64(out, WORDS_TOKEN_LEN + 1, bytes, sizeof(bytes),
                      sodium_base64_VARIANT_URLSAFE_NO_PADDING);
}

int run_start(run_t *self, int operation, provider_ask_t *ask)
{
    char redirect[RUN_URL_SIZE], entity_id[RUN_URL_SIZE], place[RUN_PLACE_SIZE];

    run_callback_place(&self->sealed, place);
    snprintf(redirect, sizeof(redirect), "%s/oauth2/callback%s%s", url, *place ? "/" : "", place);
    if (!strcmp(self->sealed.module, "saml")) {
        run_saml_urls(&self->sealed, entity_id, redirect);
        ask->entity_id = entity_id;
    }
    ask->config = self->sealed.config;
    ask->module = self->sealed.module;
    ask->account = self->sealed.account;
    if (!ask->redirect_uri)
        ask->redirect_uri = redirect;
    ask->now_s = time(NULL);
    ask->cache = provider_cache_shared();
    self->ended = false;
    return self->sealed.engine->start(&self->engine_flow, operation, ask);
}

size_t run_weight(const run_t *self)
{
    const provider_t *engine = self->sealed.engine;
    size_t flow = self->engine_flow && engine->weight ? engine->weight(self->engine_flow) : 0;

    return sizeof(*self) + memory_json_weight(self->sealed.all) + flow;
}

int run_ask_verb(crud_t *crud, run_t **self_p, const char *verb, json_t *body, unsigned timeout_ms)
{
    void *state = *self_p;
    int r;

    crud_weigh(crud, run_weight(*self_p));
    r = crud_ask(crud, (*self_p)->sealed.account, verb, body, timeout_ms, &state, run_free_state);
    *self_p = state;
    return r;
}

/* It is the account's request: the sealed module says whose. */
int run_ask(crud_t *crud, run_t *self, run_t **self_p)
{
    const fetch_t *want = &self->want;
    const outbound_request_t request = {
        .owner = self->sealed.account,
        .method = want->method,
        .url = want->url,
        .headers = (const char *const *)want->headers,
        .body = want->body,
        .body_bytes = want->body_len,
        .timeout_ms = want->timeout_ms ? want->timeout_ms : FETCH_MS,
        .max_bytes = want->max_bytes && want->max_bytes < FETCH_BYTES_MAX ? want->max_bytes
                                                                          : FETCH_BYTES_MAX,
    };
    void *state = *self_p;
    int r;

    self->is_asking = false;
    if (want->verb)
        return run_ask_verb(crud, self_p, want->verb, json_incref(want->question),
                            want->timeout_ms);
    crud_weigh(crud, run_weight(self));
    r = crud_fetch(crud, &request, want->least_ms, &state, run_free_state);
    *self_p = state;
    return r;
}

int run_pause(crud_t *crud, run_t **self_p, unsigned ms)
{
    void *state = *self_p;
    int r;

    crud_weigh(crud, run_weight(*self_p));
    r = crud_pause(crud, (*self_p)->sealed.account, ms, &state, run_free_state);
    *self_p = state;
    return r;
}

int run_go_on(crud_t *crud, run_t **self_p)
{
    void *state = *self_p;
    int r;

    crud_weigh(crud, run_weight(*self_p));
    r = crud_go_on(crud, (*self_p)->sealed.account, &state, run_free_state);
    *self_p = state;
    return r;
}

/* Does the request bring something of the person's? Else its answer, metadata or keys, says nothing
 * of the person. */
static bool brings_token(const fetch_t *want)
{
    static const char name[] = "Authorization:";

    if (want->verb || want->body)
        return !want->verb;
    for (int i = 0; i < FETCH_HEADERS && want->headers[i]; i++)
        if (!strncmp(want->headers[i], name, sizeof(name) - 1))
            return true;
    return false;
}

bool run_step(run_t *self, const wait_answer_t *answer)
{
    fetched_t came;

    if (self->ended || self->is_asking)
        return self->is_asking;
    if (answer)
        came = (fetched_t){
            .end = (int)answer->end,
            .status = answer->status,
            .body = answer->body,
            .body_len = answer->body_bytes,
            .retry_after = answer->headers[WAIT_RETRY_AFTER],
            .link = answer->headers[WAIT_LINK],
            .cache_control = answer->headers[WAIT_CACHE_CONTROL],
            .content_type = answer->headers[WAIT_CONTENT_TYPE],
            .code = answer->code,
            .reason = answer->why,
            .said = answer->said,
        };
    self->is_told = self->is_told || (answer && brings_token(&self->want));
    self->step = self->sealed.engine->next(self->engine_flow, answer ? &came : NULL, &self->want);
    self->is_asking = self->step == PROVIDER_FETCH;
    self->ended = !self->is_asking;
    return self->is_asking;
}

int run_advance(crud_t *crud, run_t *self, run_t **self_p, const wait_answer_t *answer)
{
    return run_step(self, answer) ? run_ask(crud, self, self_p) : 0;
}

int run_refusal(const run_t *self, problem_t *problem)
{
    if (self->step == PROVIDER_DONE)
        return 0;
    return problem_add(
        problem,
        self->step == PROVIDER_UNAVAILABLE ? ERR_SIGN_IN_UNAVAILABLE : ERR_SIGN_IN_PROVIDER, NULL,
        "%s (route %s)", self->sealed.engine->why(self->engine_flow), self->sealed.route);
}

json_t *run_way_on(const run_t *self)
{
    const provider_t *engine = self->sealed.engine;
    const char *location = engine->location(self->engine_flow);
    const json_t *post = !location && engine->post ? engine->post(self->engine_flow) : NULL;

    return json_pack("{s:s*, s:O*}", "location", location, "post", post);
}
