/* Networks that are allowed or denied, against a plain search through all of them. */
#include "services/edge/table/networks.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

static network_t net(const char *text)
{
    network_t out;

    cr_assert(network_parse(text, &out), "%s", text);
    return out;
}

static network_t address(const char *text)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    network_t out;

    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
        cr_assert(network_of((struct sockaddr *)&v4, &out));
    else if (inet_pton(AF_INET6, text, &v6.sin6_addr) == 1)
        cr_assert(network_of((struct sockaddr *)&v6, &out));
    else
        cr_assert_fail("%s", text);
    return out;
}

static unsigned ask(const networks_t *networks, const char *text)
{
    network_t from = address(text);

    return networks_find(networks, &from);
}

Test(networks, refuse_what_is_no_network_in_one_spelling)
{
    static const char *const bad[] = {
        "",
        "/",
        "10.0.0.0",
        "10.0.0.0/",
        "10.0.0.0/33",
        "10.0.0.0/-1",
        "10.0.0.0/08",
        "10.0.0.0/8 ",
        " 10.0.0.0/8",
        "010.0.0.0/8",
        "10.0.0.1/8",
        "10.0/8",
        "0x0a.0.0.0/8",
        "::/129",
        "2001:db8::1/32",
        "::1",
        "fe80::%1/64",
        "1.2.3.4/8/8",
        "::ffff:10.0.0.1/104",
        "a.test/8",
        "1/1",
        "10.0.0.0/1000",
        "0.0.0.1/0",
        "::1/0",
        "::1:0:0:0:0/63",
        "1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb:cccc:dddd/128",
    };
    network_t out;

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        cr_assert_not(network_parse(bad[i], &out), "%s", bad[i]);
}

Test(networks, ipv4_in_ipv6_is_ipv4_and_what_contains_all_of_it_is_not)
{
    network_t four = net("10.0.0.0/8"), mapped = net("::ffff:10.0.0.0/104");
    networks_t all = {0};
    network_t six = net("::/0"), wide = net("::ffff:0:0/96");

    cr_assert(!mapped.v6 && mapped.bits == 8 && mapped.high == four.high);
    cr_assert(!wide.v6 && wide.bits == 0);
    cr_assert(!address("::ffff:10.1.2.3").v6);
    networks_add(&all, &six, false);
    cr_assert_eq(ask(&all, "2001:db8::1"), NETWORKS_ALLOW);
    cr_assert_eq(ask(&all, "::1"), NETWORKS_ALLOW);
    cr_assert_eq(ask(&all, "10.1.2.3"), 0, "::/0 is not about IPv4");
    cr_assert_eq(ask(&all, "::ffff:10.1.2.3"), 0);
    networks_add(&all, &mapped, true);
    cr_assert_eq(ask(&all, "10.1.2.3"), NETWORKS_DENY);
    cr_assert_eq(ask(&all, "::ffff:10.1.2.3"), NETWORKS_DENY);
    networks_remove(&all, &four, true); /* the same network in the other spelling */
    networks_remove(&all, &six, false);
    cr_assert(networks_is_empty(&all));
}

Test(networks, any_denial_wins_whichever_is_longer)
{
    networks_t all = {0};
    network_t whole = net("0.0.0.0/0"), ten = net("10.0.0.0/8"), one = net("10.1.1.1/32");

    networks_add(&all, &whole, false);
    networks_add(&all, &ten, true);
    networks_add(&all, &one, false);
    cr_assert_eq(ask(&all, "11.0.0.0"), NETWORKS_ALLOW);
    cr_assert_eq(ask(&all, "9.255.255.255"), NETWORKS_ALLOW);
    cr_assert_eq(ask(&all, "10.0.0.0"), NETWORKS_DENY);
    cr_assert_eq(ask(&all, "10.1.1.1"), NETWORKS_DENY, "a longer allowance changes nothing");
    networks_remove(&all, &ten, true);
    cr_assert_eq(ask(&all, "10.0.0.0"), NETWORKS_ALLOW);
    networks_remove(&all, &whole, false);
    cr_assert_eq(ask(&all, "10.0.0.0"), 0);
    cr_assert_eq(ask(&all, "10.1.1.1"), NETWORKS_ALLOW);
    networks_add(&all, &one, false); /* twice: two policies' spellings of one network */
    networks_remove(&all, &one, false);
    cr_assert_eq(ask(&all, "10.1.1.1"), NETWORKS_ALLOW);
    networks_remove(&all, &one, false);
    cr_assert(networks_is_empty(&all));
}

Test(networks, who_has_no_address_has_none)
{
    struct sockaddr local = {.sa_family = AF_UNIX};
    network_t out;

    cr_assert_not(network_of(&local, &out));
}

/* ---- against a plain search ---- */

enum { NETWORKS = 400, ROUNDS = 20000 };

static uint64_t random_bits(void)
{
    static uint64_t seed = 7;

    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return seed ^ seed >> 29;
}

typedef struct entry {
    network_t network;
    bool deny, here;
} entry_t;

/* Near each other, so that they contain each other. */
static network_t random_address(void)
{
    bool v6 = random_bits() >> 60 & 1;
    network_t out = {.v6 = v6, .bits = v6 ? 128 : 32};

    out.high = random_bits() & 0x8181018000000000u;
    if (v6)
        out.high |= random_bits() & 3, out.low = random_bits() & 0xc000000000010101u;
    return out;
}

static network_t cut(network_t network, unsigned bits)
{
    network.bits = (uint8_t)bits;
    network.high &= bits == 0 ? 0 : bits >= 64 ? ~0ull : ~0ull << (64 - bits);
    network.low &= bits <= 64 ? 0 : bits >= 128 ? ~0ull : ~0ull << (128 - bits);
    return network;
}

static bool contains(const network_t *network, const network_t *one)
{
    network_t cutted = cut(*one, network->bits);

    return network->v6 == one->v6 && cutted.high == network->high && cutted.low == network->low;
}

static unsigned plain_search(const entry_t *entries, const network_t *from)
{
    unsigned found = 0;

    for (int i = 0; i < NETWORKS; i++)
        if (entries[i].here && contains(&entries[i].network, from))
            found |= entries[i].deny ? NETWORKS_DENY : NETWORKS_ALLOW;
    return found & NETWORKS_DENY ? NETWORKS_DENY : found;
}

Test(networks, find_what_a_plain_search_finds_while_they_change)
{
    static entry_t entries[NETWORKS];
    networks_t all = {0};
    unsigned seen[3] = {0};

    for (int round = 0; round < ROUNDS; round++) {
        entry_t *one = &entries[random_bits() % NETWORKS];
        network_t from = random_address();

        if (one->here) {
            networks_remove(&all, &one->network, one->deny);
        } else {
            network_t some = random_address();

            one->network = cut(some, (unsigned)(random_bits() >> 33) % (some.bits + 1u));
            one->deny = random_bits() >> 60 == 0;
            networks_add(&all, &one->network, one->deny);
        }
        one->here = !one->here;
        for (int k = 0; k < 4; k++, from = random_address()) {
            unsigned found = networks_find(&all, &from);

            seen[found]++;
            cr_assert_eq(found, plain_search(entries, &from), "round %d", round);
        }
    }
    for (int i = 0; i < NETWORKS; i++)
        if (entries[i].here)
            networks_remove(&all, &entries[i].network, entries[i].deny);
    cr_assert(networks_is_empty(&all));
    for (int i = 0; i < 3; i++)
        cr_assert_gt(seen[i], ROUNDS / 100, "%d: %u", i, seen[i]);
}
