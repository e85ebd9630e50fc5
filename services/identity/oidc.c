#include "services/identity/oidc.h"
#include "common/base/cleanup.h"
#include "common/base/memory.h"
#include "common/base/quote.h"
#include "common/out/outbound.h"
#include "services/identity/oidc_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char metadata_kind[] = "metadata", keys_kind[] = "keys";

provider_step_t oidc_fail(oidc_flow_t *self, provider_step_t step, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(self->why, sizeof(self->why), format, args);
    va_end(args);
    quote_plain(self->why, sizeof(self->why), self->why);
    return step;
}

/* ---- the steps ---- */

static provider_step_t ask_for(oidc_flow_t *self, oidc_stage_t stage, bool fits)
{
    self->stage = stage;
    provider_text_fit(&self->url);
    provider_text_fit(&self->body);
    return fits ? PROVIDER_FETCH
                : oidc_fail(self, PROVIDER_INVALID, "the request to the provider is too long");
}

/* What comes behind the ID token, or behind a refresh without one. */
static provider_step_t go_to_userinfo(oidc_flow_t *self)
{
    if (self->metadata.userinfo && self->access_token)
        return ask_for(self, OIDC_STAGE_USERINFO, oidc_ask_userinfo(self));
    return PROVIDER_DONE;
}

/* Is the flow about a token that was judged, but for its signature, before anybody was asked? */
static bool is_judged(const oidc_flow_t *self)
{
    return self->operation == PROVIDER_ENDED || self->operation == PROVIDER_BEARER;
}

static const char *token_name(const oidc_flow_t *self)
{
    return self->operation == PROVIDER_ENDED    ? "logout token"
           : self->operation == PROVIDER_BEARER ? "bearer token"
                                                : "ID token";
}

/* The token is not good. Of one that a request brings that is the answer; else it is the provider
 * who is wrong. */
static provider_step_t fail_token(oidc_flow_t *self, const char *why)
{
    return oidc_fail(self, self->operation == PROVIDER_BEARER ? PROVIDER_DENIED : PROVIDER_INVALID,
                     "the %s is not valid: %s", token_name(self), why);
}

static provider_step_t judge_token(oidc_flow_t *self)
{
    const bool is_refresh = self->operation == PROVIDER_REFRESH;
    const oidc_expected_t expected = {.issuer = self->issuer,
                                      .client_id = self->client_id,
                                      .nonce = is_refresh ? NULL : self->nonce,
                                      .sub = is_refresh ? self->known.id : NULL,
                                      .access_token = self->access_token,
                                      .max_age_s = -1,
                                      .now_s = self->now_s};
    const char *fault = is_judged(self) ? NULL : oidc_token_fault(&self->token, &expected);

    if (fault)
        return fail_token(self, fault);
    self->is_verified = true;
    return is_judged(self) ? PROVIDER_DONE : go_to_userinfo(self);
}

/* ---- documents ---- */

/* May the document of which nothing is here be fetched? Tokens that anybody can bring do not have
 * it asked for again where the provider has just answered with something else. */
static bool may_fetch(const oidc_flow_t *self, const char *kind, const char *name)
{
    return !is_judged(self)
           || !provider_cache_failed(self->cache, self->account, kind, name, self->now_s);
}

static provider_step_t refuse_fetch(oidc_flow_t *self, const char *what)
{
    return oidc_fail(self, PROVIDER_UNAVAILABLE, "%s of the provider could not be had a moment ago",
                     what);
}

/* The step with which a fetch that brought no good document ends. What did not answer, the way out
 * remembers. Of a logout token nobody can tell without the document, and few are sent twice: it is
 * to wait. */
static provider_step_t fail_document(oidc_flow_t *self, const char *kind, const char *name,
                                     const fetched_t *answer, provider_step_t step)
{
    if (answer->status || answer->end == OUTBOUND_TOO_LARGE || answer->end == OUTBOUND_REDIRECTS
        || answer->end == OUTBOUND_BROKEN)
        provider_cache_fail(self->cache, self->account, kind, name, self->now_s);
    return self->operation == PROVIDER_ENDED ? PROVIDER_UNAVAILABLE : step;
}

/* ---- keys ---- */

/* Keys are fetched, or awaited of the flow that fetches them: they are asked for in either case,
 * and that is one request. */
static provider_step_t fetch_keys(oidc_flow_t *self, bool is_mine)
{
    self->is_out_of_turn = false;
    self->were_keys_fetched = is_mine;
    self->key_waits += !is_mine;
    return ask_for(self, OIDC_STAGE_KEYS, oidc_ask_keys(self));
}

/* For whom keys are fetched out of turn. */
static provider_asker_t asker_of(const oidc_flow_t *self)
{
    return self->operation == PROVIDER_ENDED    ? PROVIDER_ASKER_LOGOUT
           : self->operation == PROVIDER_BEARER ? PROVIDER_ASKER_BEARER
                                                : PROVIDER_ASKER_SIGN_IN;
}

/* The set has the key that the token names, which has not signed it. A newer set says that, too,
 * but where a provider changes a key and not its id. */
static bool is_forged(const oidc_flow_t *self, oidc_verdict_t verdict)
{
    return verdict == OIDC_FORGED && self->token.kid;
}

/* No key verifies the token. What a key set that is old says of keys that it lacks is no answer:
 * then nobody can tell now. */
static provider_step_t refuse_token(oidc_flow_t *self, oidc_verdict_t verdict)
{
    if (!self->are_keys_new && !is_forged(self, verdict))
        return oidc_fail(self, PROVIDER_UNAVAILABLE,
                         "no key that is here has signed the %s, and the key set of the provider "
                         "cannot be fetched anew now",
                         token_name(self));
    return fail_token(self, verdict == OIDC_NO_KEY ? "the provider has no key for its kid and alg"
                                                   : "its signature is wrong");
}

/* The set may be too old: the provider has changed its keys. */
static provider_step_t doubt_keys(oidc_flow_t *self, oidc_verdict_t verdict)
{
    const provider_wanted_t wanted = {.account = self->account,
                                      .kind = keys_kind,
                                      .name = self->metadata.keys,
                                      .asker = asker_of(self),
                                      .doubt = is_forged(self, verdict) ? PROVIDER_DOUBT_WRONG
                                                                        : PROVIDER_DOUBT_LACKS,
                                      .lacks = self->token.kid,
                                      .waits = self->key_waits};
    provider_again_t again =
        provider_cache_again(self->cache, &wanted, self->now_s, &self->key_fetch);

    self->doubted = verdict;
    if (again != PROVIDER_AGAIN_NO)
        return fetch_keys(self, again == PROVIDER_AGAIN_FETCH);
    self->is_out_of_turn = wanted.doubt == PROVIDER_DOUBT_LACKS;
    return refuse_token(self, verdict);
}

/* Verify with this key set. */
static provider_step_t verify_with(oidc_flow_t *self, const char *text, size_t len)
{
    oidc_keys_t *keys = NULL;
    const char *fault = oidc_keys_read(&keys, text, len);
    oidc_verdict_t verdict = OIDC_NO_KEY;

    if (!fault)
        verdict = oidc_token_verify(&self->token, keys);
    oidc_keys_free(&keys);
    if (verdict == OIDC_VERIFIED)
        return judge_token(self);
    if (!self->were_keys_fetched)
        return doubt_keys(self, verdict);
    return fault ? oidc_fail(self, PROVIDER_INVALID, "%s", fault) : refuse_token(self, verdict);
}

/* Verify with the keys that are kept, or have some fetched. Those that may still serve if that
 * fails are kept by the flow meanwhile: others have just been tried. */
static provider_step_t look_for_key(oidc_flow_t *self)
{
    provider_cached_t state;
    char *text = NULL;
    size_t len = 0;
    provider_step_t step;

    state = provider_cache_find(self->cache, self->account, keys_kind, self->metadata.keys,
                                self->now_s, &text, &len);
    if (state == PROVIDER_CACHE_NONE && !may_fetch(self, keys_kind, self->metadata.keys))
        return refuse_fetch(self, "the key set");
    step = state == PROVIDER_CACHE_FRESH
               ? verify_with(self, text, len)
               : fetch_keys(self, provider_cache_begin(self->cache, self->account, keys_kind,
                                                       self->metadata.keys, self->now_s,
                                                       &self->key_fetch));
    if (state == PROVIDER_CACHE_STALE && step == PROVIDER_FETCH) {
        oidc_set(&self->old_text, NULL);
        self->old_text = text;
        self->old_len = len;
    } else {
        free(text);
    }
    return step;
}

/* Where another flow has used the turn up, its keys may have come since this one looked. */
static provider_step_t go_to_keys(oidc_flow_t *self)
{
    provider_step_t step = look_for_key(self);

    return self->is_out_of_turn ? look_for_key(self) : step;
}

/* Keep the key set that came. PROVIDER_DONE, or the outcome. */
static provider_step_t keep_keys(oidc_flow_t *self, const fetched_t *answer)
{
    provider_step_t step = oidc_judge(self, "the key set", answer);
    oidc_keys_t *keys = NULL;
    const char *fault;

    if (step != PROVIDER_DONE)
        return step;
    if (answer->status != 200)
        return oidc_fail(self, PROVIDER_INVALID, "the key set of the provider answers with %u",
                         answer->status);
    fault = oidc_keys_read(&keys, answer->body, answer->body_len);
    oidc_keys_free(&keys);
    if (fault)
        return oidc_fail(self, PROVIDER_INVALID, "%s", fault);
    provider_cache_put(self->cache, self->account, keys_kind, self->metadata.keys,
                       &(provider_document_t){.text = answer->body,
                                              .len = answer->body_len,
                                              .cache_control = answer->cache_control,
                                              .fetch = self->key_fetch},
                       self->now_s);
    return step;
}

/* A fetch that has brought keys is over for all who waited for it, whoever of them comes first; one
 * that has not goes on for the others, who may have more time for it. */
static provider_step_t on_keys(oidc_flow_t *self, const fetched_t *answer)
{
    _cleanup_(free_mem) char *old = take(self->old_text);
    provider_step_t step = keep_keys(self, answer), ending = step;

    if (step != PROVIDER_DONE)
        ending = fail_document(self, keys_kind, self->metadata.keys, answer, step);
    provider_cache_end(self->cache, self->key_fetch, step == PROVIDER_DONE);
    self->key_fetch = 0;
    if (step == PROVIDER_DONE) {
        self->are_keys_new = self->were_keys_fetched;
        return verify_with(self, answer->body, answer->body_len);
    }
    /* What the provider has withdrawn does not go on to verify: the old ones serve while it does
     * not answer, and then only. */
    self->were_keys_fetched = true;
    if (step != PROVIDER_UNAVAILABLE)
        return ending;
    if (old)
        return verify_with(self, old, self->old_len);
    return self->doubted == OIDC_VERIFIED ? step : refuse_token(self, self->doubted);
}

/* ---- the other steps ---- */

/* The provider's answer to a code, or to a refresh token. */
static provider_step_t on_tokens(oidc_flow_t *self, const fetched_t *answer)
{
    provider_step_t step = oidc_read_tokens(self, answer);

    if (step != PROVIDER_DONE)
        return step;
    return self->id_token ? go_to_keys(self) : go_to_userinfo(self);
}

/* Without a refresh token, what can be asked is who an access token is of. */
static provider_step_t begin_refresh(oidc_flow_t *self)
{
    if (strcmp(self->known.provider_url, self->issuer) != 0)
        return oidc_fail(self, PROVIDER_DENIED, "the session is of another issuer");
    if (self->refresh_token)
        return ask_for(self, OIDC_STAGE_TOKENS, oidc_ask_tokens(self, NULL));
    if (!self->access_token || !self->metadata.userinfo || !oidc_is_visible(self->access_token)
        || (self->access_expires_s && self->access_expires_s <= self->now_s))
        return oidc_fail(self, PROVIDER_DENIED,
                         "the provider gave no token with which it can still be asked");
    return go_to_userinfo(self);
}

/* A provider without such a page leaves no URL. */
static provider_step_t go_to_leave(oidc_flow_t *self)
{
    _cleanup_(free_mem) char *text = oidc_leave_url(
        &self->metadata, self->client_id, self->known.id_token, self->redirect_uri, self->state);

    provider_text_end(&self->url);
    if (text)
        provider_text_begin(&self->url, text);
    return PROVIDER_DONE;
}

static provider_step_t go_on(oidc_flow_t *self)
{
    provider_step_t step;
    const char *code = NULL;

    switch (self->operation) {
    case PROVIDER_BEGIN:
        return oidc_ask_authorize(self)
                   ? PROVIDER_DONE
                   : oidc_fail(self, PROVIDER_INVALID, "the URL of the sign-in is too long");
    case PROVIDER_CALLBACK:
        step = oidc_read_callback(self, &code);
        return step == PROVIDER_DONE ? ask_for(self, OIDC_STAGE_TOKENS, oidc_ask_tokens(self, code))
                                     : step;
    case PROVIDER_LEAVE:
        return go_to_leave(self);
    case PROVIDER_ENDED:
    case PROVIDER_BEARER:
        return go_to_keys(self);
    case PROVIDER_REFRESH:
        break;
    }
    return begin_refresh(self);
}

static provider_step_t go_to_metadata(oidc_flow_t *self)
{
    provider_cached_t state;
    char *text = NULL;
    size_t len = 0;
    const char *fault;

    if (self->fault)
        return self->is_fault_of_token ? fail_token(self, self->fault)
                                       : oidc_fail(self, PROVIDER_INVALID, "%s", self->fault);
    state = provider_cache_find(self->cache, self->account, metadata_kind, self->issuer,
                                self->now_s, &text, &len);
    if (state == PROVIDER_CACHE_FRESH) {
        fault = oidc_metadata_read(&self->metadata, text, len, self->issuer);
        free(text);
        if (!fault)
            return go_on(self);
        text = NULL;
    }
    self->old_text = text;
    self->old_len = len;
    if (!text && !may_fetch(self, metadata_kind, self->issuer))
        return refuse_fetch(self, "the metadata");
    return ask_for(self, OIDC_STAGE_METADATA, oidc_ask_metadata(self));
}

static provider_step_t on_metadata(oidc_flow_t *self, const fetched_t *answer)
{
    _cleanup_(free_mem) char *old = take(self->old_text);
    provider_step_t step = oidc_judge(self, "the metadata", answer);
    const char *fault;

    if (step == PROVIDER_DONE && answer->status != 200)
        step = oidc_fail(self, PROVIDER_INVALID, "the metadata of the provider answers with %u",
                         answer->status);
    if (step == PROVIDER_DONE) {
        fault = oidc_metadata_read(&self->metadata, answer->body, answer->body_len, self->issuer);
        if (!fault) {
            provider_cache_put(self->cache, self->account, metadata_kind, self->issuer,
                               &(provider_document_t){.text = answer->body,
                                                      .len = answer->body_len,
                                                      .cache_control = answer->cache_control},
                               self->now_s);
            return go_on(self);
        }
        step = oidc_fail(self, PROVIDER_INVALID, "%s", fault);
    }
    step = fail_document(self, metadata_kind, self->issuer, answer, step);
    if (!old || oidc_metadata_read(&self->metadata, old, self->old_len, self->issuer))
        return step;
    return go_on(self);
}

static provider_step_t step_of(oidc_flow_t *self, const fetched_t *answer)
{
    if (!answer)
        return go_to_metadata(self);
    switch (self->stage) {
    case OIDC_STAGE_METADATA:
        return on_metadata(self, answer);
    case OIDC_STAGE_TOKENS:
        return on_tokens(self, answer);
    case OIDC_STAGE_KEYS:
        return on_keys(self, answer);
    case OIDC_STAGE_USERINFO:
        break;
    }
    return oidc_read_userinfo(self, answer);
}

/* Does the request that is asked for now use a refresh token up? */
static bool rotates(const oidc_flow_t *self)
{
    return self->stage == OIDC_STAGE_TOKENS && self->operation == PROVIDER_REFRESH;
}

static provider_step_t oidc_next(void *flow, const fetched_t *answer, fetch_t *out)
{
    oidc_flow_t *self = flow;
    provider_step_t step = step_of(self, answer);

    if (step != PROVIDER_FETCH)
        return step;
    *out =
        (fetch_t){.method = self->body.bytes ? "POST" : "GET",
                  .url = self->url.bytes,
                  .body = self->body.bytes,
                  .body_len = self->body.len,
                  .max_bytes = self->max_bytes,
                  .timeout_ms = self->operation == PROVIDER_LEAVE ? OIDC_LEAVE_MS : OIDC_TIMEOUT_MS,
                  .least_ms = rotates(self) ? FETCH_ROTATES_MS : 0};
    memcpy(out->headers, self->headers, sizeof(out->headers));
    return step;
}

/* ---- results ---- */

static const char *oidc_location(void *flow)
{
    return ((oidc_flow_t *)flow)->url.bytes;
}

const oidc_logout_t *oidc_ended(void *flow)
{
    return &((oidc_flow_t *)flow)->ended;
}

static const char *oidc_why(void *flow)
{
    return ((oidc_flow_t *)flow)->why;
}

const provider_t provider_oidc = {
    .module = "oidc",
    .start = oidc_flow_start,
    .next = oidc_next,
    .location = oidc_location,
    .person = oidc_flow_person,
    .tokens = oidc_flow_tokens,
    .weight = oidc_flow_weight,
    .why = oidc_why,
    .free = oidc_flow_free,
};
