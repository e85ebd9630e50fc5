/* Which coding a client wants, what is worth one, and what header fields say of it. */
#include "services/edge/modules/codings.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <string.h>

static coding_t best(const char *const *lines)
{
    accepted_t accepted;

    accepted_init(&accepted);
    for (; *lines; lines++)
        accepted_add(&accepted, *lines, strlen(*lines));
    return accepted_best(&accepted);
}

struct accept_case {
    char line[96];
    coding_t want;
};

ParameterizedTestParameters(codings, a_client_gets_the_coding_that_it_wants_most)
{
    static struct accept_case cases[] = {
        {"", CODING_NONE},
        {" ,\t, ,", CODING_NONE},
        {"identity", CODING_NONE},
        {"gzip", CODING_GZIP},
        {"X-GZIP", CODING_GZIP},
        {"deflate", CODING_DEFLATE},
        {"gzip, deflate", CODING_GZIP},
        {"deflate, gzip", CODING_GZIP},
        {"deflate,gzip;q=0.999", CODING_DEFLATE},
        {"gzip;q=0", CODING_NONE},
        {"gzip;q=0.0", CODING_NONE},
        {"gzip;q=0.001", CODING_GZIP},
        {"gzip;q=.5", CODING_NONE},
        {"gzip;q=0.0001", CODING_NONE},
        {"gzip;q=1.000", CODING_GZIP},
        {"gzip;q=1.001", CODING_NONE},
        {"gzip;q=2", CODING_NONE},
        {"gzip;q=-1", CODING_NONE},
        {"gzip;q=", CODING_NONE},
        {"gzip;q", CODING_NONE},
        {"gzip;", CODING_NONE},
        {"gzip;q=0.5;q=1", CODING_NONE},
        {"gzip ; q=0.5", CODING_GZIP},
        {"gzip;q =0.5", CODING_NONE},
        {"gzip q=0.5", CODING_NONE},
        {"gzip;Q=0.5", CODING_GZIP},
        {"gzip, gzip;q=0", CODING_NONE},
        {"gzip;q=0, x-gzip", CODING_NONE},
        {"br", CODING_BR},
        {"ZSTD", CODING_ZSTD},
        {"gzip, deflate, br", CODING_BR},
        {"gzip, deflate, br, zstd", CODING_ZSTD},
        {"zstd;q=0.9, br;q=0.9, gzip", CODING_GZIP},
        {"zstd;q=0.9, br, gzip;q=0.9", CODING_BR},
        {"zstd;q=0, br;q=0.5", CODING_BR},
        {"br;q=0.5, identity", CODING_NONE},
        {"*, br;q=0.5", CODING_GZIP},
        {"*;q=0.5, br", CODING_BR},
        {"gzip;q=0, deflate;q=0, *", CODING_NONE},
        {"*", CODING_GZIP},
        {"*;q=0", CODING_NONE},
        {"*;q=0,deflate", CODING_DEFLATE},
        {"gzip;q=0,*;q=0.1", CODING_DEFLATE},
        {"gzip;q=0.2,*;q=0.1", CODING_GZIP},
        {"gzip;q=0.2,identity;q=0.3", CODING_NONE},
        {"gzip;q=0.3,identity;q=0.3", CODING_GZIP},
        {"gzip,identity;q=0", CODING_GZIP},
        {"identity;q=0", CODING_NONE},
        {"compress;q=1", CODING_NONE},
        {"gzipp", CODING_NONE},
        {"gzi", CODING_NONE},
    };

    return cr_make_param_array(struct accept_case, cases, sizeof(cases) / sizeof(*cases));
}

ParameterizedTest(struct accept_case *one, codings, a_client_gets_the_coding_that_it_wants_most)
{
    cr_assert_eq(best((const char *[]){one->line, NULL}), one->want, "%s", one->line);
}

Test(codings, lines_of_a_field_are_one_list)
{
    cr_assert_eq(best((const char *[]){NULL}), CODING_NONE);
    cr_assert_eq(best((const char *[]){"deflate;q=0.5", "gzip", NULL}), CODING_GZIP);
    cr_assert_eq(best((const char *[]){"gzip", "gzip;q=0, deflate;q=0.1", NULL}), CODING_DEFLATE);
}

struct type_case {
    char type[64];
    bool want;
};

ParameterizedTestParameters(codings, types_are_worth_it_or_not)
{
    static struct type_case cases[] = {
        {"", false},
        {"text/html", true},
        {"Text/HTML ; charset=utf-8", true},
        {"text/", false},
        {"text/event-stream", true},
        {"application/json", true},
        {"application/jsonp", false},
        {"application/ld+json", true},
        {"+json", false},
        {"image/svg+xml;x", true},
        {"image/png", false},
        {"video/mp4", false},
        {"application/octet-stream", false},
        {"application/zip", false},
        {"application/grpc", false},
        {"application/grpc+json", false},
        {"application/grpc-web-text", false},
        {"font/woff2", false},
        {"font/ttf", true},
    };

    return cr_make_param_array(struct type_case, cases, sizeof(cases) / sizeof(*cases));
}

ParameterizedTest(struct type_case *one, codings, types_are_worth_it_or_not)
{
    cr_assert_eq(coding_is_worth(one->type, strlen(one->type)), one->want, "%s", one->type);
}

static bool is_varied(const char *vary)
{
    return coding_is_varied(vary, strlen(vary));
}

Test(codings, vary_says_so_by_name_or_by_everything)
{
    cr_assert(is_varied("Accept-Encoding"));
    cr_assert(is_varied("origin ,\taccept-encoding"));
    cr_assert(is_varied("*"));
    cr_assert(is_varied("origin, *"));
    cr_assert_not(is_varied(""));
    cr_assert_not(is_varied("Accept"));
    cr_assert_not(is_varied("X-Accept-Encoding"));
}

static bool has_weak(const char *line, const char *tag)
{
    return coding_has_weak(line, strlen(line), tag, strlen(tag));
}

Test(codings, the_weak_form_of_a_tag_is_found_among_others)
{
    cr_assert(has_weak("W/\"x\"", "\"x\""));
    cr_assert(has_weak("\"x\", W/\"y\",W/\"x\"", "\"x\""));
    cr_assert_not(has_weak("\"x\"", "\"x\""));
    cr_assert_not(has_weak("W/\"xx\"", "\"x\""));
    cr_assert_not(has_weak("/\"x\"", "\"x\""));
    cr_assert_not(has_weak("", "\"x\""));
    cr_assert_not(has_weak("W/", ""));
    cr_assert(has_weak(" ,, W/\"a,W/b\" ,\tW/\"x\"", "\"x\""));
    cr_assert(has_weak("W/\"a,W/b\"", "\"a,W/b\""));
    cr_assert(has_weak("W/bare, \"x\"", "bare"));
    cr_assert_not(has_weak("\"a, W/\"x\"", "\"x\""));
    cr_assert_not(has_weak("W/\"x", "\"x\""));
    cr_assert_not(has_weak("W/W/\"x\"", "\"x\""));
}

/* 300 such lines took minutes where each place of the line was compared with the whole tag. */
Test(codings, a_long_tag_in_a_long_list_costs_no_more_than_their_lengths, .timeout = 20)
{
    enum { LINE = 1 << 18, TAG = 1 << 17 };
    static char line[LINE], tag[TAG];

    memset(line, 'a', sizeof(line));
    memset(tag, 'a', sizeof(tag));
    for (int i = 0; i < 300; i++)
        cr_assert_not(coding_has_weak(line, sizeof(line), tag, sizeof(tag)));
    for (size_t i = 0; i < sizeof(line); i++)
        line[i] = "W/"[i % 2];
    memcpy(tag, line, sizeof(tag));
    for (int i = 0; i < 300; i++)
        cr_assert_not(coding_has_weak(line, sizeof(line), tag, sizeof(tag)));
}

Test(codings, fields_are_known_in_any_case)
{
    cr_assert_eq(coding_field("ETAG", 4), FIELD_ETAG);
    cr_assert_eq(coding_field("content-md5", 11), FIELD_DIGEST);
    cr_assert_eq(coding_field("content-md5", 10), FIELD_OTHER);
    cr_assert_eq(coding_field("", 0), FIELD_OTHER);
}
