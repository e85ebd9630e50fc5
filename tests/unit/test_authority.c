#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <string.h>

#include "services/edge/http/authority.h"

struct good_case {
    char text[64];
    size_t host_len;
    unsigned port;
};

ParameterizedTestParameters(authority, is_a_host_and_perhaps_a_port)
{
    static struct good_case cases[] = {
        {"a.example", 9, 0},           {"a.example:443", 9, 443}, {"a.example:", 9, 0},
        {"a.example.:8443", 10, 8443}, {"A.Example", 9, 0},       {"_a_.example", 11, 0},
        {"127.0.0.1:80", 9, 80},       {"[::1]", 5, 0},           {"[2001:db8::1]:1", 13, 1},
        {"a.example:0443", 9, 443},    {"a:65535", 1, 65535},
    };
    return cr_make_param_array(struct good_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct good_case *one, authority, is_a_host_and_perhaps_a_port)
{
    size_t len = 0;
    unsigned port = 1;

    cr_assert_eq(authority_split(one->text, strlen(one->text), &len, &port), 0, "%s", one->text);
    cr_assert_eq(len, one->host_len, "%s", one->text);
    cr_assert_eq(port, one->port, "%s", one->text);
}

struct bad_case {
    char text[64];
};

ParameterizedTestParameters(authority, is_nothing_else)
{
    static struct bad_case cases[] = {
        {""},
        {":443"},
        {"a:0"},
        {"a:65536"},
        {"a:99999999999999999999"},
        {"a:443.evil"},
        {"a:443:443"},
        {"a:-1"},
        {"a:+1"},
        {"a: 1"},
        {"u@a"},
        {"a,b"},
        {"a b"},
        {"a/b"},
        {"a?b"},
        {"a#b"},
        {"a\\b"},
        {"a%41"},
        {"*.a"},
        {"a\"b"},
        {"<a>"},
        {"[::1"},
        {"[]"},
        {"[::1]x"},
        {"[::1%25eth0]"},
        {"[a.example]"},
        {"::1"},
        {"\xc3\xa9.a"},
        {"a\x01"},
        {"a;b"},
    };
    return cr_make_param_array(struct bad_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct bad_case *one, authority, is_nothing_else)
{
    size_t len;
    unsigned port;

    cr_assert_eq(authority_split(one->text, strlen(one->text), &len, &port), -1, "%s", one->text);
}

Test(authority, ends_where_its_length_says)
{
    size_t len;
    unsigned port;
    char name[300];

    cr_assert_eq(authority_split("a\0b", 3, &len, &port), -1);
    cr_assert_eq(authority_split("a:80", 3, &len, &port), 0);
    cr_assert_eq(port, 8);
    memset(name, 'a', sizeof(name));
    cr_assert_eq(authority_split(name, 254, &len, &port), 0);
    cr_assert_eq(authority_split(name, 255, &len, &port), -1);
}
