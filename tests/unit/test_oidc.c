/* Signing in with OpenID Connect, as the browser and the provider see it: begin, callback, refresh.
 * What tokens and key sets may be is in test_oidc_token.c. */
#include "common/base/cleanup.h"
#include "services/identity/oidc_internal.h"
#include "tests/unit/oidc_op.h"

#include <criterion/criterion.h>
#include <sodium.h>
#include <string.h>

#define AN_OP(alg) _cleanup_(op_destroy) op_t *op = op_new(alg)

static void have(const char *text, const char *part)
{
    cr_assert(strstr(text, part), "'%s' is not in: %s", part, text);
}

static void lack(const char *text, const char *part)
{
    cr_assert_not(strstr(text, part), "'%s' is in: %s", part, text);
}

static void sign_in(op_t *op, person_t *who)
{
    cr_assert_eq(op_run(op, PROVIDER_CALLBACK, who), PROVIDER_DONE, "%s", op->why);
}

/* ---- begin ---- */

Test(oidc, begins_with_code_and_pkce_and_keeps_the_query_of_the_endpoint)
{
    AN_OP("ES256");
    char challenge[44];

    op_set(op->config, "client_id", json_string("a b&c=d"));
    cr_assert_eq(op_run(op, PROVIDER_BEGIN, NULL), PROVIDER_DONE, "%s", op->why);
    oidc_challenge(OP_VERIFIER, challenge);
    have(op->location, OP_ISSUER "/auth?a=b&response_type=code&client_id=a%20b%26c%3Dd&");
    have(op->location, "&redirect_uri=https%3A%2F%2Fh%2Foauth2%2Fcallback&");
    have(op->location, "&scope=openid%20email%20profile&");
    have(op->location, "&state=" OP_STATE "&nonce=" OP_NONCE "&code_challenge=");
    have(op->location, challenge);
    have(op->location, "&code_challenge_method=S256");
    lack(op->location, "prompt");
    lack(op->location, OP_VERIFIER);
    lack(op->location, "ecret");
}

Test(oidc, challenge_is_the_example_of_rfc_7636)
{
    char challenge[44];

    oidc_challenge("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk", challenge);
    cr_assert_str_eq(challenge, "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
}

Test(oidc, begin_asks_for_the_routes_scopes_and_for_consent_where_tokens_outlive_the_browser)
{
    AN_OP("ES256");

    op_set(op->config, "scopes", json_pack("[sss]", "groups", "openid", "offline_access"));
    cr_assert_eq(op_run(op, PROVIDER_BEGIN, NULL), PROVIDER_DONE, "%s", op->why);
    have(op->location, "&scope=openid%20groups%20offline_access&");
    have(op->location, "&prompt=consent");
    op->force = true;
    cr_assert_eq(op_run(op, PROVIDER_BEGIN, NULL), PROVIDER_DONE, "%s", op->why);
    have(op->location, "&prompt=login%20consent");
    op_set(op->config, "scopes", json_array());
    cr_assert_eq(op_run(op, PROVIDER_BEGIN, NULL), PROVIDER_DONE, "%s", op->why);
    have(op->location, "&prompt=login");
    cr_assert_eq(op->calls[OP_METADATA], 1);
}

Test(oidc, begin_refuses_a_scope_that_is_none_and_a_plain_issuer)
{
    AN_OP("ES256");

    op_set(op->config, "scopes", json_pack("[s]", "a b"));
    cr_assert_eq(op_run(op, PROVIDER_BEGIN, NULL), PROVIDER_INVALID);
    op_set(op->config, "scopes", json_array());
    op_set(op->config, "issuer", json_string("http://op.example.test"));
    cr_assert_eq(op_run(op, PROVIDER_BEGIN, NULL), PROVIDER_INVALID);
    have(op->why, "issuer must be an https URL");
    cr_assert_eq(op->calls[OP_METADATA], 0);
}

/* ---- discovery ---- */

static void refuse_metadata(op_t *op, const char *name, json_t *value, const char *why)
{
    json_t *kept = json_deep_copy(op->documents[OP_METADATA]);

    op_set(op->documents[OP_METADATA], name, value);
    cr_assert_eq(op_run(op, PROVIDER_BEGIN, NULL), PROVIDER_INVALID, "%s", name);
    have(op->why, why);
    json_decref(op->documents[OP_METADATA]);
    op->documents[OP_METADATA] = kept;
}

Test(oidc, discovery_refuses_what_breaks_a_rule)
{
    AN_OP("ES256");

    refuse_metadata(op, "issuer", json_string(OP_ISSUER "/"), "another issuer");
    refuse_metadata(op, "issuer", json_string("https://OP.example.test"), "another issuer");
    refuse_metadata(op, "issuer", NULL, "another issuer");
    refuse_metadata(op, "authorization_endpoint", NULL, "authorization_endpoint");
    refuse_metadata(op, "authorization_endpoint", json_string("http://op.example.test/auth"),
                    "authorization_endpoint");
    refuse_metadata(op, "authorization_endpoint", json_string("javascript:alert(1)"),
                    "authorization_endpoint");
    refuse_metadata(op, "authorization_endpoint", json_string(OP_ISSUER "/a?state=x"), "parameter");
    refuse_metadata(op, "authorization_endpoint", json_string(OP_ISSUER "/a?x&%73tate=x"),
                    "parameter");
    refuse_metadata(op, "token_endpoint", json_string("https://a@b/token"), "token_endpoint");
    refuse_metadata(op, "token_endpoint", json_string("https:///token"), "token_endpoint");
    refuse_metadata(op, "token_endpoint", json_string("https://a/token#x"), "token_endpoint");
    refuse_metadata(op, "token_endpoint", json_string("https://a/to ken"), "token_endpoint");
    refuse_metadata(op, "jwks_uri", json_integer(1), "jwks_uri");
    refuse_metadata(op, "userinfo_endpoint", json_string("http://op/me"), "userinfo_endpoint");
    refuse_metadata(op, "response_types_supported", json_pack("[s]", "id_token"), "lacks code");
    refuse_metadata(op, "response_types_supported", json_pack("[si]", "code", 1), "lacks code");
    refuse_metadata(op, "subject_types_supported", NULL, "subject_types_supported");
    refuse_metadata(op, "id_token_signing_alg_values_supported", NULL, "id_token_signing");
    refuse_metadata(op, "token_endpoint_auth_methods_supported",
                    json_pack("[s]", "private_key_jwt"), "neither");
    cr_assert_eq(op_run(op, PROVIDER_BEGIN, NULL), PROVIDER_DONE, "%s", op->why);
}

Test(oidc, discovery_refuses_what_is_no_document)
{
    static const char *const bodies[] = {"",
                                         "[]",
                                         "{",
                                         "{} {}",
                                         "{\"issuer\":\"" OP_ISSUER "\",\"issuer\":\"" OP_ISSUER
                                         "\"}",
                                         "{\"a\":[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]}",
                                         "{\"issuer\":\"https://op.example.test\\u0000\"}"};
    AN_OP("ES256");

    for (size_t i = 0; i < LEN(bodies); i++) {
        op->bodies[OP_METADATA] = bodies[i];
        cr_assert_eq(op_run(op, PROVIDER_BEGIN, NULL), PROVIDER_INVALID, "%s", bodies[i]);
    }
}

Test(oidc, discovery_tells_a_provider_that_is_down_from_one_that_is_wrong)
{
    AN_OP("ES256");

    op->status[OP_METADATA] = 503;
    cr_assert_eq(op_run(op, PROVIDER_BEGIN, NULL), PROVIDER_UNAVAILABLE);
    op->status[OP_METADATA] = 404;
    cr_assert_eq(op_run(op, PROVIDER_BEGIN, NULL), PROVIDER_INVALID);
    op->status[OP_METADATA] = 302;
    cr_assert_eq(op_run(op, PROVIDER_BEGIN, NULL), PROVIDER_INVALID);
    json_decref(op->documents[OP_METADATA]);
    op->documents[OP_METADATA] = NULL;
    cr_assert_eq(op_run(op, PROVIDER_BEGIN, NULL), PROVIDER_UNAVAILABLE);
    have(op->why, "cannot be reached: connect: nobody");
    have(op->why, "is there");
    cr_assert_null(strchr(op->why, '\n'), "it is one line");
}

/* ---- callback ---- */

Test(oidc, callback_says_who_it_is)
{
    AN_OP("ES256");
    _cleanup_(person_done) person_t who = {0};

    op_set(op->claims, "sid", json_string("s1"));
    op_set(op->claims, "preferred_username", json_string("al"));
    op_set(op->documents[OP_TOKENS], "refresh_token", json_string("refre5h"));
    sign_in(op, &who);
    cr_assert_str_eq(who.provider_name, "oidc");
    cr_assert_str_eq(who.provider_url, OP_ISSUER);
    cr_assert_str_eq(who.id, "alice");
    cr_assert_str_eq(who.username, "al");
    cr_assert_str_eq(who.name, "Alice");
    cr_assert_str_eq(who.email, "alice@example.test");
    cr_assert(who.email_verified);
    cr_assert_eq(json_array_size(who.groups), 2);
    cr_assert_str_eq(who.refresh_token, "refre5h");
    cr_assert_str_eq(who.access_token, "acce55");
    cr_assert_eq(who.access_expires_s, OP_NOW_S + 3600);
    cr_assert_str_eq(who.session_at_provider, "s1");
    cr_assert_not_null(who.id_token);
    cr_assert_eq(who.vouched_ms, 1000 * (int64_t)OP_NOW_S, "its iat");
}

Test(oidc, callback_proves_itself_with_basic_and_the_verifier)
{
    AN_OP("ES256");
    char text[128] = "";

    op_set(op->params, "code", json_pack("[s]", "a+b&c"));
    sign_in(op, NULL);
    cr_assert_str_eq(op->body,
                     "grant_type=authorization_code&code=a%2Bb%26c&redirect_uri=https%3A%2F%2Fh%"
                     "2Foauth2%2Fcallback&code_verifier=" OP_VERIFIER);
    cr_assert_eq(strncmp(op->authorization, "Basic ", 6), 0);
    sodium_base642bin((unsigned char *)text, sizeof(text) - 1, op->authorization + 6,
                      strlen(op->authorization + 6), NULL, NULL, NULL,
                      sodium_base64_VARIANT_ORIGINAL);
    cr_assert_str_eq(text, "client:s%20ecret%2F%3A%25");
}

Test(oidc, callback_posts_the_secret_where_the_provider_takes_no_basic)
{
    AN_OP("ES256");

    op_set(op->documents[OP_METADATA], "token_endpoint_auth_methods_supported",
           json_pack("[s]", "client_secret_post"));
    sign_in(op, NULL);
    cr_assert_str_eq(op->authorization, "");
    have(op->body, "&client_id=client&client_secret=s%20ecret%2F%3A%25");
}

static void refuse_params(op_t *op, const char *name, json_t *values, const char *why)
{
    json_t *kept = json_deep_copy(op->params);

    op_set(op->params, name, values);
    op_denies(op, PROVIDER_INVALID, why);
    cr_assert_eq(op->calls[OP_TOKENS], 0);
    json_decref(op->params);
    op->params = kept;
}

Test(oidc, callback_refuses_parameters_that_are_missing_repeated_or_anothers)
{
    AN_OP("ES256");

    refuse_params(op, "code", NULL, "neither code nor error");
    refuse_params(op, "code", json_pack("[ss]", "a", "b"), "twice");
    refuse_params(op, "code", json_pack("[ss]", "c0de", "c0de"), "twice");
    refuse_params(op, "code", json_array(), "twice");
    refuse_params(op, "code", json_pack("[s]", ""), "empty");
    refuse_params(op, "code", json_pack("[s]", "a b"), "characters");
    refuse_params(op, "code", json_pack("[s]", "a\r\nb"), "characters");
    refuse_params(op, "code", json_string("c0de"), "twice");
    refuse_params(op, "state", json_pack("[s]", "other"), "state");
    refuse_params(op, "state", json_pack("[ss]", OP_STATE, OP_STATE), "twice");
    refuse_params(op, "iss", json_pack("[s]", "https://evil.example.test"), "iss");
    refuse_params(op, "iss", json_pack("[s]", OP_ISSUER "/"), "iss");
    refuse_params(op, "iss", json_pack("[ss]", OP_ISSUER, OP_ISSUER), "twice");
    refuse_params(op, "error", json_pack("[s]", "access_denied"), "both");
    refuse_params(op, "error", json_pack("[ss]", "a", "b"), "twice");
}

Test(oidc, issuer_mix_up_is_refused_where_the_provider_promises_iss)
{
    AN_OP("ES256");

    op_set(op->documents[OP_METADATA], "authorization_response_iss_parameter_supported",
           json_true());
    op_denies(op, PROVIDER_INVALID, "lacks iss");
    cr_assert_eq(op->calls[OP_TOKENS], 0, "no code goes to a provider that may not be its own");
    op_set(op->params, "iss", json_pack("[s]", OP_ISSUER));
    sign_in(op, NULL);
}

Test(oidc, callback_tells_errors_apart_and_quotes_them)
{
    static const struct {
        const char *error;
        provider_step_t step;
    } cases[] = {{"access_denied", PROVIDER_DENIED},
                 {"login_required", PROVIDER_DENIED},
                 {"temporarily_unavailable", PROVIDER_UNAVAILABLE},
                 {"server_error", PROVIDER_UNAVAILABLE},
                 {"invalid_scope", PROVIDER_INVALID}};
    AN_OP("ES256");

    op_set(op->params, "code", NULL);
    for (size_t i = 0; i < LEN(cases); i++) {
        op_set(op->params, "error", json_pack("[s]", cases[i].error));
        op_set(op->params, "error_description", json_pack("[s]", "no\x1b[2J'entry"));
        op_denies(op, cases[i].step, cases[i].error);
        have(op->why, "no?[2J\\'entry");
        lack(op->why, "\x1b");
    }
    cr_assert_eq(op->calls[OP_TOKENS], 0);
}

static void refuse_tokens(op_t *op, const char *name, json_t *value, const char *why)
{
    json_t *kept = json_deep_copy(op->documents[OP_TOKENS]);

    op_set(op->documents[OP_TOKENS], name, value);
    op_denies(op, PROVIDER_INVALID, why);
    json_decref(op->documents[OP_TOKENS]);
    op->documents[OP_TOKENS] = kept;
}

Test(oidc, callback_refuses_answers_with_tokens_that_break_a_rule)
{
    AN_OP("ES256");

    refuse_tokens(op, "token_type", NULL, "token_type");
    refuse_tokens(op, "token_type", json_string("mac"), "token_type");
    refuse_tokens(op, "access_token", NULL, "access_token");
    refuse_tokens(op, "access_token", json_string("a\r\nX: y"), "access_token");
    refuse_tokens(op, "access_token", json_string("a b"), "access_token");
    refuse_tokens(op, "access_token", json_integer(1), "access_token");
    refuse_tokens(op, "refresh_token", json_string(""), "refresh_token");
    refuse_tokens(op, "id_token", json_string(""), "id_token");
    refuse_tokens(op, "id_token", json_string("a.b"), "three parts");
    refuse_tokens(op, "error", json_string("invalid_client"), "invalid_client");
    op->gives_id_token = false;
    op_denies(op, PROVIDER_INVALID, "lacks id_token");
}

Test(oidc, callback_tells_a_token_endpoint_that_is_down_from_one_that_refuses)
{
    AN_OP("ES256");

    op->status[OP_TOKENS] = 500;
    op_denies(op, PROVIDER_UNAVAILABLE, "status 500");
    op->status[OP_TOKENS] = 429;
    op_denies(op, PROVIDER_UNAVAILABLE, "status 429");
    op->status[OP_TOKENS] = 400;
    op_denies(op, PROVIDER_INVALID, "status 400");
    op->bodies[OP_TOKENS] = "{\"error\":\"invalid_grant\"}";
    op_denies(op, PROVIDER_INVALID, "invalid_grant");
    op->status[OP_TOKENS] = 302;
    op_denies(op, PROVIDER_INVALID, "status 302");
}

Test(oidc, userinfo_must_be_about_the_same_person_and_json)
{
    AN_OP("ES256");

    op_set(op->documents[OP_USERINFO], "sub", json_string("bob"));
    op_denies(op, PROVIDER_INVALID, "somebody else");
    op_set(op->documents[OP_USERINFO], "sub", NULL);
    op_denies(op, PROVIDER_INVALID, "somebody else");
    op->bodies[OP_USERINFO] = "{\"sub\":\"alice\",\"sub\":\"alice\"}";
    op_denies(op, PROVIDER_INVALID, "no JSON object");
    op->content_type = "application/jwt";
    op_denies(op, PROVIDER_INVALID, "signed token");
    op->content_type = NULL;
    op->status[OP_USERINFO] = 403;
    op_denies(op, PROVIDER_INVALID, "status 403");
    op->status[OP_USERINFO] = 502;
    op_denies(op, PROVIDER_UNAVAILABLE, "status 502");
}

Test(oidc, an_address_is_verified_only_where_the_same_answer_says_so)
{
    AN_OP("ES256");
    person_t who = {0};

    op_set(op->claims, "email", json_string("old@example.test"));
    op_set(op->claims, "email_verified", json_true());
    op_set(op->documents[OP_USERINFO], "email_verified", NULL);
    sign_in(op, &who);
    cr_assert_str_eq(who.email, "alice@example.test");
    cr_assert_not(who.email_verified);
    person_done(&who);
    op_set(op->documents[OP_USERINFO], "email", NULL);
    sign_in(op, &who);
    cr_assert_str_eq(who.email, "old@example.test");
    cr_assert(who.email_verified);
    person_done(&who);
}

Test(oidc, groups_are_texts_whatever_else_the_provider_writes)
{
    AN_OP("ES256");
    person_t who = {0};

    op_set(op->documents[OP_USERINFO], "groups", json_string("one"));
    sign_in(op, &who);
    cr_assert_eq(json_array_size(who.groups), 1);
    person_done(&who);
    op_set(op->documents[OP_USERINFO], "groups", json_pack("[s{}is]", "a", 1, ""));
    sign_in(op, &who);
    cr_assert_eq(json_array_size(who.groups), 1);
    person_done(&who);
    op_set(op->documents[OP_USERINFO], "groups", NULL);
    op_set(op->claims, "groups", json_pack("[ss]", "x", "y"));
    sign_in(op, &who);
    cr_assert_eq(json_array_size(who.groups), 2);
    person_done(&who);
}

Test(oidc, a_provider_without_userinfo_is_one)
{
    AN_OP("ES256");
    _cleanup_(person_done) person_t who = {0};

    op_set(op->documents[OP_METADATA], "userinfo_endpoint", NULL);
    op_set(op->claims, "email", json_string("alice@example.test"));
    sign_in(op, &who);
    cr_assert_eq(op->calls[OP_USERINFO], 0);
    cr_assert_str_eq(who.email, "alice@example.test");
    cr_assert_not(who.email_verified);
    cr_assert_eq(json_array_size(who.groups), 0);
}

/* ---- refresh ---- */

static void know(op_t *op)
{
    op->known = (person_t){.provider_url = (char *)OP_ISSUER,
                           .id = (char *)"alice",
                           .email = (char *)"known@example.test",
                           .id_token = (char *)"old"};
    op->refresh_token = "refre5h";
    op->gives_id_token = false;
}

static void refresh_ends(op_t *op, provider_step_t step, const char *why)
{
    provider_step_t got = op_run(op, PROVIDER_REFRESH, NULL);

    cr_assert_eq(got, step, "step %d, not %d: %s", got, step, op->why);
    have(op->why, why);
}

Test(oidc, refresh_says_what_the_provider_says_now_and_hands_on_the_rotated_token)
{
    AN_OP("ES256");
    _cleanup_(person_done) person_t who = {0};

    know(op);
    op_set(op->documents[OP_TOKENS], "refresh_token", json_string("rotated"));
    op_set(op->documents[OP_USERINFO], "groups", NULL);
    cr_assert_eq(op_run(op, PROVIDER_REFRESH, &who), PROVIDER_DONE, "%s", op->why);
    cr_assert_str_eq(op->body, "grant_type=refresh_token&refresh_token=refre5h");
    cr_assert_str_eq(who.refresh_token, "rotated");
    cr_assert_str_eq(who.id, "alice");
    cr_assert_str_eq(who.email, "alice@example.test");
    cr_assert_str_eq(who.id_token, "old");
    cr_assert_eq(json_array_size(who.groups), 0, "a group that is not said any more is none");
}

Test(oidc, refresh_hands_on_the_rotated_token_whatever_comes_behind_it)
{
    AN_OP("ES256");

    know(op);
    op_set(op->documents[OP_TOKENS], "refresh_token", json_string("rotated"));
    op->status[OP_USERINFO] = 503;
    refresh_ends(op, PROVIDER_UNAVAILABLE, "503");
    cr_assert(op->gave_tokens);
    cr_assert_str_eq(op->tokens.refresh_token, "rotated");
    op->status[OP_USERINFO] = 200;
    op->bodies[OP_USERINFO] = "[]";
    refresh_ends(op, PROVIDER_INVALID, "userinfo");
    cr_assert_str_eq(op->tokens.refresh_token, "rotated");
    op_set(op->documents[OP_TOKENS], "token_type", json_string("mac"));
    refresh_ends(op, PROVIDER_INVALID, "token_type");
    cr_assert_str_eq(op->tokens.refresh_token, "rotated", "what is wrong is something else");
    cr_assert_null(op->tokens.access_token);
    op->status[OP_TOKENS] = 503;
    refresh_ends(op, PROVIDER_UNAVAILABLE, "503");
    cr_assert_not(op->gave_tokens);
}

Test(oidc, a_flow_keeps_nothing_of_a_large_document_and_little_of_its_requests)
{
    AN_OP("ES256");

    json_t *list = json_array();

    for (int i = 0; i < 4000; i++)
        json_array_append_new(list, json_object());
    op_set(op->documents[OP_METADATA], "x", list);
    sign_in(op, NULL);
    cr_assert_lt(op->heaviest, 32 << 10, "%zu", op->heaviest);
}

Test(oidc, refresh_keeps_a_token_that_is_not_rotated_and_takes_a_new_id_token)
{
    AN_OP("ES256");
    _cleanup_(person_done) person_t who = {0};

    know(op);
    op->gives_id_token = true;
    op_set(op->claims, "nonce", NULL);
    cr_assert_eq(op_run(op, PROVIDER_REFRESH, &who), PROVIDER_DONE, "%s", op->why);
    cr_assert_str_eq(who.refresh_token, "refre5h");
    cr_assert_str_neq(who.id_token, "old");
}

Test(oidc, refresh_denies_a_new_id_token_of_somebody_else)
{
    AN_OP("ES256");

    know(op);
    op->gives_id_token = true;
    op_set(op->claims, "sub", json_string("bob"));
    refresh_ends(op, PROVIDER_INVALID, "somebody else");
    op_set(op->claims, "sub", json_string("alice"));
    op_set(op->claims, "aud", json_string("other"));
    refresh_ends(op, PROVIDER_INVALID, "another client");
    op_set(op->claims, "aud", json_string(OP_CLIENT));
    op_set(op->documents[OP_USERINFO], "sub", json_string("bob"));
    refresh_ends(op, PROVIDER_INVALID, "somebody else");
}

Test(oidc, refresh_is_denied_once_the_provider_does_not_vouch_any_more)
{
    AN_OP("ES256");

    know(op);
    op->status[OP_TOKENS] = 400;
    op->bodies[OP_TOKENS] = "{\"error\":\"invalid_grant\"}";
    refresh_ends(op, PROVIDER_DENIED, "invalid_grant");
    op->bodies[OP_TOKENS] = "{\"error\":\"invalid_client\"}";
    refresh_ends(op, PROVIDER_INVALID, "invalid_client");
    op->status[OP_TOKENS] = 503;
    refresh_ends(op, PROVIDER_UNAVAILABLE, "503");
    op->known.provider_url = (char *)"https://other.example.test";
    refresh_ends(op, PROVIDER_DENIED, "another issuer");
}

Test(oidc, refresh_without_a_refresh_token_asks_with_the_access_token_while_that_is_valid)
{
    AN_OP("ES256");
    _cleanup_(person_done) person_t who = {0};

    know(op);
    op->refresh_token = NULL;
    op->access_token = "acce55";
    op->known.access_expires_s = OP_NOW_S + 1;
    cr_assert_eq(op_run(op, PROVIDER_REFRESH, &who), PROVIDER_DONE, "%s", op->why);
    cr_assert_eq(op->calls[OP_TOKENS], 0);
    cr_assert_str_eq(who.access_token, "acce55");
    cr_assert_eq(who.access_expires_s, OP_NOW_S + 1);
    op->status[OP_USERINFO] = 503;
    refresh_ends(op, PROVIDER_UNAVAILABLE, "503");
    op->status[OP_USERINFO] = 401;
    refresh_ends(op, PROVIDER_DENIED, "takes its token no more");
    op->known.access_expires_s = OP_NOW_S;
    refresh_ends(op, PROVIDER_DENIED, "no token");
    op->access_token = NULL;
    refresh_ends(op, PROVIDER_DENIED, "no token");
}

Test(oidc, refresh_without_userinfo_keeps_what_is_known)
{
    AN_OP("ES256");
    _cleanup_(person_done) person_t who = {0};

    know(op);
    op_set(op->documents[OP_METADATA], "userinfo_endpoint", NULL);
    cr_assert_eq(op_run(op, PROVIDER_REFRESH, &who), PROVIDER_DONE, "%s", op->why);
    cr_assert_str_eq(who.email, "known@example.test");
}

/* ---- documents that are kept ---- */

Test(oidc, documents_are_fetched_once_while_they_are_fresh)
{
    AN_OP("ES256");

    sign_in(op, NULL);
    sign_in(op, NULL);
    cr_assert_eq(op->calls[OP_METADATA], 1);
    cr_assert_eq(op->calls[OP_KEYS], 1);
    op->now_s += PROVIDER_CACHE_LIFE_S;
    op_set(op->claims, "exp", json_integer(op->now_s + 300));
    sign_in(op, NULL);
    cr_assert_eq(op->calls[OP_METADATA], 2);
    cr_assert_eq(op->calls[OP_KEYS], 2);
}

Test(oidc, a_key_id_that_is_not_known_is_looked_for_twice_and_then_each_few_seconds)
{
    AN_OP("ES256");

    sign_in(op, NULL);
    op_set(op->header, "kid", json_string("k2"));
    for (unsigned calls = 2; calls < 4; calls++) {
        op_denies(op, PROVIDER_INVALID, "no key for its kid");
        cr_assert_eq(op->calls[OP_KEYS], calls, "the provider may have changed them since");
    }
    op_denies(op, PROVIDER_UNAVAILABLE, "cannot be fetched anew now");
    cr_assert_eq(op->calls[OP_KEYS], 3);
    op->now_s += PROVIDER_CACHE_AGAIN_S;
    op_denies(op, PROVIDER_INVALID, "no key for its kid");
    cr_assert_eq(op->calls[OP_KEYS], 4);
    op_denies(op, PROVIDER_UNAVAILABLE, "cannot be fetched anew now");
    cr_assert_eq(op->calls[OP_KEYS], 4);
    json_array_append_new(json_object_get(op->documents[OP_KEYS], "keys"),
                          op_jwk(op->key, "ES256", "k2"));
    op->now_s += PROVIDER_CACHE_AGAIN_S;
    sign_in(op, NULL);
    cr_assert_eq(op->calls[OP_KEYS], 5);
}

Test(oidc, the_last_good_documents_serve_while_the_provider_fails)
{
    AN_OP("ES256");

    sign_in(op, NULL);
    op->now_s += PROVIDER_CACHE_LIFE_S;
    op_set(op->claims, "exp", json_integer(op->now_s + 90000));
    op->status[OP_METADATA] = op->status[OP_KEYS] = 500;
    sign_in(op, NULL);
    op->status[OP_METADATA] = 200;
    op->bodies[OP_METADATA] = "{}";
    op->now_s += PROVIDER_CACHE_RETRY_S;
    sign_in(op, NULL);
    cr_assert_eq(op->calls[OP_KEYS], 3);
    op->status[OP_KEYS] = 200;
    op->bodies[OP_KEYS] = "{\"keys\": []}";
    op->now_s += PROVIDER_CACHE_RETRY_S;
    op_denies(op, PROVIDER_INVALID, "key"); /* withdrawn, by a provider that answers */
    cr_assert_eq(op->calls[OP_KEYS], 4);
    op->now_s += PROVIDER_CACHE_KEPT_S;
    op_denies(op, PROVIDER_INVALID, "another issuer");
}

Test(oidc, groups_are_those_of_the_claim_that_the_route_names)
{
    AN_OP("ES256");
    _cleanup_(person_done) person_t who = {0};

    op_set(op->config, "groups_claim", json_string("roles"));
    op_set(op->documents[OP_USERINFO], "roles", json_pack("[s]", "editor"));
    sign_in(op, &who);
    cr_assert_eq(json_array_size(who.groups), 1);
    cr_assert_str_eq(json_string_value(json_array_get(who.groups, 0)), "editor");
}

/* ---- signing out ---- */

Test(oidc, who_signs_out_is_sent_where_the_metadata_say)
{
    AN_OP("ES256");

    op->known.id_token = (char *)"a.b.c";
    cr_assert_eq(op_run(op, PROVIDER_LEAVE, NULL), PROVIDER_DONE, "%s", op->why);
    have(op->location, OP_ISSUER "/end?client_id=client&post_logout_redirect_uri=https%3A%2F%2Fh");
    have(op->location, "&state=" OP_STATE "&id_token_hint=a.b.c");
    lack(op->location, "ecret");
}

Test(oidc, who_signs_out_stays_where_the_provider_has_no_page_or_does_not_answer)
{
    AN_OP("ES256");

    op_set(op->documents[OP_METADATA], "end_session_endpoint", NULL);
    cr_assert_eq(op_run(op, PROVIDER_LEAVE, NULL), PROVIDER_DONE, "%s", op->why);
    cr_assert_str_eq(op->location, "");
    provider_cache_destroy(&op->cache);
    json_decref(op->documents[OP_METADATA]);
    op->documents[OP_METADATA] = NULL;
    cr_assert_eq(op_run(op, PROVIDER_LEAVE, NULL), PROVIDER_UNAVAILABLE);
}

static void bring_logout_token(op_t *op, EVP_PKEY *key, const char *client)
{
    json_t *claims = json_pack("{s:s, s:s, s:s, s:I, s:I, s:s, s:s, s:{s:{}}}", "iss", OP_ISSUER,
                               "aud", client, "sub", "alice", "exp", (json_int_t)OP_NOW_S + 60,
                               "iat", (json_int_t)OP_NOW_S, "jti", "j1", "sid", "s1", "events",
                               "http://schemas.openid.net/event/backchannel-logout");
    char *token = op_sign(key, op->alg, op->header, claims);

    json_decref(op->params);
    op->params = json_pack("{s:[s]}", "logout_token", token);
    free(token);
    json_decref(claims);
}

Test(oidc, a_logout_token_says_whose_sessions_end)
{
    AN_OP("ES256");

    bring_logout_token(op, op->key, OP_CLIENT);
    cr_assert_eq(op_run(op, PROVIDER_ENDED, NULL), PROVIDER_DONE, "%s", op->why);
    cr_assert_str_eq(op->ended.sub, "alice");
    cr_assert_str_eq(op->ended.sid, "s1");
    cr_assert_str_eq(op->ended.jti, "j1");
    cr_assert_eq(op->calls[OP_TOKENS] + op->calls[OP_USERINFO], 0);
}

Test(oidc, nobody_is_asked_about_a_logout_token_that_is_none)
{
    AN_OP("ES256");

    bring_logout_token(op, op->key, "other");
    cr_assert_eq(op_run(op, PROVIDER_ENDED, NULL), PROVIDER_INVALID);
    have(op->why, "the logout token is not valid: its aud is another client");
    op_set(op->params, "logout_token", json_pack("[ss]", "a.b.c", "a.b.c"));
    cr_assert_eq(op_run(op, PROVIDER_ENDED, NULL), PROVIDER_INVALID);
    op_set(op->params, "logout_token", json_pack("[s]", "a.b"));
    cr_assert_eq(op_run(op, PROVIDER_ENDED, NULL), PROVIDER_INVALID);
    cr_assert_eq(op->calls[OP_METADATA] + op->calls[OP_KEYS], 0);
}

Test(oidc, a_logout_token_of_another_key_ends_nothing)
{
    AN_OP("ES256");
    EVP_PKEY *other = op_key("ES256");

    bring_logout_token(op, other, OP_CLIENT);
    cr_assert_eq(op_run(op, PROVIDER_ENDED, NULL), PROVIDER_INVALID);
    have(op->why, "the logout token is not valid: its signature is wrong");
    EVP_PKEY_free(other);
}

/* A provider answers with no document at that place, whichever way: tokens that anybody brings have
 * it asked once in a while, and a logout token is refused by none of that. */
static void is_not_asked_for_each_token(op_place_t place, unsigned status, const char *body)
{
    AN_OP("ES256");

    bring_logout_token(op, op->key, OP_CLIENT);
    op->status[place] = status;
    op->bodies[place] = body;
    for (int i = 0; i < 3; i++)
        cr_assert_eq(op_run(op, PROVIDER_ENDED, NULL), PROVIDER_UNAVAILABLE, "%s", op->why);
    have(op->why, "could not be had a moment ago");
    cr_assert_eq(op->calls[place], 1);
    op->now_s += PROVIDER_CACHE_FAILED_S;
    cr_assert_eq(op_run(op, PROVIDER_ENDED, NULL), PROVIDER_UNAVAILABLE, "%s", op->why);
    cr_assert_eq(op->calls[place], 2);
    op->status[place] = 200;
    op->bodies[place] = NULL;
    cr_assert_eq(op_run(op, PROVIDER_ENDED, NULL), PROVIDER_UNAVAILABLE, "%s", op->why);
    cr_assert_eq(op->calls[place], 2);
    op->now_s += PROVIDER_CACHE_FAILED_S;
    cr_assert_eq(op_run(op, PROVIDER_ENDED, NULL), PROVIDER_DONE, "%s", op->why);
    cr_assert_str_eq(op->ended.sub, "alice");
}

Test(oidc, what_anybody_brings_has_no_provider_asked_for_a_document_that_it_has_just_not_given)
{
    static const struct {
        unsigned status;
        const char *body;
    } cases[] = {{404, "{}"}, {503, "{}"}, {429, "{}"}, {302, ""}, {200, "{}"}, {200, "no JSON"}};

    for (size_t i = 0; i < LEN(cases); i++) {
        is_not_asked_for_each_token(OP_KEYS, cases[i].status, cases[i].body);
        is_not_asked_for_each_token(OP_METADATA, cases[i].status, cases[i].body);
    }
}

Test(oidc, who_signs_in_has_a_document_asked_for_that_was_not_given_a_moment_ago)
{
    AN_OP("ES256");

    bring_logout_token(op, op->key, OP_CLIENT);
    op->status[OP_METADATA] = 404;
    cr_assert_eq(op_run(op, PROVIDER_ENDED, NULL), PROVIDER_UNAVAILABLE, "%s", op->why);
    op->status[OP_METADATA] = 200;
    cr_assert_eq(op_run(op, PROVIDER_BEGIN, NULL), PROVIDER_DONE, "%s", op->why);
}

Test(oidc, a_logout_token_of_a_new_key_waits_where_the_key_set_is_not_there)
{
    AN_OP("ES256");
    EVP_PKEY *other = op_key("ES256");

    bring_logout_token(op, op->key, OP_CLIENT);
    cr_assert_eq(op_run(op, PROVIDER_ENDED, NULL), PROVIDER_DONE, "%s", op->why);
    op_set(op->header, "kid", json_string("new"));
    bring_logout_token(op, other, OP_CLIENT);
    op->status[OP_KEYS] = 404;
    cr_assert_eq(op_run(op, PROVIDER_ENDED, NULL), PROVIDER_UNAVAILABLE, "%s", op->why);
    cr_assert_eq(op->calls[OP_KEYS], 2);
    EVP_PKEY_free(other);
}
