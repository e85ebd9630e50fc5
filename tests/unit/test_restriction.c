/* IP restrictions of accounts as entries of the config log: whom they admit to which edges, whatever
 * the order in which entries come, and what nobody can read denies its account alone. */
#include "common/codec/pack.h"
#include "services/edge/table/restriction.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

static int apply(table_t *table, const char *kind, const char *id, const char *text, trust_t trust)
{
    json_t *document = text ? json_loads(text, JSON_DECODE_ANY, NULL) : json_null();
    msgpack_sbuffer buffer;
    msgpack_unpacked unpacked;
    int r;

    cr_assert_not_null(document, "%s", text);
    msgpack_sbuffer_init(&buffer);
    msgpack_unpacked_init(&unpacked);
    cr_assert_eq(pack_json(&buffer, document), 0);
    msgpack_unpack_next(&unpacked, buffer.data, buffer.size, NULL);
    r = table_apply(table, kind, strlen(kind), id, strlen(id), &unpacked.data, trust);
    msgpack_unpacked_destroy(&unpacked);
    msgpack_sbuffer_destroy(&buffer);
    json_decref(document);
    return r;
}

static void edge(table_t *table, const char *id, const char *account)
{
    char text[128];

    snprintf(text, sizeof(text), "{\"account_id\":\"%s\",\"hostports\":[\"%s.t:443\"]}", account,
             id);
    cr_assert_eq(apply(table, "https_edge", id, text, TRUST_ALL), 0);
}

static void policy(table_t *table, const char *id, const char *action, const char *cidr)
{
    char text[128], rule[16];

    snprintf(rule, sizeof(rule), "i%s", id);
    snprintf(text, sizeof(text), "{\"ip_policy_id\":\"%s\",\"action\":\"%s\",\"cidr\":\"%s\"}", id,
             action, cidr);
    cr_assert_eq(apply(table, "ip_policy_rule", rule, text, TRUST_ALL), 0);
    cr_assert_eq(apply(table, "ip_policy", id, "{}", TRUST_ALL), 0);
}

static const char *text_of(const char *account, bool enforced, const char *policies)
{
    static char text[256];

    snprintf(text, sizeof(text), "{\"account_id\":\"%s\",\"enforced\":%s,\"ip_policy_ids\":%s}",
             account, enforced ? "true" : "false", policies);
    return text;
}

static void restrict_to(table_t *table, const char *id, const char *account, bool enforced,
                        const char *policies)
{
    cr_assert_eq(
        apply(table, "ip_restriction", id, text_of(account, enforced, policies), TRUST_ALL), 0);
}

static void drop(table_t *table)
{
    while (!table_free_some(&table, 3))
        ;
}

/* "free": its account has none; "allowed", "allowed: x would deny", "denied by x", "unknown by x" */
static const char *says(const table_t *table, const char *edge_id, const char *from)
{
    static char said[64];
    char host[16];
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    account_verdict_t verdict;
    const edge_t *found;

    snprintf(host, sizeof(host), "%s.t", edge_id);
    found = table_edge(table, host, strlen(host));
    cr_assert_not_null(found);
    cr_assert_eq(inet_pton(AF_INET, from, &v4.sin_addr), 1);
    if (!edge_has_restriction(found))
        return "free";
    verdict = table_account_admits(table, found->account, (struct sockaddr *)&v4);
    snprintf(said, sizeof(said), "%s%s%s",
             verdict.admission == ADMISSION_ALLOWED  ? "allowed"
             : verdict.admission == ADMISSION_DENIED ? "denied by "
                                                     : "unknown by ",
             verdict.by && verdict.admission == ADMISSION_ALLOWED ? " but for " : "",
             verdict.by ? verdict.by->id : "");
    return said;
}

Test(restriction, is_of_all_edges_of_its_account_and_of_no_other)
{
    table_t *table = table_new();

    edge(table, "e1", "ac_1");
    edge(table, "e2", "ac_2");
    policy(table, "p1", "allow", "10.0.0.0/8");
    policy(table, "p2", "deny", "10.1.0.0/16");
    cr_assert_str_eq(says(table, "e1", "192.0.2.1"), "free");
    restrict_to(table, "x1", "ac_1", true, "[\"p1\",\"p2\"]");
    edge(table, "e3", "ac_1"); /* and of one that comes behind it */
    for (int i = 0; i < 2; i++) {
        const char *of = i ? "e1" : "e3";

        cr_assert_str_eq(says(table, of, "10.0.0.1"), "allowed");
        cr_assert_str_eq(says(table, of, "10.1.0.1"), "denied by x1", "one policy denies");
        cr_assert_str_eq(says(table, of, "192.0.2.1"), "denied by x1", "no policy allows");
    }
    cr_assert_str_eq(says(table, "e2", "192.0.2.1"), "free");
    edge(table, "e1", "ac_2");
    cr_assert_str_eq(says(table, "e1", "192.0.2.1"), "free");
    cr_assert_eq(apply(table, "ip_restriction", "x1", NULL, TRUST_ALL), 0);
    cr_assert_str_eq(says(table, "e3", "192.0.2.1"), "free");
    cr_assert_eq(strmap_count(table->restricting), 0, "nothing is left");
    drop(table);
}

Test(restriction, that_is_not_enforced_denies_nobody_and_says_whom_it_would)
{
    table_t *table = table_new();

    edge(table, "e1", "ac_1");
    policy(table, "p1", "allow", "10.0.0.0/8");
    restrict_to(table, "x1", "ac_1", false, "[\"p1\"]");
    cr_assert_str_eq(says(table, "e1", "10.0.0.1"), "allowed");
    cr_assert_str_eq(says(table, "e1", "192.0.2.1"), "allowed but for x1");
    restrict_to(table, "x1", "ac_1", false, "[\"p9\"]");
    cr_assert_str_eq(says(table, "e1", "10.0.0.1"), "allowed but for x1");
    restrict_to(table, "x1", "ac_1", true, "[\"p9\"]");
    cr_assert_str_eq(says(table, "e1", "10.0.0.1"), "unknown by x1", "a policy is not there");
    drop(table);
}

/* As while one takes the place of the other. */
Test(restriction, two_of_an_account_must_both_admit)
{
    table_t *table = table_new();

    edge(table, "e1", "ac_1");
    policy(table, "p1", "allow", "10.0.0.0/8");
    policy(table, "p2", "allow", "10.1.0.0/16");
    restrict_to(table, "x2", "ac_1", true, "[\"p1\"]");
    restrict_to(table, "x1", "ac_1", false, "[\"p2\"]");
    cr_assert_str_eq(says(table, "e1", "10.1.0.1"), "allowed");
    cr_assert_str_eq(says(table, "e1", "10.0.0.1"), "allowed but for x1");
    cr_assert_str_eq(says(table, "e1", "192.0.2.1"), "denied by x2", "whichever is enforced");
    restrict_to(table, "x1", "ac_1", true, "[\"p2\"]");
    cr_assert_str_eq(says(table, "e1", "10.0.0.1"), "denied by x1");
    drop(table);
}

typedef struct bad_case {
    const char *text;
    trust_t trust;
} bad_case_t;

static const bad_case_t bad[] = {
    {"7", TRUST_ALL},
    {"{}", TRUST_ALL},
    {"{\"account_id\":\"ac_1\"}", TRUST_ALL},
    {"{\"account_id\":\"ac_1\",\"ip_policy_ids\":[\"p1\"]}", TRUST_ALL},
    {"{\"account_id\":\"ac_1\",\"enforced\":1,\"ip_policy_ids\":[\"p1\"]}", TRUST_ALL},
    {"{\"account_id\":\"ac_1\",\"enforced\":true}", TRUST_ALL},
    {"{\"account_id\":\"ac_1\",\"enforced\":true,\"ip_policy_ids\":[]}", TRUST_ALL},
    {"{\"account_id\":\"ac_1\",\"enforced\":true,\"ip_policy_ids\":[7]}", TRUST_ALL},
    {"{\"account_id\":7,\"enforced\":true,\"ip_policy_ids\":[\"p1\"]}", TRUST_ALL},
    {"{\"account_id\":\"ac_1\",\"enforced\":true,\"ip_policy_ids\":[\"p1\"]}", TRUST_PLACE},
    {"{\"account_id\":\"ac_1\",\"enforced\":true,\"ip_policy_ids\":[\"p1\"]}", TRUST_OWNER},
    {"{\"account_id\":\"ac_1\",\"enforced\":false,\"ip_policy_ids\":[\"p1\"]}", TRUST_NONE},
    {"{\"account_id\":\"ac_1\",\"enforced\":false,\"ip_policy_ids\":[\"p1\"]}", TRUST_SKIP},
};

Test(restriction, that_cannot_be_read_denies_everybody_to_the_account_that_it_had)
{
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        table_t *table = table_new(), *snapshot = table_new();

        edge(table, "e1", "ac_1");
        edge(table, "e2", "ac_2");
        policy(table, "p1", "allow", "0.0.0.0/0");
        restrict_to(table, "x1", "ac_1", false, "[\"p1\"]");
        cr_assert_eq(apply(table, "ip_restriction", "x1", bad[i].text, bad[i].trust), -1, "%zu", i);
        cr_assert_str_eq(says(table, "e1", "10.0.0.1"), "unknown by x1", "%zu", i);
        cr_assert_str_eq(says(table, "e2", "10.0.0.1"), "free");
        cr_assert_eq(table_refused(table), 1);

        snapshot->before = table;
        edge(snapshot, "e1", "ac_1");
        if (bad[i].trust < TRUST_SKIP) { /* which leaves what was there, and there is nothing */
            apply(snapshot, "ip_restriction", "x1", bad[i].text, bad[i].trust);
            cr_assert_str_eq(says(snapshot, "e1", "10.0.0.1"), "unknown by x1", "%zu", i);
        }
        snapshot->before = NULL;
        restrict_to(table, "x1", "ac_1", true, "[\"p1\"]");
        cr_assert_str_eq(says(table, "e1", "10.0.0.1"), "allowed");
        cr_assert_eq(table_refused(table), 0);
        drop(table);
        drop(snapshot);
    }
}

Test(restriction, names_that_cannot_be_read_of_one_that_is_not_enforced_deny_nobody)
{
    table_t *table = table_new();

    edge(table, "e1", "ac_1");
    cr_assert_eq(apply(table, "ip_restriction", "x1", text_of("ac_1", false, "[7]"), TRUST_ALL),
                 -1);
    cr_assert_str_eq(says(table, "e1", "10.0.0.1"), "allowed but for x1");
    drop(table);
}

Test(restriction, a_policy_knows_who_names_it)
{
    table_t *table = table_new();
    const naming_t *naming;

    restrict_to(table, "x2", "ac_2", true, "[\"p1\",\"p2\"]");
    restrict_to(table, "x1", "ac_1", true, "[\"p1\"]");
    naming = table_namings(table, "p1", 2);
    cr_assert_str_eq(naming->account->id, "ac_1", "whatever the order in which they came");
    naming = (const naming_t *)naming->claim.next;
    cr_assert_str_eq(naming->account->id, "ac_2");
    cr_assert_null(naming->claim.next);
    cr_assert_null(table_namings(table, "p3", 2));
    restrict_to(table, "x2", "ac_2", true, "[\"p2\"]");
    cr_assert_null(table_namings(table, "p1", 2)->claim.next);
    drop(table);
}
