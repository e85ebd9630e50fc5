#include "common/base/address.h"
#include "common/base/cleanup.h"
#include "common/out/permit.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdlib.h>
#include <string.h>

struct permit_case {
    char allowed[48];
    char address[48];
    char why[64]; /* part of it; "": it is permitted */
};

#define PRIVATE  "is of a private network, and POSTERN_OUT_ALLOWED"
#define LOOPBACK "is a loopback address that POSTERN_OUT_ALLOWED"
#define NEVER    "is a link-local, multicast, unspecified, metadata"

ParameterizedTestParameters(permit, what_is_inside_is_closed_unless_the_setting_opens_it)
{
    static struct permit_case cases[] = {
        {"", "192.0.2.1", ""},
        {"", "2001:db8::1", ""},
        {"", "9.255.255.255", ""},
        {"", "11.0.0.0", ""},
        {"", "10.0.0.0", PRIVATE},
        {"", "10.255.255.255", PRIVATE},
        {"", "172.15.255.255", ""},
        {"", "172.16.0.1", PRIVATE},
        {"", "172.31.255.255", PRIVATE},
        {"", "172.32.0.0", ""},
        {"", "192.168.0.1", PRIVATE},
        {"", "192.169.0.1", ""},
        {"", "100.64.0.1", PRIVATE},
        {"", "100.128.0.1", ""},
        {"", "198.18.0.1", PRIVATE},
        {"", "240.0.0.1", PRIVATE},
        {"", "fc00::1", PRIVATE},
        {"", "fdff:ffff::1", PRIVATE},
        {"", "fe00::1", ""},
        {"", "fec0::1", PRIVATE},
        {"", "::ffff:10.0.0.1", PRIVATE},
        {"", "64:ff9b::10.0.0.1", PRIVATE},
        {"", "64:ff9b::192.0.2.1", ""},
        {"", "2002:0a00:0001::1", PRIVATE},
        {"", "127.0.0.1", LOOPBACK},
        {"", "127.9.9.9", LOOPBACK},
        {"", "::1", LOOPBACK},
        {"", "64:ff9b:1::1", "local translation"},
        {"10.1.0.0/16", "10.1.2.3", ""},
        {"10.1.0.0/16", "10.2.0.1", PRIVATE},
        {"10.1.2.3:443", "10.1.2.3", ""},
        {"10.1.2.3:8443", "10.1.2.3", PRIVATE},
        {"fd00::/8", "fd12::1", ""},
        {"127.0.0.1", "127.0.0.1", ""},
        {"127.0.0.1", "10.0.0.1", PRIVATE},
        {"64:ff9b:1::/48", "64:ff9b:1::1", ""},
        {"", "169.254.169.254", NEVER},
        {"169.254.169.254", "169.254.169.254", NEVER},
        {"0.0.0.0/0 ::/0", "169.254.169.254", NEVER},
        {"0.0.0.0/0 ::/0", "169.254.0.1", NEVER},
        {"0.0.0.0/0 ::/0", "64:ff9b::169.254.169.254", NEVER},
        {"0.0.0.0/0 ::/0", "::ffff:169.254.169.254", NEVER},
        {"0.0.0.0/0 ::/0", "100.100.100.200", NEVER},
        {"0.0.0.0/0 ::/0", "fd00:ec2::254", NEVER},
        {"0.0.0.0/0 ::/0", "fe80::1", NEVER},
        {"0.0.0.0/0 ::/0", "0.0.0.0", NEVER},
        {"0.0.0.0/0 ::/0", "::", NEVER},
        {"0.0.0.0/0 ::/0", "224.0.0.1", NEVER},
        {"0.0.0.0/0 ::/0", "10.0.0.1", ""},
        {"0.0.0.0/0 ::/0", "127.0.0.1", ""},
        {"0.0.0.0/0 ::/0", "fc00::1", ""},
    };
    return cr_make_param_array(struct permit_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct permit_case *param, permit,
                  what_is_inside_is_closed_unless_the_setting_opens_it)
{
    _cleanup_(permit_destroy) permit_t *permit = NULL;
    struct sockaddr_storage address;
    char why[PERMIT_WHY_MAX] = "", *bad;

    cr_assert_eq(permit_new(&permit, NULL, NULL, param->allowed, &bad), 0);
    cr_assert(address_parse(param->address, 443, &address));
    cr_assert_eq(permit_address(permit, (struct sockaddr *)&address, why), !*param->why,
                 "%s with %s: %s", param->address, param->allowed, why);
    if (!*param->why)
        return;
    cr_assert(strstr(why, param->why), "%s: %s", param->address, why);
    cr_assert(strchr(why, ' ') > why && !strncmp(why, param->address, 2), "%s", why);
}

Test(permit, own_sockets_and_what_the_operator_denies_stay_closed)
{
    _cleanup_(permit_destroy) permit_t *permit = NULL;
    struct sockaddr_storage address;
    char why[PERMIT_WHY_MAX], *bad;

    cr_assert_eq(permit_new(&permit, "127.0.0.1:443", "10.0.0.0/8", "", &bad), 0);
    cr_assert(address_parse("127.0.0.1", 443, &address));
    cr_assert_not(permit_address(permit, (struct sockaddr *)&address, why));
    cr_assert_str_eq(why, "127.0.0.1 is a socket of Postern's own");
    cr_assert(address_parse("10.0.0.1", 443, &address));
    cr_assert_not(permit_address(permit, (struct sockaddr *)&address, why));
    cr_assert_str_eq(why, "10.0.0.1 is denied by the operator");
}

Test(permit, a_wrong_item_is_named)
{
    permit_t *permit;
    char *bad;

    cr_assert_neq(permit_new(&permit, NULL, NULL, "10.0.0.0/8 10.0.0.0/33", &bad), 0);
    cr_assert_null(permit);
    cr_assert_str_eq(bad, "10.0.0.0/33");
    free(bad);
}
