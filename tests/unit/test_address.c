#include "common/base/address.h"
#include "common/base/cleanup.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

static address_rules_t *rules_of(const char *own, const char *denied, const char *allowed)
{
    address_rules_t *rules = NULL;
    char *bad = NULL;

    cr_assert_eq(address_rules_new(&rules, own, denied, allowed, &bad), 0, "%s", bad);
    return rules;
}

static const char *fault_at(const address_rules_t *rules, const char *host, uint16_t port)
{
    struct sockaddr_storage address;

    cr_assert(address_parse(host, port, &address), "%s is an address", host);
    return address_fault(rules, (struct sockaddr *)&address);
}

struct address_case {
    char host[64];
    uint16_t port;
    bool denied;
};

ParameterizedTestParameters(address, every_spelling)
{
    static struct address_case cases[] = {
        {"127.0.0.1", 3000, false},
        {"127.0.0.1", 8400, true},
        {"127.0.0.1", 8411, true},
        {"127.0.0.1", 8413, true},
        {"127.0.0.1", 8416, false},
        {"127.9.8.7", 8400, true},
        {"127.1", 8400, true},
        {"2130706433", 8400, true},
        {"0x7f000001", 8400, true},
        {"0x7f.1", 8400, true},
        {"017700000001", 8400, true},
        {"0177.0.0.1", 8400, true},
        {"::1", 8400, true},
        {"[::1]", 8400, true},
        {"0:0:0:0:0:0:0:1", 8400, true},
        {"::1", 3000, false},
        {"::ffff:127.0.0.1", 8400, true},
        {"::ffff:7f00:1", 8400, true},
        {"[::ffff:127.0.0.1]", 8400, true},
        {"::127.0.0.1", 8400, true},
        {"64:ff9b::127.0.0.1", 8400, true},
        {"2002:7f00:1::", 8400, true},
        {"::ffff:0:127.0.0.1", 8400, true},
        {"::ffff:127.0.0.1", 3000, false},
        {"10.1.2.3", 8400, false}, /* not this machine's */
        {"192.168.1.1", 80, false},
        {"93.184.216.34", 443, false},
        {"2606:4700::1111", 443, false},
        {"fd00::1", 443, false},
        {"0.0.0.0", 80, true},
        {"0", 80, true},
        {"0.1.2.3", 80, true},
        {"169.254.169.254", 80, true},
        {"169.254.0.1", 443, true},
        {"0xa9fea9fe", 80, true},
        {"2852039166", 80, true},
        {"0251.0376.0251.0376", 80, true},
        {"169.254.43518", 80, true},
        {"::ffff:169.254.169.254", 80, true},
        {"::ffff:a9fe:a9fe", 80, true},
        {"::169.254.169.254", 80, true},
        {"64:ff9b::a9fe:a9fe", 80, true},
        {"2002:a9fe:a9fe::1", 80, true},
        {"169.253.255.255", 80, false},
        {"169.255.0.0", 80, false},
        {"224.0.0.1", 80, true},
        {"239.255.255.255", 80, true},
        {"255.255.255.255", 80, true},
        {"::", 80, true},
        {"fe80::1", 80, true},
        {"fe80::1%lo", 80, true},
        {"febf::1", 80, true},
        {"fec0::1", 80, false},
        {"ff02::1", 80, true},
        {"fd00:ec2::254", 80, true},
        {"fd00:ec2:0:0::254", 80, true},
        {"fd00:ec2::253", 80, false},
        {"fd20:ce::254", 80, true},
        {"fd00:ec2::23", 80, true},
        {"fd00:42::42", 80, true},
        {"fd00:a9fe:a9fe::1", 80, true},
        {"fd00:c1::a9fe:a9fe", 80, true},
        {"fd00:100::100:200", 80, true},
        {"100.100.100.200", 80, true},
        {"0x646464c8", 80, true},
        {"::ffff:100.100.100.200", 80, true},
        {"64:ff9b::100.100.100.200", 80, true},
        {"2002:6464:64c8::", 80, true},
        {"100.100.100.199", 80, false},
        {"100.100.100.201", 80, false},
        {"168.63.129.16", 80, true},
        {"168.63.129.16", 32526, true},
        {"::168.63.129.16", 80, true},
        {"168.63.129.17", 80, false},
        {"192.0.0.192", 80, true},
        {"192.0.49344", 80, false}, /* 192.0.192.192 */
        {"192.0.0.191", 80, false},
        {"64:ff9b:1::7f00:1", 21011, true},
        {"64:ff9b:1:7f00:0:100::", 80, true},
        {"64:ff9b:1:ffff:ffff:ffff:ffff:ffff", 80, true},
        {"64:ff9b:2::7f00:1", 80, false},
        {"64:ff9b::93.184.216.34", 443, false},
        {"2001:0:7f00:1::", 80, true},
        {"2001:0:ffff:ffff:ffff:ffff:80ff:fffe", 80, true},
        {"2001:1::1", 80, false},
        {"2001:db8::1", 80, false},
        {"10.7.0.9", 5432, true},
        {"10.7.0.9", 5433, false},
        {"::ffff:10.7.0.9", 5432, true},
        {"172.30.4.5", 1, true},
        {"172.31.4.5", 1, false},
        {"fd12::7", 80, true},
        {"fd12::7", 81, false},
    };

    return cr_make_param_array(struct address_case, cases, LEN(cases));
}

ParameterizedTest(struct address_case *one, address, every_spelling)
{
    address_rules_t *rules =
        rules_of("8400, 8411-8415\t10.7.0.9:5432", "172.30.0.0/16 [fd12::/16]:80", "");

    cr_assert_eq(fault_at(rules, one->host, one->port) != NULL, one->denied, "%s port %d",
                 one->host, one->port);
    address_rules_destroy(&rules);
}

Test(address, what_is_allowed_beats_what_is_denied)
{
    address_rules_t *rules =
        rules_of("8400 8411", "10.0.0.0/8", "127.0.0.1:8411 169.254.169.254/32 10.1.0.0/16");

    cr_assert_not_null(fault_at(rules, "127.0.0.1", 8400));
    cr_assert_null(fault_at(rules, "127.0.0.1", 8411));
    cr_assert_not_null(fault_at(rules, "::1", 8411));
    cr_assert_null(fault_at(rules, "169.254.169.254", 80));
    cr_assert_null(fault_at(rules, "::ffff:169.254.169.254", 80));
    cr_assert_not_null(fault_at(rules, "169.254.169.253", 80));
    cr_assert_null(fault_at(rules, "10.1.2.3", 80));
    cr_assert_not_null(fault_at(rules, "10.2.2.3", 80));
    address_rules_destroy(&rules);
}

Test(address, own_sockets_are_on_every_address_of_this_machine)
{
    address_rules_t *rules = rules_of("8400", NULL, NULL);
    struct ifaddrs *list, *one;
    struct sockaddr_in v4;

    cr_assert_eq(getifaddrs(&list), 0);
    for (one = list; one; one = one->ifa_next) {
        if (!one->ifa_addr || one->ifa_addr->sa_family != AF_INET)
            continue;
        v4 = *(struct sockaddr_in *)one->ifa_addr;
        v4.sin_port = htons(8400);
        cr_assert_not_null(address_fault(rules, (struct sockaddr *)&v4));
    }
    freeifaddrs(list);
    address_rules_destroy(&rules);
}

/* Most addresses are let through by their first byte. */
Test(address, a_network_forbids_all_of_its_addresses_and_no_others)
{
    static const struct {
        char network[32], inside[2][24], outside[2][24];
    } cases[] = {
        {"10.0.0.0/7", {"10.0.0.0", "11.255.255.255"}, {"9.255.255.255", "12.0.0.0"}},
        {"192.0.0.0/2", {"192.0.0.1", "223.255.255.255"}, {"191.255.255.255", "128.0.0.1"}},
        {"96.0.0.0/11", {"96.0.0.1", "96.31.255.255"}, {"96.32.0.0", "95.255.255.255"}},
        {"198.51.100.7", {"198.51.100.7", "::ffff:198.51.100.7"}, {"198.51.100.6", "198.51.100.8"}},
        {"::ffff:10.0.0.0/104", {"10.1.2.3", "::ffff:10.0.0.1"}, {"11.0.0.1", "9.0.0.1"}},
        {"::/0", {"10.1.2.3", "2a00::1"}, {"", ""}},
        {"0.0.0.0/0", {"10.1.2.3", "192.0.2.1"}, {"2a00::1", "fd00::1"}},
        {"2600::/7", {"2600::1", "27ff::1"}, {"2800::1", "25ff::1"}},
        {"2a00:1::/32", {"2a00:1::1", "2a00:1:ffff::"}, {"2a00:2::1", "10.1.2.3"}},
        {"10.0.0.0/8", {"2002:a01:203::1", "64:ff9b::10.1.2.3"}, {"2002:b01:203::1", "2003::1"}},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        _cleanup_(address_rules_destroy) address_rules_t *rules =
            rules_of(NULL, cases[i].network, NULL);

        for (int n = 0; n < 2; n++) {
            cr_assert(fault_at(rules, cases[i].inside[n], 80), "%s: %s", cases[i].network,
                      cases[i].inside[n]);
            cr_assert(!*cases[i].outside[n] || !fault_at(rules, cases[i].outside[n], 80), "%s: %s",
                      cases[i].network, cases[i].outside[n]);
        }
    }
}

Test(address, some_of_ipv6_stand_for_one_of_ipv4)
{
    static const struct {
        const char *text;
        bool want; /* 192.0.2.33 */
    } cases[] = {
        {"192.0.2.33", true},
        {"::ffff:192.0.2.33", true},
        {"64:ff9b::192.0.2.33", true},
        {"2002:c000:221::1", true},
        {"2002:c000:221:5::9", true},
        {"::192.0.2.33", true},
        {"::ffff:0:192.0.2.33", true},
        {"64:ff9b:1::192.0.2.33", false},
        {"64:ff9c::192.0.2.33", false},
        {"2001:db8::192.0.2.33", false},
        {"::1", false},
    };
    static const uint8_t want[4] = {192, 0, 2, 33};
    struct sockaddr_storage address;
    uint8_t v4[4];

    for (size_t i = 0; i < LEN(cases); i++) {
        cr_assert(address_parse(cases[i].text, 443, &address), "%s", cases[i].text);
        cr_assert_eq(address_v4_of((struct sockaddr *)&address, v4), cases[i].want, "%s",
                     cases[i].text);
        cr_assert(!cases[i].want || memcmp(v4, want, 4) == 0, "%s", cases[i].text);
    }
    cr_assert_not(address_v4_of(&(struct sockaddr){.sa_family = AF_UNIX}, v4));
}

Test(address, names_are_not_addresses)
{
    static const char *const names[] = {"localhost",         "a.example", "127.0.0.1.",
                                        "127.0.0.1.example", "",          "0x",
                                        "1.2.3.4.5",         "256.0.0.1", "[]"};
    struct sockaddr_storage address;

    for (size_t i = 0; i < LEN(names); i++)
        cr_assert_not(address_parse(names[i], 80, &address), "%s", names[i]);
}

Test(address, a_wrong_item_of_a_setting_is_named)
{
    static const char *const wrong[] = {
        "x",      "10.0.0.0/33", "10.0.0.0/", "10.0.0.1:0",   "10.0.0.1:65536",
        "::/129", "[::1",        "[::1]x",    "10.0.0.1:9-8", "0",
        "70000",  "1-",          "-",         "10.0.0.1:",    "localhost:80"};

    for (size_t i = 0; i < LEN(wrong); i++) {
        address_rules_t *rules = NULL;
        char *bad = NULL, text[64];

        snprintf(text, sizeof(text), "8400 %s", wrong[i]);
        cr_assert_eq(address_rules_new(&rules, text, NULL, NULL, &bad), -EINVAL, "%s", wrong[i]);
        cr_assert_null(rules);
        cr_assert_str_eq(bad, wrong[i]);
        free(bad);
    }
    for (int i = 0; i < 2; i++) { /* a port alone is of own sockets only */
        address_rules_t *rules = NULL;
        char *bad = NULL;

        cr_assert_eq(address_rules_new(&rules, NULL, i ? "80" : NULL, i ? NULL : "80", &bad),
                     -EINVAL);
        free(bad);
    }
}
