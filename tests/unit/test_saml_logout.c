/* Single logout of SAML, without postern-saml: what a browser brought, what is asked and expected of
 * it, and the messages of ours. */
#include "common/base/cleanup.h"
#include "common/base/err.h"
#include "services/identity/person.h"
#include "services/identity/saml_internal.h"

#include <criterion/criterion.h>
#include <string.h>

#define ENTITY "https://sp.test/saml/edghtsrt_1"

#define SLO    "https://h/saml/edghtsrt_1/slo"
#define ISSUER "https://idp.test/metadata"
#define NONCE  "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

enum { NOW_S = 1780000000 };

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text ? text : "no text";
}

/* ---- what came ---- */

Test(saml_logout, a_query_string_is_one_signed_message)
{
    static const struct {
        const char *query;
        bool is_good;
    } rows[] = {
        {"SAMLRequest=a&SigAlg=b&Signature=c", true},
        {"SAMLRequest=a&RelayState=&SigAlg=b&Signature=c", true},
        {"Signature=c&SigAlg=b&RelayState=d&SAMLResponse=a&more=x", true},
        {"SAMLEncoding=urn%3Aoasis%3Anames%3Atc%3ASAML%3A2.0%3Abindings%3AURL-Encoding%3ADEFLATE&"
         "SAMLRequest=a&SigAlg=b&Signature=c",
         true},
        {"SAMLEncoding=x&SAMLRequest=a&SigAlg=b&Signature=c", false},
        {"SAMLRequest=a&SAMLRequest=a&SigAlg=b&Signature=c", false},
        {"SAMLRequest=a&SigAlg=b&Signature=c&SigAlg=b", false},
        {"SAMLRequest=a&SigAlg=b&Signature=c&Signature=c", false},
        {"SAMLRequest=a&RelayState=x&SigAlg=b&Signature=c&RelayState=y", false},
        {"SAMLRequest=a&SAMLResponse=a&SigAlg=b&Signature=c", false},
        {"SAMLRequest=a&Signature=c", false},
        {"SAMLRequest=a&SigAlg=b", false},
        {"SAMLRequest=&SigAlg=b&Signature=c", false},
        {"SAML%52equest=a&SigAlg=b&Signature=c", false},
        {"samlrequest=a&SigAlg=b&Signature=c", false},
        {"SAMLRequest=%&SigAlg=b&Signature=c", false},
        {"SAMLRequest=%0&SigAlg=b&Signature=c", false},
        {"SAMLRequest=a%00b&SigAlg=b&Signature=c", false},
        {"SAMLRequest=a&RelayState=%0a&SigAlg=b&Signature=c", false},
        {"SAMLRequest=a&RelayState=%ff&SigAlg=b&Signature=c", false},
        {"SAMLRequest=\xff&SigAlg=b&Signature=c", false},
        {"", false},
        {"&&&", false},
    };

    for (size_t i = 0; i < LEN(rows); i++) {
        _cleanup_(json_clear_ref) json_t *message = NULL;
        const char *fault = saml_message_read(rows[i].query, NULL, &message);

        cr_assert_eq(!fault, rows[i].is_good, "%s: %s", rows[i].query, fault);
        cr_assert_eq(message != NULL, rows[i].is_good, "%s", rows[i].query);
    }
}

Test(saml_logout, what_is_signed_stays_as_it_came_and_what_is_read_is_decoded)
{
    _cleanup_(json_clear_ref) json_t *message = NULL;
    const json_t *relay;

    cr_assert_null(saml_message_read("SAMLResponse=a%2bb+c%2F&RelayState=x%20%C3%BC+y&SigAlg=s%3a&"
                                     "Signature=t%2b",
                                     NULL, &message));
    relay = json_object_get(message, "relay");
    cr_assert_str_eq(text_of(message, "kind"), "logout_response");
    cr_assert_str_eq(text_of(message, "binding"), "redirect");
    cr_assert_str_eq(text_of(message, "message"), "a+b c/");
    cr_assert_str_eq(text_of(message, "relay_state"), "x \xc3\xbc y");
    cr_assert_str_eq(text_of(relay, "response"), "a%2bb+c%2F");
    cr_assert_str_eq(text_of(relay, "relay_state"), "x%20%C3%BC+y");
    cr_assert_str_eq(text_of(relay, "sig_alg"), "s%3a");
    cr_assert_str_eq(text_of(relay, "signature"), "t%2b");
    cr_assert_eq(json_object_size(relay), 4);
}

Test(saml_logout, a_form_is_one_message)
{
    static const struct {
        const char *params;
        bool is_good;
    } rows[] = {
        {"{\"SAMLRequest\": [\"a\"]}", true},
        {"{\"SAMLResponse\": [\"a\"], \"RelayState\": [\"\"], \"SigAlg\": [\"x\", \"y\"]}", true},
        {"{\"SAMLRequest\": [\"a\", \"a\"]}", false},
        {"{\"SAMLRequest\": [\"a\"], \"SAMLResponse\": [\"a\"]}", false},
        {"{\"SAMLRequest\": [\"a\"], \"RelayState\": [\"x\", \"y\"]}", false},
        {"{\"SAMLRequest\": [\"a\"], \"RelayState\": [\"\\u0007\"]}", false},
        {"{\"SAMLRequest\": [\"\"]}", false},
        {"{\"SAMLRequest\": []}", false},
        {"{}", false},
    };

    for (size_t i = 0; i < LEN(rows); i++) {
        _cleanup_(json_clear_ref) json_t *params = json_loads(rows[i].params, 0, NULL);
        _cleanup_(json_clear_ref) json_t *message = NULL;

        cr_assert_eq(!saml_message_read(NULL, params, &message), rows[i].is_good, "%s",
                     rows[i].params);
        cr_assert_null(json_object_get(message, "relay"));
    }
}

Test(saml_logout, texts_from_outside_are_bounded)
{
    _cleanup_(free_mem) char *query = calloc(1, SAML_QUERY_MAX + 2);
    _cleanup_(json_clear_ref) json_t *message = NULL;
    char state[SAML_RELAY_MAX + 2] = "";

    memset(query, 'a', SAML_QUERY_MAX + 1);
    memcpy(query, "SAMLRequest=", 12);
    cr_assert_not_null(saml_message_read(query, NULL, &message));
    memset(state, 'x', SAML_RELAY_MAX + 1);
    for (int i = 0; i < 2; i++) {
        _cleanup_(json_clear_ref) json_t *params =
            json_pack("{s:[s], s:[s]}", "SAMLRequest", "a", "RelayState", state);
        _cleanup_(json_clear_ref) json_t *made = NULL;

        cr_assert_eq(saml_message_read(NULL, params, &made) == NULL, i == 1);
        state[SAML_RELAY_MAX] = '\0';
    }
}

/* ---- what is asked, and what comes of it ---- */

static provider_step_t begin(void **flow, const json_t *message, const char *nonce, fetch_t *asked)
{
    _cleanup_(json_clear_ref) json_t *config =
        json_pack("{s:s, s:s}", "idp_metadata", "<metadata/>", "request_signing_key_pem", "none");
    const provider_ask_t ask = {.config = config,
                                .module = "saml",
                                .account = "ac_1",
                                .redirect_uri = SLO,
                                .entity_id = "https://h/saml/edghtsrt_1",
                                .nonce = nonce,
                                .params = message,
                                .now_s = NOW_S};

    cr_assert_eq(provider_saml.start(flow, PROVIDER_ENDED, &ask), 0);
    return provider_saml.next(*flow, NULL, asked);
}

Test(saml_logout, what_is_expected_of_a_message_comes_from_the_route_and_the_state)
{
    for (int is_request = 0; is_request < 2; is_request++) {
        _cleanup_(json_clear_ref) json_t *message =
            json_pack("{s:s, s:s, s:s, s:{s:s}, s:s}", "binding", "redirect", "kind",
                      is_request ? "logout_request" : "logout_response", "message", "a", "relay",
                      is_request ? "request" : "response", "a", "relay_state", "x");
        void *flow = NULL;
        fetch_t asked = {0};
        const json_t *expect;

        cr_assert_eq(begin(&flow, message, NONCE, &asked), PROVIDER_FETCH);
        expect = json_object_get(asked.question, "expect");
        cr_assert_str_eq(asked.verb, "saml.verify");
        cr_assert_str_eq(text_of(expect, "destination"), SLO);
        cr_assert_str_eq(text_of(expect, "in_response_to"), is_request ? "" : "_" NONCE);
        cr_assert_str_eq(text_of(asked.question, "binding"), "redirect");
        cr_assert(json_is_object(json_object_get(asked.question, "relay")));
        provider_saml.free(&flow);
    }
}

Test(saml_logout, a_response_without_a_state_and_a_message_of_no_kind_are_refused)
{
    _cleanup_(json_clear_ref) json_t *response =
        json_pack("{s:s, s:s, s:s}", "binding", "post", "kind", "logout_response", "message", "a");
    _cleanup_(json_clear_ref) json_t *none = json_object();
    const json_t *const rows[] = {response, none};

    for (size_t i = 0; i < LEN(rows); i++) {
        void *flow = NULL;
        fetch_t asked = {0};

        cr_assert_eq(begin(&flow, rows[i], NULL, &asked), PROVIDER_INVALID);
        provider_saml.free(&flow);
    }
}

static json_t *said(void)
{
    return json_pack("{s:s, s:s, s:s, s:[s], s:I, s:I}", "issuer", ISSUER, "request_id", "_1",
                     "name_id", "ada", "session_indexes", "_s1", "issued_ms",
                     (json_int_t)1000 * NOW_S, "not_on_or_after_ms",
                     (json_int_t)1000 * (NOW_S + 300));
}

Test(saml_logout, a_request_says_who_and_which_and_since_when_or_it_is_refused)
{
    _cleanup_(json_clear_ref) json_t *good = said(), *late = said();
    saml_logout_t out;

    cr_assert_null(saml_logout_read(good, ENTITY, true, NOW_S, &out));
    cr_assert_str_eq(out.name_id, "ada");
    cr_assert_eq(json_array_size(out.indexes), 1);
    for (const char *const *key =
             (const char *const[]){"issuer", "request_id", "name_id", "session_indexes",
                                   "issued_ms", "not_on_or_after_ms", NULL};
         *key; key++) {
        _cleanup_(json_clear_ref) json_t *less = said();

        json_object_del(less, *key);
        cr_assert_not_null(saml_logout_read(less, ENTITY, true, NOW_S, &out), "without %s", *key);
    }
    json_object_set_new(late, "not_on_or_after_ms",
                        json_integer((json_int_t)1000 * (NOW_S + SAML_LIFE_MAX_S + 1)));
    cr_assert_not_null(saml_logout_read(late, ENTITY, true, NOW_S, &out),
                       "its ID is not kept for so long");
}

Test(saml_logout, a_response_is_a_success_where_it_says_so)
{
    static const struct {
        const char *status;
        bool is_success;
    } rows[] = {
        {SAML_SUCCESS, true},
        {"urn:oasis:names:tc:SAML:2.0:status:Responder", false},
        {"", false},
    };

    for (size_t i = 0; i < LEN(rows); i++) {
        _cleanup_(json_clear_ref) json_t *answer =
            json_pack("{s:s, s:s}", "issuer", ISSUER, "status", rows[i].status);
        saml_logout_t out;

        cr_assert_null(saml_logout_read(answer, ENTITY, false, NOW_S, &out));
        cr_assert_eq(out.is_success, rows[i].is_success);
        cr_assert_not(out.is_request);
    }
}

/* ---- ours ---- */

#define SAML  "xmlns:saml=\"urn:oasis:names:tc:SAML:2.0:assertion\""
#define SAMLP "xmlns:samlp=\"urn:oasis:names:tc:SAML:2.0:protocol\""

Test(saml_logout, a_request_names_the_session_as_the_provider_did)
{
    const saml_leaving_t leaving = {
        .id = "_1",
        .destination = "https://idp.test/slo?a=b&c=d",
        .entity_id = "https://h/saml/1",
        .now_s = NOW_S,
        .session = "{\"name_id\": \"a&b<c>\\\"\", \"name_id_format\": \"f\", \"name_qualifier\": "
                   "\"q>\\\"\", \"sp_name_qualifier\": \"\", \"session_index\": \"<1\"}",
    };
    size_t len = 0;
    _cleanup_(free_mem) char *xml = saml_logout_request(&leaving, &len);

    cr_assert_str_eq(
        xml,
        "<samlp:LogoutRequest " SAMLP " Destination=\"https://idp.test/slo?a=b&amp;c=d\" ID=\"_1\" "
        "IssueInstant=\"2026-05-28T20:26:40Z\" NotOnOrAfter=\"2026-05-28T20:31:40Z\" "
        "Reason=\"urn:oasis:names:tc:SAML:2.0:logout:user\" Version=\"2.0\"><saml:Issuer " SAML
        ">https://h/saml/1</saml:Issuer><saml:NameID " SAML
        " Format=\"f\" NameQualifier=\"q>&quot;\">a&amp;b&lt;c&gt;\"</saml:NameID>"
        "<samlp:SessionIndex>&lt;1</samlp:SessionIndex></samlp:LogoutRequest>");
    cr_assert_eq(len, strlen(xml));
}

Test(saml_logout, nobody_is_signed_out_at_the_provider_without_a_name)
{
    const char *const rows[] = {"", "{}", "[]", "{\"name_id\": \"\"}", "x"};

    for (size_t i = 0; i < LEN(rows); i++) {
        const saml_leaving_t leaving = {
            .id = "_1", .destination = "https://x", .entity_id = "e", .session = rows[i]};
        size_t len;

        cr_assert_null(saml_logout_request(&leaving, &len), "%s", rows[i]);
    }
}

Test(saml_logout, a_person_leaves_for_the_provider_that_vouched_and_no_other)
{
    static const struct {
        const char *issuer, *binding, *session;
    } rows[] = {
        {"https://other.test", "HTTP-Redirect", "{\"name_id\": \"ada\"}"},
        {ISSUER, "SOAP", "{\"name_id\": \"ada\"}"},
        {ISSUER, "HTTP-Redirect", NULL},
    };

    for (size_t i = 0; i < LEN(rows); i++) {
        _cleanup_(json_clear_ref) json_t *config = json_pack(
            "{s:s, s:s}", "idp_metadata", "<metadata/>", "request_signing_key_pem", "none");
        _cleanup_(json_clear_ref) json_t *metadata =
            json_pack("{s:s, s:[{s:o, s:s}]}", "entity_id", rows[i].issuer, "slo", "binding",
                      json_sprintf(SAML_BINDING "%s", rows[i].binding), "location", "https://x");
        const person_t known = {.provider_name = "saml",
                                .provider_url = ISSUER,
                                .id = "ada",
                                .session_at_provider = (char *)rows[i].session};
        const provider_ask_t ask = {.config = config,
                                    .module = "saml",
                                    .nonce = NONCE,
                                    .state = "s",
                                    .entity_id = "e",
                                    .known = &known,
                                    .now_s = NOW_S};
        const fetched_t answer = {.said = metadata};
        void *flow = NULL;
        fetch_t asked = {0};

        cr_assert_eq(provider_saml.start(&flow, PROVIDER_LEAVE, &ask), 0);
        cr_assert_eq(provider_saml.next(flow, NULL, &asked), PROVIDER_FETCH);
        cr_assert_eq(provider_saml.next(flow, &answer, &asked), PROVIDER_DONE);
        cr_assert_null(provider_saml.location(flow), "row %zu", i);
        provider_saml.free(&flow);
    }
}
