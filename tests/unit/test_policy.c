/* Traffic policies: what is accepted, and that no text of the greatest length keeps the parser
 * busy. */
#include "common/base/cleanup.h"
#include "common/schema/policy.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH_MAX = 131072 };

Test(policy, known_phases_in_json_and_yaml)
{
    static const char *const fine[] = {
        "{}",
        "{\"on_http_request\":[{\"actions\":[{\"type\":\"deny\"}]}],\"enabled\":true}",
        "on_http_request:\n- actions:\n  - type: deny\non_tcp_connect: []\n",
        "inbound: &a [x, y]\noutbound: *a\n",
        "? inbound\n: - a\n",
        "# nothing\n---\ninbound: {a: {inbound: {what: ever}}}\n",
    };

    for (size_t i = 0; i < LEN(fine); i++)
        cr_assert_null(policy_fault(fine[i]), "%s: %s", fine[i], policy_fault(fine[i]));
}

Test(policy, what_is_wrong_is_said)
{
    static const struct {
        const char *text, *why;
    } wrong[] = {
        {"", "must be a JSON or YAML object"},
        {"# nothing", "must be a JSON or YAML object"},
        {"[1]", "must be a JSON or YAML object"},
        {"text", "must be a JSON or YAML object"},
        {"{", "is not valid JSON or YAML"},
        {"inbound: [", "is not valid JSON or YAML"},
        {"inbound: }", "is not valid JSON or YAML"},
        {"on_coffee: []", "has a phase that does not exist"},
        {"inbound: []\non_coffee: []", "has a phase that does not exist"},
        {"[inbound]: []", "has a phase that does not exist"},
        {"inbound: {a: b}\noutbound: [c]\nd: e", "has a phase that does not exist"},
        {"inbound: *a", "has an alias without an anchor"},
        {"inbound: [&a x, &a y]", "has the same anchor twice"},
    };

    for (size_t i = 0; i < LEN(wrong); i++) {
        const char *why = policy_fault(wrong[i].text);

        cr_assert_not_null(why, "%s", wrong[i].text);
        cr_assert_str_eq(why, wrong[i].why, "%s: %s", wrong[i].text, why);
    }
}

static void fill(char *text, const char *head, const char *shape, bool numbered)
{
    size_t len = (size_t)sprintf(text, "%s", head);

    for (int i = 0; len < LENGTH_MAX - 64; i++)
        len += numbered ? (size_t)sprintf(text + len, shape, i)
                        : (size_t)sprintf(text + len, "%s", shape);
}

/* count times open, x, count times close, as the value of a phase: count + 1 levels. */
static const char *nested(char *text, const char *open, const char *close, int count)
{
    strcpy(text, "inbound: ");
    for (int i = 0; i < count; i++)
        strcat(text, open);
    strcat(text, "x");
    for (int i = 0; i < count; i++)
        strcat(text, close);
    return policy_fault(text);
}

Test(policy, nesting_has_an_end)
{
    char text[1024];

    cr_assert_null(nested(text, "[", "]", 31));
    cr_assert_str_eq(nested(text, "[", "]", 32), "is nested deeper than 32 levels");
    cr_assert_null(nested(text, "{a: ", "}", 31));
    cr_assert_str_eq(nested(text, "{a: ", "}", 32), "is nested deeper than 32 levels");
    cr_assert_null(nested(text, "\n - ", "", 1));
}

Test(policy, the_greatest_text_is_left_at_the_first_level_too_deep)
{
    static const char *const shapes[] = {"[", "{", "- ", "? ", "[[", "{? ", "[a: ", "&a [", "!a {"};
    char *text = malloc(LENGTH_MAX + 64);

    for (size_t i = 0; i < LEN(shapes); i++) {
        fill(text, "? inbound\n: ", shapes[i], false);
        cr_assert_str_eq(policy_fault(text), shapes[i][0] == '&'
                                                 ? "has the same anchor twice"
                                                 : "is nested deeper than 32 levels");
    }
    free(text);
}

Test(policy, anchors_have_an_end)
{
    char text[2048];
    size_t len = (size_t)sprintf(text, "inbound:\n");

    for (int i = 0; i < 64; i++)
        len += (size_t)sprintf(text + len, "- &a%d x\n", i);
    cr_assert_null(policy_fault(text));
    sprintf(text + len, "- &z x\n");
    cr_assert_str_eq(policy_fault(text), "has more than 64 anchors");
}

/* All of it takes seconds. The limit ends what would take hours: a parser whose time grows with the
 * square of the text. */
Test(policy, no_shape_keeps_the_parser_busy, .timeout = 60)
{
    static const char *const heads[] = {
        "", "inbound: ", "inbound: [", "inbound:\n  ", "inbound: \"", "inbound: |\n "};
    static const char *const shapes[] = {
        "[",     "{",        "- ",           "? ",           ": ",     "[[],",    "{a: ",
        "[{",    "[?",       "{?",           "a: ",          "[a: ",   "{[",      "&a *a ",
        "&a ",   "*a ",      "!!x ",         "!a ",          "[] ",    "[],",     "{},",
        "a, ",   "\"\",",    "'a': ",        "\"",           "'",      "''",      "\\x",
        "x",     " ",        "\t",           "\n",           "\n\n- ", "\r",      "#",
        "#\n",   "---\n",    "...\n",        "%A\n",         ",",      "]",       "}",
        "|\n",   ">\n",      "? [",          "- [",          "- a\n",  "  - a\n", "\n  a: b",
        "x y\n", "\xc3\xa4", "\xe2\x80\xa8", "\xef\xbb\xbf", "\xff"};
    static const char *const numbered[] = {"&a%d x,", "&a%d ",           "- &a%d x\n  ",
                                           "*a%d,",   "%%TAG !a%d! b\n", "!a%d!x ",
                                           "a%d: ",   "a%d: b,",         "? a%d\n  "};
    char *text = malloc(LENGTH_MAX + 64);
    size_t len = 0;

    for (size_t h = 0; h < LEN(heads); h++) {
        for (size_t i = 0; i < LEN(shapes) + LEN(numbered); i++) {
            bool number = i >= LEN(shapes);
            const char *shape = number ? numbered[i - LEN(shapes)] : shapes[i];

            fill(text, heads[h], shape, number);
            policy_fault(text);
        }
    }
    strcpy(text, ""); /* each line one deeper */
    for (int depth = 0; len + (size_t)depth + 4 < LENGTH_MAX; depth++)
        len += (size_t)sprintf(text + len, "%*s%s:\n", depth, "", depth ? "a" : "inbound");
    cr_assert_str_eq(policy_fault(text), "is nested deeper than 32 levels");
    free(text);
}
