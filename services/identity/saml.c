/* The engine of the module saml: what begins, and what becomes of the answers of postern-saml
 * (saml_question.c). */
#include "services/identity/saml.h"
#include "common/base/cleanup.h"
#include "common/base/memory.h"
#include "common/base/quote.h"
#include "common/base/secret.h"
#include "services/identity/provider_cache.h"
#include "services/identity/saml_internal.h"
#include "services/identity/sign_in_words.h"

#include <stdarg.h>
#include <string.h>

static const char metadata_kind[] = "saml metadata";

provider_step_t saml_fail(saml_flow_t *self, provider_step_t step, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(self->why, sizeof(self->why), format, args);
    va_end(args);
    quote_plain(self->why, sizeof(self->why), self->why);
    return step;
}

const char *saml_config(const saml_flow_t *self, const char *name)
{
    const char *text = json_string_value(json_object_get(self->config, name));

    return text ? text : "";
}

/* ---- beginning ---- */

static char *copy_of(const char *text)
{
    return text ? memory_copy(text, "a sign-in") : NULL;
}

/* The only SAMLResponse. NULL: there is none, there are several, or it is too long. */
static char *message_of(const json_t *params)
{
    const json_t *values = json_object_get(params, "SAMLResponse");
    const char *text = json_string_value(json_array_get(values, 0));

    return text && json_array_size(values) == 1 && *text && strlen(text) <= SAML_MESSAGE_MAX
               ? copy_of(text)
               : NULL;
}

/* What a refresh keeps: nothing can be asked of a provider of SAML but by its browser. */
static void take_known(saml_flow_t *self, const person_t *known)
{
    _cleanup_(json_clear_ref) json_t *all = known ? person_json(known) : NULL;

    if (all)
        person_read(&self->person, all);
}

/* The ID of the request, an NCName, is the flow's nonce: 256 random bits, in the browser's sealed
 * cookie. */
static char *id_of(const char *nonce)
{
    char *id = nonce ? memory_need(malloc(strlen(nonce) + 2), "a sign-in") : NULL;

    if (id)
        sprintf(id, "_%s", nonce);
    return id;
}

static int saml_start(void **ret_flow, int operation, const provider_ask_t *ask)
{
    saml_flow_t *self = memory_new(sizeof(*self), "a sign-in");

    *ret_flow = self;
    self->operation = (provider_operation_t)operation;
    self->config = json_deep_copy(ask->config);
    self->acs = copy_of(ask->redirect_uri);
    self->entity_id = copy_of(ask->entity_id);
    self->account = copy_of(ask->account);
    self->relay_state = copy_of(ask->state);
    self->request_id = id_of(ask->nonce);
    if (operation == PROVIDER_ENDED)
        self->logout = json_deep_copy(ask->params);
    else
        self->message = message_of(ask->params);
    self->now_s = ask->now_s;
    self->is_forced = ask->force || json_is_true(json_object_get(ask->config, "force_authn"));
    self->asked_s = ask->asked_s ? ask->asked_s : ask->now_s;
    self->cache = ask->cache;
    take_known(self, ask->known);
    words_hex(saml_config(self, "idp_metadata"), self->metadata_hash);
    return 0;
}

static void saml_free(void **flow_p)
{
    saml_flow_t *self = take(*flow_p);
    char **const texts[] = {&self->acs,     &self->entity_id, &self->relay_state, &self->request_id,
                            &self->message, &self->place,     &self->account};

    if (!self)
        return;
    for (size_t i = 0; i < LEN(texts); i++)
        if (*texts[i])
            secret_free(texts[i], strlen(*texts[i]));
    secret_wipe_json(self->config);
    json_decref(self->config);
    saml_drop_question(self);
    json_decref(self->logout);
    json_decref(self->said);
    json_decref(self->delivery);
    person_done(&self->person);
    free(self);
}

/* ---- the steps ---- */

/* Where the provider takes messages of a kind ("sso", "slo"), or, as: "response_location", answers
 * to them: by the redirect binding, or else by POST. NULL: nowhere. */
static const char *place_of(const json_t *metadata, const char *kind, const char *as,
                            bool *ret_is_post)
{
    static const char *const bindings[] = {SAML_BINDING "HTTP-Redirect", SAML_BINDING "HTTP-POST"};
    const json_t *one;
    size_t i;

    for (int post = 0; post < 2; post++) {
        *ret_is_post = post;
        json_array_foreach(json_object_get(metadata, kind), i, one)
        {
            const char *binding = json_string_value(json_object_get(one, "binding"));

            if (binding && !strcmp(binding, bindings[post]))
                return json_string_value(json_object_get(one, as));
        }
    }
    return NULL;
}

static saml_sending_t sending_to(const saml_flow_t *self, const char *destination, bool is_post)
{
    return (saml_sending_t){
        .is_post = is_post,
        .destination = destination,
        .relay_state = self->relay_state,
        .key_pem = saml_config(self, "request_signing_key_pem"),
        .certificate_pem = saml_config(self, "request_signing_certificate_pem"),
        .id = self->request_id,
    };
}

static provider_step_t make_location(saml_flow_t *self, const json_t *metadata)
{
    bool is_post;
    const char *destination = place_of(metadata, "sso", "location", &is_post);
    const saml_request_t request = {
        .id = self->request_id,
        .destination = destination,
        .acs = self->acs,
        .entity_id = self->entity_id,
        .nameid_format = saml_config(self, "nameid_format"),
        .force = self->is_forced,
        .now_s = self->now_s,
    };
    const saml_sending_t sending = sending_to(self, destination, is_post);
    _cleanup_(free_mem) char *xml = NULL;
    size_t len = 0;

    if (!destination)
        return saml_fail(
            self, PROVIDER_INVALID,
            "the provider's metadata have no SingleSignOnService of the redirect binding, "
            "and none of POST");
    if (!request.id || !self->relay_state || !request.acs || !request.entity_id)
        return saml_fail(self, PROVIDER_INVALID, "the flow has no state");
    xml = saml_request_xml(&request, &len);
    self->delivery = saml_deliver(&sending, xml, len);
    return self->delivery ? PROVIDER_DONE
                          : saml_fail(self, PROVIDER_INVALID, "the request cannot be signed");
}

/* Is who was signed in still somebody of this provider, by a key that it still has? Whose key is
 * taken out of the metadata may have lost it, to somebody who signed in with it. More cannot be
 * asked, and the rules judge what was said then. */
static provider_step_t judge_known(saml_flow_t *self, const json_t *metadata)
{
    const char *issuer = json_string_value(json_object_get(metadata, "entity_id"));
    bool is_known;

    if (!self->person.id || !self->person.provider_url)
        return saml_fail(self, PROVIDER_INVALID, "it is not known whom to renew");
    if (!issuer || strcmp(issuer, self->person.provider_url) != 0)
        return saml_fail(self, PROVIDER_DENIED, "the session is of another provider");
    if (!saml_key_is_known(metadata, &is_known, self->person.session_at_provider))
        return saml_fail(self, PROVIDER_UNAVAILABLE, "postern-saml is of an older version");
    return is_known ? PROVIDER_DONE
                    : saml_fail(self, PROVIDER_DENIED,
                                "the provider's metadata have not the key any more that signed the "
                                "sign-in");
}

/* ---- logout ---- */

/* Where who was signed in signs out at the provider; nowhere where it has no place for that, or is
 * not the one that vouched. */
static provider_step_t make_leaving(saml_flow_t *self, const json_t *metadata)
{
    const char *issuer = json_string_value(json_object_get(metadata, "entity_id"));
    bool is_post;
    const saml_leaving_t leaving = {
        .id = self->request_id,
        .destination = place_of(metadata, "slo", "location", &is_post),
        .entity_id = self->entity_id,
        .session = self->person.session_at_provider,
        .now_s = self->now_s,
    };
    const saml_sending_t sending = sending_to(self, leaving.destination, is_post);
    _cleanup_(free_mem) char *xml = NULL;
    size_t len = 0;

    if (!leaving.destination || !leaving.session || !leaving.id || !issuer
        || !self->person.provider_url || strcmp(issuer, self->person.provider_url) != 0)
        return PROVIDER_DONE;
    xml = saml_logout_request(&leaving, &len);
    self->delivery = xml ? saml_deliver(&sending, xml, len) : NULL;
    return PROVIDER_DONE;
}

/* Where the provider takes the answer that a logout is done; nowhere, where it has no place. */
static provider_step_t note_answer_place(saml_flow_t *self, const json_t *metadata)
{
    self->place = copy_of(place_of(metadata, "slo", "response_location", &self->is_post));
    return PROVIDER_DONE;
}

static provider_step_t use_metadata(saml_flow_t *self, const json_t *metadata)
{
    switch (self->operation) {
    case PROVIDER_BEGIN:
        return make_location(self, metadata);
    case PROVIDER_LEAVE:
        return make_leaving(self, metadata);
    case PROVIDER_ENDED:
        return note_answer_place(self, metadata);
    default:
        return judge_known(self, metadata);
    }
}

/* What postern-saml made of the route's metadata, if it is known. */
static provider_step_t go_to_metadata(saml_flow_t *self)
{
    _cleanup_(json_clear_ref) json_t *metadata = NULL;
    _cleanup_(free_mem) char *text = NULL;
    size_t len = 0;

    if (provider_cache_find(self->cache, self->account ? self->account : "", metadata_kind,
                            self->metadata_hash, self->now_s, &text, &len)
        == PROVIDER_CACHE_FRESH)
        metadata = json_loadb(text, len, 0, NULL);
    return metadata ? use_metadata(self, metadata) : saml_ask_metadata(self);
}

static provider_step_t on_metadata(saml_flow_t *self, const json_t *said)
{
    _cleanup_(free_mem) char *text = json_dumps(said, JSON_COMPACT);
    bool is_known;

    if (text && saml_key_is_known(said, &is_known, NULL)) /* else of an older version, for now */
        provider_cache_put(self->cache, self->account ? self->account : "", metadata_kind,
                           self->metadata_hash,
                           &(provider_document_t){.text = text, .len = strlen(text)}, self->now_s);
    return use_metadata(self, said);
}

/* A request can lose its ForceAuthn in the browser, and an unsolicited response never had one. */
static bool is_asked_anew(const saml_flow_t *self, const json_t *said)
{
    int64_t signed_in_ms = json_integer_value(json_object_get(said, "authn_instant_ms"));

    return !self->is_forced || signed_in_ms + SAML_SKEW_MS >= 1000 * self->asked_s;
}

static provider_step_t on_person(saml_flow_t *self, const json_t *said)
{
    const json_t *encrypted = json_object_get(said, "encrypted");
    const char *fault;

    if (encrypted)
        return saml_ask_decrypted(self, encrypted);
    if (!is_asked_anew(self, said))
        return saml_fail(
            self, PROVIDER_INVALID,
            "the response is not good: the person signed in at the provider before they "
            "were to sign in anew (force_authn): see AuthnInstant");
    fault = saml_person(said, self->account, self->entity_id, self->now_s, &self->person);
    return fault ? saml_fail(self, PROVIDER_INVALID, "the response is not good: %s", fault)
                 : PROVIDER_DONE;
}

static provider_step_t on_logout(saml_flow_t *self, const json_t *said)
{
    const json_t *kind = json_object_get(self->logout, "kind");
    bool is_request = !strcmp(json_string_value(kind), "logout_request");
    const char *fault;

    self->said = json_deep_copy(said);
    fault = saml_logout_read(self->said, self->entity_id, is_request, self->now_s, &self->ended);
    if (fault)
        return saml_fail(self, PROVIDER_INVALID, "the message is not good: %s", fault);
    return is_request ? go_to_metadata(self) : PROVIDER_DONE;
}

static provider_step_t take_answer(saml_flow_t *self, const fetched_t *answer)
{
    provider_step_t step = saml_judge_code(self, answer);

    if (step != PROVIDER_DONE)
        return step;
    if (saml_asked_metadata(self))
        return on_metadata(self, answer->said);
    return self->operation == PROVIDER_ENDED ? on_logout(self, answer->said)
                                             : on_person(self, answer->said);
}

static provider_step_t saml_next(void *flow, const fetched_t *answer, fetch_t *out)
{
    saml_flow_t *self = flow;
    provider_step_t step;

    if (answer)
        step = take_answer(self, answer);
    else if (self->operation == PROVIDER_CALLBACK)
        step = saml_ask_verdict(self);
    else
        step = self->operation == PROVIDER_ENDED ? saml_ask_logout_verdict(self)
                                                 : go_to_metadata(self);
    if (step == PROVIDER_FETCH)
        *out = (fetch_t){.verb = self->verb, .question = self->question, .timeout_ms = SAML_ASK_MS};
    return step;
}

/* ---- results ---- */

static const char *saml_location(void *flow)
{
    return json_string_value(json_object_get(((saml_flow_t *)flow)->delivery, "location"));
}

static const json_t *saml_post(void *flow)
{
    return json_object_get(((saml_flow_t *)flow)->delivery, "post");
}

static void saml_give_person(void *flow, person_t *out)
{
    saml_flow_t *self = flow;
    _cleanup_(json_clear_ref) json_t *all = person_json(&self->person);

    person_read(out, all);
    out->once_until_s = self->person.once_until_s;
}

const saml_logout_t *saml_ended(void *flow)
{
    return &((saml_flow_t *)flow)->ended;
}

json_t *saml_ended_answer(void *flow)
{
    const saml_flow_t *self = flow;
    char random[WORDS_TOKEN_LEN + 1];
    _cleanup_(free_mem) char *id = NULL, *xml = NULL;
    saml_leaving_t leaving = {.destination = self->place,
                              .entity_id = self->entity_id,
                              .in_response_to = self->ended.request_id,
                              .now_s = self->now_s};
    saml_sending_t sending = sending_to(self, self->place, self->is_post);
    size_t len = 0;

    if (!self->place)
        return NULL;
    words_token(random);
    id = id_of(random);
    leaving.id = sending.id = id;
    sending.is_response = true;
    sending.relay_state = json_string_value(json_object_get(self->logout, "relay_state"));
    xml = saml_logout_response(&leaving, &len);
    return saml_deliver(&sending, xml, len);
}

static const char *saml_why(void *flow)
{
    return ((saml_flow_t *)flow)->why;
}

const provider_t provider_saml = {
    .module = "saml",
    .start = saml_start,
    .next = saml_next,
    .location = saml_location,
    .post = saml_post,
    .person = saml_give_person,
    .why = saml_why,
    .free = saml_free,
};
