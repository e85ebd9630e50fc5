#include "common/cel/cel.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEN(array) (sizeof(array) / sizeof((array)[0]))

static bool find(const void *context, const char *name, cel_type_t *ret_type)
{
    static const struct {
        const char *name;
        cel_type_t type;
    } variables[] = {{"obj.name", CEL_STRING},
                     {"obj.at", CEL_TIMESTAMP},
                     {"obj.tags", CEL_LIST},
                     {"m", CEL_MAP},
                     {"x", CEL_DYN}};

    (void)context;
    for (size_t i = 0; i < LEN(variables); i++)
        if (!strcmp(variables[i].name, name)) {
            *ret_type = variables[i].type;
            return true;
        }
    return false;
}

/* Fully parenthesised, which shows precedence and association. */
static void show(const cel_node_t *node, char *out, size_t size)
{
    static const char *const signs[] = {
        [CEL_MULTIPLY] = "*",     [CEL_DIVIDE] = "/",    [CEL_MODULO] = "%",
        [CEL_ADD] = "+",          [CEL_SUBTRACT] = "-",  [CEL_EQ] = "==",
        [CEL_NE] = "!=",          [CEL_LT] = "<",        [CEL_LE] = "<=",
        [CEL_GT] = ">",           [CEL_GE] = ">=",       [CEL_IN] = "in",
        [CEL_AND] = "&&",         [CEL_OR] = "||",       [CEL_CONDITION] = "?",
        [CEL_INDEX] = "[]",       [CEL_NOT] = "!",       [CEL_NEGATE] = "neg",
        [CEL_MAKE_LIST] = "list", [CEL_MAKE_MAP] = "map"};
    size_t n = strlen(out);

    if (node->op == CEL_CONSTANT) {
        if (node->type == CEL_STRING || node->type == CEL_BYTES)
            snprintf(out + n, size - n, "'%s'", node->text);
        else if (node->type == CEL_DOUBLE)
            snprintf(out + n, size - n, "%g", node->value.real);
        else if (node->type == CEL_BOOL || node->type == CEL_NULL)
            snprintf(out + n, size - n, "%s",
                     node->type == CEL_NULL ? "null"
                     : node->value.boolean  ? "true"
                                            : "false");
        else
            snprintf(out + n, size - n, "%lld%s", (long long)node->value.integer,
                     node->type == CEL_UINT ? "u" : "");
        return;
    }
    if (node->op == CEL_IDENT) {
        snprintf(out + n, size - n, "%s", node->text);
        return;
    }
    snprintf(out + n, size - n, "(%s",
             node->op == CEL_SELECT   ? "."
             : node->op == CEL_CALL   ? "call"
             : node->op == CEL_METHOD ? "method"
                                      : signs[node->op]);
    if (*node->text)
        snprintf(out + strlen(out), size - strlen(out), " %s", node->text);
    for (const cel_node_t *child = node->first; child; child = child->next) {
        snprintf(out + strlen(out), size - strlen(out), " ");
        show(child, out, size);
    }
    snprintf(out + strlen(out), size - strlen(out), ")");
}

struct tree_case {
    char source[120], tree[160];
};

ParameterizedTestParameters(cel, parses_by_precedence)
{
    static struct tree_case cases[] = {
        {"1 + 2 * 3", "(+ 1 (* 2 3))"},
        {"1 - 2 - 3", "(- (- 1 2) 3)"},
        {"a || b && c", "(|| a (&& b c))"},
        {"a == b && !c", "(&& (== a b) (! c))"},
        {"!!a", "(! (! a))"},
        {"- -1", "(neg (neg 1))"},
        {"a ? b : c ? d : e", "(? a b (? c d e))"},
        {"a in [1, 2,]", "(in a (list 1 2))"},
        {"{'k': 1, 'l': 2}", "(map 'k' 1 'l' 2)"},
        {"a.b.c", "(. c (. b a))"},
        {"a.b(1)[2]", "([] (method b a 1) 2)"},
        {"size(a.b)", "(call size (. b a))"},
        {".a", "a"},
        {"m.`content-type`", "(. content-type m)"},
        {"0x1F + 2u", "(+ 31 2u)"},
        {"-9223372036854775808", "-9223372036854775808"},
        {"1.5e3 + .5", "(+ 1500 0.5)"},
        {"'a\\x41\\u00e9\\n'", "'aA\xc3\xa9\n'"},
        {"r'a\\d'", "'a\\d'"},
        {"\"\"\"a\"b\"\"\"", "'a\"b'"},
        {"b'\\377'", "'\xff'"},
        {"a // comment\n + 1", "(+ a 1)"},
        {"a.all(v, v > 1)", "(method all a v (> v 1))"},
        {"true != null", "(!= true null)"},
    };

    return cr_make_param_array(struct tree_case, cases, LEN(cases));
}

ParameterizedTest(struct tree_case *c, cel, parses_by_precedence)
{
    cel_error_t error;
    cel_t *cel = NULL;
    char tree[400] = "";

    cr_assert_eq(cel_parse(&cel, c->source, strlen(c->source), &error), 0, "%s: %s", c->source,
                 error.text);
    show(cel_root(cel), tree, sizeof(tree));
    cr_assert_str_eq(tree, c->tree);
    cel_destroy(&cel);
}

struct bad_case {
    char source[100];
    size_t at;
    char says[60];
};

ParameterizedTestParameters(cel, refuses_and_says_where)
{
    static struct bad_case cases[] = {
        {"", 0, "ends too early"},
        {"a +", 3, "ends too early"},
        {"a b", 2, "should have ended"},
        {"(a", 2, "')' is missing"},
        {"f(a,)", 4, "argument is missing"},
        {"'abc", 0, "has no end"},
        {"'\\q'", 2, "no such escape"},
        {"'\\ud800'", 2, "not a character"},
        {"9223372036854775808", 0, "64 bits"},
        {"0x", 0, "not a number"},
        {"1e999", 0, "too large"},
        {"1 & 2", 2, "no place here"},
        {"while", 0, "reserved word"},
        {"a.", 2, "field name is missing"},
        {"a ? b", 5, "':' is missing"},
        {"{1: 2", 5, "'}' is missing"},
        {"`a`", 0, "value is missing"},
        /* the checker's */
        {"nothing", 0, "there is no variable 'nothing'"},
        {"obj.secret == 'a'", 0, "there is no variable 'obj.secret'"},
        {"obj.name.first", 8, "a string has no field 'first'"},
        {"obj.name > 1", 9, "does not take string and int"},
        {"obj.name && true", 9, "does not take string and bool"},
        {"size(1)", 0, "'size' does not take (int)"},
        {"frobnicate(1)", 0, "there is no function 'frobnicate'"},
        {"obj.name.frobnicate()", 8, "there is no method 'frobnicate'"},
        {"1 + 1.0", 2, "does not take int and double"},
        {"-'a'", 0, "does not take a string"},
        {"has(obj)", 0, "one field selection"},
        {"obj.name.all(v, v == 'a')", 8, "needs a list or a map"},
        {"obj.tags.all(v, w)", 16, "there is no variable 'w'"},
        {"'a'[0]", 3, "a string has no items"},
        {"1 in 'abc'", 2, "does not take int and string"},
    };

    return cr_make_param_array(struct bad_case, cases, LEN(cases));
}

ParameterizedTest(struct bad_case *c, cel, refuses_and_says_where)
{
    const cel_env_t env = {find, NULL, NULL};
    cel_error_t error;
    cel_t *cel = NULL;
    int r = cel_parse(&cel, c->source, strlen(c->source), &error);

    if (!r)
        r = cel_check(cel, &env, &error);
    cr_assert_eq(r, 1, "%s", c->source);
    cr_assert_not_null(strstr(error.text, c->says), "%s: %s", c->source, error.text);
    cr_assert_eq(error.at, c->at, "%s: %zu", c->source, error.at);
    cel_destroy(&cel);
}

struct good_case {
    char source[120];
    cel_type_t type;
};

ParameterizedTestParameters(cel, knows_the_type_of_an_expression)
{
    static struct good_case cases[] = {
        {"obj.name", CEL_STRING},
        {"obj.name == 'a' || obj.at > timestamp('2026-01-01T00:00:00Z')", CEL_BOOL},
        {"obj.at + duration('1h')", CEL_TIMESTAMP},
        {"obj.at - obj.at", CEL_DURATION},
        {"size(obj.tags) + 1", CEL_INT},
        {"obj.tags.size()", CEL_INT},
        {"obj.at.getHours('Europe/Berlin')", CEL_INT},
        {"m.anything.at_all", CEL_DYN},
        {"x > 1 && x.y[3] == 'a'", CEL_BOOL},
        {"has(m.a)", CEL_BOOL},
        {"obj.tags.exists(t, t == obj.name)", CEL_BOOL},
        {"obj.tags.map(t, t.startsWith('a'), t + 'b')", CEL_LIST},
        {"obj.tags.all(t, obj.tags.all(u, t == u))", CEL_BOOL},
        {"true ? 1 : 2", CEL_INT},
        {"true ? 1 : 'a'", CEL_DYN},
        {"'a' in obj.tags", CEL_BOOL},
        {"1 == 'a'", CEL_BOOL}, /* heterogeneous equality */
        {"1 < 2u", CEL_BOOL},   /* one number line */
    };

    return cr_make_param_array(struct good_case, cases, LEN(cases));
}

ParameterizedTest(struct good_case *c, cel, knows_the_type_of_an_expression)
{
    const cel_env_t env = {find, NULL, NULL};
    cel_error_t error;
    cel_t *cel = NULL;

    cr_assert_eq(cel_parse(&cel, c->source, strlen(c->source), &error), 0, "%s: %s", c->source,
                 error.text);
    cr_assert_eq(cel_check(cel, &env, &error), 0, "%s: %s", c->source, error.text);
    cr_assert_eq(cel_root(cel)->type, c->type, "%s is a %s", c->source,
                 cel_type_name(cel_root(cel)->type));
    cel_destroy(&cel);
}

/* unit repeated n times between head and tail. */
static int parse_repeated(const char *head, const char *unit, int n, const char *tail,
                          cel_error_t *error)
{
    char *source = calloc(1, strlen(head) + (size_t)n * strlen(unit) + strlen(tail) + 1);
    cel_t *cel = NULL;
    int r;

    strcpy(source, head);
    for (int i = 0; i < n; i++)
        strcat(source, unit);
    strcat(source, tail);
    r = cel_parse(&cel, source, strlen(source), error);
    cel_destroy(&cel);
    free(source);
    return r;
}

Test(cel, takes_what_every_parser_must_and_bounds_the_rest)
{
    cel_error_t error;

    cr_assert_eq(parse_repeated("true", " || true", 32, "", &error), 0, "%s", error.text);
    cr_assert_eq(parse_repeated("true", " && true", 400, "", &error), 0, "%s", error.text);
    cr_assert_eq(parse_repeated("", "a ? b : ", 24, "c", &error), 0, "%s", error.text);
    cr_assert_eq(parse_repeated("[", "1, ", 300, "]", &error), 0, "%s", error.text);
    cr_assert_eq(parse_repeated("f(1", ", 1", 32, ")", &error), 0, "%s", error.text);
    cr_assert_eq(parse_repeated("a", ".b", 60, "", &error), 0, "%s", error.text);
    cr_assert_eq(parse_repeated("", "f(", 12, "1))))))))))))", &error), 0, "%s", error.text);
    cr_assert_eq(parse_repeated("", "'' + ", 400, "''", &error), 0, "%s", error.text);

    cr_assert_eq(parse_repeated("1", " + 1", 600, "", &error), 1);
    cr_assert_not_null(strstr(error.text, "more than"));
    cr_assert_eq(parse_repeated("", "(", 2000, "", &error), 1);
    cr_assert_not_null(strstr(error.text, "nested"));
    cr_assert_eq(parse_repeated("", "!", 2000, "a", &error), 1);
    cr_assert_eq(parse_repeated("'", "a", 5000, "'", &error), 1);
    cr_assert_not_null(strstr(error.text, "limit"));
}
