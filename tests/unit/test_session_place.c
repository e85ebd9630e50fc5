/* Where a session counts: at the module that it was made by, under the name that its cookie has. */
#include "common/base/cleanup.h"
#include "services/identity/session.h"

#include <criterion/criterion.h>
#include <stdio.h>
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
        {"{\"made_id\": \"m1\", \"cookie_prefix\": \"abc.\"}", "r oidc m1 abc."},
        {"{\"made_id\": \"m1\", \"cookie_prefix\": \"\"}", "r oidc m1 postern."},
        {"{\"made_id\": \"m1\"}", "r oidc m1 postern."},
        {"{\"cookie_prefix\": \"abc.\"}", "r oidc  abc."},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        _cleanup_(json_clear_ref) json_t *config = json_loads(cases[i].config, 0, NULL);
        sealed_t sealed = a_module(config);
        session_t session;
        char place[SESSION_PLACE_SIZE];

        session_place(&sealed, place);
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
    } cases
        [] =
            {
                {"r oidc m1 abc.", true},
                {"r oidc m1", true}, /* of a version that did not note the prefix */
                {"r oidc m1 Abc.", false},
                {"r oidc m1 abc", false},
                {"r oidc m1 abc.x", false},
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
    char prefix[65], made[33], place[SESSION_PLACE_SIZE];
    _cleanup_(json_clear_ref) json_t *config = NULL;
    sealed_t sealed;
    size_t len;

    memset(prefix, 'p', 64);
    prefix[64] = '\0';
    memset(made, 'm', 32);
    made[32] = '\0';
    config = json_pack("{s:s, s:s}", "made_id", made, "cookie_prefix", prefix);
    sealed = a_module(config);
    sealed.route = "edghtsrt_012345678901234567890123456";
    session_place(&sealed, place);
    len = strlen(place);
    cr_assert_gt(len, 64);
    cr_assert_str_eq(place + len - 64, prefix);
}
