/* Lists of teams and organizations, page by page; Link headers; and bodies that nobody would write. */
#include "common/base/cleanup.h"
#include "services/identity/oauth_internal.h"
#include "services/identity/rules.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define TEAMS "https://api.github.com/user/teams?per_page=100"

static const char document[] =
    "{\"provider\": {\"github\": {\"client_id\": \"a\", \"client_secret\": \"b\", "
    "\"teams\": [\"acme/ops\"], \"organizations\": [\"acme\"]}}}";

/* A sign-in, as far as the first page of teams is asked for. */
static void *begin(fetch_t *fetch)
{
    _cleanup_(json_clear_ref) json_t *config = json_loads(document, 0, NULL);
    _cleanup_(json_clear_ref) json_t *params = json_loads("{\"code\": [\"c\"]}", 0, NULL);
    const provider_ask_t ask = {.config = config,
                                .module = "oauth",
                                .redirect_uri = "https://idp.test/oauth2/callback",
                                .state = "s",
                                .verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk",
                                .params = params};
    static const char *const bodies[] = {"{\"access_token\": \"t\"}", "{\"id\": 1}", "[]"};
    void *flow;

    cr_assert_eq(provider_oauth.start(&flow, PROVIDER_CALLBACK, &ask), 0);
    cr_assert_eq(provider_oauth.next(flow, NULL, fetch), PROVIDER_FETCH);
    for (size_t i = 0; i < LEN(bodies); i++) {
        const fetched_t answer = {.status = 200, .body = bodies[i], .body_len = strlen(bodies[i])};

        cr_assert_eq(provider_oauth.next(flow, &answer, fetch), PROVIDER_FETCH);
    }
    cr_assert_str_eq(fetch->url, TEAMS);
    return flow;
}

static provider_step_t answer_page(void *flow, const char *body, const char *link, fetch_t *fetch)
{
    const fetched_t answer = {.status = 200, .body = body, .body_len = strlen(body), .link = link};

    return provider_oauth.next(flow, &answer, fetch);
}

/* A hundred teams of organizations that no rule names, as GitHub writes one, and then `last`. */
static char *page_of(unsigned page, const char *last)
{
    char *body = NULL;
    size_t len;
    FILE *out = open_memstream(&body, &len);

    fputs("[", out);
    for (unsigned i = 0; i < 100; i++)
        fprintf(out,
                "{\"id\": %u, \"node_id\": \"MDQ6VGVhbTE=\", \"name\": \"T\", \"slug\": \"t%u\", "
                "\"privacy\": \"closed\", \"permission\": \"admin\", \"parent\": null, "
                "\"organization\": {\"login\": \"org-%u\", \"id\": %u}}%s",
                page * 100 + i + 1, i, page, page, i < 99 ? "," : "");
    fprintf(out, "%s]", last);
    fclose(out);
    return body;
}

static bool has_group(void *flow, const char *group)
{
    const oauth_flow_t *self = flow;
    const json_t *item;
    size_t i;

    json_array_foreach(self->groups, i,
                       item) if (!strcmp(json_string_value(item), group)) return true;
    return false;
}

Test(oauth_pages, finds_the_team_on_the_last_of_many_pages_and_keeps_no_other)
{
    fetch_t fetch;
    void *flow = begin(&fetch);
    provider_step_t step = PROVIDER_FETCH;
    char link[300], url[100];

    for (unsigned page = 1; page <= 20; page++) {
        _cleanup_(free_mem) char *body =
            page_of(page, page < 20 ? ""
                                    : ",{\"id\": 9, \"slug\": \"Ops\", \"organization\": "
                                      "{\"login\": \"ACME\"}}");

        snprintf(url, sizeof(url), "%s&page=%u", TEAMS, page);
        cr_assert_str_eq(fetch.url, page == 1 ? TEAMS : url);
        snprintf(link, sizeof(link), "<%s&page=%u>; rel=\"next\", <%s&page=20>; rel=\"last\"",
                 TEAMS, page + 1, TEAMS);
        step =
            answer_page(flow, body, page < 20 ? link : "<https://x.test/>; rel=\"prev\"", &fetch);
        cr_assert_eq(step, PROVIDER_FETCH, "%s", provider_oauth.why(flow));
    }
    cr_assert_str_eq(fetch.url, "https://api.github.com/user/orgs?per_page=100");
    cr_assert_eq(answer_page(flow, "[{\"login\": \"other\"}]", NULL, &fetch), PROVIDER_DONE);
    cr_assert(has_group(flow, "ACME/Ops"));
    cr_assert_eq(json_array_size(((oauth_flow_t *)flow)->groups), 1);
    provider_oauth.free(&flow);
}

Test(oauth_pages, end_at_a_bound_where_a_provider_never_does_and_then_admit_nobody)
{
    _cleanup_(json_clear_ref) json_t *config = json_loads(document, 0, NULL);
    fetch_t fetch;
    void *flow = begin(&fetch);
    person_t who = {0};
    char link[300], why[256];
    unsigned asked = 1, teams = 0;

    for (; asked <= 10000; asked++) {
        teams += strstr(fetch.url, "/user/teams?") != NULL;
        snprintf(link, sizeof(link), "<https://api.github.com/user/%s?page=%u>; rel=next",
                 strstr(fetch.url, "/user/teams?") ? "teams" : "orgs", asked + 1);
        if (answer_page(flow, "[]", link, &fetch) != PROVIDER_FETCH)
            break;
    }
    cr_assert_eq(teams, OAUTH_PAGES_MAX);
    cr_assert_eq(asked, 2 * OAUTH_PAGES_MAX);
    who.provider_name = "github";
    who.id = "1";
    who.groups = ((oauth_flow_t *)flow)->groups;
    cr_assert_not(sign_in_admits("oauth", config, &who, why, sizeof(why)));
    provider_oauth.free(&flow);
}

/* ---- Link ---- */

static const struct link_case {
    const char *link, *next; /* NULL: malformed, or elsewhere; "": there is none */
} links[] = {
    {"", ""},
    {" , ,", ""},
    {"<" TEAMS "&page=2>; rel=\"next\"", TEAMS "&page=2"},
    {"<" TEAMS "&page=2>;rel=next", TEAMS "&page=2"},
    {"<" TEAMS "&page=2>; REL=\"NEXT\"", TEAMS "&page=2"},
    {"<" TEAMS "&page=2>; rel=\"start next\"", TEAMS "&page=2"},
    {"<" TEAMS "&page=2>; title=\"a, b; c\"; rel=\"next\"", TEAMS "&page=2"},
    {"<https://evil.test/>; rel=\"prev\", <" TEAMS "&page=2>; rel=\"next\"", TEAMS "&page=2"},
    {"<" TEAMS "&page=9>; rel=\"last\"", ""},
    {"<" TEAMS "&page=9>", ""},
    {"<" TEAMS "&page=2>; rel=\"nextish\"", ""},
    {"<" TEAMS "&page=2>; rel=\"prev\"; rel=\"next\"", ""},
    {"<" TEAMS "&page=2>; title=\"x\\\"; rel=\"next\"", NULL},
    {"<" TEAMS ">; rel=\"next\"", NULL}, /* itself */
    {"<https://api.github.com/user/teams>; rel=\"next\"", NULL},
    {"<https://evil.test/user/teams?page=2>; rel=\"next\"", NULL},
    {"<https://api.github.com.evil.test/user/teams?page=2>; rel=\"next\"", NULL},
    {"<https://api.github.com@evil.test/user/teams?page=2>; rel=\"next\"", NULL},
    {"<https://api.github.com:8443/user/teams?page=2>; rel=\"next\"", NULL},
    {"<http://api.github.com/user/teams?page=2>; rel=\"next\"", NULL},
    {"<HTTPS://api.github.com/user/teams?page=2>; rel=\"next\"", NULL},
    {"<//evil.test/user/teams?page=2>; rel=\"next\"", NULL},
    {"</user/teams?page=2>; rel=\"next\"", NULL},
    {"<?page=2>; rel=\"next\"", NULL},
    {"<file:///etc/passwd?>; rel=\"next\"", NULL},
    {"<https://api.github.com/user/emails?page=2>; rel=\"next\"", NULL},
    {"<https://api.github.com/user/teams/../keys?page=2>; rel=\"next\"", NULL},
    {"<https://api.github.com/user/teamsx?page=2>; rel=\"next\"", NULL},
    {"<https://api.github.com/user/teams?page=2#x>; rel=\"next\"", NULL},
    {"<https://api.github.com/user/teams?page=2 x>; rel=\"next\"", NULL},
    {"<https://api.github.com/user/teams?page=\r\nX:>; rel=\"next\"", NULL},
    {"<https://api.github.com/user/teams?p=\xc3\xa9>; rel=\"next\"", NULL},
    {"<https://api.github.com/user/teams?p=\\>; rel=\"next\"", NULL},
    {"<https://api.github.com/user/teams?page=2; rel=\"next\"", NULL},
    {"https://api.github.com/user/teams?page=2; rel=\"next\"", NULL},
    {"<" TEAMS "&page=2>; rel=\"next", NULL},
    {"<" TEAMS "&page=2> rel=\"next\"", NULL},
    {"<" TEAMS "&page=2>; rel=\"next\" x", NULL},
    {"<", NULL},
    {"<>", ""},
    {"<>; rel=next", NULL},
    {"<" TEAMS "&page=2>;", ""},
    {"<" TEAMS "&page=2>; =next", ""},
    {";", NULL},
};

Test(oauth_pages, go_nowhere_but_to_the_same_list)
{
    for (size_t i = 0; i < LEN(links); i++) {
        char out[OAUTH_URL_MAX];
        int r = oauth_next_page(links[i].link, TEAMS, out);

        cr_assert_eq(r,
                     !links[i].next   ? -EBADMSG
                     : *links[i].next ? 1
                                      : 0,
                     "%s: %d", links[i].link, r);
        cr_assert(r != 1 || !strcmp(out, links[i].next), "%s", links[i].link);
    }
}

Test(oauth_pages, take_no_link_that_is_longer_than_a_header_should_be)
{
    _cleanup_(free_mem) char *link = malloc(20001);
    char out[OAUTH_URL_MAX];

    memset(link, 'a', 20000);
    link[20000] = '\0';
    memcpy(link, "<" TEAMS, strlen("<" TEAMS));
    cr_assert_eq(oauth_next_page(link, TEAMS, out), -EBADMSG);
}

Test(oauth_pages, refuse_the_sign_in_when_the_next_page_is_elsewhere)
{
    fetch_t fetch;
    void *flow = begin(&fetch);

    cr_assert_eq(answer_page(flow, "[]", "<https://evil.test/user/teams?page=2>; rel=next", &fetch),
                 PROVIDER_INVALID);
    cr_assert(!strstr(provider_oauth.why(flow), "evil"));
    provider_oauth.free(&flow);
}

/* ---- bodies ---- */

/* text, count times `middle`, end */
static char *long_text(const char *text, const char *middle, size_t count, const char *end)
{
    char *body = NULL;
    size_t len;
    FILE *out = open_memstream(&body, &len);

    fputs(text, out);
    for (size_t i = 0; i < count; i++)
        fputs(middle, out);
    fputs(end, out);
    fclose(out);
    return body;
}

static const struct body_case {
    const char *text, *middle;
    size_t count;
    const char *end;
    provider_step_t step;
} bodies[] = {
    {"", "[", 100000, "", PROVIDER_INVALID},
    {"", "{\"a\":", 50000, "", PROVIDER_INVALID},
    {"", "[", 3000, "", PROVIDER_INVALID},
    {"[", "{},", 50000, "{}]", PROVIDER_FETCH},
    {"[\"", "x", 900000, "\"]", PROVIDER_FETCH},
    {"[\"", "\\u00", 1000, "\"]", PROVIDER_INVALID},
    {"[{\"slug\": \"", "s", 300000, "\", \"organization\": {\"login\": \"acme\"}}]",
     PROVIDER_FETCH},
    {"[", "1,", 300000, "1]", PROVIDER_FETCH},
    {"[1", "0", 100000, "]", PROVIDER_INVALID},
    {"[{\"slug\": \"ops\", \"organization\": {\"login\": \"acme\"}", "", 0, "", PROVIDER_INVALID},
    {"{\"data\": []}", "", 0, "", PROVIDER_INVALID},
    {"null", "", 0, "", PROVIDER_INVALID},
    {"\xff\xfe", "", 0, "", PROVIDER_INVALID},
    {"[{\"slug\": \"ops/x\", \"organization\": {\"login\": \"acme\"}}]", "", 0, "", PROVIDER_FETCH},
    {"[{\"slug\": \"ops\", \"organization\": {\"login\": \"acme\\u0000\"}}]", "", 0, "",
     PROVIDER_INVALID},
    {"[{\"slug\": [], \"organization\": []}, null, 7, \"acme/ops\", [[]]]", "", 0, "",
     PROVIDER_FETCH},
    {"[{\"slug\": \"ops\", \"organization\": null}]", "", 0, "", PROVIDER_FETCH},
};

Test(oauth_pages, make_nothing_of_bodies_that_are_huge_deep_cut_or_of_another_shape)
{
    for (size_t i = 0; i < LEN(bodies); i++) {
        _cleanup_(free_mem) char *body =
            long_text(bodies[i].text, bodies[i].middle, bodies[i].count, bodies[i].end);
        fetch_t fetch;
        void *flow = begin(&fetch);

        cr_assert_eq(answer_page(flow, body, NULL, &fetch), bodies[i].step, "%zu: %s", i,
                     provider_oauth.why(flow));
        cr_assert_eq(json_array_size(((oauth_flow_t *)flow)->groups), 0, "%zu", i);
        provider_oauth.free(&flow);
    }
}

/* Every prefix of a good answer is none. */
Test(oauth_pages, take_no_answer_that_is_cut_anywhere)
{
    static const char good[] = "[{\"slug\": \"ops\", \"organization\": {\"login\": \"acme\"}}]";

    for (size_t len = 0; len < strlen(good); len++) {
        _cleanup_(free_mem) char *body = strndup(good, len);
        fetch_t fetch;
        void *flow = begin(&fetch);

        cr_assert_eq(answer_page(flow, body, NULL, &fetch), PROVIDER_INVALID, "%s", body);
        provider_oauth.free(&flow);
    }
}

/* ---- scopes that hold others, and addresses of Microsoft ---- */

static const struct scope_case {
    bool (*grants)(const char *granted, const char *wanted);
    const char *granted, *wanted;
    bool holds;
} scopes[] = {
    {github_grants, "user", "user:email", true},
    {github_grants, "user", "read:user", true},
    {github_grants, "repo", "public_repo", true},
    {github_grants, "repo", "repo:status", true},
    {github_grants, "admin:org", "write:org", true},
    {github_grants, "admin:org", "read:org", true},
    {github_grants, "write:org", "read:org", true},
    {github_grants, "read:org", "write:org", false},
    {github_grants, "read:org", "admin:org", false},
    {github_grants, "write:org", "admin:org", false},
    {github_grants, "admin:org_hook", "read:org", false},
    {github_grants, "read:user", "user:email", false},
    {github_grants, "user:email", "user", false},
    {github_grants, "user:email", "read:user", false},
    {github_grants, "use", "user:email", false},
    {github_grants, "userx", "user:email", false},
    {github_grants, "public_repo", "repo", false},
    {github_grants, "", "read:user", false},
    {github_grants, "", "gist", false},
    {google_grants, "https://www.googleapis.com/auth/userinfo.email", "email", true},
    {google_grants, "https://www.googleapis.com/auth/userinfo.profile", "email", false},
    {google_grants, "https://www.googleapis.com/auth/userinfo.drive", "drive", false},
    {google_grants, "", "email", false},
    {microsoft_grants, "", "offline_access", true},
    {microsoft_grants, "", "User.Read", false},
    {microsoft_grants, "https://graph.microsoft.com/user.read", "User.Read", true},
    {microsoft_grants, "User.Read", "https://graph.microsoft.com/User.Read", true},
    {microsoft_grants, "https://evil.test/User.Read", "User.Read", false},
    {microsoft_grants, "User.ReadWrite", "User.Read", false},
};

Test(oauth_pages, know_which_scope_holds_another)
{
    for (size_t i = 0; i < LEN(scopes); i++)
        cr_assert_eq(scopes[i].grants(scopes[i].granted, scopes[i].wanted), scopes[i].holds,
                     "%s, %s", scopes[i].granted, scopes[i].wanted);
}

static const struct mail_case {
    const char *sign_in, *mail, *principal, *email; /* NULL: there is none */
    bool is_verified;
} mails[] = {
    {NULL, "a@corp.test", "a.b@corp.test", "a@corp.test", true},
    {NULL, "a@corp.test", "a.b@CORP.test", "a@corp.test", true},
    {NULL, NULL, "a@corp.test", "a@corp.test", true},
    /* what a tenant's administrator may write there */
    {NULL, "ceo@victim.test", "a@evil.onmicrosoft.test", "ceo@victim.test", false},
    {NULL, "ceo@victim.test", NULL, "ceo@victim.test", false},
    {NULL, "ceo@victim.test", "ceo_victim.test#EXT#@victim.test", "ceo@victim.test", false},
    {NULL, "ceo@victim.test", "victim.test", "ceo@victim.test", false},
    {NULL, "victim.test", "a@victim.test", "victim.test", false},
    {NULL, NULL, "ceo_victim.test#ext#@evil.test", NULL, false},
    {NULL, NULL, NULL, NULL, false},
    /* a tenant that the operator chose */
    {"https://login.microsoftonline.com/corp.test", "a@other.test", "a@corp.test", "a@other.test",
     true},
    {"https://login.microsoftonline.com/organizations", "a@other.test", "a@corp.test",
     "a@other.test", false},
    {"https://login.microsoftonline.com/common", "a@other.test", "a@corp.test", "a@other.test",
     false},
};

Test(oauth_pages, believe_no_address_that_a_stranger_of_a_tenant_may_have_written)
{
    for (size_t i = 0; i < LEN(mails); i++) {
        _cleanup_(json_clear_ref) json_t *user = json_pack("{s:s*, s:s*}", "mail", mails[i].mail,
                                                           "userPrincipalName", mails[i].principal);
        oauth_flow_t flow = {0};

        oauth_row_find("microsoft", &flow.place);
        if (mails[i].sign_in) {
            flow.place.sign_in = mails[i].sign_in;
            flow.place.has_own_sign_in = true;
        }
        microsoft_mail(&flow, user);
        cr_assert(!flow.email == !mails[i].email
                      && (!flow.email || !strcmp(flow.email, mails[i].email)),
                  "%zu", i);
        cr_assert_eq(flow.email_verified, mails[i].is_verified, "%zu", i);
        oauth_set(&flow.email, NULL);
    }
}
