/* Questions to postern-saml: where the provider takes requests (saml.metadata), and whether a
 * message is the provider's, for this route and in time (saml.verify). What is expected of a
 * message comes from the flow that began and from the route alone. */
#include "common/base/cleanup.h"
#include "common/base/err.h"
#include "common/base/memory.h"
#include "common/base/secret.h"
#include "services/identity/saml_internal.h"

#include <string.h>

static const char metadata_verb[] = "saml.metadata", verdict_verb[] = "saml.verify";

/* One with the key of an assertion is wiped where nobody else has it still. */
void saml_drop_question(saml_flow_t *self)
{
    if (self->question && self->question->refcount == 1)
        secret_wipe_json(self->question);
    json_decref(take(self->question));
}

static provider_step_t ask_for(saml_flow_t *self, const char *verb, json_t *question)
{
    saml_drop_question(self);
    self->verb = verb;
    self->question = memory_need(question, "a question to postern-saml");
    return PROVIDER_FETCH;
}

provider_step_t saml_ask_metadata(saml_flow_t *self)
{
    return ask_for(self, metadata_verb,
                   json_pack("{s:s}", "metadata", saml_config(self, "idp_metadata")));
}

/* "" where nothing was asked: the response may answer no request then. */
provider_step_t saml_ask_verdict(saml_flow_t *self)
{
    const char *format = saml_config(self, "nameid_format");

    if (!self->message)
        return saml_fail(self, PROVIDER_INVALID, "there is no SAMLResponse of at most %d bytes",
                         SAML_MESSAGE_MAX);
    return ask_for(
        self, verdict_verb,
        json_pack("{s:s, s:s, s:s, s:{s:s, s:s, s:s, s:s, s:s, s:b, s:I, s:i, s:s, s:b}}",
                  "metadata", saml_config(self, "idp_metadata"), "message", self->message,
                  "binding", "post", "expect", "kind", "response", "destination", self->acs,
                  "recipient", self->acs, "audience", self->entity_id, "in_response_to",
                  self->request_id ? self->request_id : "", "allow_unsolicited", !self->request_id,
                  "now_ms", (json_int_t)1000 * self->now_s, "skew_ms", SAML_SKEW_MS,
                  "nameid_format", format, "require_authn_statement", true));
}

/* A LogoutResponse answers the request that this flow's state stands for; a LogoutRequest, which
 * the provider begins with, none. */
provider_step_t saml_ask_logout_verdict(saml_flow_t *self)
{
    const json_t *message = self->logout;
    const char *kind = json_string_value(json_object_get(message, "kind"));
    bool is_request = kind && !strcmp(kind, "logout_request");

    if (!kind || (!is_request && !self->request_id))
        return saml_fail(self, PROVIDER_INVALID, "it is not known what this message answers");
    return ask_for(
        self, verdict_verb,
        json_pack("{s:s, s:O, s:O, s:O*, s:{s:s, s:s, s:s, s:I, s:i}}", "metadata",
                  saml_config(self, "idp_metadata"), "message", json_object_get(message, "message"),
                  "binding", json_object_get(message, "binding"), "relay",
                  json_object_get(message, "relay"), "expect", "kind", kind, "destination",
                  self->acs, "in_response_to", is_request ? "" : self->request_id, "now_ms",
                  (json_int_t)1000 * self->now_s, "skew_ms", SAML_SKEW_MS));
}

/* The assertion is encrypted: the same question again, with the key of its content. Whether that
 * could be opened shows in nothing that happens from here on. */
provider_step_t saml_ask_decrypted(saml_flow_t *self, const json_t *encrypted)
{
    provider_step_t step;
    char *key;

    if (self->is_decrypting)
        return saml_fail(self, PROVIDER_UNAVAILABLE, "postern-saml gives no verdict, with the key");
    key = saml_content_key(saml_config(self, "encryption_key_pem"),
                           saml_config(self, "other_encryption_key_pem"), encrypted);
    if (!key)
        return saml_fail(
            self, PROVIDER_INVALID,
            "the response is not good: its assertion is encrypted, and the route has no "
            "key for that");
    self->is_decrypting = true;
    step = saml_ask_verdict(self);
    if (step == PROVIDER_FETCH)
        json_object_set_new(self->question, "content_key", json_string(key));
    secret_free(&key, strlen(key));
    return step;
}

/* What an answer that is no answer means. */
provider_step_t saml_judge_code(saml_flow_t *self, const fetched_t *answer)
{
    const char *reason = answer->reason ? answer->reason : "";

    switch (answer->code) {
    case 0:
        return answer->said ? PROVIDER_DONE
                            : saml_fail(self, PROVIDER_UNAVAILABLE, "postern-saml says nothing");
    case ERR_SAML_MESSAGE:
        return saml_fail(self, PROVIDER_INVALID, "the message is not good: %s", reason);
    case ERR_SAML_METADATA:
        return saml_fail(self, PROVIDER_INVALID, "idp_metadata of the route is not good: %s",
                         reason);
    default:
        return saml_fail(self, PROVIDER_UNAVAILABLE, "postern-saml gives no verdict (%d): %s",
                         answer->code, reason);
    }
}

bool saml_asked_metadata(const saml_flow_t *self)
{
    return self->verb == metadata_verb;
}
