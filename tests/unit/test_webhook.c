/* webhook_verification's rules: vectors that providers have published, and the parsers. Signatures
 * of every provider, made by others, are in tests/e2e/webhook-verification.test.mjs. */
#include "common/codec/pack.h"
#include "services/edge/modules/webhook.h"
#include "services/edge/modules/webhook_fields.h"
#include "services/edge/modules/webhook_header.h"
#include "services/edge/modules/webhook_json.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const char *const names[] = {
#define PROVIDER(name, ...) name,
#include "proto/webhook_providers.def"
};

enum { NAMES = sizeof(names) / sizeof(names[0]) };

static webhook_text_t text_of(const char *text)
{
    return (webhook_text_t){text, strlen(text)};
}

/* {provider, secret} as the config log brings it; secret NULL: nil. */
static webhook_t *webhook_of(const char *provider, const char *secret, bool *bad)
{
    json_t *json = json_pack("{s:s?, s:s?}", "provider", provider, "secret", secret);
    msgpack_sbuffer out;
    msgpack_unpacked document;
    webhook_t *self;

    msgpack_sbuffer_init(&out);
    cr_assert_eq(pack_json(&out, json), 0);
    msgpack_unpacked_init(&document);
    cr_assert_eq(msgpack_unpack_next(&document, out.data, out.size, NULL), MSGPACK_UNPACK_SUCCESS);
    *bad = false;
    self = webhook_parse(&document.data, bad);
    msgpack_unpacked_destroy(&document);
    msgpack_sbuffer_destroy(&out);
    json_decref(json);
    return self;
}

/* arg: "Name: value\n..." */
static size_t find_headers(void *arg, webhook_text_t name, webhook_text_t *out, size_t max)
{
    size_t n = 0;

    for (const char *line = arg; *line; line += strcspn(line, "\n") + 1) {
        if (strncasecmp(line, name.at, name.len) != 0 || line[name.len] != ':')
            continue;
        if (n < max)
            out[n] = (webhook_text_t){line + name.len + 2, strcspn(line + name.len + 2, "\n")};
        n++;
    }
    return n;
}

static webhook_request_t request_of(const char *method, const char *target, const char *headers,
                                    const char *body, int64_t now_s)
{
    return (webhook_request_t){
        .method = text_of(method),
        .authority = text_of("mycompany.com"),
        .target = text_of(target),
        .type = text_of("application/x-www-form-urlencoded"),
        .body = body,
        .body_len = body ? strlen(body) : 0,
        .now_ms = now_s * 1000,
        .headers = find_headers,
        .arg = (void *)headers,
    };
}

static webhook_verdict_t judge(const char *provider, const char *secret,
                               const webhook_request_t *request)
{
    bool bad;
    webhook_answer_t answer;
    webhook_t *self = webhook_of(provider, secret, &bad);
    webhook_verdict_t verdict = webhook_judge(self, request, &answer);

    cr_assert(!bad);
    webhook_free(self);
    return verdict;
}

#define GITHUB                                                                                     \
    "X-Hub-Signature-256: "                                                                        \
    "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17\n"
#define SVIX                                                                                       \
    "svix-id: msg_p5jXN8AQM9LWM0D4loKWxJek\nsvix-timestamp: 1614265330\nsvix-signature: "          \
    "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=\n"
#define SVIX_KEY "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
#define SLACK                                                                                      \
    "X-Slack-Request-Timestamp: 1531420618\nX-Slack-Signature: "                                   \
    "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503\n"
#define SLACK_BODY                                                                                 \
    "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id="         \
    "G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-"     \
    "collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%"             \
    "2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121."               \
    "803a0bc887a14d10d2c447fce8b6703c"

typedef struct {
    char provider[16], secret[48], target[48], headers[240], body[520];
    int64_t now_s;
    webhook_verdict_t verdict;
} judged_t;

ParameterizedTestParameters(webhook, published)
{
    static judged_t cases[] = {
        {"github", "It's a Secret to Everybody", "/", GITHUB, "Hello, World!", 0, WEBHOOK_VERIFIED},
        {"github", "It's a Secret to Everybody", "/", GITHUB, "Hello, World", 0,
         WEBHOOK_MISMATCHED},
        {"github", "It's a secret to Everybody", "/", GITHUB, "Hello, World!", 0,
         WEBHOOK_MISMATCHED},
        {"github", "s", "/", "", "Hello, World!", 0, WEBHOOK_UNSIGNED},
        {"github", "s", "/", "X-Hub-Signature-256: sha1=00\n", "Hello, World!", 0,
         WEBHOOK_MALFORMED},
        {"svix", SVIX_KEY, "/", SVIX, "{\"test\": 2432232314}", 1614265330, WEBHOOK_VERIFIED},
        {"svix", SVIX_KEY, "/", SVIX, "{\"test\": 2432232314}", 1614265630, WEBHOOK_VERIFIED},
        {"svix", SVIX_KEY, "/", SVIX, "{\"test\": 2432232314}", 1614265631, WEBHOOK_STALE},
        {"svix", SVIX_KEY, "/", SVIX, "{\"test\": 2432232314}", 1614265030, WEBHOOK_VERIFIED},
        {"svix", SVIX_KEY, "/", SVIX, "{\"test\": 2432232314}", 1614265029, WEBHOOK_STALE},
        {"slack", "8f742231b10e8888abcd99yyyzzz85a5", "/", SLACK, SLACK_BODY, 1531420618,
         WEBHOOK_VERIFIED},
        {"slack", "8f742231b10e8888abcd99yyyzzz85a5", "/", SLACK, SLACK_BODY "&", 1531420618,
         WEBHOOK_MISMATCHED},
        {"twilio", "12345", "/myapp.php?foo=1&bar=2",
         "X-Twilio-Signature: RSOYDt4T1cUTdK1PDd93/VVr8B8=\n",
         "Digits=1234&To=%2B18005551212&From=%2B14158675309&Caller=%2B14158675309&CallSid="
         "CA1234567890ABCDE",
         0, WEBHOOK_VERIFIED},
        {"twilio", "12345", "/myapp.php?foo=1&bar=3",
         "X-Twilio-Signature: RSOYDt4T1cUTdK1PDd93/VVr8B8=\n",
         "Digits=1234&To=%2B18005551212&From=%2B14158675309&Caller=%2B14158675309&CallSid="
         "CA1234567890ABCDE",
         0, WEBHOOK_MISMATCHED},
        {"gitlab", "the token", "/", "X-Gitlab-Token: the token\n", "", 0, WEBHOOK_VERIFIED},
        {"gitlab", "the token", "/", "X-Gitlab-Token: the toke\n", "", 0, WEBHOOK_MISMATCHED},
        {"gitlab", "the token", "/", "X-Gitlab-Token: the token\nX-Gitlab-Token: the token\n", "",
         0, WEBHOOK_MISMATCHED},
    };

    return cr_make_param_array(judged_t, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(judged_t *it, webhook, published)
{
    webhook_request_t request = request_of("POST", it->target, it->headers, it->body, it->now_s);

    cr_assert_eq(judge(it->provider, it->secret, &request), it->verdict, "%s %s", it->provider,
                 it->headers);
}

/* A message of Contentful's whose signature names so many headers. */
static webhook_verdict_t judge_signed_headers(int count)
{
    static const char secret[] = "the secret";
    char list[2000] = "", headers[6000] = "", content[6000] = "POST\n/\n", hex[65];
    unsigned char sum[32];
    size_t at;
    webhook_request_t request;

    for (int i = 0; i < count - 2; i++) {
        sprintf(list + strlen(list), "a%02d,", i);
        sprintf(headers + strlen(headers), "a%02d: b\n", i);
        sprintf(content + strlen(content), "a%02d:b;", i);
    }
    strcat(list, "x-contentful-signed-headers,x-contentful-timestamp");
    sprintf(content + strlen(content),
            "x-contentful-signed-headers:%s;x-contentful-timestamp:1000000\n{}", list);
    HMAC(EVP_sha256(), secret, (int)strlen(secret), (unsigned char *)content, strlen(content), sum,
         NULL);
    for (at = 0; at < sizeof(sum); at++)
        sprintf(hex + 2 * at, "%02x", sum[at]);
    sprintf(headers + strlen(headers),
            "x-contentful-signed-headers: %s\nx-contentful-timestamp: 1000000\n"
            "x-contentful-signature: %s\n",
            list, hex);
    request = request_of("POST", "/", headers, "{}", 1000);
    return judge("contentful", secret, &request);
}

/* Each is looked for among all headers of the request. */
Test(webhook, a_signature_names_at_most_32_headers)
{
    cr_assert_eq(judge_signed_headers(2), WEBHOOK_VERIFIED);
    cr_assert_eq(judge_signed_headers(32), WEBHOOK_VERIFIED);
    cr_assert_neq(judge_signed_headers(33), WEBHOOK_VERIFIED);
}

Test(webhook, what_headers_deny_needs_no_body)
{
    webhook_request_t request = request_of("POST", "/", SVIX, NULL, 1614265330);

    cr_assert_eq(judge("svix", SVIX_KEY, &request), WEBHOOK_NEEDS_BODY);
    request.now_ms += 301 * 1000;
    cr_assert_eq(judge("svix", SVIX_KEY, &request), WEBHOOK_STALE);
    request = request_of("POST", "/", "X-Gitlab-Token: t\n", NULL, 0);
    cr_assert_eq(judge("gitlab", "t", &request), WEBHOOK_VERIFIED);
}

static const char *secret_of(const webhook_provider_t *row)
{
    switch (row->key) {
    case WEBHOOK_KEY_PUBLIC:
        return "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEmY/z3YvsMZOuBsFGoG8goS2Dzjsuuk93hsCn"
               "F0amQfODUs0+KRyWfmDFHd2UY73acROUnA9YtHLEE6DPVZPJyQ==";
    case WEBHOOK_KEY_PAIR:
        return "user::password";
    case WEBHOOK_KEY_NONE:
        return "";
    default:
        return "c2VjcmV0cyBmb3IgdGVzdHM=";
    }
}

/* Every row: a secret of its form is taken, none and another one is not, and signatures that nobody
 * made are refused whatever else the request has. */
Test(webhook, every_row)
{
    for (size_t i = 0; i < NAMES; i++) {
        const webhook_provider_t *row = webhook_provider_find(names[i]);
        char headers[1024], name[64];
        webhook_request_t request;
        bool bad;
        webhook_t *self = webhook_of(names[i], secret_of(row), &bad);

        cr_assert(!bad, "%s", names[i]);
        cr_assert_eq(webhook_beyond(self), webhook_provider_refusal(row) != NULL, "%s", names[i]);
        webhook_free(self);
        self = webhook_of(names[i], NULL, &bad);
        cr_assert_eq(webhook_beyond(self), row->key != WEBHOOK_KEY_NONE, "%s without a secret",
                     names[i]);
        webhook_free(self);
        self = webhook_of(names[i], "", &bad);
        cr_assert_eq(webhook_beyond(self), row->key != WEBHOOK_KEY_NONE, "%s with an empty secret",
                     names[i]);
        webhook_free(self);
        if (webhook_provider_refusal(row))
            continue;
        cr_assert_null(webhook_secret_fault(row, secret_of(row)), "%s", names[i]);
        cr_assert_eq(webhook_secret_fault(row, "") == NULL, row->key == WEBHOOK_KEY_NONE, "%s",
                     names[i]);
        if (row->key != WEBHOOK_KEY_TEXT)
            cr_assert_not_null(webhook_secret_fault(row, "no secret of its form"), "%s", names[i]);
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(row->headers, " "), row->headers);
        if (strchr(name, '#'))
            *strchr(name, '#') = '1';
        snprintf(headers, sizeof(headers), "%s: %sAAAA\n%s: 1\n", name, row->mark,
                 row->time ? row->time : "x");
        request = request_of("POST", "/a?b=c", headers, "{}", 1);
        cr_assert_neq(judge(names[i], secret_of(row), &request), WEBHOOK_VERIFIED, "%s", names[i]);
        cr_assert_neq(judge(names[i], secret_of(row), &request), WEBHOOK_ANSWERED, "%s", names[i]);
    }
}

Test(webhook, a_document_that_is_none)
{
    bool bad;

    webhook_free(webhook_of(NULL, "s", &bad));
    cr_assert(bad);
    webhook_free(webhook_of("nobody", "s", &bad));
    cr_assert(bad);
}

Test(webhook, configurations_are_the_same_by_provider_and_secret)
{
    bool bad;
    webhook_t *one = webhook_of("github", "s", &bad), *two = webhook_of("GitHub", "s", &bad),
              *three = webhook_of("github", "t", &bad), *four = webhook_of("jira", "s", &bad);

    cr_assert(webhook_same(one, two));
    cr_assert(!webhook_same(one, three) && !webhook_same(one, four));
    webhook_free(one);
    webhook_free(two);
    webhook_free(three);
    webhook_free(four);
}

typedef struct {
    char text[40];
    webhook_unit_t unit;
    int64_t ms; /* -1: refused */
} timed_t;

ParameterizedTestParameters(webhook, times)
{
    static timed_t cases[] = {
        {"1614265330", WEBHOOK_S, 1614265330000},
        {"1614265330123", WEBHOOK_MS, 1614265330123},
        {"0", WEBHOOK_S, 0},
        {"01614265330", WEBHOOK_S, -1},
        {"01614265330123", WEBHOOK_MS, -1},
        {"99999999999999", WEBHOOK_S, 99999999999999000},
        {"999999999999999", WEBHOOK_S, -1},
        {"", WEBHOOK_S, -1},
        {"-1", WEBHOOK_S, -1},
        {"+1", WEBHOOK_S, -1},
        {" 1", WEBHOOK_S, -1},
        {"1.5", WEBHOOK_S, -1},
        {"1e9", WEBHOOK_S, -1},
        {"2021-02-25T15:02:10Z", WEBHOOK_ISO, 1614265330000},
        {"2021-02-25T15:02:10", WEBHOOK_ISO, -1},
        {"2021-02-25T15:02:10", WEBHOOK_ISO_UTC, 1614265330000},
        {"2021-02-25T15:02:10.123", WEBHOOK_ISO_UTC, 1614265330123},
        {"2021-02-25T15:02:10Z", WEBHOOK_ISO_UTC, -1},
        {"2021-02-25T15:02:10+00:00", WEBHOOK_ISO_UTC, -1},
        {"2021-02-25T15:02:10.", WEBHOOK_ISO_UTC, -1},
        {"2021-02-25T15:02:10.5Z", WEBHOOK_ISO, 1614265330500},
        {"2021-02-25T15:02:10.123456789Z", WEBHOOK_ISO, 1614265330123},
        {"2021-02-25T08:02:10-07:00", WEBHOOK_ISO, 1614265330000},
        {"2021-02-25T20:32:10+0530", WEBHOOK_ISO, 1614265330000},
        {"2020-02-29T00:00:00Z", WEBHOOK_ISO, 1582934400000},
        {"2021-02-29T00:00:00Z", WEBHOOK_ISO, -1},
        {"2021-13-01T00:00:00Z", WEBHOOK_ISO, -1},
        {"2021-00-01T00:00:00Z", WEBHOOK_ISO, -1},
        {"2021-02-25T24:00:00Z", WEBHOOK_ISO, -1},
        {"2021-02-25T15:02:60Z", WEBHOOK_ISO, -1},
        {"2021-02-25 15:02:10Z", WEBHOOK_ISO, -1},
        {"2021-02-25T15:02:10.Z", WEBHOOK_ISO, -1},
        {"2021-02-25T15:02:10ZZ", WEBHOOK_ISO, -1},
        {"2021-02-25T15:02:10+25:00", WEBHOOK_ISO, -1},
        {"1969-12-31T23:59:59Z", WEBHOOK_ISO, -1},
        {"2021-02-25T15:02", WEBHOOK_ISO, -1},
    };

    return cr_make_param_array(timed_t, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(timed_t *it, webhook, times)
{
    int64_t ms = -1;

    cr_assert_eq(webhook_time_parse(text_of(it->text), it->unit, &ms), it->ms >= 0, "%s", it->text);
    if (it->ms >= 0)
        cr_assert_eq(ms, it->ms, "%s: %lld", it->text, (long long)ms);
}

typedef struct {
    char json[100], path[16], plain[24];
    bool found;
} found_t;

ParameterizedTestParameters(webhook, json)
{
    static found_t cases[] = {
        {"{\"a\":1}", ".a", "1", true},
        {" { \"b\" : [1,{\"a\":2}] , \"a\" : \"x\" } ", ".a", "x", true},
        {"{\"s\":{\"a\":\"y\",\"b\":{}}}", ".s.a", "y", true},
        {"{\"b\":\"{\\\"a\\\":1}\",\"a\":3}", ".a", "3", true},
        {"{\"a\":1,\"a\":2}", ".a", "", false},
        {"{\"a\":{\"a\":1}}", ".a", "", false},
        {"{\"a\":\"x\\u0041\"}", ".a", "", false},
        {"{\"a\":null}", ".a", "", false},
        {"{\"a\":1", ".a", "", false},
        {"{\"a\":\"", ".a", "", false},
        {"{\"a\":\"\\", ".a", "", false},
        {"{}", ".a", "", false},
        {"", ".a", "", false},
        {"[{\"a\":1}]", ".a", "", false},
        {"{\"a\" 1}", ".a", "", false},
        {"{\"b\":[[[[\"]\"]]]],\"a\":1}", ".a", "1", true},
    };

    return cr_make_param_array(found_t, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(found_t *it, webhook, json)
{
    webhook_text_t out;

    cr_assert_eq(webhook_json_plain(text_of(it->json), it->path, &out), it->found, "%s", it->json);
    if (it->found)
        cr_assert(webhook_text_is(out, it->plain), "%s: %.*s", it->json, (int)out.len, out.at);
}

Test(webhook, an_array_without_items)
{
    cr_assert(webhook_json_empty(text_of("{\"events\": [ ] }"), ".events"));
    cr_assert(!webhook_json_empty(text_of("{\"events\":[1]}"), ".events"));
    cr_assert(!webhook_json_empty(text_of("{\"events\":{}}"), ".events"));
}

Test(webhook, fields_are_decoded_and_sorted)
{
    webhook_fields_t fields;

    cr_assert(webhook_fields_read(&fields, text_of("b=2&a=%2B1+x&&a&c=d=e"), true));
    cr_assert_eq(fields.count, 4);
    cr_assert(webhook_text_is(fields.each[0].name, "a") && fields.each[0].value.len == 0);
    cr_assert(webhook_text_is(fields.each[1].value, "+1 x"));
    cr_assert(webhook_text_is(fields.each[3].value, "d=e"));
    webhook_fields_free(&fields);
    for (size_t i = 0; i < 4; i++) {
        static const char *const bad[] = {"a=%", "a=%4", "a=%G0", "%1x=1"};

        cr_assert(!webhook_fields_read(&fields, text_of(bad[i]), true), "%s", bad[i]);
        webhook_fields_free(&fields);
    }
}

Test(webhook, fields_have_a_bound)
{
    static char text[2 * (WEBHOOK_FIELDS_MAX + 1) + 1];
    webhook_fields_t fields;

    for (size_t i = 0; i <= WEBHOOK_FIELDS_MAX; i++)
        memcpy(text + 2 * i, "a&", 3);
    cr_assert(!webhook_fields_read(&fields, text_of(text), true));
    webhook_fields_free(&fields);
    text[2 * WEBHOOK_FIELDS_MAX] = '\0';
    cr_assert(webhook_fields_read(&fields, text_of(text), true));
    webhook_fields_free(&fields);
}
