/* Signing in with SAML, without postern-saml: what is asked and expected, who a response is about,
 * and where what nobody asked for leads. */
#include "common/base/cleanup.h"
#include "common/base/err.h"
#include "services/identity/person.h"
#include "services/identity/saml_internal.h"

#include <criterion/criterion.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <string.h>

#define ENTITY "https://h/saml/edghtsrt_1"
#define ISSUER "https://idp.test/metadata"
#define NONCE  "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

enum { NOW_S = 1780000000 };

static char *a_key(void)
{
    EVP_PKEY *key = EVP_RSA_gen(2048);
    BIO *bio = BIO_new(BIO_s_mem());
    char *bytes = NULL, *text;
    long len;

    PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL);
    len = BIO_get_mem_data(bio, &bytes);
    text = strndup(bytes, (size_t)len);
    BIO_free(bio);
    EVP_PKEY_free(key);
    return text;
}

static json_t *a_config(void)
{
    _cleanup_(free_mem) char *key = a_key();

    return json_pack("{s:s, s:s, s:s, s:b}", "idp_metadata", "<metadata/>", "nameid_format",
                     "urn:oasis:names:tc:SAML:2.0:nameid-format:persistent",
                     "request_signing_key_pem", key, "force_authn", 0);
}

static json_t *a_metadata(const char *binding)
{
    return json_pack("{s:s, s:[{s:s, s:s}], s:[{s:s}, {s:s}]}", "entity_id", ISSUER, "sso",
                     "binding", binding, "location", "https://idp.test/sso?a=b&c=d", "certificates",
                     "key_sha256", "the new key", "key_sha256", "the old key");
}

static json_t *said(const char *name, const char *format, json_t *attributes)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:o}", "issuer",
                     ISSUER, "signed_by", "the old key", "name_id", name, "name_id_format", format,
                     "name_qualifier", "", "sp_name_qualifier", "", "session_index", "_s1",
                     "assertion_id", "_a1", "issued_ms", (json_int_t)1000 * NOW_S,
                     "not_on_or_after_ms", (json_int_t)1000 * (NOW_S + 300),
                     "session_not_on_or_after_ms", (json_int_t)0, "attributes", attributes);
}

/* One flow, and the answer that it gets to its question. */
typedef struct run {
    void *flow;
    fetch_t asked;
    provider_step_t step;
} run_t;

static run_t run(int operation, const json_t *config, const json_t *params, const person_t *known,
                 const char *nonce, const fetched_t *answer)
{
    run_t out = {0};
    const provider_ask_t ask = {.config = config,
                                .module = "saml",
                                .account = "ac_1",
                                .redirect_uri = ENTITY "/acs",
                                .entity_id = ENTITY,
                                .state = "edghtsrt_1.state",
                                .nonce = nonce,
                                .params = params,
                                .known = known,
                                .now_s = NOW_S};

    cr_assert_eq(provider_saml.start(&out.flow, operation, &ask), 0);
    out.step = provider_saml.next(out.flow, NULL, &out.asked);
    if (out.step == PROVIDER_FETCH && answer)
        out.step = provider_saml.next(out.flow, answer, &out.asked);
    return out;
}

static void run_done(run_t *self)
{
    provider_saml.free(&self->flow);
}

static const char *expectation(const run_t *run, const char *name)
{
    const char *text =
        json_string_value(json_object_get(json_object_get(run->asked.question, "expect"), name));

    return text ? text : "no text";
}

Test(saml_sign_in, begins_with_a_signed_request_that_names_this_route)
{
    _cleanup_(json_clear_ref) json_t *config = a_config();
    _cleanup_(json_clear_ref) json_t *metadata =
        a_metadata("urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect");
    const fetched_t answer = {.said = metadata};
    _cleanup_(run_done) run_t one = run(PROVIDER_BEGIN, config, NULL, NULL, NONCE, &answer);
    const char *location;

    cr_assert_eq(one.step, PROVIDER_DONE, "%s", provider_saml.why(one.flow));
    location = provider_saml.location(one.flow);
    cr_assert(strstr(location, "https://idp.test/sso?a=b&c=d&SAMLRequest=") == location);
    cr_assert(strstr(location, "&RelayState=edghtsrt_1.state&SigAlg=http%3A%2F%2Fwww.w3.org%2F"));
    cr_assert(strstr(location, "&Signature="));
    cr_assert_not(strstr(location, "PRIVATE"));
}

Test(saml_sign_in, begins_nowhere_else)
{
    _cleanup_(json_clear_ref) json_t *config = a_config(), *keyless = json_deep_copy(config);
    _cleanup_(json_clear_ref) json_t *soap =
        a_metadata("urn:oasis:names:tc:SAML:2.0:bindings:SOAP");
    _cleanup_(json_clear_ref) json_t *good =
        a_metadata("urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect");
    const struct {
        const json_t *config;
        fetched_t answer;
        provider_step_t step;
    } rows[] = {
        {config, {.said = soap}, PROVIDER_INVALID},
        {keyless, {.said = good}, PROVIDER_INVALID},
        {config, {.code = ERR_SAML_METADATA, .reason = "no"}, PROVIDER_INVALID},
        {config, {.code = ERR_SAML_READER}, PROVIDER_UNAVAILABLE},
        {config, {.code = ERR_BUSY}, PROVIDER_UNAVAILABLE},
        {config, {.code = ERR_MAINTENANCE}, PROVIDER_UNAVAILABLE},
        {config, {.code = 0}, PROVIDER_UNAVAILABLE},
    };

    json_object_set_new(keyless, "request_signing_key_pem", json_string("none"));
    for (size_t i = 0; i < LEN(rows); i++) {
        _cleanup_(run_done) run_t one =
            run(PROVIDER_BEGIN, rows[i].config, NULL, NULL, NONCE, &rows[i].answer);

        cr_assert_eq(one.step, rows[i].step, "row %zu: %d", i, one.step);
        cr_assert(*provider_saml.why(one.flow), "row %zu", i);
    }
}

Test(saml_sign_in, what_is_expected_of_a_response_comes_from_the_flow_and_the_route)
{
    _cleanup_(json_clear_ref) json_t *config = a_config();
    _cleanup_(json_clear_ref) json_t *params = json_pack("{s:[s]}", "SAMLResponse", "PHg+");
    _cleanup_(run_done) run_t solicited = run(PROVIDER_CALLBACK, config, params, NULL, NONCE, NULL);
    _cleanup_(run_done) run_t unsolicited =
        run(PROVIDER_CALLBACK, config, params, NULL, NULL, NULL);

    cr_assert_str_eq(solicited.asked.verb, "saml.verify");
    cr_assert_str_eq(expectation(&solicited, "destination"), ENTITY "/acs");
    cr_assert_str_eq(expectation(&solicited, "recipient"), ENTITY "/acs");
    cr_assert_str_eq(expectation(&solicited, "audience"), ENTITY);
    cr_assert_str_eq(expectation(&solicited, "in_response_to"), "_" NONCE);
    cr_assert(json_is_false(
        json_object_get(json_object_get(solicited.asked.question, "expect"), "allow_unsolicited")));
    cr_assert_str_eq(expectation(&unsolicited, "in_response_to"), "");
    cr_assert(json_is_true(json_object_get(json_object_get(unsolicited.asked.question, "expect"),
                                           "allow_unsolicited")));
}

Test(saml_sign_in, a_form_has_one_response)
{
    static const char *const rows[] = {"{}", "{\"SAMLResponse\": []}",
                                       "{\"SAMLResponse\": [\"a\", \"a\"]}",
                                       "{\"SAMLResponse\": [\"\"]}"};
    _cleanup_(json_clear_ref) json_t *config = a_config();

    for (size_t i = 0; i < LEN(rows); i++) {
        _cleanup_(json_clear_ref) json_t *params = json_loads(rows[i], 0, NULL);
        _cleanup_(run_done) run_t one = run(PROVIDER_CALLBACK, config, params, NULL, NONCE, NULL);

        cr_assert_eq(one.step, PROVIDER_INVALID, "%s", rows[i]);
    }
}

Test(saml_sign_in, who_was_signed_in_is_judged_anew_where_the_provider_is_the_same)
{
    _cleanup_(json_clear_ref) json_t *config = a_config();
    _cleanup_(json_clear_ref) json_t *metadata = a_metadata("any");
    const fetched_t answer = {.said = metadata};
    person_t known = {.provider_name = "saml",
                      .provider_url = ISSUER,
                      .id = "ada",
                      .session_at_provider = "{\"signed_by\": \"the old key\"}"};
    _cleanup_(person_done) person_t now = {0};
    run_t one;

    known.groups = json_pack("[s]", "staff");
    one = run(PROVIDER_REFRESH, config, NULL, &known, NULL, &answer);
    cr_assert_eq(one.step, PROVIDER_DONE);
    provider_saml.person(one.flow, &now);
    cr_assert_str_eq(now.id, "ada");
    cr_assert_eq(json_array_size(now.groups), 1);
    run_done(&one);
    known.provider_url = "https://other.test";
    one = run(PROVIDER_REFRESH, config, NULL, &known, NULL, &answer);
    cr_assert_eq(one.step, PROVIDER_DENIED);
    run_done(&one);
    json_decref(known.groups);
}

/* Whoever replaces the key of a provider, because somebody else has it, is rid of who came by it. */
Test(saml_sign_in, who_came_by_a_key_that_the_provider_has_no_more_is_out)
{
    static const struct {
        char *session;
        const char *metadata;
        provider_step_t step;
    } rows[] = {
        {"{\"signed_by\": \"a\"}", "[{\"key_sha256\": \"b\"}, {\"key_sha256\": \"a\"}]",
         PROVIDER_DONE},
        {"{\"signed_by\": \"a\"}", "[{\"key_sha256\": \"b\"}]", PROVIDER_DENIED},
        {"{\"signed_by\": \"a\"}", "[]", PROVIDER_DENIED},
        {"{}", "[{\"key_sha256\": \"a\"}]", PROVIDER_DENIED},
        {NULL, "[{\"key_sha256\": \"a\"}]", PROVIDER_DENIED},
        {"{\"signed_by\": \"\"}", "[{\"key_sha256\": \"\"}]", PROVIDER_UNAVAILABLE},
        {"{\"signed_by\": \"a\"}", "[{\"sha256\": \"of an older version\"}]", PROVIDER_UNAVAILABLE},
    };

    for (size_t i = 0; i < LEN(rows); i++) {
        _cleanup_(json_clear_ref) json_t *config = a_config();
        _cleanup_(json_clear_ref) json_t *metadata = a_metadata("any");
        const fetched_t answer = {.said = metadata};
        person_t known = {.provider_name = "saml",
                          .provider_url = ISSUER,
                          .id = "ada",
                          .session_at_provider = rows[i].session};
        run_t one;

        json_object_set_new(metadata, "certificates", json_loads(rows[i].metadata, 0, NULL));
        one = run(PROVIDER_REFRESH, config, NULL, &known, NULL, &answer);
        cr_assert_eq(one.step, rows[i].step, "row %zu: %d", i, one.step);
        run_done(&one);
    }
}

/* ---- persons ---- */

#define CLAIM "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/"

Test(saml_sign_in, attributes_are_known_by_the_names_that_providers_give_them)
{
    static const struct {
        const char *name_id, *format, *attributes, *email, *name, *username;
        size_t groups;
    } rows[] = {
        {"x", "", "{}", NULL, NULL, NULL, 0},
        {"a@b.test", SAML_FORMAT_EMAIL, "{}", "a@b.test", NULL, "a@b.test", 0},
        {"a@b.test", SAML_FORMAT_EMAIL, "{\"mail\": [\"c@d.test\", \"e@f.test\"]}", "c@d.test",
         NULL, "a@b.test", 0},
        {"x", "", "{\"" CLAIM "emailaddress\": [\"c@d.test\"], \"displayName\": [\"Ada\"]}",
         "c@d.test", "Ada", NULL, 0},
        {"x", "", "{\"groups\": [\"a\", \"b\"], \"memberOf\": [\"c\"], \"uid\": [\"u\"]}", NULL,
         NULL, "u", 3},
        {"x", "", "{\"groups\": [\"\", \"a\\nb\"], \"email\": [], \"cn\": [\"\\u0007\"]}", NULL,
         NULL, NULL, 0},
        {"no address", SAML_FORMAT_EMAIL, "{}", NULL, NULL, NULL, 0},
    };

    for (size_t i = 0; i < LEN(rows); i++) {
        _cleanup_(json_clear_ref) json_t *answer =
            said(rows[i].name_id, rows[i].format, json_loads(rows[i].attributes, 0, NULL));
        _cleanup_(person_done) person_t who = {0};

        cr_assert_null(saml_person(answer, "ac_1", ENTITY, NOW_S, &who));
        cr_assert_str_eq(who.id, rows[i].name_id);
        cr_assert_str_eq(who.provider_url, ISSUER);
        cr_assert_str_eq(who.email ? who.email : "-", rows[i].email ? rows[i].email : "-");
        cr_assert_str_eq(who.name ? who.name : "-", rows[i].name ? rows[i].name : "-", "%zu", i);
        cr_assert_str_eq(who.username ? who.username : "-",
                         rows[i].username ? rows[i].username : "-", "row %zu", i);
        cr_assert_eq(json_array_size(who.groups), rows[i].groups, "row %zu", i);
        cr_assert(strstr(who.session_at_provider, "\"session_index\":\"_s1\""));
        cr_assert(strstr(who.session_at_provider, "\"signed_by\":\"the old key\""));
    }
}

static const char *form_of(const char *format, const char *by, const char *at, const char *absent,
                           char out[SAML_NAME_FORM_SIZE])
{
    _cleanup_(json_clear_ref) json_t *answer = said("ada", format, json_object());

    json_object_set_new(answer, "name_qualifier", json_string(by));
    json_object_set_new(answer, "sp_name_qualifier", json_string(at));
    saml_name_form(answer, ENTITY, absent, out);
    return out;
}

/* SAML core 2.2.2 and 8.3: what is left out is the provider, the service provider, and no format. */
Test(saml_sign_in, a_name_is_of_its_format_and_of_who_gave_it_and_for_whom)
{
    static const struct {
        const char *format, *by, *at;
    } plain[] = {{"", "", ""},
                 {SAML_FORMAT_UNSPECIFIED, "", ""},
                 {"", ISSUER, ""},
                 {"", "", ENTITY},
                 {SAML_FORMAT_UNSPECIFIED, ISSUER, ENTITY}},
      others[] = {{SAML_FORMAT_EMAIL, "", ""},
                  {SAML_FORMAT_TRANSIENT, "", ""},
                  {"", ENTITY, ""},
                  {"", "", ISSUER},
                  {"", "a", ""},
                  {"", "", "a"},
                  {"a", "", ""},
                  {"", "-", ""},
                  {"", "%", ""},
                  {"a", "a", "a"}};
    char form[SAML_NAME_FORM_SIZE], other[SAML_NAME_FORM_SIZE];

    for (size_t i = 0; i < LEN(plain); i++)
        cr_assert_str_eq(form_of(plain[i].format, plain[i].by, plain[i].at, "-", form), "- - -");
    for (size_t i = 0; i < LEN(others); i++) {
        form_of(others[i].format, others[i].by, others[i].at, "-", form);
        cr_assert_str_neq(form, "- - -");
        cr_assert_eq(strcspn(form, "%_"), strlen(form), "it is no pattern: %s", form);
        for (size_t k = 0; k < i; k++)
            cr_assert_str_neq(form,
                              form_of(others[k].format, others[k].by, others[k].at, "-", other));
    }
    cr_assert_str_eq(form_of("", "", "", "%", form), "% % %");
    cr_assert_str_eq(form_of("", ISSUER, ENTITY, "%", form), "% - -");
}

Test(saml_sign_in, an_assertion_is_remembered_for_its_account_and_provider_as_long_as_it_lasts)
{
    _cleanup_(json_clear_ref) json_t *answer = said("x", "", json_object());
    _cleanup_(person_done) person_t one = {0}, same = {0}, other = {0}, late = {0};

    cr_assert_null(saml_person(answer, "ac_1", ENTITY, NOW_S, &one));
    cr_assert_null(saml_person(answer, "ac_1", ENTITY, NOW_S, &same));
    cr_assert_null(saml_person(answer, "ac_2", ENTITY, NOW_S, &other));
    cr_assert_str_eq(one.once, same.once);
    cr_assert_str_neq(one.once, other.once);
    cr_assert_geq(one.once_until_s, NOW_S + 300 + SAML_SKEW_MS / 1000);
    cr_assert_not_null(saml_person(answer, "ac_1", ENTITY, NOW_S - SAML_LIFE_MAX_S, &late),
                       "for a day");
    for (const char *const *key = (const char *const[]){"not_on_or_after_ms", "assertion_id",
                                                        "issuer", "name_id", "issued_ms", NULL};
         *key; key++) {
        _cleanup_(json_clear_ref) json_t *less = said("x", "", json_object());
        _cleanup_(person_done) person_t nobody = {0};

        json_object_del(less, *key);
        cr_assert_not_null(saml_person(less, "ac_1", ENTITY, NOW_S, &nobody), "without %s", *key);
        cr_assert_null(nobody.id);
    }
}

Test(saml_sign_in, an_assertion_is_of_the_time_that_it_says_and_too_old_after_a_day)
{
    _cleanup_(json_clear_ref) json_t *answer = said("x", "", json_object());
    _cleanup_(person_done) person_t one = {0}, old = {0};
    const int64_t until_s = NOW_S + 10 * (int64_t)SAML_LIFE_MAX_S;
    const int64_t last_s = NOW_S + SAML_LIFE_MAX_S + SAML_SKEW_MS / 1000;

    json_object_set_new(answer, "not_on_or_after_ms", json_integer(1000 * (last_s + 300)));
    cr_assert_null(saml_person(answer, "ac_1", ENTITY, last_s, &one));
    cr_assert_eq(one.vouched_ms, 1000 * (int64_t)NOW_S);
    cr_assert_not_null(saml_person(answer, "ac_1", ENTITY, last_s + 1, &old));
    json_object_set_new(answer, "not_on_or_after_ms", json_integer(1000 * until_s));
    cr_assert_not_null(saml_person(answer, "ac_1", ENTITY, until_s - 1, &old),
                       "it lasts for ten days");
    cr_assert_null(old.id);
}

/* ---- where what nobody asked for leads ---- */

Test(saml_sign_in, an_unsolicited_response_leads_to_the_route_and_nowhere_else)
{
    static const struct {
        const char *state, *home, *target;
    } rows[] = {
        {"", "/", "/"},
        {"", "/app", "/app"},
        {"", "", "/"},
        {"/app", "/app", "/app"},
        {"/app/x?y=z", "/app", "/app/x?y=z"},
        {"/app?x", "/app/", "/app?x"},
        {"https://a.test:1", "/app", "/app"},
        {"https://a.test:1/app/x", "/app", "/app/x"},
        {"https://a.test:1/x", "/", "/x"},
        {"https://a.test:1/x", "/app", NULL},
        {"/application", "/app", NULL},
        {"/other", "/app", NULL},
        {"/app/../x", "/app", NULL},
        {"/app/%2e%2E/x", "/app", NULL},
        {"https://a.test:1.evil.test/", "/", NULL},
        {"https://a.test:1@evil.test/", "/", NULL},
        {"https://a.test:11/", "/", NULL},
        {"https://a.test/", "/", NULL},
        {"https://b.test:1/", "/", NULL},
        {"http://a.test:1/", "/", NULL},
        {"https://a.test:1//evil.test", "/", NULL},
        {"https://a.test:1\\evil.test", "/", NULL},
        {"//evil.test", "/", NULL},
        {"/\\evil.test", "/", NULL},
        {"javascript:alert(1)", "/", NULL},
        {"/a b", "/", NULL},
        {"/a\nb", "/", NULL},
        {"/auth/logout", "/", NULL},
    };

    for (size_t i = 0; i < LEN(rows); i++) {
        const char *target = saml_target(rows[i].state, "a.test:1", rows[i].home);

        cr_assert_str_eq(target ? target : "-", rows[i].target ? rows[i].target : "-", "%s of %s",
                         rows[i].state, rows[i].home);
    }
}

Test(saml_sign_in, what_has_a_meaning_in_xml_is_escaped)
{
    char *text = NULL;
    size_t len;
    FILE *out = open_memstream(&text, &len);

    saml_put_xml(out, "<a href=\"x\">&\r");
    saml_put_attribute(out, "b", "<\"\t\n\r>&");
    saml_put_encoded(out, " +/=~");
    fclose(out);
    cr_assert_str_eq(
        text, "&lt;a href=\"x\"&gt;&amp;&#xD; b=\"&lt;&quot;&#x9;&#xA;&#xD;>&amp;\"%20%2B%2F%3D~");
    free(text);
}
