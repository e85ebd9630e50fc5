/* Sign-ins before anybody has proved who he is: what the browser carries is ours, fresh, of this
 * browser and route, and leads nowhere else. */
#include "common/base/cleanup.h"
#include "common/base/err.h"
#include "services/identity/person.h"
#include "services/identity/sign_in_state.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { NOW = 1800000000 };

#define ROUTE "edghtsrt_000000000000000000000000001"
#define OTHER "edghtsrt_000000000000000000000000002"
#define NONCE "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQ"

static secret_key_t *a_key(void)
{
    char folder[] = "/tmp/postern-sign-in-XXXXXX", file[64];
    secret_key_t *key;

    cr_assert(mkdtemp(folder));
    snprintf(file, sizeof(file), "%s/key", folder);
    cr_assert_eq(secret_key_load(&key, file), 0);
    unlink(file);
    rmdir(folder);
    return key;
}

static ticket_t a_ticket(void)
{
    ticket_t ticket = {.route = ROUTE,
                       .host = "app.example.test:8443",
                       .target = "/deep/link?q=1",
                       .expires_s = NOW + STATE_SECONDS};

    words_hex(NONCE, ticket.nonce_hash);
    return ticket;
}

static flow_t a_flow(void)
{
    flow_t flow = {.ticket = a_ticket()};

    words_state(flow.state);
    words_token(flow.verifier);
    words_token(flow.nonce);
    return flow;
}

/* ---- words ---- */

Test(sign_in, after_it_a_browser_goes_to_a_path_of_the_same_host_only)
{
    static const char *const refused[] = {
        "",
        "x",
        "evil.test",
        "//evil.test",
        "///evil.test",
        "////evil.test",
        "/\\evil.test",
        "\\/evil.test",
        "\\\\evil.test",
        "/path\\..\\x",
        "https://evil.test/",
        "http:evil.test",
        "https:/evil.test",
        "javascript:alert(1)",
        " /x",
        "\t//evil.test",
        "/\t/evil.test",
        "/\n/evil.test",
        "/\r/evil.test",
        "/x\r\nSet-Cookie: a=b",
        "/ /evil.test",
        "/x y",
        "/\x7f",
        "/\x01",
        "/\xc3\xa4",
        "/\xe2\x80\xae",
        "user@evil.test",
        "@evil.test",
        "/.//evil.test",
        "/./x",
        "/../x",
        "/..",
        "/.",
        "/x/..//evil.test",
        "/%2e//evil.test",
        "/%2E%2E/x",
        "/.%2e//evil.test",
        "/%2e%2e",
        "/x/%2e?y",
        "/..#x",
        "/auth/logout",
        "/AUTH/logout",
        "/auth/authn?to=/",
        "/%61uth/logout",
        "/%41UTH/logout",
        "/auth%2Flogout",
        "/auth//logout",
        "/%2fauth/logout",
        "/%2f%2fauth%2f",
        "/x%2f..%2fauth/logout",
        "/x/..%2f/evil.test",
        "/x%00y",
        "#/x",
        "?x",
    };
    static const char *const kept[] = {
        "/",
        "/x",
        "/x//y",
        "/x?to=//evil.test",
        "/x?u=https://evil.test/",
        "/%2f/evil.test",
        "/%5cevil.test",
        "/@evil.test",
        "/:80/x",
        "/x?a=../b",
        "/...",
        "/.x",
        "/x..",
        "/a/..b/c",
        "/x#/../y",
        "/author",
        "/auth",
        "/%61uthor/x",
        "/x/auth/logout",
        "/%2561uth/logout",
        "/a%2Fb",
        "/x?to=/%61uth/logout&u=%00",
        "/%",
        "/%6",
        "/%6g/",
        "/x;y=1&z",
        "/%C3%A4",
    };
    char longest[WORDS_TARGET_MAX + 2];

    cr_assert_str_eq(words_target(NULL), "/");
    for (size_t i = 0; i < LEN(refused); i++)
        cr_assert_str_eq(words_target(refused[i]), "/", "%s", refused[i]);
    for (size_t i = 0; i < LEN(kept); i++)
        cr_assert_str_eq(words_target(kept[i]), kept[i], "%s", kept[i]);
    memset(longest, 'a', sizeof(longest));
    longest[0] = '/';
    longest[WORDS_TARGET_MAX + 1] = '\0';
    cr_assert_str_eq(words_target(longest), "/");
    longest[WORDS_TARGET_MAX] = '\0';
    cr_assert_eq(words_target(longest), longest);
}

Test(sign_in, a_host_is_a_name_with_or_without_a_port)
{
    static const char *const good[] = {"app.example.test", "a",       "a:1", "a.b:65535",
                                       "10.0.0.1:8443",    "a_b.test"};
    static const char *const bad[] = {"",       ":443",  "a:",  "a:123456", "a:x",  "a:1x",
                                      "A.test", "a/b",   "a@b", "a b",      "a\n",  "a?b",
                                      ".a",     "a:1:2", "a#b", "[::1]",    "a\\b", "a%2f"};
    char longest[WORDS_HOST_MAX + 2];

    for (size_t i = 0; i < LEN(good); i++)
        cr_assert(words_is_host(good[i]), "%s", good[i]);
    for (size_t i = 0; i < LEN(bad); i++)
        cr_assert_not(words_is_host(bad[i]), "%s", bad[i]);
    cr_assert_not(words_is_host(NULL));
    memset(longest, 'a', sizeof(longest));
    longest[WORDS_HOST_MAX + 1] = '\0';
    cr_assert_not(words_is_host(longest));
}

Test(sign_in, a_state_names_a_route_and_a_flow)
{
    char route[ID_MAX], state[WORDS_STATE_LEN + 1];
    static const char *const bad[] = {
        "",
        ".",
        ROUTE,
        ROUTE ".",
        ROUTE ".short",
        ROUTE ".abcdefghijklmnopqrstuvw",
        ROUTE ".abcdefghijklmnopqrst=v",
        "x" ROUTE ".abcdefghijklmnopqrstuv",
        ".abcdefghijklmnopqrstuv",
        ROUTE "..abcdefghijklmnopqrstu",
        "app_user_000000000000000000000000001.abcdefghijklmnopqrstuv",
        "edghtsrt_00000000000000000000000000000000000000000000000000000000000001."
        "abcdefghijklmnopqrstuv"};

    cr_assert(words_split_state(ROUTE ".abcdefghijklmnopqrst-_", route, state));
    cr_assert_str_eq(route, ROUTE);
    cr_assert_str_eq(state, "abcdefghijklmnopqrst-_");
    for (size_t i = 0; i < LEN(bad); i++)
        cr_assert_not(words_split_state(bad[i], route, state), "%s", bad[i]);
    cr_assert_not(words_split_state(NULL, route, state));
}

Test(sign_in, what_is_random_has_its_shape_and_differs)
{
    char one[WORDS_TOKEN_LEN + 1], other[WORDS_TOKEN_LEN + 1], state[WORDS_STATE_LEN + 1];

    words_token(one);
    words_token(other);
    words_state(state);
    cr_assert(words_is_token(one, WORDS_TOKEN_LEN));
    cr_assert(words_is_token(state, WORDS_STATE_LEN));
    cr_assert_str_neq(one, other);
    cr_assert_not(words_is_token(one, WORDS_TOKEN_LEN - 1));
    cr_assert_not(words_is_token(state, WORDS_TOKEN_LEN));
    cr_assert_not(words_is_token(NULL, 0));
}

Test(sign_in, parameters_of_a_callback_are_bounded)
{
    _cleanup_(json_clear_ref) json_t *good = json_loads("{\"code\": [\"x\"], \"s\": []}", 0, NULL);
    _cleanup_(json_clear_ref) json_t *text = json_loads("{\"code\": \"x\"}", 0, NULL);
    _cleanup_(json_clear_ref) json_t *number = json_loads("{\"code\": [1]}", 0, NULL);
    _cleanup_(json_clear_ref) json_t *nul =
        json_loads("{\"code\": [\"a\\u0000b\"]}", JSON_ALLOW_NUL, NULL);
    _cleanup_(json_clear_ref) json_t *large = json_object();
    static char value[WORDS_PARAMS_MAX + 1];

    memset(value, 'a', sizeof(value) - 1);
    json_object_set_new(large, "code", json_pack("[s]", value));
    cr_assert(words_are_params(good, WORDS_PARAMS_MAX));
    cr_assert_not(words_are_params(text, WORDS_PARAMS_MAX));
    cr_assert_not(words_are_params(number, WORDS_PARAMS_MAX));
    cr_assert_not(words_are_params(nul, WORDS_PARAMS_MAX));
    cr_assert_not(words_are_params(large, WORDS_PARAMS_MAX));
    cr_assert_not(words_are_params(NULL, WORDS_PARAMS_MAX));
}

Test(sign_in, a_user_agent_is_cut_between_characters)
{
    char text[WORDS_AGENT_MAX + 3];
    _cleanup_(json_clear_ref) json_t *cut = NULL;
    _cleanup_(json_clear_ref) json_t *none = words_agent(NULL);

    memset(text, 'a', sizeof(text));
    strcpy(text + WORDS_AGENT_MAX - 1, "\xc3\xa4");
    cut = words_agent(text);
    cr_assert_eq(json_string_length(cut), WORDS_AGENT_MAX - 1);
    cr_assert_str_eq(json_string_value(none), "");
}

/* ---- what is sealed ---- */

Test(sign_in, a_ticket_comes_back_as_it_was_until_it_is_too_late)
{
    _cleanup_(secret_key_destroy) secret_key_t *key = a_key();
    ticket_t ticket = a_ticket(), back;
    _cleanup_(free_mem) char *sealed = ticket_seal(key, &ticket);

    cr_assert_eq(ticket_open(key, sealed, NOW, &back), 0);
    cr_assert_str_eq(back.route, ROUTE);
    cr_assert_str_eq(back.host, "app.example.test:8443");
    cr_assert_str_eq(back.target, "/deep/link?q=1");
    cr_assert_str_eq(back.nonce_hash, ticket.nonce_hash);
    cr_assert_not(back.force);
    cr_assert_eq(ticket_open(key, sealed, NOW + STATE_SECONDS - 1, &back), 0);
    cr_assert_eq(ticket_open(key, sealed, NOW + STATE_SECONDS, &back), ERR_SIGN_IN_STATE);
    cr_assert_eq(ticket_open(key, NULL, NOW, &back), ERR_SIGN_IN_STATE);
    cr_assert_eq(ticket_open(key, "", NOW, &back), ERR_SIGN_IN_STATE);
}

/* CVE-2026-47775, CVE-2023-37464: any bit that differs, and any length, is refused alike. */
Test(sign_in, class_sealed_state_tampered_cve_2026_47775)
{
    _cleanup_(secret_key_destroy) secret_key_t *key = a_key();
    ticket_t ticket = a_ticket(), back;
    _cleanup_(free_mem) char *sealed = ticket_seal(key, &ticket);
    size_t len = strlen(sealed);

    for (size_t i = 0; i < len; i++) {
        char was = sealed[i];

        sealed[i] = was == 'A' ? 'B' : 'A';
        cr_assert_eq(ticket_open(key, sealed, NOW, &back), ERR_SIGN_IN_STATE, "byte %zu", i);
        sealed[i] = was;
    }
    for (size_t i = 0; i < len; i++) {
        char was = sealed[i];

        sealed[i] = '\0';
        cr_assert_eq(ticket_open(key, sealed, NOW, &back), ERR_SIGN_IN_STATE, "%zu bytes", i);
        sealed[i] = was;
    }
    cr_assert_eq(ticket_open(key, sealed, NOW, &back), 0);
}

/* CVE-2023-35941: what stands in one field is never read as another's. */
Test(sign_in, class_sealed_state_fields_cve_2023_35941)
{
    _cleanup_(secret_key_destroy) secret_key_t *key = a_key();
    ticket_t ticket = a_ticket(), back;
    _cleanup_(free_mem) char *sealed = NULL;

    strcpy(ticket.host, "app.example.test");
    strcpy(ticket.target, "/\",\"h\":\"evil.test\",\"t\":\"/x");
    sealed = ticket_seal(key, &ticket);
    cr_assert_eq(ticket_open(key, sealed, NOW, &back), 0);
    cr_assert_str_eq(back.host, "app.example.test");
    cr_assert_str_eq(back.target, ticket.target);
}

Test(sign_in, what_is_sealed_for_one_purpose_or_key_opens_for_no_other)
{
    _cleanup_(secret_key_destroy) secret_key_t *key = a_key();
    _cleanup_(secret_key_destroy) secret_key_t *other = a_key();
    ticket_t ticket = a_ticket(), back;
    flow_t flow = a_flow(), opened;
    _cleanup_(free_mem) char *sealed = ticket_seal(key, &ticket);
    _cleanup_(free_mem) char *plain = secret_seal(key, "{}", 2);
    _cleanup_(free_mem) char *cookie = flow_seal(key, &flow);

    cr_assert_eq(ticket_open(other, sealed, NOW, &back), ERR_SIGN_IN_STATE);
    cr_assert_eq(ticket_open(key, cookie, NOW, &back), ERR_SIGN_IN_STATE);
    cr_assert_eq(ticket_open(key, plain, NOW, &back), ERR_SIGN_IN_STATE);
    cr_assert_eq(flow_open(key, sealed, NOW, ROUTE, flow.state, &opened), ERR_SIGN_IN_STATE);
    cr_assert_eq(flow_open(other, cookie, NOW, ROUTE, flow.state, &opened), ERR_SIGN_IN_STATE);
    cr_assert_eq(flow_open(key, NULL, NOW, ROUTE, flow.state, &opened), ERR_SIGN_IN_STATE);
}

Test(sign_in, a_flow_is_opened_by_its_own_state_and_route_until_it_is_too_late)
{
    _cleanup_(secret_key_destroy) secret_key_t *key = a_key();
    flow_t flow = a_flow(), other = a_flow(), opened;
    _cleanup_(free_mem) char *cookie = flow_seal(key, &flow);

    cr_assert_eq(flow_open(key, cookie, NOW, OTHER, flow.state, &opened), ERR_SIGN_IN_STATE,
                 "another route's");
    cr_assert_eq(flow_open(key, cookie, NOW, ROUTE, other.state, &opened), ERR_SIGN_IN_STATE,
                 "another flow's");
    cr_assert_eq(flow_open(key, cookie, NOW, ROUTE, flow.state, &opened), 0);
    cr_assert_str_eq(opened.verifier, flow.verifier);
    cr_assert_str_eq(opened.nonce, flow.nonce);
    cr_assert_str_eq(opened.ticket.host, flow.ticket.host);
    cr_assert_eq(flow_open(key, cookie, NOW + STATE_SECONDS - 1, ROUTE, flow.state, &opened), 0);
    cr_assert_eq(flow_open(key, cookie, NOW + STATE_SECONDS, ROUTE, flow.state, &opened),
                 ERR_SIGN_IN_STATE);
}

Test(sign_in, a_cookie_has_room_for_the_longest_target_and_host)
{
    _cleanup_(secret_key_destroy) secret_key_t *key = a_key();
    flow_t flow = a_flow(), opened;
    _cleanup_(free_mem) char *cookie = NULL;

    memset(flow.ticket.target, 'a', WORDS_TARGET_MAX);
    memset(flow.ticket.host, 'h', WORDS_HOST_MAX);
    cookie = flow_seal(key, &flow);
    cr_assert_leq(strlen(cookie), STATE_COOKIE_MAX);
    cr_assert_eq(flow_open(key, cookie, NOW, ROUTE, flow.state, &opened), 0);
    cr_assert_eq(strlen(opened.ticket.host), WORDS_HOST_MAX);
    cr_assert_eq(strlen(opened.ticket.target), WORDS_TARGET_MAX);
}

Test(sign_in, a_target_that_grows_when_it_is_written_becomes_the_root)
{
    _cleanup_(secret_key_destroy) secret_key_t *key = a_key();
    flow_t flow = a_flow(), opened;
    _cleanup_(free_mem) char *cookie = NULL;

    memset(flow.ticket.target, '"', WORDS_TARGET_MAX);
    cookie = flow_seal(key, &flow);
    cr_assert_leq(strlen(cookie), STATE_COOKIE_MAX);
    cr_assert_eq(flow_open(key, cookie, NOW, ROUTE, flow.state, &opened), 0);
    cr_assert_str_eq(opened.ticket.target, "/");
}

/* ---- persons ---- */

Test(sign_in, a_person_is_carried_whole_and_a_refresh_keeps_what_it_does_not_say)
{
    person_t person = {.provider_name = strdup("oidc"),
                       .provider_url = strdup("https://issuer.test"),
                       .id = strdup("1234"),
                       .email = strdup("ada@example.test"),
                       .email_verified = true,
                       .groups = json_pack("[s]", "staff"),
                       .refresh_token = strdup("old refresh"),
                       .access_token = strdup("old access"),
                       .access_expires_s = 5};
    _cleanup_(json_clear_ref) json_t *value = person_json(&person);
    _cleanup_(json_clear_ref) json_t *tokens = person_tokens(&person);
    person_t back, now = {.access_token = strdup("new access"), .access_expires_s = 9};

    cr_assert(person_read(&back, value));
    cr_assert_str_eq(back.id, "1234");
    cr_assert_null(back.name);
    cr_assert(back.email_verified);
    cr_assert_str_eq(json_string_value(json_array_get(back.groups, 0)), "staff");
    cr_assert_null(json_object_get(tokens, "email"));
    person_add_tokens(&now, tokens);
    cr_assert_str_eq(now.refresh_token, "old refresh");
    cr_assert_str_eq(now.access_token, "new access");
    cr_assert_eq(now.access_expires_s, 9);
    cr_assert_null(now.email);
    json_object_del(value, "id");
    person_done(&back);
    cr_assert_not(person_read(&back, value), "nobody");
    person_done(&back);
    person_done(&now);
    person_done(&person);
    cr_assert_null(person.id);
}

/* ---- when a provider can have vouched ---- */

Test(sign_in, what_a_provider_says_is_as_old_as_it_can_be)
{
    const int64_t now = 1000 * (int64_t)NOW;
    const struct {
        const char *what;
        int64_t vouched, asked, came, proven;
    } cases[] = {
        {"it does not say, as of OAuth", 0, now - 5000, now, now},
        {"nobody asked for it: its clock may be ahead", now - 300000, 0, now, now - 360000},
        {"a clock that is ahead", now + 60000, 0, now, now},
        {"it was asked before", now - 1000, now - 30000, now, now - 30000},
        {"and long before", now - 1000, now - 600000, now, now - 61000},
        {"a clock that is behind, and it was asked just now", now - 55000, now - 10, now, now - 10},
        {"a clock of ours that went back meanwhile", now, now + 5000, now, now},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        cr_assert_eq(person_proven_ms(&(person_t){.vouched_ms = cases[i].vouched}, cases[i].asked,
                                      cases[i].came),
                     cases[i].proven, "%s", cases[i].what);
}
