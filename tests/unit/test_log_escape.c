#include "services/edge/worker/log_escape.h"
#include "common/base/cleanup.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>

struct line_case {
    char line[32];
    char want[64];
};

ParameterizedTestParameters(log_escape, lines)
{
    static struct line_case cases[] = {
        {"GET /a?b=\"c\" HTTP/1.1", "GET /a?b=\"c\" HTTP/1.1"},
        {"a\nb\r\t\x1b[2J\x7f", "a\\x0ab\\x0d\\x09\\x1b[2J\\x7f"},
        {"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
        /* U+009B is CSI, U+009D OSC, U+009C their end; U+00A0 is a space */
        {"\xc2\x9b"
         "2J\xc2\x9d"
         "0;t\xc2\x9c",
         "\\xc2\\x9b2J\\xc2\\x9d0;t\\xc2\\x9c"},
        {"\xc2\x80\xc2\x9f\xc2\xa0", "\\xc2\\x80\\xc2\\x9f\xc2\xa0"},
        {"\x9b"
         "31m",
         "\\x9b31m"},
        {"\xc0\x8a \xe0\x80\x8a", "\\xc0\\x8a \\xe0\\x80\\x8a"}, /* over-long line feeds */
        {"\xed\xa0\x80", "\\xed\\xa0\\x80"},
        {"\xff\xc3", "\\xff\\xc3"}, /* one that is cut */
        {"\\x0a", "\\x5cx0a"},
    };
    return cr_make_param_array(struct line_case, cases, LEN(cases));
}

ParameterizedTest(struct line_case *c, log_escape, lines)
{
    unsigned char out[64];
    size_t n = log_escape(out, sizeof(out), c->line, strlen(c->line));

    cr_assert_eq(n, strlen(c->want), "%.*s", (int)n, (char *)out);
    cr_assert_arr_eq(out, c->want, n);
}

Test(log_escape, what_does_not_fit_is_left_out_whole)
{
    unsigned char out[8];

    cr_assert_eq(log_escape(out, 5, "aa\nb", 4), 2); /* and nothing of what is behind it */
    cr_assert_eq(log_escape(out, 6, "aa\nb", 4), 6);
    cr_assert_eq(log_escape(out, 3, "aa\xe2\x82\xac", 5), 2);
    cr_assert_eq(log_escape(out, 5, "aa\xe2\x82\xac", 5), 5);
    cr_assert_eq(log_escape(out, 0, "a", 1), 0);
}
