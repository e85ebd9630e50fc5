/* The edge's networks (services/edge/table/networks.h) for another program: each line of standard
 * input is "+ allow|deny NETWORK", "- allow|deny NETWORK" or "? ADDRESS". A network that is none is
 * answered "none", an address "allow", "deny" or "-". With an argument it measures instead: what an
 * address costs among so many networks. */
#include "services/edge/table/networks.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LOOKUPS = 5000000, SAMPLE = 4096 };

static bool read_address(const char *text, network_t *ret)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};

    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
        return network_of((struct sockaddr *)&v4, ret);
    return inet_pton(AF_INET6, text, &v6.sin6_addr) == 1 && network_of((struct sockaddr *)&v6, ret);
}

static void take_line(networks_t *networks, const char *word, const char *action, const char *text)
{
    bool deny = !strcmp(action, "deny");
    network_t network;
    unsigned found;

    if (*word == '?' && read_address(action, &network)) {
        found = networks_find(networks, &network);
        puts(found & NETWORKS_DENY ? "deny" : found ? "allow" : "-");
    } else if (*word == '?' || !network_parse(text, &network)) {
        puts("none");
    } else if (*word == '+') {
        networks_add(networks, &network, deny);
    } else {
        networks_remove(networks, &network, deny);
    }
}

static void answer(void)
{
    char line[256], word[8], action[128], text[128];
    networks_t networks = {0};

    while (fgets(line, sizeof(line), stdin)) {
        *word = *action = *text = '\0';
        if (sscanf(line, "%7s %127s %127s", word, action, text) < 1)
            fflush(stdout); /* an empty line: what was asked is waited for */
        else
            take_line(&networks, word, action, text);
    }
}

static uint32_t next_random(void)
{
    static uint64_t seed = 1;

    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 32);
}

static network_t random_v4(unsigned bits)
{
    network_t out = {.high = (uint64_t)next_random() << 32, .bits = (uint8_t)bits};

    out.high &= bits ? ~0ull << (64 - bits) : 0;
    return out;
}

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void measure(long count)
{
    static network_t from[SAMPLE];
    networks_t networks = {0};
    unsigned sum = 0;
    double begun = seconds(), added, asked;

    for (long i = 0; i < count; i++) {
        network_t network = random_v4(16 + next_random() % 17);

        networks_add(&networks, &network, false);
    }
    added = seconds() - begun;
    for (int i = 0; i < SAMPLE; i++)
        from[i] = random_v4(32);
    begun = seconds();
    for (long i = 0; i < LOOKUPS; i++)
        sum += networks_find(&networks, &from[i % SAMPLE]);
    asked = seconds() - begun;
    printf("%ld networks: %.0f ns to add one, %.0f ns to find an address (%.0f%% are in one)\n",
           count, added / (double)count * 1e9, asked / LOOKUPS * 1e9,
           100.0 * sum / NETWORKS_ALLOW / LOOKUPS);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        answer();
    for (int i = 1; i < argc; i++)
        measure(atol(argv[i]));
    return 0;
}
