/* Where a session counts: at the module that it was made by, under the name that its cookie has, at
 * the host where it was set. */
#include "common/base/cleanup.h"
#include "services/identity/session.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static sealed_t a_module(json_t *config)
{
    return (sealed_t){
        .route = "r", .account = "a", .edge = "e", .module = "oidc", .config = config};
}

static session_t a_session(const char *place)
{
    session_t self = {.account = "a", .edge = "e", .route = "r"};

    snprintf(self.place, sizeof(self.place), "%s", place);
    return self;
}

Test(session_place, says_behind_what_the_cookie_was_set)
{
    static const struct {
        const char *config, *place;
    } cases[] = {
        {"{\"made_id\": \"m1\", \"cookie_prefix\": \"abc.\"}", "r oidc m1 abc. x.test"},
        {"{\"made_id\": \"m1\", \"cookie_prefix\": \"\"}", "r oidc m1 postern. x.test"},
        {"{\"made_id\": \"m1\"}", "r oidc m1 postern. x.test"},
        {"{\"cookie_prefix\": \"abc.\"}", "r oidc  abc. x.test"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        _cleanup_(json_clear_ref) json_t *config = json_loads(cases[i].config, 0, NULL);
        sealed_t sealed = a_module(config);
        session_t session;
        char place[SESSION_PLACE_SIZE];

        session_place(&sealed, "x.test", place);
        cr_assert_str_eq(place, cases[i].place);
        session = a_session(place);
        cr_assert(session_is_of_module(&session, &sealed));
    }
}

Test(session_place, another_prefix_or_module_has_none_of_it)
{
    static const struct {
        const char *place;
        bool mine;
    } cases[] = {
        {"r oidc m1 abc. x.test", true},
        {"r oidc m1 abc. ", true},
        {"r oidc m1  x.test", true}, /* of a version that did not note the prefix */
        {"r oidc m1", true},
        {"r oidc m1 Abc. x.test", false},
        {"r oidc m1 abc x.test", false},
        {"r oidc m1 abc.x x.test", false},
        {"r oidc m1 postern. x.test", false},
        {"r oidc m1 postern.", false},
        {"r oidc m12", false},
        {"r oidc m12 abc.", false},
        {"r oidc m", false},
        {"r oidc  abc.", false},
        {"r oidc ", false},
        {"r saml m1 abc.", false},
        {"s oidc m1 abc.", false},
        {"", false},
    };
    _cleanup_(json_clear_ref) json_t *config =
        json_loads("{\"made_id\": \"m1\", \"cookie_prefix\": \"abc.\"}", 0, NULL);
    sealed_t sealed = a_module(config);

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        session_t session = a_session(cases[i].place);

        cr_assert_eq(session_is_of_module(&session, &sealed), cases[i].mine, "'%s'",
                     cases[i].place);
    }
}

Test(session_place, the_longest_there_is_has_room)
{
    char prefix[65], made[33], host[254], place[SESSION_PLACE_SIZE];
    _cleanup_(json_clear_ref) json_t *config = NULL;
    sealed_t sealed;
    size_t len;

    memset(prefix, 'p', 64);
    prefix[64] = '\0';
    memset(made, 'm', 32);
    made[32] = '\0';
    memset(host, 'h', 253);
    host[253] = '\0';
    config = json_pack("{s:s, s:s}", "made_id", made, "cookie_prefix", prefix);
    sealed = a_module(config);
    sealed.route = "edghtsrt_012345678901234567890123456";
    session_place(&sealed, host, place);
    len = strlen(place);
    cr_assert_gt(len, 253);
    cr_assert_str_eq(place + len - 253, host);
}

Test(session_place, a_host_is_a_name_without_port)
{
    static const struct {
        const char *host, *name;
    } cases[] = {
        {"x.test", "x.test"},
        {"x.test:8443", "x.test"},
        {"https://x.test", "x.test"},
        {"https://x.test:8443", "x.test"},
        {"https://x.test/path", "x.test"},
        {"x.test y", "x.test"}, /* a place has words */
        {"", ""},
        {":1", ""},
        {"https://", ""},
        {NULL, ""},
    };
    char long_one[300], name[SESSION_HOST_SIZE];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        session_host(cases[i].host, name);
        cr_assert_str_eq(name, cases[i].name);
    }
    memset(long_one, 'h', sizeof(long_one));
    long_one[SESSION_HOST_SIZE - 1] = '\0';
    session_host(long_one, name);
    cr_assert_str_eq(name, long_one);
    long_one[SESSION_HOST_SIZE - 1] = 'h';
    long_one[SESSION_HOST_SIZE] = '\0';
    session_host(long_one, name);
    cr_assert_str_eq(name, "");
}

/* Whatever an edge says: it is bounded, and one word of a place. */
Test(session_place, what_is_no_host_is_not_the_one_where_a_session_was_made)
{
    static const char *const bad[] = {
        " x.test",      "/x.test",
        ":x.test",      "http://x.test",
        "https:x.test", "https://https://x.test",
        "\n",           "x.test\n",
        "\xff\xfe",     "x.test.",
        "X.TEST",       "[::1]",
        "%78.test",     "x.test\t",
    };
    size_t sizes[] = {SESSION_HOST_SIZE, SESSION_HOST_SIZE + 1, 4096, 1 << 20};
    session_t session = {.host = "x.test"};
    char name[SESSION_HOST_SIZE];

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cr_assert_not(session_is_at_its_host(&session, bad[i]), "'%s'", bad[i]);
        session_host(bad[i], name);
        cr_assert_null(strpbrk(name, ":/ "), "'%s'", bad[i]);
    }
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        char *text = malloc(sizes[i] + 1);

        memset(text, 'x', sizes[i]);
        text[sizes[i]] = '\0';
        session_host(text, name);
        cr_assert_str_eq(name, "");
        cr_assert_not(session_is_at_its_host(&session, text));
        if (sizes[i] > SESSION_HOST_SIZE)
            memcpy(text, "https://x.test:", strlen("https://x.test:"));
        session_host(text, name);
        cr_assert_str_eq(name, sizes[i] > SESSION_HOST_SIZE ? "x.test" : "");
        free(text);
    }
}

Test(session_place, a_session_is_none_at_another_host)
{
    static const struct {
        const char *made_at, *shown_at;
        bool counts;
    } cases[] = {
        {"x.test", "x.test", true},    {"x.test", "x.test:8443", true}, {"x.test", "y.test", false},
        {"x.test", "a.x.test", false}, {"x.test", "x.tes", false},      {"x.test", "", false},
        {"x.test", NULL, true}, /* an edge of a version before */
        {"", "x.test", true},   /* where it was made is not known */
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        session_t session = {0};

        snprintf(session.host, sizeof(session.host), "%s", cases[i].made_at);
        cr_assert_eq(session_is_at_its_host(&session, cases[i].shown_at), cases[i].counts,
                     "made at '%s'", cases[i].made_at);
    }
}
