#include "services/cli/health.h"
#include "common/base/cleanup.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>

struct item_case {
    char text[96];
    bool ok;
    char name[16], address[32];
};

ParameterizedTestParameters(cli_health, an_item_is_an_address_with_or_without_a_name)
{
    static struct item_case cases[] = {
        {"127.0.0.1:9411", true, "", "127.0.0.1:9411"},
        {"routes-2=127.0.0.1:9411", true, "routes-2", "127.0.0.1:9411"},
        {"edge=[::1]:9100", true, "edge", "[::1]:9100"},
        {"routes", false, "", ""},
        {"routes=", false, "", ""},
        {"=127.0.0.1:9411", false, "", ""},
        {":9411", false, "", ""},
        {"", false, "", ""},
        {"a-name-that-is-longer-than-the-63-characters-that-there-is-room-for=h:1", false, "", ""},
    };
    return cr_make_param_array(struct item_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct item_case *param, cli_health, an_item_is_an_address_with_or_without_a_name)
{
    health_item_t item;

    cr_assert_eq(health_item_read(&item, param->text), param->ok, "%s", param->text);
    if (!param->ok)
        return;
    cr_assert_str_eq(item.name, param->name);
    cr_assert_str_eq(item.address, param->address);
}

struct answer_case {
    char answer[256];
    bool ok;
    char want[128];
};

ParameterizedTestParameters(cli_health, an_answer_that_is_not_ready_says_why)
{
    static struct answer_case cases[] = {
        {"HTTP/1.0 200 OK\r\nContent-Length: 6\r\n\r\nready\n", true, "ready"},
        {"HTTP/1.1 200 OK\r\n\r\nready\nthe state file is behind\nworker 1 has entries\n", true,
         "ready\nthe state file is behind\nworker 1 has entries"},
        {"HTTP/1.1 200 OK\r\n\r\nready\nworker 0 has no helper that answers: no changes\n", false,
         "ready\nworker 0 has no helper that answers: no changes"},
        {"HTTP/1.0 503 Service Unavailable\r\nContent-Length: 9\r\n\r\nPostgreSQL is read-only\n",
         false, "not ready: PostgreSQL is read-only"},
        {"HTTP/1.0 503 Service Unavailable\r\n\r\none\r\ntwo\n\n", false, "not ready: one; two"},
        {"HTTP/1.0 503 Service Unavailable\r\n\r\n", false,
         "not ready: HTTP/1.0 503 Service Unavailable"},
        {"HTTP/1.0 503 Service Unavailable\r\n\r\n\n", false,
         "not ready: HTTP/1.0 503 Service Unavailable"},
        {"HTTP/1.0 503 No\r\n\r\na\x1b[31mb", false, "not ready: a?[31mb"},
        {"SSH-2.0-OpenSSH\r\n", false, "not ready: SSH-2.0-OpenSSH"},
        {"HTTP/1.1 20", false, "not ready: HTTP/1.1 20"},
        {"", false, "not ready: no answer"},
    };
    return cr_make_param_array(struct answer_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct answer_case *param, cli_health, an_answer_that_is_not_ready_says_why)
{
    char said[4096];

    cr_assert_eq(health_read_answer(param->answer, said, sizeof(said)), param->ok, "%s",
                 param->answer);
    cr_assert_str_eq(said, param->want);
}

Test(cli_health, what_does_not_fit_is_cut)
{
    char said[24];

    cr_assert_not(
        health_read_answer("HTTP/1.0 503 No\r\n\r\nsomething that is long\nb", said, sizeof(said)));
    cr_assert_str_eq(said, "not ready: something t");
    cr_assert(health_read_answer("HTTP/1.0 200 OK\r\n\r\nready\nsomething that is long\nb", said,
                                 sizeof(said)));
    cr_assert_str_eq(said, "ready\nsomething that is");
}
