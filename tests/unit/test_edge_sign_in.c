/* Sign-in at the edge, without nginx: cookies of browsers and of others, which requests are sent
 * away, whose a path is, which session is let in, and what an upstream is told. */
#include "common/codec/pack.h"
#include "common/schema/sign_in_digest.h"
#include "services/edge/http/params.h"
#include "services/edge/http/cookies.h"
#include "services/edge/table/cookie_names.h"
#include "services/edge/modules/sign_in_rules.h"
#include "services/edge/table/sign_in.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdlib.h>
#include <string.h>

#define TOKEN "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" /* 43 characters */
#define NAME  "__Host-postern.session"
#define NONCE "__Host-postern.nonce"

/* ---- cookies ---- */

typedef struct {
    char line[256];
    unsigned count;
    char value[64];
} find_case_t;

ParameterizedTestParameters(cookies, find)
{
    static find_case_t cases[] = {
        {NAME "=" TOKEN, 1, TOKEN},
        {"a=1; " NAME "=" TOKEN "; b=2", 1, TOKEN},
        {"a=1;" NAME "=" TOKEN, 1, TOKEN},
        {";;; ;" NAME "=" TOKEN ";;", 1, TOKEN},
        {" \t" NAME " = " TOKEN " ", 1, TOKEN},
        {NAME "=x; " NAME "=" TOKEN, 2, TOKEN},
        {NAME "=" TOKEN "; " NAME "=", 2, ""},
        {NAME, 1, ""},
        {NAME "=", 1, ""},
        {"x" NAME "=" TOKEN, 0, ""},
        {NAME "x=" TOKEN, 0, ""},
        {"__host-postern.session=" TOKEN, 0, ""},
        {"__Host-postern_session=" TOKEN, 0, ""},
        {"a=\"b; " NAME "=" TOKEN "\"", 1, TOKEN "\""},
        {"a=" NAME "=" TOKEN, 0, ""},
        {"$Version=1; " NAME "=" TOKEN, 1, TOKEN},
        {NAME "==" TOKEN, 1, "=" TOKEN},
        {"a=1, " NAME "=" TOKEN, 0, ""},
        {"", 0, ""},
        {"=", 0, ""},
        {"=;=;=", 0, ""},
    };

    return cr_make_param_array(find_case_t, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(find_case_t *one, cookies, find)
{
    cookie_text_t line = {one->line, strlen(one->line)}, value = {"", 0};
    cookie_text_t name = {NAME, sizeof(NAME) - 1};

    cr_assert_eq(cookies_find(line, name, &value), one->count, "%s", one->line);
    cr_assert_eq(value.len, strlen(one->value));
    cr_assert_arr_eq(value.at, one->value, value.len);
}

Test(cookies, takes_no_other_value_for_a_token)
{
    static const char *const others[] = {"",
                                         "A",
                                         TOKEN "A",
                                         "=" TOKEN,
                                         TOKEN "\"",
                                         "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA+",
                                         "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
                                         "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA "};

    cr_assert(cookies_is_token((cookie_text_t){TOKEN, COOKIE_TOKEN_LEN}));
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        cr_assert_not(cookies_is_token((cookie_text_t){others[i], strlen(others[i])}), "%s",
                      others[i]);
}

Test(cookies, looks_at_each_byte_of_a_token)
{
    static const char good[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    char token[COOKIE_TOKEN_LEN];

    for (size_t at = 0; at < sizeof(token); at++)
        for (int c = 0; c < 256; c++) {
            memset(token, 'A', sizeof(token));
            token[at] = (char)c;
            cr_assert_eq(cookies_is_token((cookie_text_t){token, sizeof(token)}),
                         c && strchr(good, c), "%d at %zu", c, at);
        }
}

/* An edge of two routes with sign-in. */
static bool is_ours(const void *names, const char *folded, size_t len, bool has_token)
{
    strmap_t *map = NULL;
    bool ours;

    (void)names;
    cookie_names_add(&map, "");
    cookie_names_add(&map, "My_app.");
    ours = cookie_names_have(map, folded, len, has_token);
    cookie_names_destroy(&map);
    return ours;
}

typedef struct {
    char line[256], want[256];
} cut_case_t;

ParameterizedTestParameters(cookies, cut)
{
    static cut_case_t cases[] = {
        {"a=1; b=2", "a=1; b=2"},
        {" a=1 ;b=2; ;c", " a=1 ;b=2; ;c"},
        {";a=1;", ";a=1;"},
        {NAME "=x", ""},
        {NAME "=x; " NONCE "=y", ""},
        {NAME "=x;", ""},
        {NAME, ""},
        {"a=1; " NAME "=x", "a=1"},
        {NAME "=x; a=1", "a=1"},
        {"a=1; " NAME "=x; b=2", "a=1; b=2"},
        {"a=1; " NAME "=x; b=2;", "a=1; b=2;"},
        {"a=1; " NAME "=x; " NAME "=y; b=2", "a=1; b=2"},
        {"a=1; " NONCE "=x; b=2", "a=1; b=2"},
        {"a=1; " NONCE ".0123abcd=x; b=2", "a=1; b=2"},
        {"a=1; postern_nonce_0123ABCD=x; my.app.nonce.0123abcd=y; b=2", "a=1; b=2"},
        {"a=1; " NONCE ".0=x; " NONCE ".f=1; b=2", "a=1; b=2"},
        {"a=1; postern_nonce_F=x; my.app.nonce.3=y; My%5fapp%2Enonce.b=z; b=2", "a=1; b=2"},
        {NONCE ".g=x; " NONCE ".=x; " NAME ".0=x", NONCE ".g=x; " NONCE ".=x; " NAME ".0=x"},
        {NONCE ".0123abcg=x", NONCE ".0123abcg=x"},
        {NONCE ".0123abc=x", NONCE ".0123abc=x"},
        {"postern.session.0123abcde=x", "postern.session.0123abcde=x"},
        {"a=1; __HOST-POSTERN.SESSION=x; b=2", "a=1; b=2"},
        {"a=1; __Host-postern_session=x; b=2", "a=1; b=2"},
        {"a=1; __Host-postern session=x; b=2", "a=1; b=2"},
        {"a=1; __Host-postern%2Esession=x; b=2", "a=1; b=2"},
        {"a=1; %5f_Host-postern%2esession=x; b=2", "a=1; b=2"},
        {"a=1; " NAME "\t =x; b=2", "a=1; b=2"},
        {"a=1; \"" NAME "=x; b=2", "a=1; b=2"},
        {"a=1; $" NAME "=x; b=2", "a=1; b=2"},
        {"a=1; " NAME "x=x; b=2", "a=1; " NAME "x=x; b=2"},
        {"a=1; =" NAME "=x; b=2", "a=1; b=2"},
        {"a=1; = =" NAME "; b=2", "a=1; b=2"},
        {"=; ==; a=1", "=; ==; a=1"},
        {"a=1; x" NAME "=x; b=2", "a=1; x" NAME "=x; b=2"},
        {"session=x", "session=x"},
        {"nonce", "nonce"},
        {"a=1; My_app.session=x; my.app_nonce=y; b=2", "a=1; b=2"},
        {"postern.session=x; postern_nonce=y; a=1", "a=1"},
        {"My_app.x=1; myapp.session=2", "My_app.x=1; myapp.session=2"},
        {"a=1; My%5fapp.session=x; %", "a=1; %"},
        /* whose prefix no module has: the value decides */
        {"a=1; __Host-old.session=" TOKEN "; b=2", "a=1; b=2"},
        {"a=1; __Host-old.nonce=" TOKEN "; b=2", "a=1; b=2"},
        {"a=1; __Host-oldnonce.0123abcd=" TOKEN "; b=2", "a=1; b=2"},
        {"a=1; __Host-old.nonce.3=" TOKEN "; b=2", "a=1; b=2"},
        {"__Host-old.nonce.3=x; __Host-old.session.3=" TOKEN,
         "__Host-old.nonce.3=x; __Host-old.session.3=" TOKEN},
        {"a=1; %5f_host-OLD_Session = \"" TOKEN "\" ; b=2", "a=1; b=2"},
        {"a=1; =__Host-old.session=" TOKEN "; b=2", "a=1; b=2"},
        {"a=1; $__Host-old.session=" TOKEN "; b=2", "a=1; b=2"},
        {"__Host-old.session=" TOKEN "A", "__Host-old.session=" TOKEN "A"},
        {"__Host-old.session=x" TOKEN, "__Host-old.session=x" TOKEN},
        {"__Host-old.session=\"" TOKEN, "__Host-old.session=\"" TOKEN},
        {"__Host-old.session=.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
         "__Host-old.session=.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"},
        {"__Host-session=" TOKEN, "__Host-session=" TOKEN},
        {"__Host-old.csrf=" TOKEN, "__Host-old.csrf=" TOKEN},
        {"old.session=" TOKEN, "old.session=" TOKEN},
        {"session=" TOKEN "; nonce=" TOKEN, "session=" TOKEN "; nonce=" TOKEN},
        {"", ""},
    };

    return cr_make_param_array(cut_case_t, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(cut_case_t *one, cookies, cut)
{
    cookie_text_t line = {one->line, strlen(one->line)};
    char *out = malloc(line.len + 1); /* no byte more than the line: sanitizers look */
    size_t len = cookies_cut(out, line, is_ours, NULL);

    cr_assert_eq(len, strlen(one->want), "%s: %.*s", one->line, (int)len, out);
    cr_assert_arr_eq(out, one->want, len);
    cr_assert_eq(cookies_have(line, is_ours, NULL), len < line.len, "%s", one->line);
    memcpy(out, line.at, line.len); /* where it is */
    line.at = out;
    cr_assert_eq(cookies_cut(out, line, is_ours, NULL), len, "%s", one->line);
    cr_assert_arr_eq(out, one->want, len, "%s: %.*s", one->line, (int)len, out);
    free(out);
}

/* Whatever byte stands anywhere behind the name of a nonce. */
Test(cookies, each_name_that_is_read_as_a_nonce_is_kept_back)
{
    static const char own[] = NONCE;
    const size_t own_len = sizeof(own) - 1;
    char name[64], folded[COOKIE_NAME_MAX];
    const char *digits;
    unsigned read = 0;

    for (size_t len = own_len; len <= own_len + 10; len++)
        for (size_t at = own_len; at < len || at == own_len; at++)
            for (int c = 1; c < 256; c++) {
                snprintf(name, sizeof(name), "%s.0123abcde", own);
                name[at] = (char)c;
                if (!cookie_name_is_nonce(name, len, own, own_len, &digits))
                    continue;
                read++;
                cr_assert(
                    cookie_names_have(NULL, folded, cookie_name_fold(folded, name, len), false),
                    "%.*s", (int)len, name);
                cr_assert_eq(digits, len == own_len ? NULL : name + own_len + 1);
            }
    cr_assert_gt(read, 8 * 22);
    cr_assert_not(cookie_name_is_nonce("zzzzzzzz", 8, own, own_len, &digits));
    cr_assert_not(cookie_name_is_nonce(NONCE ".zzzzzzzz", own_len + 9, own, own_len, &digits));
    cr_assert_not(cookie_name_is_nonce("__Host-postern_nonce", own_len, own, own_len, &digits));
}

Test(cookies, takes_64_KB_of_nothing)
{
    enum { BYTES = 64 * 1024 };
    char *line = malloc(BYTES), *out = malloc(BYTES);
    const cookie_text_t name = {NAME, sizeof(NAME) - 1};
    cookie_text_t value;

    for (const char *fill = ";= \"a%"; *fill; fill++) {
        memset(line, *fill, BYTES);
        cr_assert_eq(cookies_find((cookie_text_t){line, BYTES}, name, &value), 0);
        cr_assert_eq(cookies_cut(out, (cookie_text_t){line, BYTES}, is_ours, NULL), BYTES);
        cr_assert_arr_eq(out, line, BYTES);
    }
    free(line);
    free(out);
}

/* ---- parameters ---- */

typedef struct {
    char text[64];
    int want; /* how many; -1: refused */
    char name[16], value[32];
} params_case_t;

ParameterizedTestParameters(params, parse)
{
    static params_case_t cases[] = {
        {"code=abc&state=x.y", 2, "code", "abc"},
        {"a=1&&b=2&", 2, "b", "2"},
        {"code", 1, "code", ""},
        {"=x", 1, "", "x"},
        {"a+b=c%20d%2B", 1, "a b", "c d+"},
        {"a=%C3%A4", 1, "a", "\xc3\xa4"},
        {"a=b=c", 1, "a", "b=c"},
        {"", 0, "", ""},
        {"a=%", -1, "", ""},
        {"a=%4", -1, "", ""},
        {"a=%zz", -1, "", ""},
        {"a=%00", -1, "", ""},
        {"a=%ff", -1, "", ""},
        {"a=\xc0\xaf", -1, "", ""},
        {"%c3=%a4", -1, "", ""},
    };

    return cr_make_param_array(params_case_t, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(params_case_t *one, params, parse)
{
    params_t params = {0};
    char memory[64];
    const param_t *found;

    if (one->want < 0) {
        cr_assert_eq(params_parse(&params, one->text, strlen(one->text), memory), -1);
        return;
    }
    cr_assert_eq(params_parse(&params, one->text, strlen(one->text), memory), 0);
    cr_assert_eq(params.count, (size_t)one->want);
    if (!one->want)
        return;
    found = params_one(&params, one->name);
    cr_assert_not_null(found);
    cr_assert_eq(found->value_len, strlen(one->value));
    cr_assert_arr_eq(found->value, one->value, found->value_len);
}

Test(params, knows_which_come_twice)
{
    params_t params = {0};
    char memory[64];

    cr_assert_eq(params_parse(&params, "code=a&state=s&code=b", 21, memory), 0);
    cr_assert_eq(params.count, 3);
    cr_assert_null(params_one(&params, "code"));
    cr_assert_not_null(params_one(&params, "state"));
    cr_assert_null(params_one(&params, "stat"));
}

Test(params, are_bounded)
{
    enum { BYTES = PARAMS_BYTES + 1 };
    char *text = malloc(BYTES), *memory = malloc(BYTES);
    params_t params = {0};

    memset(text, 'a', BYTES);
    cr_assert_eq(params_parse(&params, text, BYTES, memory), -1);
    params.count = 0;
    memset(text, '&', BYTES);
    cr_assert_eq(params_parse(&params, text, PARAMS_BYTES, memory), 0);
    for (int i = 0; i < BYTES; i += 2)
        text[i] = 'a';
    params.count = 0;
    cr_assert_eq(params_parse(&params, text, 2 * PARAMS_MAX, memory), 0);
    cr_assert_eq(params.count, PARAMS_MAX);
    params.count = 0;
    cr_assert_eq(params_parse(&params, text, 2 * PARAMS_MAX + 1, memory), -1);
    free(text);
    free(memory);
}

/* ---- navigations ---- */

typedef struct {
    bool get, upgrade;
    char mode[16], dest[16], accept[64]; /* "-": it is not there */
    bool navigates;
} asked_case_t;

ParameterizedTestParameters(edge_sign_in, sends_people_away_and_nobody_else)
{
    static asked_case_t cases[] = {
        {true, false, "navigate", "document", "text/html", true},
        {true, false, "navigate", "iframe", "*/*", true},
        {true, false, "Navigate", "Document", "-", true},
        {true, false, "navigate", "-", "-", true},
        {true, false, "navigate", "object", "text/html", false},
        {true, false, "cors", "empty", "text/html", false},
        {true, false, "no-cors", "image", "image/*", false},
        {true, false, "-", "document", "text/html", false},
        {true, false, "-", "-", "text/html,*/*;q=0.8", true},
        {true, false, "-", "-", "TEXT/HTML", true},
        {true, false, "-", "-", "application/json", false},
        {true, false, "-", "-", "*/*", false},
        {true, false, "-", "-", "-", false},
        {false, false, "navigate", "document", "text/html", false},
        {false, false, "-", "-", "text/html", false},
        {true, true, "navigate", "document", "text/html", false},
        {true, true, "websocket", "empty", "-", false},
    };

    return cr_make_param_array(asked_case_t, cases, sizeof(cases) / sizeof(cases[0]));
}

static sign_in_text_t text_or_none(const char *text)
{
    sign_in_text_t none = {NULL, 0};

    return strcmp(text, "-") ? (sign_in_text_t){text, strlen(text)} : none;
}

ParameterizedTest(asked_case_t *one, edge_sign_in, sends_people_away_and_nobody_else)
{
    const sign_in_asked_t asked = {.get = one->get,
                                   .upgrade = one->upgrade,
                                   .fetch_mode = text_or_none(one->mode),
                                   .fetch_dest = text_or_none(one->dest),
                                   .accept = text_or_none(one->accept)};

    cr_assert_eq(sign_in_navigates(&asked), one->navigates, "%s %s %s", one->mode, one->dest,
                 one->accept);
}

typedef struct {
    bool get, upgrade;
    char dest[16];
    bool begins, framed;
} begin_case_t;

ParameterizedTestParameters(edge_sign_in, begins_where_it_is_asked_to_for_pages_and_frames_alone)
{
    static begin_case_t cases[] = {
        {true, false, "-", true, false},          {true, false, "document", true, false},
        {true, false, "Document", true, false},   {true, false, "iframe", true, true},
        {true, false, "frame", true, true},       {true, false, "image", false, true},
        {true, false, "script", false, true},     {true, false, "style", false, true},
        {true, false, "empty", false, true},      {true, false, "", false, true},
        {false, false, "document", false, false}, {true, true, "-", false, false},
    };

    return cr_make_param_array(begin_case_t, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(begin_case_t *one, edge_sign_in,
                  begins_where_it_is_asked_to_for_pages_and_frames_alone)
{
    const sign_in_asked_t asked = {
        .get = one->get, .upgrade = one->upgrade, .fetch_dest = text_or_none(one->dest)};

    cr_assert_eq(sign_in_may_begin(&asked), one->begins, "%s", one->dest);
    cr_assert_eq(sign_in_is_framed(&asked), one->framed, "%s", one->dest);
}

typedef struct {
    bool page; /* GET or POST of a navigation */
    char site[16];
    bool leaves;
} leaving_case_t;

ParameterizedTestParameters(edge_sign_in, signs_out_at_the_provider_for_its_own_pages_alone)
{
    static leaving_case_t cases[] = {
        {true, "same-origin", true}, {true, "none", true},          {true, "-", true},
        {true, "None", true},        {true, "same-site", false},    {true, "cross-site", false},
        {true, "", false},           {false, "same-origin", false}, {false, "-", false},
    };

    return cr_make_param_array(leaving_case_t, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(leaving_case_t *one, edge_sign_in,
                  signs_out_at_the_provider_for_its_own_pages_alone)
{
    const sign_in_asked_t asked = {.get = one->page,
                                   .fetch_mode = text_or_none("navigate"),
                                   .fetch_dest = text_or_none("document")};

    cr_assert_eq(sign_in_may_leave(&asked, text_or_none(one->site)), one->leaves, "%s", one->site);
}

typedef struct {
    char method, mode[12], dest[12], site[16], accept[16], origin[32], purpose[24];
    bool asked;
} ended_case_t;

ParameterizedTestParameters(edge_sign_in, a_sign_out_takes_somebody_who_asks_for_it)
{
    static ended_case_t cases[] = {
        {'G', "navigate", "document", "cross-site", "-", "-", "-", true},
        {'P', "navigate", "document", "same-site", "-", "-", "-", true},
        {'G', "navigate", "-", "none", "-", "-", "-", true},
        {'G', "navigate", "iframe", "same-origin", "-", "-", "-", true},
        {'P', "cors", "empty", "same-origin", "-", "-", "-", true},
        {'G', "navigate", "iframe", "same-site", "-", "-", "-", false},
        {'G', "no-cors", "image", "same-origin", "-", "-", "-", false},
        {'G', "no-cors", "image", "same-site", "-", "-", "-", false},
        {'P', "no-cors", "empty", "same-site", "-", "-", "-", false},
        {'P', "cors", "empty", "cross-site", "-", "-", "-", false},
        {'G', "-", "image", "-", "-", "-", "-", false},
        {'G', "-", "-", "same-site", "text/html", "-", "-", false},
        {'G', "navigate", "document", "none", "-", "-", "prefetch", false},
        {'G', "navigate", "document", "same-origin", "-", "-", "prefetch;prerender", false},
        {'P', "-", "-", "-", "-", "-", "preview", false},
        {'G', "-", "-", "-", "text/html", "-", "-", true},
        {'G', "-", "-", "-", "text/html", "https://evil.test", "-", true},
        {'G', "-", "-", "-", "*/*", "-", "-", false},
        {'G', "-", "-", "-", "-", "-", "-", false},
        {'P', "-", "-", "-", "-", "-", "-", true},
        {'P', "-", "-", "-", "-", "https://app.test:8443", "-", true},
        {'P', "-", "-", "-", "-", "https://app.test", "-", false},
        {'P', "-", "-", "-", "-", "http://app.test:8443", "-", false},
        {'P', "-", "-", "-", "-", "https://app.test:84433", "-", false},
        {'P', "-", "-", "-", "text/html", "null", "-", false},
        {'P', "-", "-", "-", "-", "", "-", false},
    };

    return cr_make_param_array(ended_case_t, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(ended_case_t *one, edge_sign_in, a_sign_out_takes_somebody_who_asks_for_it)
{
    const sign_in_asked_t asked = {.get = one->method == 'G',
                                   .post = one->method == 'P',
                                   .fetch_mode = text_or_none(one->mode),
                                   .fetch_dest = text_or_none(one->dest),
                                   .accept = text_or_none(one->accept)};
    const sign_out_from_t from = {text_or_none(one->site), text_or_none(one->origin),
                                  text_or_none(one->purpose), text_or_none("app.test:8443")};

    cr_assert_eq(sign_out_is_asked(&asked, &from), one->asked, "%c %s %s %s %s", one->method,
                 one->mode, one->dest, one->site, one->origin);
    cr_assert_eq(sign_out_is_blind(&asked, &from),
                 one->method == 'P' && !strcmp(one->site, "cross-site"));
}

/* ---- paths ---- */

typedef struct {
    char path[32], prefix[16];
    sign_in_path_t want;
} path_case_t;

ParameterizedTestParameters(edge_sign_in, own_paths)
{
    static path_case_t cases[] = {
        {"/auth/authn", "", SIGN_IN_BEGIN},       {"/auth/done", "/", SIGN_IN_DONE},
        {"/auth/logout", "", SIGN_IN_LOGOUT},     {"/auth/", "", SIGN_IN_NOWHERE},
        {"/auth/logout/", "", SIGN_IN_NOWHERE},   {"/auth/Done", "", SIGN_IN_NOWHERE},
        {"/auth/x/y", "/", SIGN_IN_NOWHERE},      {"/auth", "", SIGN_IN_UPSTREAM},
        {"/authn", "", SIGN_IN_UPSTREAM},         {"/", "", SIGN_IN_UPSTREAM},
        {"/app/auth/done", "/app", SIGN_IN_DONE}, {"/app/auth/done", "/app/", SIGN_IN_DONE},
        {"/app/auth/done", "", SIGN_IN_UPSTREAM}, {"/auth/done", "/app", SIGN_IN_UPSTREAM},
        {"/app", "/app/", SIGN_IN_UPSTREAM},      {"/a", "/app", SIGN_IN_UPSTREAM},
    };

    return cr_make_param_array(path_case_t, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(path_case_t *one, edge_sign_in, own_paths)
{
    cr_assert_eq(sign_in_path(one->path, strlen(one->path), one->prefix, strlen(one->prefix)),
                 one->want, "%s of %s", one->path, one->prefix);
}

Test(edge_sign_in, comes_back_to_this_host_only)
{
    static const char *const good[] = {"/", "/a", "/a?b=c#d", "/a//b", "/%0d%0a"};
    static const char *const bad[] = {"",        "a",     "//evil", "/\\evil", "https://evil",
                                      "/a b",    "/a\nb", "/a\tb",  "/\\",     "/a\\b",
                                      "\\/evil", "/\x7f"};

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        cr_assert(sign_in_is_target(good[i], strlen(good[i])), "%s", good[i]);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        cr_assert_not(sign_in_is_target(bad[i], strlen(bad[i])), "%s", bad[i]);
}

/* ---- who is let in ---- */

enum { NOW = 1000000 };

static session_t a_session(void)
{
    session_t out = {.expires_ms = NOW + 10000,
                     .due_ms = NOW + 5000,
                     .asked_ms = 500,
                     .last_active_ms = NOW - 1000,
                     .inactivity_s = 3};

    memset(out.bound, 7, sizeof(out.bound));
    return out;
}

static const unsigned char bound[SESSION_BOUND_BYTES] = {7, 7, 7, 7, 7, 7, 7, 7,
                                                         7, 7, 7, 7, 7, 7, 7, 7};
static const unsigned char other[SESSION_BOUND_BYTES] = {8};

Test(edge_sign_in, lets_in_whom_nothing_speaks_against)
{
    session_t session = a_session();

    cr_assert_eq(sign_in_judge(&session, bound, NOW, true, 500), SIGN_IN_ADMIT);
    cr_assert_eq(sign_in_judge(&session, bound, NOW, true, 501), SIGN_IN_ASK, "in doubt since");
    cr_assert_eq(sign_in_judge(&session, bound, NOW, false, 500), SIGN_IN_ASK, "not in touch");
    cr_assert_eq(sign_in_judge(&session, other, NOW, true, 500), SIGN_IN_ASK_RULES);
    cr_assert_eq(sign_in_judge(&session, bound, NOW + 1999, true, 500), SIGN_IN_ADMIT);
    cr_assert_eq(sign_in_judge(&session, bound, NOW + 2000, true, 500), SIGN_IN_ASK, "idle");
    session.inactivity_s = 0;
    cr_assert_eq(sign_in_judge(&session, bound, NOW + 4999, true, 500), SIGN_IN_ADMIT);
    cr_assert_eq(sign_in_judge(&session, bound, NOW + 5000, true, 500), SIGN_IN_ASK_RULES, "due");
    cr_assert_eq(sign_in_judge(&session, bound, NOW + 10000, true, 500), SIGN_IN_OVER);
    session.due_ms = session.expires_ms = 0; /* never */
    cr_assert_eq(sign_in_judge(&session, bound, NOW + 10000000, true, 500), SIGN_IN_ADMIT);
}

Test(edge_sign_in, trusts_for_as_long_as_it_is_told_to)
{
    session_t session = a_session();

    cr_assert(sign_in_is_trusted(&session, bound, NOW, 500, 800, 301));
    cr_assert_not(sign_in_is_trusted(&session, bound, NOW, 500, 800, 300));
    cr_assert_not(sign_in_is_trusted(&session, other, NOW, 500, 800, 301));
    cr_assert_not(sign_in_is_trusted(&session, bound, NOW + 2000, 500, 800, 301), "idle");
    session.inactivity_s = 0;
    cr_assert_not(sign_in_is_trusted(&session, bound, NOW + 5000, 500, 800, 301), "due");
    session.due_ms = 0;
    cr_assert_not(sign_in_is_trusted(&session, bound, NOW + 10000, 500, 800, 301), "over");
}

/* ---- what an upstream is told ---- */

static void assert_value(const char *text, size_t len, bool is_list, const char *want)
{
    char *out = malloc(3 * len + 1);
    size_t used = sign_in_value(out, text, len, is_list);

    cr_assert_eq(used, strlen(want), "%.*s", (int)used, out);
    cr_assert_arr_eq(out, want, used);
    free(out);
}

Test(edge_sign_in, puts_no_byte_into_a_header_that_it_may_not_have)
{
    assert_value("Jane Doe", 8, false, "Jane Doe");
    assert_value("Doe, Jane", 9, false, "Doe, Jane");
    assert_value("a\r\nX: y", 7, false, "a%0D%0AX: y");
    assert_value("J\xc3\xbcrgen", 7, false, "J%C3%BCrgen");
    assert_value("100%", 4, false, "100%25");
    assert_value(" a ", 3, false, "%20a%20");
    assert_value("\0", 1, false, "%00");
    assert_value("", 0, false, "");
    assert_value("admins\0dev,ops\0", 15, true, "admins,dev%2Cops");
    assert_value("one\0", 4, true, "one");
    assert_value("\0\0", 2, true, ",");
    assert_value("staff\0 admin\0", 13, true, "staff,%20admin");
    assert_value("admin \0staff\0", 13, true, "admin%20,staff");
    assert_value(" \0 a b \0", 8, true, "%20,%20a b%20");
    assert_value("admins", 6, true, "admins");
    assert_value("\0admins\0", 8, true, ",admins");
}

/* Wherever it stands in a text, of whatever length. */
Test(edge_sign_in, finds_each_byte_that_is_to_be_encoded)
{
    char text[40], out[3 * sizeof(text)];

    for (size_t len = 1; len <= sizeof(text); len++)
        for (size_t at = 0; at < len; at++)
            for (int c = 0; c < 256; c++) {
                bool is_end = at == 0 || at == len - 1;
                bool want = c >= 0x20 && c < 0x7f && c != '%' && c != ',' && !(c == ' ' && is_end);
                size_t same = len + (c == ',' ? 0 : 2);

                memset(text, 'x', len);
                text[at] = (char)c;
                cr_assert_eq(sign_in_is_plain(text, len), want, "%d at %zu of %zu", c, at, len);
                cr_assert_eq(sign_in_value(out, text, len, false), want ? len : same);
            }
    cr_assert(sign_in_is_plain("", 0));
}

/* Looked at all at once, each text is judged as by itself. */
Test(edge_sign_in, finds_a_text_of_a_session_that_is_to_be_encoded)
{
    static const char *const plain[] = {"app_user_1", "1001", "Ada L", "", "a@b.test", ""};
    static const char *const strange[] = {" x", "x ", " ", "a\nb", "\xc3\xbc", "100%", "a,b"};
    session_t session;

    for (int which = -1; which < SESSION_GROUPS; which++)
        for (size_t i = 0; i < sizeof(strange) / sizeof(strange[0]); i++) {
            const char *texts[SESSION_TEXTS];
            size_t lens[SESSION_TEXTS];

            for (int k = 0; k < SESSION_TEXTS; k++) {
                texts[k] = k == which ? strange[i] : plain[k];
                lens[k] = strlen(texts[k]);
            }
            texts[SESSION_GROUPS] = "\0ops";
            lens[SESSION_GROUPS] = 5;
            cr_assert(session_set_texts(&session, texts, lens));
            cr_assert_eq(sign_in_is_all_plain(&session), which < 0, "%d %zu", which, i);
        }
    memset(session.lens, 0, sizeof(session.lens));
    cr_assert(sign_in_is_all_plain(&session));
}

Test(edge_sign_in, a_stream_lives_while_identity_may_still_be_asked)
{
    cr_assert_not(sign_in_is_doubted_long(0, 1000000, 300));
    cr_assert_not(sign_in_is_doubted_long(1000, 1299, 300));
    cr_assert(sign_in_is_doubted_long(1000, 1300, 300));
}

Test(edge_sign_in, what_other_rules_admitted_is_trusted_for_seconds_and_not_while_identity_is_away)
{
    cr_assert_eq(sign_in_trust_ms(true, true, 300000), 300000);
    cr_assert_eq(sign_in_trust_ms(true, false, 300000), 300000);
    cr_assert_eq(sign_in_trust_ms(false, true, 300000), 10000);
    cr_assert_eq(sign_in_trust_ms(false, true, 1000), 1000, "never longer than without a change");
    cr_assert_eq(sign_in_trust_ms(false, false, 300000), 0);
    cr_assert(sign_in_is_doubted_long(1000, 1000, 0), "it ends at once");
}

Test(edge_sign_in, clocks_that_differ_do_no_harm)
{
    cr_assert_eq(sign_in_local_time(10000, 2000), 8000);
    cr_assert_eq(sign_in_local_time(10000, -2000), 12000);
    cr_assert_eq(sign_in_local_time(0, 2000), 0, "never stays never");
    cr_assert_eq(sign_in_local_time(10, 2000), 1, "and what is over does not become it");
    for (int64_t ahead = -2000; ahead <= 2000; ahead += 1000)
        cr_assert_eq(sign_in_identity_time(sign_in_local_time(10000, ahead), ahead), 10000);
    cr_assert_eq(sign_in_identity_time(0, 2000), 0, "an activity that nobody has seen");
}

/* ---- the document ---- */

static sign_in_t *parse(const char *text, bool *bad)
{
    json_t *json = json_loads(text, 0, NULL);
    msgpack_sbuffer buffer;
    msgpack_unpacked unpacked;
    sign_in_t *out;

    cr_assert_not_null(json);
    msgpack_sbuffer_init(&buffer);
    cr_assert_eq(pack_json(&buffer, json), 0);
    msgpack_unpacked_init(&unpacked);
    cr_assert(msgpack_unpack_next(&unpacked, buffer.data, buffer.size, NULL));
    *bad = false;
    out = sign_in_parse(&unpacked.data, "oidc", bad);
    msgpack_unpacked_destroy(&unpacked);
    msgpack_sbuffer_destroy(&buffer);
    json_decref(json);
    return out;
}

#define DIGEST "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define DOCUMENT(enabled, module, prefix, digest, sealed, more)                                    \
    "{\"enabled\":" enabled ",\"module\":\"" module "\",\"cookie_prefix\":\"" prefix               \
    "\",\"options_passthrough\":true,\"inactivity_timeout\":60,\"maximum_duration\":0,"            \
    "\"auth_check_interval\":0,\"client_id\":\"c\",\"digest\":\"" digest "\",\"sealed\":\"" sealed \
    "\"" more "}"

Test(edge_sign_in, reads_what_a_route_says)
{
    bool bad;
    sign_in_t *self = parse(DOCUMENT("true", "oidc", "", DIGEST, "s", ""), &bad), *prefixed;
    unsigned char kept[SIGN_IN_BOUND_BYTES];

    cr_assert_not(bad);
    cr_assert_str_eq(self->session_cookie, "__Host-postern.session");
    cr_assert_str_eq(self->session_cookie, "__Host-" SIGN_IN_PREFIX "session", "as services say");
    cr_assert_str_eq(self->nonce_cookie, "__Host-postern.nonce");
    cr_assert(self->options_passthrough);
    cr_assert_eq(self->inactivity_s, 60);
    memcpy(kept, sign_in_bind(self, "route_1"), sizeof(kept));
    prefixed = parse(DOCUMENT("true", "oidc", "my.", DIGEST, "s", ",\"later\":1"), &bad);
    cr_assert_not(bad);
    cr_assert_str_eq(prefixed->session_cookie, "__Host-my.session");
    cr_assert_arr_neq(kept, sign_in_bind(prefixed, "route_2"), sizeof(kept));
    sign_in_free(self);
    sign_in_free(prefixed);
}

Test(edge_sign_in, binds_sessions_to_route_rules_and_host)
{
    bool bad;
    sign_in_t *one = parse(DOCUMENT("true", "oidc", "", DIGEST, "s", ""), &bad);
    sign_in_t *same = parse(DOCUMENT("true", "oidc", "", DIGEST, "s", ""), &bad);
    sign_in_t *third = parse(DOCUMENT("true", "oidc", "", DIGEST, "s", ""), &bad);
    const sign_in_bound_t at = sign_in_bind_at(one, "r", "x.test", 6),
                          twin = sign_in_bind_at(same, "r", "x.test and more", 6),
                          others[] = {sign_in_bind_at(one, "r", "y.test", 6),
                                      sign_in_bind_at(one, "r", "x.tes", 5),
                                      sign_in_bind_at(one, "r", "", 0),
                                      sign_in_bind_at(third, "q", "x.test", 6)};
    char long_host[SIGN_IN_HOST_KEPT + 1];

    cr_assert_arr_eq(at.bytes, twin.bytes, sizeof(at.bytes), "in all workers");
    cr_assert_arr_neq(at.bytes, sign_in_bind(one, "r"), sizeof(at.bytes), "a machine's");
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        cr_assert_arr_neq(at.bytes, others[i].bytes, sizeof(at.bytes), "%zu", i);
    memset(long_host, 'x', sizeof(long_host));
    for (int i = 0; i < 6; i++) { /* whichever host was asked for before it */
        const sign_in_bound_t again = sign_in_bind_at(one, "r", "x.test", 6);

        cr_assert_arr_eq(at.bytes, again.bytes, sizeof(at.bytes), "%d", i);
        cr_assert_arr_neq(at.bytes, sign_in_bind_at(one, "r", "x.tesT", 6).bytes, sizeof(at.bytes));
        sign_in_bind_at(one, "r", long_host, (size_t)(i % 3 + SIGN_IN_HOST_KEPT - 1));
    }
    cr_assert_arr_eq(sign_in_bind_at(one, "r", long_host, sizeof(long_host)).bytes,
                     sign_in_bind_at(same, "r", long_host, sizeof(long_host)).bytes,
                     sizeof(at.bytes));
    sign_in_free(one);
    sign_in_free(same);
    sign_in_free(third);
}

typedef struct {
    char text[512];
} document_case_t;

ParameterizedTestParameters(edge_sign_in, refuses_a_document_that_it_cannot_enforce)
{
    static document_case_t cases[] = {
        {"{}"},
        {DOCUMENT("false", "oidc", "", DIGEST, "s", "")},
        {DOCUMENT("true", "oauth", "", DIGEST, "s", "")},
        {DOCUMENT("true", "oidc", "a;b", DIGEST, "s", "")},
        {DOCUMENT("true", "oidc", "a=b", DIGEST, "s", "")},
        {DOCUMENT("true", "oidc", "", "0123", "s", "")},
        {DOCUMENT("true", "oidc", "", "", "s", "")},
        {DOCUMENT("true", "oidc", "", DIGEST, "", "")},
    };

    return cr_make_param_array(document_case_t, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(document_case_t *one, edge_sign_in, refuses_a_document_that_it_cannot_enforce)
{
    bool bad;
    sign_in_t *self = parse(one->text, &bad);

    cr_assert(bad, "%s", one->text);
    sign_in_free(self);
}
