#include "common/base/cleanup.h"
#include "common/resource/filter.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <string.h>

struct sql_case {
    char kind[24], source[120], sql[280], first[40];
};

ParameterizedTestParameters(filter, becomes_sql_with_parameters)
{
    static struct sql_case cases[] = {
        {"api_key", "obj.description == 'a'",
         "(t.\"description\" COLLATE \"C\" = $4::text AND t.\"description\" COLLATE \"C\" IS NOT "
         "NULL)",
         "a"},
        {"api_key", "obj.metadata != \"x'; DROP TABLE api_key; --\"",
         "(t.\"metadata\" COLLATE \"C\" IS DISTINCT FROM $4::text)", "x'; DROP TABLE api_key; --"},
        {"api_key", "obj.owner_id == null",
         "(t.\"owner_id\" COLLATE \"C\" IS NOT DISTINCT FROM NULL)", ""},
        {"api_key", "!(obj.description == '') && obj.id < 'ak_2'",
         "((NOT (t.\"description\" COLLATE \"C\" = $4::text AND t.\"description\" COLLATE \"C\" IS "
         "NOT NULL)) AND "
         "coalesce(t.\"id\" COLLATE \"C\" < $5::text, false))",
         ""},
        {"api_key", "obj.created_at > timestamp('2026-01-02T03:04:05+01:00')",
         "coalesce(t.\"created_at\" > $4::timestamptz, false)", "2026-01-02T02:04:05Z"},
        {"api_key", "obj.created_at > timestamp('2026-01-02T03:04:05.25+01:00')",
         "coalesce(t.\"created_at\" > $4::timestamptz, false)", "2026-01-02T02:04:05.25Z"},
        {"api_key", "obj.created_at > timestamp('2026-01-02T03:04:05.123456789Z')",
         "coalesce(t.\"created_at\" > $4::timestamptz, false)", "2026-01-02T03:04:05.123456Z"},
        {"api_key", "obj.created_at < timestamp(time.now).subtract('7d')",
         "coalesce(t.\"created_at\" < (now() - $4::interval), false)", "604800 seconds"},
        {"api_key", "obj.created_at < timestamp(time.now).add(duration('1h30m'))",
         "coalesce(t.\"created_at\" < (now() + $4::interval), false)", "5400 seconds"},
        {"api_key", "obj.created_at < obj.created_at.add('1h').subtract('3h').add('30m')",
         "coalesce(t.\"created_at\" < (t.\"created_at\" - $4::interval), false)", "5400 seconds"},
        {"api_key", "obj.created_at < timestamp(time.now).add('10000d').subtract('10000d')",
         "coalesce(t.\"created_at\" < now(), false)", ""},
        {"api_key", "obj.created_at < timestamp('2026-01-02T03:04:05.25Z').subtract('1d')",
         "coalesce(t.\"created_at\" < $4::timestamptz, false)", "2026-01-01T03:04:05.25Z"},
        {"api_key", "obj.created_at < timestamp('2026-01-02T03:04:05Z').subtract('700000d')",
         "coalesce(t.\"created_at\" < $4::timestamptz, false)", "0109-06-21T03:04:05Z"},
        {"credential", "'bind:a' in obj.acl",
         "coalesce($4::text IN (SELECT jsonb_array_elements_text(t.\"acl\")), false)", "bind:a"},
        {"credential", "size(obj.acl) > 0",
         "coalesce(jsonb_array_length(t.\"acl\")::numeric > 0::numeric, false)", ""},
        {"ip_policy_rule", "obj.ip_policy.id == 'ipp_1' || obj.action in ['allow', 'deny']",
         "((t.\"ip_policy_id\" COLLATE \"C\" = $4::text AND t.\"ip_policy_id\" COLLATE \"C\" IS "
         "NOT NULL) OR "
         "coalesce(t.\"action\" COLLATE "
         "\"C\" IN (SELECT jsonb_array_elements_text($5::jsonb)), false))",
         "ipp_1"},
        {"application_user", "obj.identity_provider.name == 'GitHub'",
         "((t.\"identity_provider\" ->> 'name') COLLATE \"C\" = $4::text AND "
         "(t.\"identity_provider\" ->> 'name') COLLATE \"C\" IS NOT NULL)",
         "GitHub"},
        {"application_session", "'edghts_1' == obj.edge.id",
         "(t.\"edge_id\" COLLATE \"C\" = $4::text AND t.\"edge_id\" COLLATE \"C\" IS NOT NULL)",
         "edghts_1"},
        {"api_key", "obj.description.contains('a')",
         "coalesce(strpos(t.\"description\" COLLATE \"C\", $4::text) > 0, false)", "a"},
        {"reserved_domain", "obj.cname_target == null", "(NULL::text IS NOT DISTINCT FROM NULL)",
         ""},
    };

    return cr_make_param_array(struct sql_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct sql_case *c, filter, becomes_sql_with_parameters)
{
    _cleanup_(filter_done) filter_t filter;
    problem_t problem = {0};

    cr_assert_eq(filter_compile(&filter, kind_find(c->kind), c->source, 4, &problem), 0, "%s: %s",
                 c->source, problem.msg);
    cr_assert_str_eq(filter.sql, c->sql);
    if (*c->first)
        cr_assert_str_eq(filter.params[0], c->first);
}

struct refusal {
    char source[100], says[70];
};

ParameterizedTestParameters(filter, refuses_what_sql_cannot_do_well)
{
    static struct refusal cases[] = {
        {"obj.token == 'a'", "there is no variable 'obj.token'"},
        {"obj.token_hash == 'a'", "there is no variable 'obj.token_hash'"},
        {"obj.account_id == 'a'", "there is no variable"},
        {"obj", "there is no variable 'obj'"},
        {"obj.description", "must be true or false"},
        {"obj.description.matches('a')", "'matches' is not available"},
        {"obj.id.contains('a')", "not available on ids"},
        {"obj.owner_id.startsWith('a')", "not available on ids"},
        {"obj.created_at > '2026-01-01T00:00:00Z'", "does not take timestamp and string"},
        {"obj.created_at == '2026-01-01T00:00:00Z'", "write timestamp"},
        {"obj.created_at > timestamp('yesterday')", "is not an RFC 3339 time"},
        {"obj.created_at > timestamp('2026-01-02T03:04:05.Z')", "is not an RFC 3339 time"},
        {"obj.created_at > timestamp(time.now).add('soon')", "a duration is"},
        {"obj.created_at > timestamp(time.now).subtract('3650000d')", "at byte 36: a time is from"},
        {"obj.created_at > timestamp(time.now).add('3650000d')", "a time is from year 1 to 9999"},
        {"obj.created_at > timestamp(time.now).add('9999999999999999999d')",
         "at most 10,000 years"},
        {"obj.created_at > timestamp(time.now).add('3650000d3650000d')", "at most 10,000 years"},
        {"obj.created_at > timestamp('2026-01-01T00:00:00Z').add('3000000d')", "year 1 to 9999"},
        {"obj.created_at > timestamp('0000-01-01T00:00:00Z')", "must be from 1970 to 9999"},
        {"obj.created_at > timestamp('10000-01-01T00:00:00Z')", "is not an RFC 3339 time"},
        {"obj.created_at.subtract('1500000d') > time.now", "at most 4,000 years"},
        {"obj.created_at.add('1000000d').add('1000000d') > time.now", "at most 4,000 years"},
        {"(time.now + duration('1h')).add('1h') > time.now", "arithmetic"},
        {"[time.now][0].add('1h') > time.now", "indices"},
        {"timestamp(dyn('x')).add('1h') > time.now", "takes a text in quotes"},
        {"obj.description == 'a\\u0000b'", "at byte"},
        {"obj.description == 'a' ? true : false", "?: is not available"},
        {"size(obj.description) + 1 > 2", "arithmetic"},
        {"obj.description in [1]", "strings only"},
        {"type(obj.description) == string", "there is no variable 'string'"},
        {"has(obj.description)", "not available"},
        {"['a'].exists(v, v == obj.description)", "not available"},
        {"obj.description == b'a'", "compares a string with a bytes"},
        {"true < false", "no order"},
    };

    return cr_make_param_array(struct refusal, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct refusal *c, filter, refuses_what_sql_cannot_do_well)
{
    _cleanup_(filter_done) filter_t filter;
    problem_t problem = {0};

    cr_assert_eq(filter_compile(&filter, kind_find("api_key"), c->source, 4, &problem),
                 ERR_BAD_FILTER, "%s: %s", c->source, filter.sql);
    cr_assert_not_null(strstr(problem.msg, c->says), "%s: %s", c->source, problem.msg);
    problem_done(&problem);
}

Test(filter, names_the_fields_that_there_are_where_one_is_unknown)
{
    filter_t filter;
    problem_t problem = {0};

    cr_assert_eq(filter_compile(&filter, kind_find("api_key"), "obj.foo == 'a'", 4, &problem),
                 ERR_BAD_FILTER);
    cr_assert_str_eq(problem.msg,
                     "filter: at byte 0: there is no variable 'obj.foo': there are obj.id, "
                     "obj.created_at, obj.description, obj.metadata, obj.owner_id, time.now");
    problem_done(&problem);
}

Test(filter, bounds_values)
{
    filter_t filter;
    problem_t problem = {0};
    char source[4000] = "obj.id == 'a'";

    for (int i = 0; i < 39; i++)
        strcat(source, " || obj.id == 'a'");
    cr_assert_eq(filter_compile(&filter, kind_find("api_key"), source, 4, &problem), 0, "%s",
                 problem.msg);
    filter_done(&filter);
    strcat(source, " || obj.id == 'a'");
    cr_assert_eq(filter_compile(&filter, kind_find("api_key"), source, 4, &problem),
                 ERR_BAD_FILTER);
    filter_done(&filter);
    problem_done(&problem);
}

Test(filter, of_a_nested_object_asks_for_its_texts)
{
    static const char *const none[] = {
        "obj.identity_provider == 'a'",
        "obj.identity_provider.id == 'a'",
        "obj.identity_provider.name.x == 'a'",
        "obj.email.id == 'a'",
        "obj.endpoints == 'a'",
    };

    for (size_t i = 0; i < LEN(none); i++) {
        problem_t problem = {0};
        filter_t filter;

        cr_expect_eq(filter_compile(&filter, kind_find("application_user"), none[i], 4, &problem),
                     ERR_BAD_FILTER, "%s: %s", none[i], filter.sql);
        filter_done(&filter);
        problem_done(&problem);
    }
}
