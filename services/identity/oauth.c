/* The oauth engine's states: what begins a flow, which requests follow, and what it ends with. */
#include "common/base/cleanup.h"
#include "common/base/memory.h"
#include "common/base/quote.h"
#include "services/identity/oauth_internal.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

enum { VERIFIER_MIN = 43, VERIFIER_MAX = 128 /* RFC 7636 4.1 */ };

void oauth_set(char **text_p, const char *value)
{
    char *copy = value ? memory_copy(value, "a text of a sign-in") : NULL;

    if (*text_p)
        sodium_memzero(*text_p, strlen(*text_p));
    free(*text_p);
    *text_p = copy;
}

/* ---- the requests, in their order ---- */

static bool needs_token(const oauth_flow_t *flow)
{
    return flow->operation == PROVIDER_CALLBACK || flow->refresh_token;
}

static bool needs_long_lived(const oauth_flow_t *flow)
{
    return flow->operation == PROVIDER_CALLBACK && flow->is_checked_again
           && flow->row->quirks & OAUTH_LONG_LIVES;
}

static bool needs_permissions(const oauth_flow_t *flow)
{
    return flow->operation == PROVIDER_CALLBACK && flow->row->quirks & OAUTH_CHECKS_PERMISSIONS;
}

static bool needs_user(const oauth_flow_t *flow)
{
    (void)flow;
    return true;
}

static bool needs_mails(const oauth_flow_t *flow)
{
    return flow->row->quirks & OAUTH_HAS_MAILS;
}

static bool needs_teams(const oauth_flow_t *flow)
{
    return flow->row->quirks & OAUTH_HAS_TEAMS && json_array_size(flow->teams);
}

static bool needs_organizations(const oauth_flow_t *flow)
{
    return flow->row->quirks & OAUTH_HAS_TEAMS && json_array_size(flow->organizations);
}

/* read returns PROVIDER_DONE: go on | PROVIDER_FETCH: ask again (the next page) | the outcome. */
static const struct stage {
    bool (*is_needed)(const oauth_flow_t *flow);
    void (*ask)(oauth_flow_t *flow);
    provider_step_t (*read)(oauth_flow_t *flow, const fetched_t *answer);
} stages[] = {
    {needs_token, oauth_ask_token, oauth_read_token},
    {needs_long_lived, oauth_ask_long_lived, oauth_read_token},
    {needs_permissions, oauth_ask_permissions, oauth_read_permissions},
    {needs_user, oauth_ask_user, oauth_read_user},
    {needs_mails, oauth_ask_mails, oauth_read_mails},
    {needs_teams, oauth_ask_teams, oauth_read_teams},
    {needs_organizations, oauth_ask_organizations, oauth_read_organizations},
};

/* ---- beginning ---- */

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text && *text ? text : NULL;
}

/* The provider's part of the document: the only one that is set. */
static const json_t *find_provider(oauth_flow_t *flow, const json_t *config)
{
    json_t *part, *found = NULL;
    const char *name;

    json_object_foreach(json_object_get(config, "provider"), name, part)
    {
        if (json_is_null(part))
            continue;
        if (found || !json_is_object(part))
            return NULL;
        found = part;
        flow->row = oauth_row_find(name, &flow->place);
    }
    return flow->row ? found : NULL;
}

/* Printable ASCII, as every provider's are: an id is sent in a header, too. */
static bool client_id_is_plain(const char *id)
{
    for (; id && *id; id++)
        if (*id < 0x20 || *id > 0x7e)
            return false;
    return id != NULL;
}

/* The route's own application, or the operator's: then with the scopes of the table alone. False:
 * there is neither, or half of one. */
static bool take_application(oauth_flow_t *flow, const json_t *part)
{
    const char *id = text_of(part, "client_id"), *secret = text_of(part, "client_secret");

    if (!id != !secret)
        return false;
    oauth_set(&flow->client_id, id ? id : flow->place.client_id);
    oauth_set(&flow->client_secret, id ? secret : flow->place.client_secret);
    flow->scopes = oauth_scopes(flow, id ? json_object_get(part, "scopes") : NULL);
    return client_id_is_plain(flow->client_id) && flow->client_secret && flow->scopes;
}

/* The value of a parameter of the callback. NULL: it is not there, or *ret_bad: it comes several
 * times, or is no text. */
static const char *parameter(const json_t *params, const char *name, bool *ret_bad)
{
    const json_t *values = json_object_get(params, name);

    if (!values)
        return NULL;
    if (json_array_size(values) != 1 || !json_is_string(json_array_get(values, 0))) {
        *ret_bad = true;
        return NULL;
    }
    return json_string_value(json_array_get(values, 0));
}

static bool code_is_plain(const char *code)
{
    size_t len = strlen(code);

    for (size_t i = 0; i < len; i++)
        if (code[i] < 0x20 || code[i] > 0x7e)
            return false;
    return len > 0 && len <= OAUTH_CODE_MAX;
}

/* What the browser brought (RFC 6749 4.1.2, RFC 9207). */
static provider_step_t take_callback(oauth_flow_t *flow, const json_t *params)
{
    bool is_bad = false;
    const char *error = parameter(params, "error", &is_bad);
    const char *code = parameter(params, "code", &is_bad);
    const char *issuer = parameter(params, "iss", &is_bad);

    parameter(params, "state", &is_bad);
    if (is_bad)
        return oauth_fail(flow, PROVIDER_INVALID, "the callback has a parameter several times");
    if (error && code)
        return oauth_fail(flow, PROVIDER_INVALID, "the callback has both a code and an error");
    if (issuer && flow->row->quirks & OAUTH_SAYS_ISSUER && strcmp(issuer, flow->place.sign_in) != 0)
        return oauth_fail(flow, PROVIDER_INVALID, "the callback is another issuer's");
    if (error)
        return oauth_fail_error(flow, "the callback", error);
    if (!code || !code_is_plain(code))
        return oauth_fail(flow, PROVIDER_INVALID, "the callback has no code");
    oauth_set(&flow->code, code);
    return PROVIDER_FETCH;
}

static bool verifier_is_plain(const char *verifier)
{
    size_t len = verifier ? strlen(verifier) : 0;

    return len >= VERIFIER_MIN && len <= VERIFIER_MAX
           && !verifier[strspn(verifier, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                         "0123456789-._~")];
}

static provider_step_t begin_sign_in(oauth_flow_t *flow, const provider_ask_t *ask)
{
    oauth_set(&flow->redirect_uri, ask->redirect_uri);
    oauth_set(&flow->state, ask->state);
    oauth_set(&flow->verifier, ask->verifier);
    if (!flow->redirect_uri || !flow->state
        || (flow->row->pkce && !verifier_is_plain(flow->verifier)))
        return oauth_fail(flow, PROVIDER_INVALID, "the sign-in has no state, or no verifier");
    if (flow->operation == PROVIDER_CALLBACK)
        return take_callback(flow, ask->params);
    oauth_ask_authorize(flow, ask->force);
    if (flow->url.is_full || flow->url.len > OAUTH_URL_MAX)
        return oauth_fail(flow, PROVIDER_INVALID, "the authorization URL is too long");
    flow->outcome = PROVIDER_DONE;
    return PROVIDER_DONE;
}

/* Tokens of one provider are never sent to another that the route has meanwhile. */
static provider_step_t begin_refresh(oauth_flow_t *flow, const provider_ask_t *ask)
{
    const person_t *known = ask->known;

    if (!known || !known->id || !known->provider_name || !known->provider_url
        || strcmp(known->provider_name, flow->row->name) != 0
        || strcmp(known->provider_url, flow->place.sign_in) != 0)
        return oauth_fail(flow, PROVIDER_DENIED, "the user signed in at another provider");
    if (!ask->access_token && !ask->refresh_token)
        return oauth_fail(flow, PROVIDER_DENIED, "there is no token to ask with");
    oauth_set(&flow->known_id, known->id);
    oauth_set(&flow->access_token, ask->access_token);
    oauth_set(&flow->refresh_token, ask->refresh_token);
    flow->access_expires_s = known->access_expires_s;
    return PROVIDER_FETCH;
}

static provider_step_t begin_flow(oauth_flow_t *flow, const provider_ask_t *ask)
{
    const json_t *part = find_provider(flow, ask->config);

    if (!part)
        return oauth_fail(flow, PROVIDER_INVALID, "the route has no provider that is known");
    flow->is_checked_again =
        json_integer_value(json_object_get(ask->config, "auth_check_interval")) > 0;
    if (!take_application(flow, part))
        return oauth_fail(flow, PROVIDER_INVALID,
                          "there is no application to sign in with: the route brings none, and "
                          "oauth-%s-client-id is not set, or its scopes are none",
                          flow->row->name);
    flow->teams = json_deep_copy(json_object_get(part, "teams"));
    flow->organizations = json_deep_copy(json_object_get(part, "organizations"));
    flow->groups = json_array();
    return flow->operation == PROVIDER_REFRESH ? begin_refresh(flow, ask)
                                               : begin_sign_in(flow, ask);
}

static int oauth_start(void **ret_flow, int operation, const provider_ask_t *ask)
{
    oauth_flow_t *flow = memory_new(sizeof(*flow), "a sign-in");

    *ret_flow = flow;
    flow->operation = operation;
    flow->stage = -1;
    flow->outcome = PROVIDER_FETCH;
    flow->now_s = ask->now_s;
    begin_flow(flow, ask);
    return 0;
}

/* ---- stepping ---- */

/* Fill *out with the request of the stage. */
static provider_step_t ask_stage(oauth_flow_t *flow, fetch_t *out)
{
    stages[flow->stage].ask(flow);
    if (flow->url.is_full || flow->body.is_full || flow->url.len > OAUTH_URL_MAX)
        return oauth_fail(flow, PROVIDER_INVALID, "a request would be too long");
    provider_text_fit(&flow->url);
    provider_text_fit(&flow->body);
    *out = (fetch_t){
        .method = flow->body.bytes ? "POST" : "GET",
        .url = flow->url.bytes,
        .body = flow->body.bytes,
        .body_len = flow->body.len,
        .max_bytes = flow->max_bytes,
        .timeout_ms = OAUTH_TIMEOUT_MS,
        .least_ms =
            flow->operation == PROVIDER_REFRESH && stages[flow->stage].ask == oauth_ask_token
                ? FETCH_ROTATES_MS
                : 0,
    };
    memcpy(out->headers, flow->headers, sizeof(out->headers));
    return PROVIDER_FETCH;
}

static provider_step_t oauth_next(void *context, const fetched_t *answer, fetch_t *out)
{
    oauth_flow_t *flow = context;
    provider_step_t step = PROVIDER_DONE;

    if (flow->outcome != PROVIDER_FETCH)
        return flow->outcome;
    if (flow->stage >= 0) {
        if (!answer)
            return oauth_fail(flow, PROVIDER_INVALID, "a request has no answer");
        step = stages[flow->stage].read(flow, answer);
    }
    if (step == PROVIDER_FETCH)
        return ask_stage(flow, out);
    if (step != PROVIDER_DONE)
        return step;
    while (++flow->stage < (int)LEN(stages))
        if (stages[flow->stage].is_needed(flow))
            return ask_stage(flow, out);
    flow->outcome = PROVIDER_DONE;
    return PROVIDER_DONE;
}

static const char *oauth_location(void *context)
{
    return ((oauth_flow_t *)context)->url.bytes;
}

static void oauth_person(void *context, person_t *out)
{
    const oauth_flow_t *flow = context;

    *out = (person_t){0};
    oauth_set(&out->provider_name, flow->row->name);
    oauth_set(&out->provider_url, flow->place.sign_in);
    oauth_set(&out->id, flow->id);
    oauth_set(&out->username, flow->username);
    oauth_set(&out->name, flow->name);
    oauth_set(&out->email, flow->email);
    out->email_verified = flow->email_verified;
    out->groups = json_deep_copy(flow->groups);
    oauth_set(&out->refresh_token, flow->refresh_token);
    oauth_set(&out->access_token, flow->access_token);
    out->access_expires_s = flow->access_expires_s;
}

static bool oauth_tokens(void *context, person_t *out)
{
    const oauth_flow_t *flow = context;

    *out = (person_t){0};
    if (!flow->has_new_tokens)
        return false;
    oauth_set(&out->refresh_token, flow->refresh_token);
    oauth_set(&out->access_token, flow->access_token);
    out->access_expires_s = flow->access_expires_s;
    return true;
}

static size_t length_of(const char *text)
{
    return text ? strlen(text) : 0;
}

static size_t oauth_weight(void *context)
{
    const oauth_flow_t *flow = context;

    return sizeof(*flow) + flow->url.size + flow->body.size + length_of(flow->scopes)
           + length_of(flow->access_token) + length_of(flow->refresh_token) + length_of(flow->code)
           + memory_json_weight(flow->teams) + memory_json_weight(flow->organizations)
           + memory_json_weight(flow->groups);
}

static const char *oauth_why(void *context)
{
    return ((oauth_flow_t *)context)->why;
}

static void oauth_free(void **context_p)
{
    oauth_flow_t *flow = *context_p;

    if (!flow)
        return;
    for (size_t i = 0; i < FETCH_HEADERS; i++)
        oauth_set(&flow->headers[i], NULL);
    provider_text_end(&flow->url);
    provider_text_end(&flow->body);
    {
        char **texts[] = {
            &flow->client_id,    &flow->client_secret, &flow->redirect_uri, &flow->state,
            &flow->verifier,     &flow->scopes,        &flow->code,         &flow->known_id,
            &flow->access_token, &flow->refresh_token, &flow->id,           &flow->username,
            &flow->name,         &flow->email};

        for (size_t i = 0; i < LEN(texts); i++)
            oauth_set(texts[i], NULL);
    }
    json_decref(flow->teams);
    json_decref(flow->organizations);
    json_decref(flow->groups);
    free(flow);
    *context_p = NULL;
}

const provider_t provider_oauth = {
    .module = "oauth",
    .start = oauth_start,
    .next = oauth_next,
    .location = oauth_location,
    .person = oauth_person,
    .tokens = oauth_tokens,
    .weight = oauth_weight,
    .why = oauth_why,
    .free = oauth_free,
};
