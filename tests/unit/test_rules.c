/* Who may enter: each list of each module admits whom it names, and denies everybody else. */
#include "common/base/cleanup.h"
#include "services/identity/rules.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* Cases leave out at their end what they are not about. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

static json_t *read_json(const char *text)
{
    json_t *value = json_loads(text, JSON_DECODE_ANY, NULL);

    cr_assert_not_null(value, "%s", text);
    return value;
}

/* A user of the provider, or of the module where there is none. */
static bool admits_user(const char *module, const char *config, const char *provider,
                        const char *email, bool is_verified, const char *groups, char why[256])
{
    _cleanup_(json_clear_ref) json_t *document = read_json(config);
    _cleanup_(json_clear_ref) json_t *given = read_json(groups);
    person_t who = {.provider_name = (char *)provider,
                    .id = "1",
                    .email = (char *)email,
                    .email_verified = is_verified,
                    .groups = given};

    return sign_in_admits(module, document, &who, why, 256);
}

static bool admits_email(const char *list, const char *item, const char *email)
{
    char config[1024], why[256];

    snprintf(config, sizeof(config), "{\"provider\": {\"google\": {\"%s\": [\"%s\"]}}}", list,
             item);
    return admits_user("oauth", config, "google", email, true, "[]", why);
}

/* ---- addresses that look like one of good.test, and are none, or none for certain ---- */

static const char *const hostile[] = {
    "",
    "@",
    "a",
    "a@",
    "@good.test",
    "good.test",
    "a@evil@good.test",
    "a@evil.test@good.test",
    "a@good.test@evil.test",
    "a@@good.test",
    "@a@good.test",
    "a@evil.test,b@good.test",
    "a@evil.test;b@good.test",
    "a@evil.test b@good.test",
    "a@evil.test\nb@good.test",
    "a@evil.test%00@good.test",
    "a@evil.test\t@good.test",
    "<a@good.test>",
    "A <a@good.test>",
    "a@good.test>",
    "<a@evil.test>a@good.test",
    "a(x)@good.test",
    "a@(x)good.test",
    "a@good.test(x)",
    "a,b@good.test",
    "a;b@good.test",
    "a:b@good.test",
    "a b@good.test",
    " a@good.test",
    "a@good.test ",
    "a @good.test",
    "a@ good.test",
    "a@good. test",
    "a@good.test\n",
    "a@good.test\r\n",
    "\na@good.test",
    "a@good.test\t",
    "a\x01@good.test",
    "a\x7f@good.test",
    "a@good.test\x7f",
    "a@good.test.",
    "a@.good.test",
    "a@good..test",
    "a@good.test..",
    "a@sub.good.test",
    "a@x.y.good.test",
    "a@evilgood.test",
    "a@-good.test",
    "a@good-.test",
    "a@good.test-",
    "a@good_.test",
    "a@good.test.evil.test",
    "a@good.testx",
    "a@good.tes",
    "a@ood.test",
    "a@good",
    "a@test",
    "a@goodtest",
    "a@good,test",
    "a@good/test",
    "a@good.test/",
    "a@good.test/evil",
    "a@good.test:25",
    "a@good.test#",
    "a@good.test?x",
    "a@good.test%2e",
    "a@good%2etest",
    "a@[good.test]",
    "a@[127.0.0.1]",
    "a@*.test",
    "a@*",
    "a@g*.test",
    "a@go?d.test",
    "a@(good.test)",
    "a@\"good.test\"",
    "a@good.test\\",
    "a\\@good.test",
    "a\\@evil.test@good.test",
    "\"a@good.test",
    "a\"@good.test",
    "\"a\"b@good.test",
    "b\"a\"@good.test",
    "\"a\"\"b\"@good.test",
    "\"\"@good.test",
    "\"@good.test",
    "\"\\\"@good.test",
    "\"a\\\"@good.test",
    "\"a b\"@good.test",
    "\"a\"@evil.test",
    "\"a@good.test\"@evil.test",
    "\"a\"@good.test@evil.test",
    "\"a\" @good.test",
    "a@good\xe3\x80\x82test", /* ideographic full stop */
    "a@good\xef\xbc\x8etest", /* fullwidth full stop */
    "a@good\xef\xbd\xa1test", /* halfwidth ideographic full stop */
    "a@good\xe2\x80\xa4test", /* one dot leader */
    "a\xef\xbc\xa0good.test", /* fullwidth commercial at */
    "a\xef\xb9\xab"
    "good.test", /* small commercial at */
    "a@evil.test\xef\xbc\xa0good.test",
    "a@g\xd0\xbe\xd0\xbe"
    "d.test",                 /* Cyrillic o */
    "a@\xef\xbd\x87ood.test", /* fullwidth g */
    "a@good.te\xc5\xbft",     /* long s, which folds to s */
    "a@good.tes\xe1\xb5\x97", /* modifier letter t */
    "a@g\xc3\xb6od.test",
    "a@good.test\xc2\xa0",     /* no-break space */
    "a@good.test\xe2\x80\x8b", /* zero width space */
    "a@go\xc2\xad"
    "od.test",                 /* soft hyphen */
    "a@\xe2\x80\xaegood.test", /* right-to-left override */
    "\xef\xbb\xbf"
    "a@good.test", /* byte order mark */
    "\xc3\xa4@good.test",
    "a\xcc\x88@good.test",
    "a@good.test\xcc\x88",
    "a@good.test\x80",
    "\xff@good.test",
    "a@xn--good-.test",
    "a@xn--god-sna.test",
    "a@xn--good.test",
    "a@good.xn--test",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa@good.test", /* 65 */
};

Test(rules, admit_no_address_that_only_looks_like_one_of_the_domain)
{
    cr_assert_geq(LEN(hostile), 100);
    for (size_t i = 0; i < LEN(hostile); i++)
        cr_assert_not(admits_email("email_domains", "good.test", hostile[i]), "%s", hostile[i]);
}

Test(rules, admit_no_address_that_only_looks_like_the_one_that_is_listed)
{
    for (size_t i = 0; i < LEN(hostile); i++)
        cr_assert_not(admits_email("email_addresses", "a@good.test", hostile[i]), "%s", hostile[i]);
    cr_assert_not(admits_email("email_addresses", "a@good.test", "b@good.test"));
    cr_assert_not(admits_email("email_addresses", "a@good.test", "a+x@good.test"));
    cr_assert_not(admits_email("email_addresses", "a@good.test", "a.@good.test"));
    cr_assert_not(admits_email("email_addresses", "a@good.test", "\"a\"@good.test"));
}

static const char *const hosts_too_long[] = {
    "a@aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.good.test", /* 64 */
};

Test(rules, take_no_address_with_labels_or_lengths_that_names_cannot_have)
{
    char text[400] = "a@";
    const char *domain;

    cr_assert_not(email_is_plain(hosts_too_long[0], &domain));
    memset(text + 2, 'x', 300);
    for (size_t i = 32; i < 300; i += 32)
        text[2 + i] = '.';
    text[255] = '\0';
    cr_assert_not(email_is_plain(text, &domain));
    text[254] = '\0';
    cr_assert(email_is_plain(text, &domain));
    cr_assert_str_eq(domain, text + 2);
}

static const struct admitted {
    const char *list, *item, *email;
} admitted[] = {
    {"email_domains", "good.test", "a@good.test"},
    {"email_domains", "good.test", "A.B+c@Good.TEST"},
    {"email_domains", "good.test", "o'hara@good.test"},
    {"email_domains", "good.test", "\"a@evil.test\"@good.test"},
    {"email_domains", "good.test", "\"a\\\"b\"@good.test"},
    {"email_domains", "good.test", "a..b@good.test"},
    {"email_domains", "sub.good.test", "a@sub.good.test"},
    {"email_domains", "xn--gd-eka.test", "a@xn--gd-eka.test"},
    {"email_domains", "localhost", "a@localhost"},
    {"email_addresses", "a@good.test", "a@good.test"},
    {"email_addresses", "a@good.test", "A@GOOD.test"},
    {"email_addresses", "a+b@good.test", "a+b@good.test"},
};

Test(rules, admit_the_address_and_the_domain_that_they_name_in_any_case)
{
    for (size_t i = 0; i < LEN(admitted); i++)
        cr_assert(admits_email(admitted[i].list, admitted[i].item, admitted[i].email), "%s",
                  admitted[i].email);
}

/* ---- every list ---- */

#define GITHUB(rules) "{\"provider\": {\"google\": null, \"github\": {" rules "}}}"

static const struct rule_case {
    const char *module, *config, *provider, *email, *groups;
    bool is_unverified, is_admitted;
    const char *why; /* is in it */
} cases[] = {
    /* nobody is left out where no rule is */
    {"oauth", GITHUB(""), "github", NULL, "[]", .is_admitted = true},
    {"oauth", GITHUB("\"email_domains\": [], \"teams\": []"), "github", NULL, "[]",
     .is_admitted = true},
    {"oidc", "{}", "oidc", NULL, "[]", .is_admitted = true},
    {"saml", "{\"authorized_groups\": []}", "saml", NULL, "[]", .is_admitted = true},
    /* who comes from somewhere else is */
    {"oauth", GITHUB(""), "google", "a@b.test", "[]", .why = "provider"},
    {"oauth", GITHUB(""), NULL, "a@b.test", "[]", .why = "provider"},
    {"oauth", "{}", "github", NULL, "[]", .why = "provider"},
    {"oauth", "{\"provider\": {\"github\": {}, \"google\": {}}}", "github", NULL, "[]",
     .why = "provider"},
    {"oauth", "{\"provider\": {\"github\": []}}", "github", NULL, "[]", .why = "provider"},
    {"ldap", "{}", "ldap", NULL, "[]", .why = "no rules are known"},
    {"oidc", "[]", "oidc", NULL, "[]", .why = "provider"},
    /* a missing or unverified address is one where a rule needs it */
    {"oauth", GITHUB("\"email_domains\": [\"b.test\"]"), "github", NULL, "[]",
     .why = "gives no e-mail"},
    {"oauth", GITHUB("\"email_addresses\": [\"a@b.test\"]"), "github", "a@b.test", "[]",
     .is_unverified = true, .why = "not verified"},
    {"oauth", GITHUB("\"email_domains\": [\"b.test\"]"), "github", "a@b.test", "[]",
     .is_unverified = true, .why = "not verified"},
    {"oauth", GITHUB("\"email_domains\": [\"b.test\"]"), "github", "a@c.test", "[]",
     .why = "(e-mail domains)"},
    {"oauth", GITHUB("\"email_addresses\": [\"a@b.test\"]"), "github", "b@b.test", "[]",
     .why = "(e-mail addresses)"},
    {"oauth", GITHUB("\"email_domains\": [\"b.test\"]"), "github", "a@x@b.test", "[]",
     .why = "not a plain one"},
    /* one of several is enough */
    {"oauth", GITHUB("\"email_domains\": [\"b.test\"], \"teams\": [\"o/t\"]"), "github", NULL,
     "[\"o/t\"]", .is_admitted = true},
    {"oauth", GITHUB("\"email_addresses\": [\"x@y.test\"], \"email_domains\": [\"b.test\"]"),
     "github", "a@b.test", "[]", .is_admitted = true},
    {"oauth", GITHUB("\"teams\": [\"o/t\"], \"organizations\": [\"p\"]"), "github", NULL, "[\"P\"]",
     .is_admitted = true},
    /* teams */
    {"oauth", GITHUB("\"teams\": [\"Org/Team\"]"), "github", NULL, "[\"org/TEAM\"]",
     .is_admitted = true},
    {"oauth", GITHUB("\"teams\": [\"12\"]"), "github", NULL, "[\"#12\"]", .is_admitted = true},
    {"oauth", GITHUB("\"teams\": [\"org/team\"]"), "github", NULL, "[\"org\"]", .why = "(teams)"},
    {"oauth", GITHUB("\"teams\": [\"org/team\"]"), "github", NULL, "[\"org/team2\", \"xorg/team\"]",
     .why = "(teams)"},
    {"oauth", GITHUB("\"teams\": [\"12\"]"), "github", NULL, "[\"12\", \"#123\", \"12/12\"]",
     .why = "(teams)"},
    {"oauth", GITHUB("\"teams\": [\"org/team\"]"), "github", "org/team@b.test", "[]",
     .why = "(teams)"},
    /* organizations */
    {"oauth", GITHUB("\"organizations\": [\"Org\"]"), "github", NULL, "[\"oRG\"]",
     .is_admitted = true},
    {"oauth", GITHUB("\"organizations\": [\"org\"]"), "github", NULL, "[\"org2\", \"org/team\"]",
     .why = "(organizations)"},
    {"oauth", GITHUB("\"organizations\": [\"org/team\"]"), "github", NULL, "[\"org/team\"]",
     .why = "(organizations)"},
    {"oauth", GITHUB("\"organizations\": [\"org\"]"), "github", NULL, "[\"or\\u0261\", 7, null]",
     .why = "(organizations)"},
    {"oauth", GITHUB("\"organizations\": [\"k\"]"), "github", NULL, "[\"\\u212a\"]",
     .why = "(organizations)"},
    /* lists that cannot be read admit nobody, whatever else would match */
    {"oauth", GITHUB("\"teams\": {}"), "github", NULL, "[]", .why = "cannot be read"},
    {"oauth", GITHUB("\"teams\": \"o/t\""), "github", NULL, "[\"o/t\"]", .why = "cannot be read"},
    {"oauth", GITHUB("\"teams\": null"), "github", NULL, "[]", .why = "cannot be read"},
    {"oauth", GITHUB("\"teams\": [\"o/t\", 7]"), "github", NULL, "[\"o/t\"]",
     .why = "cannot be read"},
    {"oauth", GITHUB("\"email_domains\": [\"\"]"), "github", "a@b.test", "[]",
     .why = "cannot be read"},
    /* SAML's groups, and those that OpenID Connect may have */
    {"saml", "{\"authorized_groups\": [\"a\", \"b\"]}", "saml", NULL, "[\"b\"]",
     .is_admitted = true},
    {"saml", "{\"authorized_groups\": [\"a\", \"b\"]}", "saml", NULL, "[\"B\", \"ab\", \"a \"]",
     .why = "(groups)"},
    {"saml", "{\"authorized_groups\": [\"a\"]}", "saml", "a@b.test", "[]", .why = "(groups)"},
    {"oidc", "{\"groups\": [\"a\"]}", "oidc", NULL, "[\"a\"]", .is_admitted = true},
    {"oidc", "{\"groups\": [\"a\"]}", "oidc", NULL, "[\"A\"]", .why = "(groups)"},
    {"oidc", "{\"email_domains\": [\"b.test\"]}", "oidc", "a@b.test", "[]", .is_admitted = true},
    {"oidc", "{\"email_domains\": [\"b.test\"]}", "oidc", "a@b.test", "[]", .is_unverified = true,
     .why = "not verified"},
    {"oidc", "{\"email_addresses\": [\"a@b.test\"]}", "oidc", "c@b.test", "[]",
     .why = "(e-mail addresses)"},
};

Test(rules, admit_whom_a_list_names_and_deny_everybody_else)
{
    for (size_t i = 0; i < LEN(cases); i++) {
        const struct rule_case *c = &cases[i];
        char why[256];
        bool is_admitted = admits_user(c->module, c->config, c->provider, c->email,
                                       !c->is_unverified, c->groups, why);

        cr_assert_eq(is_admitted, c->is_admitted, "%s %s: %s", c->config, c->groups, why);
        cr_assert(is_admitted ? !*why : strstr(why, c->why) != NULL, "%s: %s", c->config, why);
    }
}

Test(rules, name_kinds_and_never_values_when_they_deny)
{
    char why[256];

    cr_assert_not(
        admits_user("oauth",
                    GITHUB("\"email_addresses\": [\"secret@hidden.test\"], "
                           "\"email_domains\": [\"hidden.test\"], "
                           "\"teams\": [\"hidden/team\"], \"organizations\": [\"hidden\"]"),
                    "github", "me@mine.test", true, "[]", why));
    cr_assert_str_eq(why, "the route's rules (e-mail addresses, e-mail domains, teams, "
                          "organizations) do not admit this user");
}

Test(rules, admit_nobody_without_an_id)
{
    person_t who = {.provider_name = "oidc"};
    _cleanup_(json_clear_ref) json_t *config = json_object();
    char why[256];

    cr_assert_not(sign_in_admits("oidc", config, &who, why, sizeof(why)));
    who.id = "";
    cr_assert_not(sign_in_admits("oidc", config, &who, why, sizeof(why)));
    who.id = "1";
    cr_assert(sign_in_admits("oidc", config, &who, why, sizeof(why)));
}
