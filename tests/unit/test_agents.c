/* user_agent_filter's rules, and the memory that they take. */
#include "common/codec/pack.h"
#include "common/codec/regex.h"
#include "services/edge/modules/agents.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <string.h>

/* {allow, deny} as the config log brings it, from JSON text. NULL: *bad. */
static agents_t *agents_of(const char *text, bool *bad)
{
    json_t *json = json_loads(text, JSON_ALLOW_NUL, NULL);
    msgpack_sbuffer out;
    msgpack_unpacked document;
    agents_t *self;

    cr_assert_not_null(json, "%s", text);
    msgpack_sbuffer_init(&out);
    cr_assert_eq(pack_json(&out, json), 0);
    msgpack_unpacked_init(&document);
    cr_assert_eq(msgpack_unpack_next(&document, out.data, out.size, NULL), MSGPACK_UNPACK_SUCCESS);
    *bad = false;
    self = agents_parse(&document.data, bad);
    msgpack_unpacked_destroy(&document);
    msgpack_sbuffer_destroy(&out);
    json_decref(json);
    return self;
}

typedef struct {
    char rules[120], agent[40];
    bool permitted;
} judged_t;

ParameterizedTestParameters(agents, judge)
{
    static judged_t cases[] = {
        /* no rules: who says what it is may come in */
        {"{}", "curl/8", true},
        {"{\"allow\":[],\"deny\":[]}", "curl/8", true},
        {"{\"allow\":null,\"deny\":null}", "curl/8", true},
        {"{}", "", false},
        /* allow over deny, and what neither has passes */
        {"{\"deny\":[\"bot\"]}", "a bot", false},
        {"{\"deny\":[\"bot\"]}", "curl/8", true},
        {"{\"allow\":[\"good\"],\"deny\":[\"bot\"]}", "good bot", true},
        {"{\"allow\":[\"good\"],\"deny\":[\"bot\"]}", "bad bot", false},
        {"{\"allow\":[\"good\"]}", "curl/8", true},
        {"{\"allow\":[\"^curl/\"],\"deny\":[\".*\"]}", "curl/8", true},
        {"{\"allow\":[\"^curl/\"],\"deny\":[\".*\"]}", "wget", false},
        /* an empty one needs an expression of allow that matches it */
        {"{\"allow\":[\"^$\"]}", "", true},
        {"{\"allow\":[\".*\"]}", "", true},
        {"{\"allow\":[\"x\"]}", "", false},
        {"{\"allow\":[\"^$\"],\"deny\":[\".*\"]}", "", true},
        {"{\"deny\":[\"x\"]}", "", false},
        /* expressions are found anywhere, as RE2 has them, one beside the other */
        {"{\"deny\":[\"(?i)BOT\",\"x\"]}", "rObOt", false},
        {"{\"deny\":[\"(?i)BOT\",\"x\"]}", "BOX", true},
        {"{\"deny\":[\"a\\\\Qb|\",\"c\"]}", "c", false},
        {"{\"deny\":[\"a\\\\Qb|\",\"c\"]}", "ab", true},
        {"{\"deny\":[\"\"]}", "curl/8", false},
        {"{\"deny\":[\"^.....$\"]}", "caf\xc3\xa9!", false},
        /* bytes that are no UTF-8 hide nothing */
        {"{\"deny\":[\"^.*$\"]}", "x\xff", false},
        {"{\"deny\":[\"[^ -~]\"]}", "x\xc3", false},
        {"{\"deny\":[\"^x..$\"]}", "x\xc0\xaf", false},
        {"{\"deny\":[\"^x.bot$\"]}",
         "x\xed"
         "bot",
         false},
    };

    return cr_make_param_array(judged_t, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(judged_t *one, agents, judge)
{
    bool bad;
    agents_t *self = agents_of(one->rules, &bad);

    cr_assert_not(bad, "%s", one->rules);
    cr_assert_eq(agents_permit(self, one->agent, strlen(one->agent)), one->permitted, "%s: %s",
                 one->rules, one->agent);
    if (!*one->agent)
        cr_assert_eq(agents_permit(self, NULL, 0), one->permitted, "no header is an empty one");
    agents_free(self);
    cr_assert_eq(agents_lists(), 0);
}

Test(agents, a_document_that_is_not_what_the_tables_promise_is_bad)
{
    static const char *const cases[] = {
        "{\"allow\":\"x\"}",         "{\"deny\":[1]}",
        "{\"deny\":[\"x\",null]}",   "{\"deny\":[\"(\"]}",
        "{\"deny\":[\"x\\u0000\"]}", "{\"deny\":[\"(?=a)\"]}",
        "{\"deny\":{\"a\":1}}",      "{\"allow\":[\"\\\\1\"]}",
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bool bad;
        agents_t *self = agents_of(cases[i], &bad);

        cr_assert(bad, "%s", cases[i]);
        agents_free(self);
    }
    cr_assert_eq(agents_lists(), 0);
}

/* A list of n expressions made by pattern, in which %zu is the number of each. */
static agents_t *agents_many(const char *pattern, size_t n, bool *bad)
{
    json_t *list = json_array(), *document;
    char *text;
    agents_t *self;

    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_sprintf(pattern, i));
    document = json_pack("{s:o}", "deny", list);
    text = json_dumps(document, 0);
    self = agents_of(text, bad);
    free(text);
    json_decref(document);
    return self;
}

Test(agents, fifty_usual_expressions_fit_and_what_takes_much_memory_does_not)
{
    static const struct {
        const char *pattern;
        size_t n;
        bool bad;
    } cases[] = {
        {"(?i)\\bSomeCrawler%zu[/ ][0-9.]+", 50, false},
        {"(?i)\\bSomeCrawler%zu[/ ][0-9.]+", 51, true},
        {"(a|b)*a(a|b){40}%zu", 50, true},
        {"((a{1,30}){1,30}){1,3}%zu", 1, true},
        {"\\pL+%zu", 1, false},
        {"\\pL+\\pN+\\p{Lu}{100}%zu", 10, true},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bool bad;
        agents_t *self = agents_many(cases[i].pattern, cases[i].n, &bad);

        cr_assert_eq(bad, cases[i].bad, "%s", cases[i].pattern);
        agents_free(self);
    }
}

Test(agents, expressions_are_at_most_64_KiB_together)
{
    char *pattern = malloc(REGEX_SET_TEXT + 1), why[80];
    const char *patterns[] = {pattern};
    regex_set_t *set = NULL;

    memset(pattern, 'a', REGEX_SET_TEXT);
    memcpy(pattern, "[", 1);
    memcpy(pattern + REGEX_SET_TEXT - 2, "]", 2);
    cr_assert_eq(regex_set_new(&set, patterns, 1, why, sizeof(why)), 0, "%s", why);
    regex_set_destroy(&set);
    memcpy(pattern + REGEX_SET_TEXT - 2, "a]", 3);
    cr_assert_neq(regex_set_new(&set, patterns, 1, why, sizeof(why)), 0);
    free(pattern);
}

Test(agents, a_header_that_is_too_long_is_denied)
{
    char agent[AGENT_MAX + 1];
    bool bad;
    agents_t *none = agents_of("{\"deny\":[\"x\"]}", &bad),
             *all = agents_of("{\"allow\":[\".*\"]}", &bad);

    memset(agent, 0xff, sizeof(agent));
    cr_assert(agents_permit(none, agent, AGENT_MAX));
    cr_assert(agents_permit(all, agent, AGENT_MAX));
    cr_assert_not(agents_permit(none, agent, AGENT_MAX + 1));
    cr_assert_not(agents_permit(all, agent, AGENT_MAX + 1));
    agents_free(none);
    agents_free(all);
}

Test(agents, a_header_that_is_too_long_for_its_list_is_denied)
{
    char agent[AGENT_MAX];
    bool bad, permitted;
    agents_t *deny = agents_many("[ab]*a[ab]{12}c%zu", 20, &bad), *allow;

    cr_assert_not(bad);
    allow = agents_of("{\"allow\":[\".*\",\"\\\\pL+1\"],\"deny\":[\".*\"]}", &bad);
    cr_assert_not(bad);
    memset(agent, 'a', sizeof(agent));
    cr_assert(agents_permit(deny, agent, REGEX_SET_SURE));
    cr_assert(agents_permit(allow, agent, REGEX_SET_SURE));
    cr_assert_not(agents_permit(deny, agent, AGENT_MAX));
    cr_assert_not(agents_permit(allow, agent, AGENT_MAX));
    cr_assert_not(agents_recall(deny, agent, AGENT_MAX, &permitted), "it may be asked again");
    agents_free(deny);
    agents_free(allow);
}

/* What needs no search waits for none. */
Test(agents, a_verdict_that_is_known_is_known_without_a_search)
{
    bool bad, permitted;
    char agent[AGENT_MAX + 1] = "curl/8";
    agents_t *none = agents_of("{}", &bad), *some = agents_of("{\"deny\":[\"bot\"]}", &bad);

    cr_assert(agents_recall(none, agent, 6, &permitted) && permitted);
    cr_assert(agents_recall(none, NULL, 0, &permitted) && !permitted);
    cr_assert(agents_recall(some, agent, sizeof(agent), &permitted) && !permitted);
    cr_assert_not(agents_recall(some, agent, 6, &permitted));
    cr_assert(agents_permit(some, agent, 6));
    cr_assert(agents_recall(some, agent, 6, &permitted) && permitted);
    cr_assert_not(agents_recall(some, "a bot", 5, &permitted));
    cr_assert_not(agents_permit(some, "a bot", 5));
    cr_assert(agents_recall(some, "a bot", 5, &permitted) && !permitted);
    agents_free(none);
    agents_free(some);
}

/* So that a change of something else on the route does not search them all again. */
Test(agents, the_same_lists_are_known_whichever_document_they_came_in)
{
    bool bad;
    agents_t *one = agents_of("{\"allow\":[\"a\"],\"deny\":[\"b\"]}", &bad),
             *same = agents_of("{\"deny\":[\"b\"],\"allow\":[\"a\"]}", &bad),
             *other = agents_of("{\"allow\":[\"b\"],\"deny\":[\"a\"]}", &bad),
             *less = agents_of("{\"deny\":[\"b\"]}", &bad);

    cr_assert(agents_are_same(one, same));
    cr_assert_not(agents_are_same(one, other));
    cr_assert_not(agents_are_same(one, less));
    agents_free(one);
    agents_free(same);
    agents_free(other);
    agents_free(less);
}

Test(agents, routes_with_the_same_list_share_it)
{
    enum { ROUTES = 10000 };
    static agents_t *routes[ROUTES];
    agents_t *other;
    bool bad;

    for (size_t i = 0; i < ROUTES; i++) {
        routes[i] = i % 2 ? agents_of("{\"allow\":[\"a\",\"b\"],\"deny\":[\"ab\"]}", &bad)
                          : agents_of("{\"deny\":[\"a\",\"b\"]}", &bad);
        cr_assert_not(bad);
    }
    cr_assert_eq(agents_lists(), 2);
    other = agents_of("{\"allow\":[\"b\",\"a\"]}", &bad);
    cr_assert_eq(agents_lists(), 3);
    for (size_t i = 0; i < ROUTES; i++) {
        cr_assert_eq(agents_permit(routes[i], "a", 1), i % 2 == 1);
        agents_free(routes[i]);
    }
    cr_assert_eq(agents_lists(), 1);
    cr_assert(agents_permit(other, "a", 1));
    agents_free(other);
    cr_assert_eq(agents_lists(), 0);
}

/* What is remembered of one list, or of two in this order, says nothing of others. */
Test(agents, a_verdict_that_is_remembered_is_of_these_lists_and_this_header)
{
    static const char *const rules[] = {
        "{\"deny\":[\"a\"]}",
        "{\"deny\":[\"b\"]}",
        "{\"allow\":[\"a\"],\"deny\":[\"b\"]}",
        "{\"allow\":[\"b\"],\"deny\":[\"a\"]}",
        "{\"allow\":[\"a\"]}",
    };
    enum { RULES = sizeof(rules) / sizeof(rules[0]) };
    unsigned seed = 7;

    for (int round = 0; round < 20; round++) { /* lists go, and come again */
        agents_t *lists[RULES];
        bool bad;

        for (int i = 0; i < RULES; i++)
            lists[i] = agents_of(rules[i], &bad);
        for (int i = 0; i < 5000; i++) {
            char agent[300];
            size_t len = (size_t)rand_r(&seed) % (i % 16 ? 6 : sizeof(agent));
            bool a, b, expected[RULES];
            int which = rand_r(&seed) % RULES;

            for (size_t k = 0; k < len; k++)
                agent[k] = "abcc"[rand_r(&seed) % (len > 8 ? 1 : 4)];
            a = len && memchr(agent, 'a', len);
            b = len && memchr(agent, 'b', len);
            memcpy(expected, ((bool[]){!a, !b, a || !b, b || !a, true}), sizeof(expected));
            cr_assert_eq(agents_permit(lists[which], agent, len), len && expected[which],
                         "%s of \"%.*s\"", rules[which], (int)len, agent);
        }
        for (int i = 0; i < RULES; i++)
            agents_free(lists[i]);
    }
}
