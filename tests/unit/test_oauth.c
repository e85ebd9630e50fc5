/* The oauth engine: a scripted conversation with each provider, as it is documented; what is asked,
 * what is made of the answers, and what of hostile ones. */
#include "common/base/cleanup.h"
#include "common/out/outbound.h"
#include "services/identity/oauth_internal.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* Cases leave out at their end what they are not about. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

#define CALLBACK "https://idp.test/oauth2/callback"
#define STATE    "rt_1.abcdefghijklmnopqrstuv"
#define VERIFIER "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk" /* RFC 7636, appendix B */
#define S256                                                                                       \
    "&code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM&code_challenge_method=S256"
#define REDIRECT "&redirect_uri=https%3A%2F%2Fidp.test%2Foauth2%2Fcallback"

enum { NOW_S = 1700000000 };

/* A request that is expected, and the answer to it. */
typedef struct exchange {
    const char *url; /* of the request, or its beginning before a '*' */
    const char *has; /* in its body or in one of its headers; NULL: nothing in particular */
    unsigned status; /* 0: nobody answers */
    const char *body, *link, *type, *retry_after;
} exchange_t;

typedef struct talk {
    void *flow;
    provider_step_t step;
    person_t person;
} talk_t;

static void wipe(person_t *who)
{
    char **texts[] = {&who->provider_name,      &who->provider_url, &who->id,
                      &who->username,           &who->name,         &who->email,
                      &who->refresh_token,      &who->access_token, &who->id_token,
                      &who->session_at_provider};

    for (size_t i = 0; i < LEN(texts); i++)
        free_mem(texts[i]);
    json_decref(who->groups);
    *who = (person_t){0};
}

static void end_talk(talk_t *talk)
{
    wipe(&talk->person);
    provider_oauth.free(&talk->flow);
}

static json_t *read_json(const char *text)
{
    json_t *value = json_loads(text, JSON_DECODE_ANY, NULL);

    cr_assert_not_null(value, "%s", text);
    return value;
}

static bool has_line(const fetch_t *fetch, const char *text)
{
    if (fetch->body && strstr(fetch->body, text))
        return true;
    for (size_t i = 0; fetch->headers[i]; i++)
        if (strstr(fetch->headers[i], text))
            return true;
    return false;
}

static void expect(const fetch_t *fetch, const exchange_t *want)
{
    size_t len = strcspn(want->url, "*");
    bool is_prefix = want->url[len] == '*';

    cr_assert(!strncmp(fetch->url, want->url, len) && (is_prefix || strlen(fetch->url) == len),
              "asked for %s, not %s", fetch->url, want->url);
    cr_assert(!want->has || has_line(fetch, want->has), "%s lacks %s: %s", fetch->url, want->has,
              fetch->body ? fetch->body : "");
    cr_assert(has_line(fetch, "User-Agent: Postern")
              && has_line(fetch, "Accept: application/json"));
    cr_assert(!strcmp(fetch->method, fetch->body ? "POST" : "GET"));
    cr_assert(fetch->max_bytes && fetch->max_bytes <= 1 << 20 && fetch->timeout_ms);
}

/* Go through the conversation; asking more or less than it has is a failure. */
static void converse(talk_t *talk, int operation, const provider_ask_t *ask, const exchange_t *each)
{
    fetch_t fetch;

    cr_assert_eq(provider_oauth.start(&talk->flow, operation, ask), 0);
    talk->step = provider_oauth.next(talk->flow, NULL, &fetch);
    for (; talk->step == PROVIDER_FETCH; each++) {
        fetched_t answer = {0};

        cr_assert_not_null(each->url, "one request too many: %s", fetch.url);
        expect(&fetch, each);
        answer = (fetched_t){.end = each->status ? OUTBOUND_ANSWERED : OUTBOUND_TIMEOUT,
                             .status = each->status,
                             .body = each->body ? each->body : "",
                             .body_len = each->body ? strlen(each->body) : 0,
                             .link = each->link,
                             .content_type = each->type,
                             .retry_after = each->retry_after};
        talk->step = provider_oauth.next(talk->flow, &answer, &fetch);
    }
    cr_assert_null(each->url, "ended (%d: %s) before %s", talk->step,
                   provider_oauth.why(talk->flow), each->url);
    if (talk->step == PROVIDER_DONE && operation != PROVIDER_BEGIN)
        provider_oauth.person(talk->flow, &talk->person);
}

/* A document with one provider, and what else it has. */
static json_t *document(const char *provider, const char *more, long check_interval)
{
    char text[4096];

    snprintf(text, sizeof(text),
             "{\"enabled\": true, \"auth_check_interval\": %ld, \"provider\": {\"%s\": "
             "{\"client_id\": \"app&1\", \"client_secret\": \"s3cr=t\"%s%s}}}",
             check_interval, provider, *more ? ", " : "", more);
    return read_json(text);
}

static provider_ask_t sign_in_ask(const json_t *config, const json_t *params)
{
    return (provider_ask_t){.config = config,
                            .module = "oauth",
                            .redirect_uri = CALLBACK,
                            .state = STATE,
                            .nonce = VERIFIER,
                            .verifier = VERIFIER,
                            .params = params,
                            .now_s = NOW_S};
}

static void sign_in(talk_t *talk, const char *provider, const char *more, const char *params,
                    const exchange_t *each)
{
    _cleanup_(json_clear_ref) json_t *config = document(provider, more, 0);
    _cleanup_(json_clear_ref) json_t *given = read_json(params);
    provider_ask_t ask = sign_in_ask(config, given);

    converse(talk, PROVIDER_CALLBACK, &ask, each);
}

static void check_again(talk_t *talk, const char *provider, const char *url, const char *refresh,
                        const exchange_t *each)
{
    _cleanup_(json_clear_ref) json_t *config = document(provider, "", 3600);
    person_t known = {.provider_name = (char *)provider, .provider_url = (char *)url, .id = "42"};
    provider_ask_t ask = {.config = config,
                          .module = "oauth",
                          .redirect_uri = CALLBACK,
                          .refresh_token = refresh,
                          .access_token = "old-access",
                          .known = &known,
                          .now_s = NOW_S};

    converse(talk, PROVIDER_REFRESH, &ask, each);
}

#define OK_PARAMS "{\"code\": [\"c/0de\"], \"state\": [\"" STATE "\"]}"

/* ---- authorization URLs ---- */

static const struct begin_case {
    const char *provider, *more;
    long check_interval;
    bool force;
    const char *url;
} begins[] = {
    {"github", "", 0, false,
     "https://github.com/login/oauth/authorize?response_type=code&client_id=app%261" REDIRECT
     "&scope=read%3Aorg%20read%3Auser%20user%3Aemail&state=" STATE S256},
    {"github", "\"scopes\": [\"repo\", \"read:user\"]", 0, true,
     "https://github.com/login/oauth/authorize?response_type=code&client_id=app%261" REDIRECT
     "&scope=read%3Aorg%20read%3Auser%20user%3Aemail%20repo&state=" STATE S256
     "&prompt=select_account"},
    {"facebook", "\"scopes\": [\"user_birthday\"]", 0, true,
     "https://www.facebook.com/v26.0/dialog/oauth?response_type=code&client_id=app%261" REDIRECT
     "&scope=email%2Cpublic_profile%2Cuser_birthday&state=" STATE "&auth_type=reauthenticate"},
    {"microsoft", "", 0, true,
     "https://login.microsoftonline.com/common/oauth2/v2.0/authorize?response_type=code"
     "&client_id=app%261" REDIRECT "&scope=User.Read&state=" STATE S256 "&prompt=login"},
    {"microsoft", "", 60, false,
     "https://login.microsoftonline.com/common/oauth2/v2.0/authorize?response_type=code"
     "&client_id=app%261" REDIRECT "&scope=User.Read%20offline_access&state=" STATE S256},
    {"google", "", 60, false,
     "https://accounts.google.com/o/oauth2/v2/auth?response_type=code&client_id=app%261" REDIRECT
     "&scope=https%3A%2F%2Fwww.googleapis.com%2Fauth%2Fuserinfo.email%20https%3A%2F%2F"
     "www.googleapis.com%2Fauth%2Fuserinfo.profile&state=" STATE S256 "&access_type=offline"},
    {"linkedin", "", 0, true,
     "https://www.linkedin.com/oauth/v2/authorization?response_type=code&client_id=app%261" REDIRECT
     "&scope=openid%20profile%20email&state=" STATE},
    {"gitlab", "", 0, true,
     "https://gitlab.com/oauth/authorize?response_type=code&client_id=app%261" REDIRECT
     "&scope=openid%20profile%20email&state=" STATE S256 "&prompt=login"},
    {"twitch", "", 0, true,
     "https://id.twitch.tv/oauth2/authorize?response_type=code&client_id=app%261" REDIRECT
     "&scope=user%3Aread%3Aemail&state=" STATE "&force_verify=true"},
    {"amazon", "", 0, false,
     "https://www.amazon.com/ap/oa?response_type=code&client_id=app%261" REDIRECT
     "&scope=profile&state=" STATE S256},
};

Test(oauth, sends_browsers_to_the_page_of_each_provider)
{
    for (size_t i = 0; i < LEN(begins); i++) {
        _cleanup_(json_clear_ref) json_t *config =
            document(begins[i].provider, begins[i].more, begins[i].check_interval);
        provider_ask_t ask = sign_in_ask(config, NULL);
        talk_t talk = {0};

        ask.force = begins[i].force;
        converse(&talk, PROVIDER_BEGIN, &ask, (const exchange_t[]){{0}});
        cr_assert_eq(talk.step, PROVIDER_DONE, "%s", begins[i].provider);
        cr_assert_str_eq(provider_oauth.location(talk.flow), begins[i].url);
        end_talk(&talk);
    }
}

/* ---- a sign-in with each ---- */

#define BASIC_FORM                                                                                 \
    "grant_type=authorization_code&client_id=app%261&client_secret=s3cr%3Dt&code=c%2F0de" REDIRECT
#define WITH_VERIFIER BASIC_FORM "&code_verifier=" VERIFIER

static const struct sign_in_case {
    const char *provider, *more;
    exchange_t each[6];
    const char *url, *id, *username, *name, *email, *refresh, *groups;
    bool email_verified;
    int64_t lasts_s;
} sign_ins[] = {
    {.provider = "github",
     .each =
         {{"https://github.com/login/oauth/access_token", WITH_VERIFIER, 200,
           "{\"access_token\": \"gho_1\", \"token_type\": \"bearer\", "
           "\"scope\": \"read:org,user\"}"},
          {"https://api.github.com/user", "Authorization: Bearer gho_1", 200,
           "{\"login\": \"octocat\", \"id\": 9007199254740993, \"name\": null, \"email\": null}"},
          {"https://api.github.com/user/emails", "X-GitHub-Api-Version: 2022-11-28", 200,
           "[{\"email\": \"other@b.test\", \"verified\": true, \"primary\": false},"
           "{\"email\": \"octo@a.test\", \"verified\": true, \"primary\": true}]"}},
     .url = "https://github.com",
     .id = "9007199254740993", /* is no double */
     .username = "octocat",
     .name = "octocat",
     .email = "octo@a.test",
     .email_verified = true,
     .groups = "[]"},
    {.provider =
         "github", /* a form, the shown address, teams by name and by number, organizations */
     .more = "\"teams\": [\"Acme/ops\", \"77\", \"acme/none\"], \"organizations\": [\"ACME\"]",
     .each =
         {{"https://github.com/login/oauth/access_token", WITH_VERIFIER, 200,
           "access_token=gho_1&scope=read%3Aorg%2Cread%3Auser%2Cuser%3Aemail&token_type=bearer",
           .type = "application/x-www-form-urlencoded; charset=utf-8"},
          {"https://api.github.com/user", NULL, 200,
           "{\"login\": \"octocat\", \"id\": 1, \"name\": \"Mona\", \"email\": \"Other@b.test\"}"},
          {"https://api.github.com/user/emails", NULL, 200,
           "[{\"email\": \"other@b.test\", \"verified\": true, \"primary\": false},"
           "{\"email\": \"octo@a.test\", \"verified\": true, \"primary\": true}]"},
          {"https://api.github.com/user/teams?per_page=100", NULL, 200,
           "[{\"id\": 7, \"slug\": \"ops\", \"organization\": {\"login\": \"acme\"}},"
           "{\"id\": 77, \"slug\": \"x\", \"organization\": {\"login\": \"other\"}}]"},
          {"https://api.github.com/user/orgs?per_page=100", NULL, 200,
           "[{\"login\": \"acme\"}, {\"login\": \"secret\"}]"}},
     .url = "https://github.com",
     .id = "1",
     .username = "octocat",
     .name = "Mona",
     .email = "other@b.test",
     .email_verified = true,
     .groups = "[\"acme/ops\", \"#77\", \"acme\"]"},
    {.provider = "facebook",
     .each = {{"https://graph.facebook.com/v26.0/oauth/access_token", BASIC_FORM, 200,
               "{\"access_token\": \"EAAB\", \"token_type\": \"bearer\", \"expires_in\": 5183944}"},
              {"https://graph.facebook.com/v26.0/me/permissions?appsecret_proof="
               "70ebf4742785b9c6452bd45f0f3d0d477efaaf7827540e6f5006d40b643ad6f9*",
               "Authorization: Bearer EAAB", 200,
               "{\"data\": [{\"permission\": \"email\", \"status\": \"granted\"}, "
               "{\"permission\": \"public_profile\", \"status\": \"granted\"}]}"},
              {"https://graph.facebook.com/v26.0/me?fields=id,name,email&appsecret_proof=*", NULL,
               200, "{\"id\": \"1015\", \"name\": \"A B\", \"email\": \"a@b.test\"}"}},
     .url = "https://www.facebook.com/v26.0",
     .id = "1015",
     .name = "A B",
     .email = "a@b.test",
     .email_verified = true,
     .lasts_s = 5183944,
     .groups = "[]"},
    {.provider = "microsoft",
     .each = {{"https://login.microsoftonline.com/common/oauth2/v2.0/token", WITH_VERIFIER, 200,
               "{\"token_type\": \"Bearer\", \"scope\": \"profile https://graph.microsoft.com/"
               "user.read\", \"expires_in\": 3599, \"access_token\": \"eyJ0\", "
               "\"refresh_token\": \"0.AX\"}"},
              {"https://graph.microsoft.com/v1.0/me", "Authorization: Bearer eyJ0", 200,
               "{\"id\": \"87d349ed-44d7-43e1-9a83-5f2406dee5bd\", \"displayName\": \"Adele\", "
               "\"mail\": \"adele@contoso.test\", \"userPrincipalName\": \"av@Contoso.test\"}"}},
     .url = "https://login.microsoftonline.com/common",
     .id = "87d349ed-44d7-43e1-9a83-5f2406dee5bd",
     .username = "av@Contoso.test",
     .name = "Adele",
     .email = "adele@contoso.test",
     .email_verified = true,
     .refresh = "0.AX",
     .lasts_s = 3599,
     .groups = "[]"},
    {.provider = "google",
     .each = {{"https://oauth2.googleapis.com/token", WITH_VERIFIER, 200,
               "{\"access_token\": \"ya29\", \"expires_in\": 3920, \"token_type\": \"Bearer\", "
               "\"scope\": \"openid https://www.googleapis.com/auth/userinfo.profile "
               "https://www.googleapis.com/auth/userinfo.email\", \"refresh_token\": \"1//x\"}"},
              {"https://openidconnect.googleapis.com/v1/userinfo", "Authorization: Bearer ya29",
               200,
               "{\"sub\": \"110169484474386276334\", \"name\": \"J\\u0007 D\", "
               "\"email\": \"j@gmail.test\", \"email_verified\": true}"}},
     .url = "https://accounts.google.com",
     .id = "110169484474386276334",
     .name = "J? D",
     .email = "j@gmail.test",
     .email_verified = true,
     .refresh = "1//x",
     .lasts_s = 3920,
     .groups = "[]"},
    {.provider = "linkedin",
     .each = {{"https://www.linkedin.com/oauth/v2/accessToken", BASIC_FORM, 200,
               "{\"access_token\": \"AQX\", \"expires_in\": 5184000, "
               "\"scope\": \"email,openid,profile\"}"},
              {"https://api.linkedin.com/v2/userinfo", "Authorization: Bearer AQX", 200,
               "{\"sub\": \"782bbtaQ\", \"name\": \"John Doe\", \"email\": \"d@email.test\", "
               "\"email_verified\": \"true\"}"}},
     .url = "https://www.linkedin.com",
     .id = "782bbtaQ",
     .name = "John Doe",
     .email = "d@email.test",
     .email_verified = true,
     .lasts_s = 5184000,
     .groups = "[]"},
    {.provider = "gitlab",
     .each = {{"https://gitlab.com/oauth/token", WITH_VERIFIER, 200,
               "{\"access_token\": \"de6780\", \"token_type\": \"Bearer\", \"expires_in\": 7200, "
               "\"refresh_token\": \"8257e65c\", \"scope\": \"openid profile email\"}"},
              {"https://gitlab.com/oauth/userinfo", "Authorization: Bearer de6780", 200,
               "{\"sub\": \"1574083\", \"name\": \"J S\", \"nickname\": \"js\", "
               "\"email\": \"js@example.test\", \"email_verified\": false}"}},
     .url = "https://gitlab.com",
     .id = "1574083",
     .username = "js",
     .name = "J S",
     .email = "js@example.test",
     .email_verified = false,
     .refresh = "8257e65c",
     .lasts_s = 7200,
     .groups = "[]"},
    {.provider = "twitch",
     .each = {{"https://id.twitch.tv/oauth2/token", BASIC_FORM, 200,
               "{\"access_token\": \"rfx2\", \"expires_in\": 14124, \"refresh_token\": \"5b93\", "
               "\"scope\": [\"user:read:email\"], \"token_type\": \"bearer\"}"},
              {"https://api.twitch.tv/helix/users", "Client-Id: app&1", 200,
               "{\"data\": [{\"id\": \"141981764\", \"login\": \"twitchdev\", "
               "\"display_name\": \"TwitchDev\", \"email\": \"not-real@email.test\"}]}"}},
     .url = "https://id.twitch.tv",
     .id = "141981764",
     .username = "twitchdev",
     .name = "TwitchDev",
     .email = "not-real@email.test",
     .email_verified = true,
     .refresh = "5b93",
     .lasts_s = 14124,
     .groups = "[]"},
    {.provider = "amazon",
     .each = {{"https://api.amazon.com/auth/o2/token", WITH_VERIFIER, 200,
               "{\"access_token\": \"Atza|IQ\", \"token_type\": \"bearer\", \"expires_in\": 3600, "
               "\"refresh_token\": \"Atzr|IQ\"}"},
              {"https://api.amazon.com/user/profile", "Authorization: Bearer Atza|IQ", 200,
               "{\"user_id\": \"amzn1.account.K2\", \"email\": \"m@j.test\", \"name\": \"Mork\"}"}},
     .url = "https://www.amazon.com",
     .id = "amzn1.account.K2",
     .name = "Mork",
     .email = "m@j.test",
     .email_verified = true,
     .refresh = "Atzr|IQ",
     .lasts_s = 3600,
     .groups = "[]"},
};

static void same(const char *what, const char *got, const char *want)
{
    cr_assert(!got == !want && (!got || !strcmp(got, want)), "%s: %s, not %s", what,
              got ? got : "none", want ? want : "none");
}

Test(oauth, knows_the_person_from_what_each_provider_documents)
{
    for (size_t i = 0; i < LEN(sign_ins); i++) {
        const struct sign_in_case *c = &sign_ins[i];
        _cleanup_(free_mem) char *groups = NULL;
        _cleanup_(json_clear_ref) json_t *want = read_json(c->groups);
        talk_t talk = {0};
        const person_t *who = &talk.person;

        sign_in(&talk, c->provider, c->more ? c->more : "", OK_PARAMS, c->each);
        cr_assert_eq(talk.step, PROVIDER_DONE, "%s: %s", c->provider,
                     provider_oauth.why(talk.flow));
        same(c->provider, who->provider_name, c->provider);
        same(c->provider, who->provider_url, c->url);
        same(c->provider, who->id, c->id);
        same(c->provider, who->username, c->username);
        same(c->provider, who->name, c->name);
        same(c->provider, who->email, c->email);
        same(c->provider, who->refresh_token, c->refresh);
        cr_assert_eq(who->email_verified, c->email_verified, "%s", c->provider);
        cr_assert_eq(who->access_expires_s, c->lasts_s ? NOW_S + c->lasts_s : 0, "%s", c->provider);
        cr_assert(who->access_token && !who->id_token);
        groups = json_dumps(who->groups, 0);
        cr_assert(json_equal(who->groups, want), "%s: %s", c->provider, groups);
        end_talk(&talk);
    }
}

/* ---- callbacks ---- */

static const struct callback_case {
    const char *provider, *params;
    provider_step_t step;
} callbacks[] = {
    {"github", "{}", PROVIDER_INVALID},
    {"github", "{\"state\": [\"x\"]}", PROVIDER_INVALID},
    {"github", "{\"code\": [\"\"]}", PROVIDER_INVALID},
    {"github", "{\"code\": []}", PROVIDER_INVALID},
    {"github", "{\"code\": \"c\"}", PROVIDER_INVALID},
    {"github", "{\"code\": [1]}", PROVIDER_INVALID},
    {"github", "{\"code\": [null]}", PROVIDER_INVALID},
    {"github", "{\"code\": [\"a\", \"b\"]}", PROVIDER_INVALID},
    {"github", "{\"code\": [\"a\", \"a\"]}", PROVIDER_INVALID},
    {"github", "{\"code\": [\"a\"], \"state\": [\"x\", \"y\"]}", PROVIDER_INVALID},
    {"github", "{\"code\": [\"a\"], \"error\": [\"access_denied\"]}", PROVIDER_INVALID},
    {"github", "{\"error\": [\"access_denied\", \"access_denied\"]}", PROVIDER_INVALID},
    {"github", "{\"code\": [\"a\\nb\"]}", PROVIDER_INVALID},
    {"github", "{\"code\": [\"\\u00e9\"]}", PROVIDER_INVALID},
    {"github", "[]", PROVIDER_INVALID},
    {"github", "null", PROVIDER_INVALID},
    {"github", "{\"error\": [\"application_suspended\"]}", PROVIDER_INVALID},
    {"github", "{\"error\": [\"\"]}", PROVIDER_INVALID},
    {"google", "{\"code\": [\"a\"], \"iss\": [\"https://evil.test\"]}", PROVIDER_INVALID},
    {"google", "{\"error\": [\"access_denied\"], \"iss\": [\"https://evil.test\"]}",
     PROVIDER_INVALID},
    {"google", "{\"error\": [\"access_denied\"], \"iss\": [\"https://accounts.google.com\"]}",
     PROVIDER_DENIED},
    {"github", "{\"error\": [\"access_denied\"], \"error_description\": [\"a\", \"b\"]}",
     PROVIDER_DENIED},
    {"facebook", "{\"error\": [\"access_denied\"], \"error_reason\": [\"user_denied\"]}",
     PROVIDER_DENIED},
    {"microsoft", "{\"error\": [\"consent_required\"]}", PROVIDER_DENIED},
    {"microsoft", "{\"error\": [\"temporarily_unavailable\"]}", PROVIDER_UNAVAILABLE},
    {"google", "{\"error\": [\"access_denied\"]}", PROVIDER_DENIED},
    {"linkedin", "{\"error\": [\"user_cancelled_authorize\"]}", PROVIDER_DENIED},
    {"linkedin", "{\"error\": [\"user_cancelled_login\"]}", PROVIDER_DENIED},
    {"gitlab", "{\"error\": [\"access_denied\"]}", PROVIDER_DENIED},
    {"gitlab", "{\"error\": [\"server_error\"]}", PROVIDER_UNAVAILABLE},
    {"twitch", "{\"error\": [\"access_denied\"]}", PROVIDER_DENIED},
    {"amazon", "{\"error\": [\"access_denied\"]}", PROVIDER_DENIED},
    {"amazon", "{\"error\": [\"invalid_scope\"]}", PROVIDER_INVALID},
};

Test(oauth, refuses_callbacks_that_are_not_one_answer_before_anything_is_asked)
{
    for (size_t i = 0; i < LEN(callbacks); i++) {
        talk_t talk = {0};

        sign_in(&talk, callbacks[i].provider, "", callbacks[i].params, (const exchange_t[]){{0}});
        cr_assert_eq(talk.step, callbacks[i].step, "%s: %s", callbacks[i].params,
                     provider_oauth.why(talk.flow));
        cr_assert_neq(*provider_oauth.why(talk.flow), '\0');
        end_talk(&talk);
    }
}

/* ---- errors of a sign-in ---- */

#define TOKEN_OK "{\"access_token\": \"CANARY-a\", \"refresh_token\": \"CANARY-r\"}"

static const struct fault_case {
    const char *provider;
    exchange_t each[4];
    provider_step_t step;
} faults[] = {
    {"github",
     {{"https://github.com/*", NULL, 200, "{\"error\": \"bad_verification_code\"}"}},
     PROVIDER_INVALID},
    {"github",
     {{"https://github.com/*", NULL, 200, "error=bad_verification_code&error_description=x",
       .type = "application/x-www-form-urlencoded"}},
     PROVIDER_INVALID},
    {"github",
     {{"https://github.com/*", NULL, 200, "{\"error\": \"unverified_user_email\"}"}},
     PROVIDER_DENIED},
    {"github", {{"https://github.com/*", NULL, 0}}, PROVIDER_UNAVAILABLE},
    {"github", {{"https://github.com/*", NULL, 502, "<html>"}}, PROVIDER_UNAVAILABLE},
    {"github", {{"https://github.com/*", NULL, 200, "<html>"}}, PROVIDER_INVALID},
    {"github", {{"https://github.com/*", NULL, 200, ""}}, PROVIDER_INVALID},
    {"github",
     {{"https://github.com/*", NULL, 200, "a=1&a=2&access_token=x",
       .type = "application/x-www-form-urlencoded"}},
     PROVIDER_INVALID},
    {"github",
     {{"https://github.com/*", NULL, 200, "access_token=x%00y",
       .type = "application/x-www-form-urlencoded"}},
     PROVIDER_INVALID},
    {"github",
     {{"https://github.com/*", NULL, 200,
       "{\"access_token\": \"CANARY\", \"scope\": \"read:user,user:email\"}"}},
     PROVIDER_DENIED},
    {"github",
     {{"https://github.com/*", NULL, 200, "{\"access_token\": \"CANARY\", \"scope\": \"\"}"}},
     PROVIDER_DENIED},
    {"github",
     {{"https://github.com/*", NULL, 200, TOKEN_OK},
      {"https://api.github.com/user", NULL, 403, "{\"message\": \"API rate limit exceeded\"}"}},
     PROVIDER_UNAVAILABLE},
    {"github",
     {{"https://github.com/*", NULL, 200, TOKEN_OK},
      {"https://api.github.com/user", NULL, 403, "{}", .retry_after = "60"}},
     PROVIDER_UNAVAILABLE},
    {"github",
     {{"https://github.com/*", NULL, 200, TOKEN_OK},
      {"https://api.github.com/user", NULL, 200, "{\"id\": 1}"},
      {"https://api.github.com/user/emails", NULL, 403, "{\"message\": \"rate limit\"}"}},
     PROVIDER_UNAVAILABLE},
    {"github",
     {{"https://github.com/*", NULL, 200, TOKEN_OK},
      {"https://api.github.com/user", NULL, 200, "{\"id\": 1.0}"}},
     PROVIDER_INVALID},
    {"github",
     {{"https://github.com/*", NULL, 200, TOKEN_OK},
      {"https://api.github.com/user", NULL, 200, "{\"id\": 92233720368547758070}"}},
     PROVIDER_INVALID},
    {"facebook",
     {{"https://graph.*", NULL, 400,
       "{\"error\": {\"message\": \"CANARY\", \"type\": \"OAuthException\", \"code\": 100}}"}},
     PROVIDER_INVALID},
    {"facebook",
     {{"https://graph.*", NULL, 200, TOKEN_OK},
      {"https://graph.*", NULL, 200,
       "{\"data\": [{\"permission\": \"email\", \"status\": \"declined\"}, "
       "{\"permission\": \"public_profile\", \"status\": \"granted\"}]}"}},
     PROVIDER_DENIED},
    {"facebook",
     {{"https://graph.*", NULL, 400, "{\"error\": {\"code\": 4}}"}},
     PROVIDER_UNAVAILABLE},
    {"microsoft",
     {{"https://login.*", NULL, 400,
       "{\"error\": \"invalid_grant\", \"error_description\": \"AADSTS70008 CANARY\"}"}},
     PROVIDER_INVALID},
    {"microsoft",
     {{"https://login.*", NULL, 400, "{\"error\": \"interaction_required\"}"}},
     PROVIDER_DENIED},
    {"microsoft",
     {{"https://login.*", NULL, 200, "{\"access_token\": \"x\", \"scope\": \"profile openid\"}"}},
     PROVIDER_DENIED},
    {"google",
     {{"https://oauth2.*", NULL, 401, "{\"error\": \"invalid_client\"}"}},
     PROVIDER_INVALID},
    {"google",
     {{"https://oauth2.*", NULL, 200,
       "{\"access_token\": \"x\", \"scope\": \"https://www.googleapis.com/auth/userinfo.email\"}"}},
     PROVIDER_DENIED},
    {"google",
     {{"https://oauth2.*", NULL, 200, TOKEN_OK},
      {"https://openid*", NULL, 401, "{\"error\": \"invalid_token\"}"}},
     PROVIDER_DENIED},
    {"google",
     {{"https://oauth2.*", NULL, 200, TOKEN_OK}, {"https://openid*", NULL, 503, ""}},
     PROVIDER_UNAVAILABLE},
    {"linkedin",
     {{"https://www.linkedin.*", NULL, 401, "{\"error\": \"invalid_client\"}"}},
     PROVIDER_INVALID},
    {"linkedin",
     {{"https://www.linkedin.*", NULL, 200, TOKEN_OK},
      {"https://api.linkedin.*", NULL, 403, "{\"status\": 403}"}},
     PROVIDER_DENIED},
    {"gitlab",
     {{"https://gitlab.*", NULL, 400, "{\"error\": \"invalid_grant\"}"}},
     PROVIDER_INVALID},
    {"gitlab",
     {{"https://gitlab.*", NULL, 200, "{\"access_token\": \"x\", \"scope\": \"openid email\"}"}},
     PROVIDER_DENIED},
    {"gitlab",
     {{"https://gitlab.*", NULL, 200, TOKEN_OK},
      {"https://gitlab.*", NULL, 200, "{\"sub\": \"\"}"}},
     PROVIDER_INVALID},
    {"twitch",
     {{"https://id.*", NULL, 400,
       "{\"status\": 400, \"message\": \"Invalid authorization code\"}"}},
     PROVIDER_INVALID},
    {"twitch",
     {{"https://id.*", NULL, 200, "{\"access_token\": \"x\", \"scope\": []}"}},
     PROVIDER_DENIED},
    {"twitch",
     {{"https://id.*", NULL, 200, "{\"access_token\": \"x\", \"scope\": [1]}"}},
     PROVIDER_INVALID},
    {"twitch",
     {{"https://id.*", NULL, 200, TOKEN_OK}, {"https://api.twitch.*", NULL, 200, "{\"data\": []}"}},
     PROVIDER_INVALID},
    {"amazon", {{"https://api.*", NULL, 400, "{\"error\": \"invalid_grant\"}"}}, PROVIDER_INVALID},
    {"amazon", {{"https://api.*", NULL, 429, ""}}, PROVIDER_UNAVAILABLE},
    {"amazon",
     {{"https://api.*", NULL, 200, TOKEN_OK},
      {"https://api.*", NULL, 400, "{\"error\": \"invalid_token\"}"}},
     PROVIDER_DENIED},
    {"amazon",
     {{"https://api.*", NULL, 200, TOKEN_OK},
      {"https://api.*", NULL, 200, "{\"user_id\": \"a b\"}"}},
     PROVIDER_INVALID},
    /* tokens that are none */
    {"amazon", {{"https://api.*", NULL, 200, "{\"access_token\": \"\"}"}}, PROVIDER_INVALID},
    {"amazon", {{"https://api.*", NULL, 200, "{\"access_token\": 1}"}}, PROVIDER_INVALID},
    {"amazon",
     {{"https://api.*", NULL, 200, "{\"access_token\": \"a\\r\\nX: y\"}"}},
     PROVIDER_INVALID},
    {"amazon",
     {{"https://api.*", NULL, 200, "{\"access_token\": \"a\\u0000b\"}"}},
     PROVIDER_INVALID},
    {"amazon",
     {{"https://api.*", NULL, 200, "{\"access_token\": \"a\", \"access_token\": \"b\"}"}},
     PROVIDER_INVALID},
    {"amazon",
     {{"https://api.*", NULL, 200, "{\"access_token\": \"a\", \"token_type\": \"mac\"}"}},
     PROVIDER_INVALID},
    {"amazon",
     {{"https://api.*", NULL, 200, "{\"access_token\": \"a\", \"refresh_token\": \"a b\"}"}},
     PROVIDER_INVALID},
    {"amazon", {{"https://api.*", NULL, 200, "{\"access_token\": \"a\""}}, PROVIDER_INVALID},
    {"amazon", {{"https://api.*", NULL, 200, "[\"access_token\"]"}}, PROVIDER_INVALID},
    {"amazon", {{"https://api.*", NULL, 302, ""}}, PROVIDER_INVALID},
};

Test(oauth, tells_what_is_denied_broken_and_out_of_order_and_no_secret)
{
    for (size_t i = 0; i < LEN(faults); i++) {
        talk_t talk = {0};
        const char *why;

        sign_in(&talk, faults[i].provider, "", OK_PARAMS, faults[i].each);
        why = provider_oauth.why(talk.flow);
        cr_assert_eq(talk.step, faults[i].step, "%zu: %s: %s", i, faults[i].provider, why);
        cr_assert(*why && !strstr(why, "CANARY") && !strstr(why, "s3cr") && !strchr(why, '\n'),
                  "%s", why);
        end_talk(&talk);
    }
}

/* ---- checks later on ---- */

static const struct refresh_case {
    const char *provider, *url, *refresh;
    exchange_t each[4];
    provider_step_t step;
    const char *kept; /* refresh token afterwards */
} refreshes[] = {
    {"gitlab",
     "https://gitlab.com",
     "r1",
     {{"https://gitlab.com/oauth/token",
       "grant_type=refresh_token&client_id=app%261&client_secret=s3cr%3Dt&refresh_token=r1", 200,
       "{\"access_token\": \"a2\", \"refresh_token\": \"r2\", \"expires_in\": 7200}"},
      {"https://gitlab.com/oauth/userinfo", "Bearer a2", 200, "{\"sub\": \"42\"}"}},
     PROVIDER_DONE,
     "r2"},
    {"google",
     "https://accounts.google.com",
     "r/1",
     {{"https://oauth2.googleapis.com/token", "refresh_token=r%2F1", 200,
       "{\"access_token\": \"a2\"}"},
      {"https://openid*", "Bearer a2", 200, "{\"sub\": \"42\"}"}},
     PROVIDER_DONE,
     "r/1"},
    {"github",
     "https://github.com",
     NULL,
     {{"https://api.github.com/user", "Bearer old-access", 200, "{\"id\": 42}"},
      {"https://api.github.com/user/emails", NULL, 200, "[]"}},
     PROVIDER_DONE,
     NULL},
    {"github",
     "https://github.com",
     "ghr_1",
     {{"https://github.com/*", "refresh_token=ghr_1", 200, "{\"error\": \"bad_refresh_token\"}"}},
     PROVIDER_DENIED,
     NULL},
    {"github",
     "https://github.com",
     NULL,
     {{"https://api.github.com/user", NULL, 401, "{\"message\": \"Bad credentials\"}"}},
     PROVIDER_DENIED,
     NULL},
    {"github",
     "https://github.com",
     NULL,
     {{"https://api.github.com/user", NULL, 200, "{\"id\": 43}"}},
     PROVIDER_DENIED,
     NULL},
    {"facebook",
     "https://www.facebook.com/v26.0",
     NULL,
     {{"https://graph.*", "Bearer old-access", 400,
       "{\"error\": {\"type\": \"OAuthException\", \"code\": 190, \"error_subcode\": 460}}"}},
     PROVIDER_DENIED,
     NULL},
    {"facebook",
     "https://www.facebook.com/v26.0",
     NULL,
     {{"https://graph.facebook.com/v26.0/me?fields=*", NULL, 200, "{\"id\": \"42\"}"}},
     PROVIDER_DONE,
     NULL},
    {"facebook",
     "https://www.facebook.com/v26.0",
     NULL,
     {{"https://graph.*", NULL, 400, "{\"error\": {\"code\": 2}}"}},
     PROVIDER_UNAVAILABLE,
     NULL},
    {"microsoft",
     "https://login.microsoftonline.com/common",
     "m1",
     {{"https://login.*", NULL, 400, "{\"error\": \"invalid_grant\"}"}},
     PROVIDER_DENIED,
     NULL},
    {"microsoft",
     "https://login.microsoftonline.com/common",
     "m1",
     {{"https://login.*", NULL, 401, "{\"error\": \"invalid_client\"}"}},
     PROVIDER_INVALID,
     NULL},
    {"twitch",
     "https://id.twitch.tv",
     "t1",
     {{"https://id.*", NULL, 400,
       "{\"error\": \"Bad Request\", \"status\": 400, \"message\": \"Invalid refresh token\"}"}},
     PROVIDER_DENIED,
     NULL},
    {"twitch",
     "https://id.twitch.tv",
     "t1",
     {{"https://id.*", NULL, 500, ""}},
     PROVIDER_UNAVAILABLE,
     NULL},
    {"amazon",
     "https://www.amazon.com",
     "Atzr|1",
     {{"https://api.*", "refresh_token=Atzr%7C1", 400, "{\"error\": \"invalid_grant\"}"}},
     PROVIDER_DENIED,
     NULL},
    {"linkedin",
     "https://www.linkedin.com",
     NULL,
     {{"https://api.linkedin.*", NULL, 401, "{}"}},
     PROVIDER_DENIED,
     NULL},
    {"linkedin",
     "https://www.linkedin.com",
     "l1",
     {{"https://www.linkedin.*", NULL, 400,
       "{\"error\": \"invalid_request\", \"error_description\": \"The provided authorization grant "
       "or refresh token is invalid, expired or revoked\"}"}},
     PROVIDER_DENIED,
     NULL},
    {"linkedin",
     "https://www.linkedin.com",
     "l1",
     {{"https://www.linkedin.*", NULL, 400, "{\"error\": \"invalid_request\"}"}},
     PROVIDER_INVALID,
     NULL},
    {"twitch",
     "https://id.twitch.tv",
     "t1",
     {{"https://id.*", NULL, 400,
       "{\"error\": \"Bad Request\", \"status\": 400, \"message\": \"invalid client secret\"}"}},
     PROVIDER_INVALID,
     NULL},
    {"linkedin",
     "https://www.linkedin.com",
     "l1",
     {{"https://www.linkedin.*", NULL, 401, "{\"error\": \"invalid_client\"}"}},
     PROVIDER_INVALID,
     NULL},
    {"google",
     "https://accounts.google.com",
     "r1",
     {{"https://oauth2.*", NULL, 0}},
     PROVIDER_UNAVAILABLE,
     NULL},
    /* the route's provider is another one now, or somewhere else: it never sees this token */
    {"google", "https://github.com", "r1", {{0}}, PROVIDER_DENIED, NULL},
    {"gitlab", "https://gitlab.example.test", "r1", {{0}}, PROVIDER_DENIED, NULL},
};

Test(oauth, asks_again_with_what_it_has_and_knows_what_is_revoked_from_what_is_down)
{
    for (size_t i = 0; i < LEN(refreshes); i++) {
        const struct refresh_case *c = &refreshes[i];
        talk_t talk = {0};

        check_again(&talk, c->provider, c->url, c->refresh, c->each);
        cr_assert_eq(talk.step, c->step, "%zu: %s: %s", i, c->provider,
                     provider_oauth.why(talk.flow));
        if (talk.step == PROVIDER_DONE) {
            same(c->provider, talk.person.refresh_token, c->kept);
            same(c->provider, talk.person.id, "42");
        }
        end_talk(&talk);
    }
}

Test(oauth, hands_on_a_rotated_token_whatever_comes_behind_it)
{
#define ROTATED                                                                                    \
    {                                                                                              \
        "https://gitlab.com/oauth/token", NULL, 200,                                               \
            "{\"access_token\": \"a2\", \"refresh_token\": \"r2\", \"expires_in\": 7200}"          \
    }
    static const struct {
        exchange_t each[3];
        provider_step_t step;
        const char *refresh, *access;
    } cases[] = {
        {{ROTATED, {"https://gitlab.com/oauth/userinfo", NULL, 503, "{}"}},
         PROVIDER_UNAVAILABLE,
         "r2",
         "a2"},
        {{ROTATED, {"https://gitlab.com/oauth/userinfo", NULL, 200, "[]"}},
         PROVIDER_INVALID,
         "r2",
         "a2"},
        {{ROTATED, {"https://gitlab.com/oauth/userinfo", NULL, 0}},
         PROVIDER_UNAVAILABLE,
         "r2",
         "a2"},
        {{{"https://gitlab.com/oauth/token", NULL, 200, "{\"refresh_token\": \"r2\"}"}},
         PROVIDER_INVALID,
         "r2",
         "old-access"},
        {{{"https://gitlab.com/oauth/token", NULL, 503, "{}"}}, PROVIDER_UNAVAILABLE, NULL, NULL},
    };

    for (size_t i = 0; i < LEN(cases); i++) {
        _cleanup_(person_done) person_t tokens = {0};
        talk_t talk = {0};

        check_again(&talk, "gitlab", "https://gitlab.com", "r1", cases[i].each);
        cr_assert_eq(talk.step, cases[i].step, "%zu: %s", i, provider_oauth.why(talk.flow));
        cr_assert_eq(provider_oauth.tokens(talk.flow, &tokens), cases[i].refresh != NULL, "%zu", i);
        same("gitlab", tokens.refresh_token, cases[i].refresh);
        same("gitlab", tokens.access_token, cases[i].access);
        end_talk(&talk);
    }
}

Test(oauth, exchanges_a_short_token_of_facebook_where_the_user_is_checked_again)
{
    _cleanup_(json_clear_ref) json_t *config = document("facebook", "", 3600);
    _cleanup_(json_clear_ref) json_t *params = read_json(OK_PARAMS);
    provider_ask_t ask = sign_in_ask(config, params);
    talk_t talk = {0};

    converse(
        &talk, PROVIDER_CALLBACK, &ask,
        (const exchange_t[]){
            {"https://graph.facebook.com/v26.0/oauth/access_token", "code=", 200,
             "{\"access_token\": \"short\", \"expires_in\": 3600}"},
            {"https://graph.facebook.com/v26.0/oauth/access_token", "grant_type=fb_exchange_token",
             200, "{\"access_token\": \"long\", \"expires_in\": 5183944}"},
            {"https://graph.facebook.com/v26.0/me/permissions*", "Bearer long", 200,
             "{\"data\": [{\"permission\": \"email\", \"status\": \"granted\"}, "
             "{\"permission\": \"public_profile\", \"status\": \"granted\"}]}"},
            {"https://graph.facebook.com/v26.0/me?*", "Bearer long", 200, "{\"id\": \"7\"}"},
            {0}});
    cr_assert_eq(talk.step, PROVIDER_DONE);
    cr_assert_str_eq(talk.person.access_token, "long");
    cr_assert_null(talk.person.email);
    end_talk(&talk);
}

/* ---- documents ---- */

static const char *const bad_documents[] = {
    "{}",
    "{\"provider\": {}}",
    "{\"provider\": []}",
    "{\"provider\": {\"github\": null}}",
    "{\"provider\": {\"github\": {}}}",
    "{\"provider\": {\"github\": {\"client_id\": \"a\"}}}",
    "{\"provider\": {\"github\": {\"client_secret\": \"a\"}}}",
    "{\"provider\": {\"twitch\": {\"client_id\": \"a\\r\\nX: y\", \"client_secret\": \"b\"}}}",
    "{\"provider\": {\"twitch\": {\"client_id\": \"\\u00e9\", \"client_secret\": \"b\"}}}",
    "{\"provider\": {\"unknown\": {\"client_id\": \"a\", \"client_secret\": \"b\"}}}",
    "{\"provider\": {\"github\": {\"client_id\": \"a\", \"client_secret\": \"b\"}, \"google\": "
    "{}}}",
    "{\"provider\": {\"github\": {\"client_id\": \"a\", \"client_secret\": \"b\", "
    "\"scopes\": [\"a b\"]}}}",
    "{\"provider\": {\"github\": {\"client_id\": \"a\", \"client_secret\": \"b\", "
    "\"scopes\": [\"a\\\"\"]}}}",
    "{\"provider\": {\"github\": {\"client_id\": \"a\", \"client_secret\": \"b\", \"scopes\": "
    "{}}}}",
};

Test(oauth, refuses_documents_that_no_sign_in_can_begin_with)
{
    for (size_t i = 0; i < LEN(bad_documents); i++) {
        _cleanup_(json_clear_ref) json_t *config = read_json(bad_documents[i]);
        provider_ask_t ask = sign_in_ask(config, NULL);
        talk_t talk = {0};

        converse(&talk, PROVIDER_BEGIN, &ask, (const exchange_t[]){{0}});
        cr_assert_eq(talk.step, PROVIDER_INVALID, "%s", bad_documents[i]);
        end_talk(&talk);
    }
}
