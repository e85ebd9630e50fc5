/* User information of URLs: what is left without it. */
#include "services/edge/http/userinfo.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <string.h>

typedef struct {
    char text[64], left[64];
    bool all; /* it is no valid URL */
} cut_t;

ParameterizedTestParameters(userinfo, is_found_wherever_it_may_be)
{
    static cut_t cases[] = {
        {"https://user:pw@host/a", "https://host/a", false},
        {"HTTPS://user@host", "HTTPS://host", false},
        {"https:/user:pw@host/a", "https:/host/a", false},
        {"https:///user:pw@host/a", "https:///host/a", false},
        {"user:pw@host:443", "host:443", false},
        {"user:pw@", "", false},
        {"https://a@b:pw@host?c@d", "https://host?c@d", false},
        {"https://[user:pw@host]/x", "https://host]/x", false},
        {"https://user:pw@host\\x", "https://host\\x", false},
        {"https://host/@name", "https://host/@name", false},
        {"https://host?a@b", "https://host?a@b", false},
        {"https://host#a@b", "https://host#a@b", false},
        {"https://host", "https://host", false},
        {"/path/@name", "/path/@name", false},
        {"", "", false},
        {"https://user:p/w@host/a", "https://host/a", true},
        {"https://user:p?w#@host/a", "https://host/a", true},
        {"user:p/w@host", "host", true},
        {"https://host/a", "https://host/a", true},
    };

    return cr_make_param_array(cut_t, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(cut_t *one, userinfo, is_found_wherever_it_may_be)
{
    size_t begin, end, len = strlen(one->text);
    char left[64];

    if (userinfo_find(one->text, len, one->all, &begin, &end)) {
        cr_assert(begin < end && end <= len);
        memcpy(left, one->text, begin);
        memcpy(left + begin, one->text + end, len - end + 1);
        cr_assert_str_eq(left, one->left);
    } else {
        cr_assert_str_eq(one->text, one->left);
    }
}
