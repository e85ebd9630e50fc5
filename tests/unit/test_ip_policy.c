/* Policies and rules as entries of the config log, and whom several policies admit together. */
#include "common/codec/pack.h"
#include "services/edge/table/ip_policy.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

/* The text as a document that lives until the next. */
static const msgpack_object *document_of(const char *text)
{
    static msgpack_unpacked unpacked;
    static msgpack_sbuffer buffer;
    json_t *document = json_loads(text, JSON_DECODE_ANY, NULL);

    cr_assert_not_null(document, "%s", text);
    msgpack_unpacked_destroy(&unpacked);
    msgpack_sbuffer_destroy(&buffer);
    msgpack_sbuffer_init(&buffer);
    msgpack_unpacked_init(&unpacked);
    cr_assert_eq(pack_json(&buffer, document), 0);
    msgpack_unpack_next(&unpacked, buffer.data, buffer.size, NULL);
    json_decref(document);
    return &unpacked.data;
}

static int apply(table_t *table, const char *kind, const char *id, const char *text, trust_t trust)
{
    return table_apply(table, kind, strlen(kind), id, strlen(id), text ? document_of(text) : NULL,
                       trust);
}

static void policy(table_t *table, const char *id)
{
    cr_assert_eq(apply(table, "ip_policy", id, "{\"account_id\":\"ac\"}", TRUST_ALL), 0);
}

static void rule(table_t *table, const char *id, const char *of, const char *action,
                 const char *cidr)
{
    char text[200];

    snprintf(text, sizeof(text), "{\"ip_policy_id\":\"%s\",\"action\":\"%s\",\"cidr\":\"%s\"}", of,
             action, cidr);
    cr_assert_eq(apply(table, "ip_policy_rule", id, text, TRUST_ALL), 0, "%s", text);
}

static void drop(table_t *table)
{
    while (!table_free_some(&table, 3))
        ;
}

/* names: JSON. "allowed", "denied by p", "denied", "unknown p" */
static const char *admits(const table_t *table, const char *names, const char *from)
{
    static char said[64];
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    char text[200];
    const char *which;
    bool bad = false, is_v4 = inet_pton(AF_INET, from, &v4.sin_addr) == 1;
    void *config;

    cr_assert(is_v4 || inet_pton(AF_INET6, from, &v6.sin6_addr) == 1);
    snprintf(text, sizeof(text), "{\"ip_policy_ids\":%s}", names);
    config = policy_names_parse(document_of(text), &bad);
    cr_assert_not(bad);
    switch (table_admits(table, config, is_v4 ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6,
                         &which)) {
    case ADMISSION_ALLOWED:
        cr_assert_null(which);
        strcpy(said, "allowed");
        break;
    case ADMISSION_DENIED:
        snprintf(said, sizeof(said), which ? "denied by %s" : "denied", which);
        break;
    case ADMISSION_UNKNOWN:
        snprintf(said, sizeof(said), "unknown %s", which);
        break;
    }
    policy_names_free(config);
    return said;
}

Test(ip_policy, rules_of_all_policies_count_as_one_set)
{
    table_t *table = table_new();

    policy(table, "p1");
    policy(table, "p2");
    policy(table, "p3");
    cr_assert_str_eq(admits(table, "[\"p1\"]", "10.0.0.1"), "denied", "an empty one allows nobody");
    rule(table, "r1", "p1", "allow", "10.0.0.0/8");
    rule(table, "r2", "p2", "deny", "10.1.0.0/16");
    rule(table, "r3", "p2", "allow", "192.0.2.0/24");
    cr_assert_str_eq(admits(table, "[\"p1\"]", "10.1.0.1"), "allowed");
    cr_assert_str_eq(admits(table, "[\"p1\"]", "11.0.0.1"), "denied");
    cr_assert_str_eq(admits(table, "[\"p1\",\"p2\"]", "10.0.0.1"), "allowed");
    cr_assert_str_eq(admits(table, "[\"p1\",\"p2\"]", "10.1.0.1"), "denied by p2");
    cr_assert_str_eq(admits(table, "[\"p2\",\"p1\"]", "10.1.0.1"), "denied by p2");
    cr_assert_str_eq(admits(table, "[\"p1\",\"p2\"]", "192.0.2.1"), "allowed");
    cr_assert_str_eq(admits(table, "[\"p1\",\"p3\"]", "10.1.0.1"), "allowed",
                     "an empty one adds nothing");
    cr_assert_str_eq(admits(table, "[\"p3\"]", "10.1.0.1"), "denied");
    cr_assert_str_eq(admits(table, "[\"p1\"]", "::ffff:10.0.0.1"), "allowed", "RFC 4291 2.5.5.2");
    cr_assert_str_eq(admits(table, "[\"p1\"]", "::1"), "denied");
    rule(table, "r4", "p3", "allow", "::/0");
    cr_assert_str_eq(admits(table, "[\"p3\"]", "2001:db8::1"), "allowed");
    cr_assert_str_eq(admits(table, "[\"p3\"]", "10.0.0.1"), "denied");
    drop(table);
}

Test(ip_policy, one_that_is_missing_or_cannot_be_read_denies_whatever_the_others_say)
{
    table_t *table = table_new();

    rule(table, "r1", "p1", "allow", "0.0.0.0/0");
    cr_assert_str_eq(admits(table, "[\"p1\"]", "10.0.0.1"), "unknown p1", "only its rule came");
    policy(table, "p1");
    cr_assert_str_eq(admits(table, "[\"p1\"]", "10.0.0.1"), "allowed");
    cr_assert_str_eq(admits(table, "[\"p1\",\"p2\"]", "10.0.0.1"), "unknown p2");
    cr_assert_eq(apply(table, "ip_policy", "p1", "7", TRUST_ALL), -1);
    cr_assert_str_eq(admits(table, "[\"p1\"]", "10.0.0.1"), "unknown p1");
    policy(table, "p1");
    for (int trust = TRUST_ALL; trust <= TRUST_SKIP; trust++) {
        const char *bad =
            trust == TRUST_ALL
                ? "{\"ip_policy_id\":\"p1\",\"action\":\"deny\",\"cidr\":\"10.0.0.1/8\"}"
                : "{\"ip_policy_id\":\"p1\",\"action\":\"deny\",\"cidr\":\"1.0.0.0/8\"}";

        rule(table, "r2", "p1", "deny", "1.0.0.0/8");
        cr_assert_str_eq(admits(table, "[\"p1\"]", "10.0.0.1"), "allowed");
        cr_assert_eq(apply(table, "ip_policy_rule", "r2", bad, (trust_t)trust), -1);
        cr_assert_str_eq(admits(table, "[\"p1\"]", "10.0.0.1"), "unknown p1", "%d", trust);
        cr_assert_eq(table_refused(table), 1);
        cr_assert_eq(apply(table, "ip_policy_rule", "r2", NULL, TRUST_ALL), 0);
        cr_assert_str_eq(admits(table, "[\"p1\"]", "10.0.0.1"), "allowed");
    }
    cr_assert_eq(apply(table, "ip_policy", "p1", NULL, TRUST_ALL), 0);
    cr_assert_str_eq(admits(table, "[\"p1\"]", "10.0.0.1"), "unknown p1");
    cr_assert_eq(apply(table, "ip_policy_rule", "r1", NULL, TRUST_ALL), 0);
    cr_assert_eq(strmap_count(table->policies), 0, "nothing is left");
    cr_assert_eq(strmap_count(table->rules), 0);
    drop(table);
}

Test(ip_policy, a_rule_that_cannot_be_read_belongs_to_the_policy_that_it_had)
{
    static const char *const bad[] = {
        "[]",
        "{}",
        "{\"cidr\":\"10.0.0.0/8\",\"action\":\"deny\"}",
        "{\"ip_policy_id\":7,\"cidr\":\"10.0.0.0/8\",\"action\":\"deny\"}",
        "{\"ip_policy_id\":\"p1\",\"cidr\":\"10.0.0.0/8\",\"action\":\"drop\"}",
        "{\"ip_policy_id\":\"p1\",\"cidr\":\"10.0.0.0/8\"}",
        "{\"ip_policy_id\":\"p1\",\"action\":\"deny\"}",
        "{\"ip_policy_id\":\"p1\",\"cidr\":7,\"action\":\"deny\"}",
        "{\"ip_policy_id\":\"p1\",\"cidr\":\"all\",\"action\":\"deny\"}",
    };
    table_t *table = table_new(), *next;

    policy(table, "p1");
    rule(table, "r1", "p1", "allow", "0.0.0.0/0");
    rule(table, "r2", "p1", "deny", "10.0.0.0/8");
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        cr_assert_eq(apply(table, "ip_policy_rule", "r2", bad[i], TRUST_ALL), -1);
        cr_assert_str_eq(admits(table, "[\"p1\"]", "11.0.0.1"), "unknown p1", "%s", bad[i]);
        /* a snapshot asks the table that it takes the place of */
        next = table_new();
        next->before = table;
        policy(next, "p1");
        rule(next, "r1", "p1", "allow", "0.0.0.0/0");
        cr_assert_eq(apply(next, "ip_policy_rule", "r2", bad[i], TRUST_ALL), -1);
        cr_assert_str_eq(admits(next, "[\"p1\"]", "11.0.0.1"), "unknown p1", "%s", bad[i]);
        drop(next);
        rule(table, "r2", "p1", "deny", "10.0.0.0/8");
        cr_assert_str_eq(admits(table, "[\"p1\"]", "11.0.0.1"), "allowed");
    }
    drop(table);
}

Test(ip_policy, what_a_route_says_is_1_to_100_ids_or_the_route_is_refused)
{
    static const char *const bad[] = {"{}",
                                      "{\"ip_policy_ids\":[]}",
                                      "{\"ip_policy_ids\":\"p\"}",
                                      "{\"ip_policy_ids\":[7]}",
                                      "{\"ip_policy_ids\":[null]}",
                                      "{\"ip_policy_ids\":[\"p\",\"\"]}"};
    const char *ids[POLICY_ENTRIES_MAX];
    char many[101 * 4 + 32] = "{\"ip_policy_ids\":[\"p\"";
    bool is_bad;
    void *config;

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        is_bad = false;
        config = policy_names_parse(document_of(bad[i]), &is_bad);
        cr_assert(is_bad, "%s", bad[i]);
        policy_names_free(config);
    }
    for (int n = 1; n <= 101; n++) {
        char text[sizeof(many) + 4];

        snprintf(text, sizeof(text), "%s]}", many);
        is_bad = false;
        config = policy_names_parse(document_of(text), &is_bad);
        cr_assert_eq(is_bad, n > POLICY_NAMES_MAX, "%d", n);
        if (!is_bad) {
            cr_assert_eq(policy_names_entries(config, ids), 1, "of the same one, once");
            cr_assert_str_eq(ids[0], n <= POLICY_ENTRIES_MAX ? "p" : POLICY_ANY);
        }
        policy_names_free(config);
        strcat(many, ",\"p\"");
    }
}

/* ---- the set of entries counts, not their order ---- */

static unsigned random_below(unsigned n)
{
    static uint64_t seed = 11;

    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(seed >> 33) % n;
}

Test(ip_policy, the_same_entries_in_any_order_admit_the_same)
{
    enum { RULES = 40, POLICIES = 4 };
    static const char *const cidrs[] = {
        "10.0.0.0/8", "10.1.0.0/16",   "10.1.2.0/24", "0.0.0.0/0",
        "::/0",       "2001:db8::/32", "all",         "::ffff:10.0.0.0/104"};
    static const char *const from[] = {"10.1.2.3", "10.2.0.1", "192.0.2.1", "2001:db8::1", "::1"};

    for (int round = 0; round < 300; round++) {
        table_t *one = table_new(), *other = table_new();
        char texts[RULES][120], id[8];
        bool here[RULES], policies[POLICIES];
        unsigned order = random_below(RULES);

        for (unsigned i = 0; i < POLICIES; i++) {
            snprintf(id, sizeof(id), "p%u", i);
            policies[i] = random_below(5) > 0;
            if (policies[i])
                policy(one, id);
        }
        for (unsigned k = 0; k < 3 * RULES; k++) { /* history, of which the last of each counts */
            unsigned i = k % RULES;

            snprintf(id, sizeof(id), "r%u", i);
            here[i] = random_below(4) > 0;
            snprintf(texts[i], sizeof(texts[i]),
                     "{\"ip_policy_id\":\"p%u\",\"cidr\":\"%s\",\"action\":\"%s\"}", i % POLICIES,
                     cidrs[random_below(random_below(8) ? 6 : 8)],
                     random_below(4) ? "allow" : "deny");
            apply(one, "ip_policy_rule", id, here[i] ? texts[i] : NULL, TRUST_ALL);
        }
        for (unsigned k = 0; k < RULES; k++) {
            unsigned i = (k * 7 + order) % RULES;

            snprintf(id, sizeof(id), "r%u", i);
            if (here[i])
                apply(other, "ip_policy_rule", id, texts[i], TRUST_ALL);
        }
        for (unsigned i = 0; i < POLICIES; i++) {
            snprintf(id, sizeof(id), "p%u", i);
            if (policies[i])
                policy(other, id);
        }
        for (unsigned i = 0; i < sizeof(from) / sizeof(*from); i++)
            for (unsigned set = 0; set < POLICIES; set++) {
                char names[32], said[64];

                snprintf(names, sizeof(names), "[\"p%u\",\"p%u\"]", set, (set + 1) % POLICIES);
                strcpy(said, admits(one, names, from[i]));
                cr_assert_str_eq(admits(other, names, from[i]), said, "%s %s", names, from[i]);
            }
        cr_assert_eq(table_refused(one), table_refused(other));
        drop(one);
        drop(other);
    }
}

/* Of names that are parsed once, as a route's are. */
static admission_t ask(const table_t *table, const policy_names_t *names, uint32_t from)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    const char *which;
    admission_t admission;

    v4.sin_addr.s_addr = htonl(from);
    admission = table_admits(table, names, (struct sockaddr *)&v4, &which);
    cr_assert_eq(admission == ADMISSION_UNKNOWN, which != NULL);
    return admission;
}

Test(ip_policy, what_was_said_before_a_change_is_not_said_again)
{
    table_t *table = table_new(), *other = table_new();
    bool bad = false;
    policy_names_t *names = policy_names_parse(document_of("{\"ip_policy_ids\":[\"p1\"]}"), &bad);
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    const char *which;

    cr_assert_eq(ask(table, names, 0x0a000001), ADMISSION_UNKNOWN);
    policy(table, "p1");
    cr_assert_eq(ask(table, names, 0x0a000001), ADMISSION_DENIED);
    rule(table, "r1", "p1", "allow", "10.0.0.0/8");
    for (int again = 0; again < 2; again++)
        cr_assert_eq(ask(table, names, 0x0a000001), ADMISSION_ALLOWED);
    cr_assert_eq(inet_pton(AF_INET6, "a00:1::", &v6.sin6_addr), 1);
    cr_assert_eq(table_admits(table, names, (struct sockaddr *)&v6, &which), ADMISSION_DENIED,
                 "the same first bits, of another family");
    cr_assert_eq(ask(other, names, 0x0a000001), ADMISSION_UNKNOWN, "of another table");
    cr_assert_eq(ask(table, names, 0x0a000001), ADMISSION_ALLOWED);
    cr_assert_eq(apply(table, "ip_policy_rule", "r1", NULL, TRUST_SKIP), -1);
    cr_assert_eq(ask(table, names, 0x0a000001), ADMISSION_UNKNOWN);
    rule(table, "r1", "p1", "allow", "11.0.0.0/8");
    cr_assert_eq(ask(table, names, 0x0a000001), ADMISSION_DENIED);
    cr_assert_eq(apply(table, "ip_policy", "p1", NULL, TRUST_ALL), 0);
    cr_assert_eq(ask(table, names, 0x0b000001), ADMISSION_UNKNOWN);
    policy_names_free(names);
    drop(table);
    drop(other);
}

Test(ip_policy, many_addresses_and_routes_at_a_time_are_not_mistaken_for_each_other)
{
    enum { ADDRESSES = 20000 };
    table_t *table = table_new();
    bool bad = false;
    policy_names_t *one = policy_names_parse(document_of("{\"ip_policy_ids\":[\"p1\"]}"), &bad),
                   *two = policy_names_parse(document_of("{\"ip_policy_ids\":[\"p2\"]}"), &bad);

    policy(table, "p1");
    policy(table, "p2");
    rule(table, "r1", "p1", "allow", "10.0.0.0/8");
    rule(table, "r2", "p2", "allow", "11.0.0.0/8");
    for (int again = 0; again < 2; again++)
        for (uint32_t i = 0; i < ADDRESSES; i++) {
            uint32_t from = (i % 2 ? 0x0a000000 : 0x0b000000) + i / 2 * 257;

            cr_assert_eq(ask(table, one, from), i % 2 ? ADMISSION_ALLOWED : ADMISSION_DENIED);
            cr_assert_eq(ask(table, two, from), i % 2 ? ADMISSION_DENIED : ADMISSION_ALLOWED);
        }
    policy_names_free(one);
    policy_names_free(two);
    drop(table);
}
