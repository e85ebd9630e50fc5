/* Which open streams a change may take away: nobody who is taken away is missed. */
#include "common/codec/pack.h"
#include "services/edge/streams/touched.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char told[2048]; /* "route r1, edge e1, " */

static void on_touched(const stream_key_t *key)
{
    static const char *const kinds[] = {"route", "edge", "account", "entry", "all"};
    size_t at = strlen(told);

    snprintf(told + at, sizeof(told) - at, "%s %.*s, ", kinds[key->kind], (int)key->len, key->text);
}

static void change(table_t *table, const char *kind, const char *id, const char *text,
                   trust_t trust)
{
    json_t *document = text ? json_loads(text, JSON_DECODE_ANY, NULL) : json_null();
    msgpack_sbuffer buffer;
    msgpack_unpacked unpacked;

    cr_assert_not_null(document, "%s", text);
    msgpack_sbuffer_init(&buffer);
    msgpack_unpacked_init(&unpacked);
    pack_json(&buffer, document);
    msgpack_unpack_next(&unpacked, buffer.data, buffer.size, NULL);
    *told = '\0';
    touched_apply(table, kind, strlen(kind), id, strlen(id), &unpacked.data, trust, on_touched);
    msgpack_unpacked_destroy(&unpacked);
    msgpack_sbuffer_destroy(&buffer);
    json_decref(document);
}

static void free_table(table_t *table)
{
    while (!table_free_some(&table, 100))
        ;
}

typedef struct change_case {
    const char *kind, *id, *text, *told;
    trust_t trust;
} change_case_t;

#define ROUTE "https_edge_route"
#define EDGE  "https_edge"
#define RULE  "ip_policy_rule"
#define LIMIT "ip_restriction"

static const change_case_t changes[] = {
    {EDGE, "e1", "{\"hostports\":[\"a.t:443\",\"*.w.t:443\"]}", "edge e1, ", TRUST_ALL},
    {ROUTE, "r1", "{\"edge_id\":\"e1\",\"match_type\":\"path_prefix\",\"match\":\"/\"}",
     "route r1, edge e1, ", TRUST_ALL},
    /* at the same place: only what is its own */
    {ROUTE, "r1", "{\"edge_id\":\"e1\",\"match_type\":\"path_prefix\",\"match\":\"/\",\"saml\":{}}",
     "route r1, ", TRUST_ALL},
    {ROUTE, "r1", "{\"edge_id\":\"e1\",\"match_type\":\"path_prefix\",\"match\":\"/x\"}",
     "route r1, edge e1, ", TRUST_ALL},
    {ROUTE, "r1", "{\"edge_id\":\"e1\",\"match_type\":\"exact_path\",\"match\":\"/x\"}",
     "route r1, edge e1, ", TRUST_ALL},
    /* one that cannot be read refuses all of its edge */
    {ROUTE, "r1", "{\"edge_id\":\"e1\",\"match\":7}", "route r1, edge e1, ", TRUST_ALL},
    {ROUTE, "r1", "[]", "route r1, edge e1, ", TRUST_ALL},
    {ROUTE, "r1", NULL, "route r1, ", TRUST_ALL},
    {ROUTE, "r1", NULL, "route r1, ", TRUST_ALL},
    /* a name of its own, below the wildcard, and one that another has and keeps */
    {EDGE, "e2", "{\"hostports\":[\"b.w.t:443\",\"c.w.t:443\",\"a.t:443\"]}", "edge e2, edge e1, ",
     TRUST_ALL},
    /* the older takes it from the younger */
    {EDGE, "e0", "{\"hostports\":[\"a.t:443\",\"z.t:443\"]}", "edge e0, edge e1, ", TRUST_ALL},
    {EDGE, "e0", NULL, "edge e0, ", TRUST_ALL},
    {"static_backend", "b1", "{\"address\":\"127.0.0.1:80\"}", "entry b1, ", TRUST_ALL},
    {"static_backend", "b1", NULL, "entry b1, ", TRUST_ALL},
    {"ip_policy", "p1", "{}", "entry p1, entry ip_policy, ", TRUST_ALL},
    {RULE, "i1", "{\"ip_policy_id\":\"p1\",\"cidr\":\"10.0.0.0/8\",\"action\":\"deny\"}",
     "entry p1, entry ip_policy, ", TRUST_ALL},
    {RULE, "i1", "{\"ip_policy_id\":\"p1\",\"cidr\":\"11.0.0.0/8\",\"action\":\"deny\"}",
     "entry p1, entry ip_policy, ", TRUST_ALL},
    /* one that does not say whose it is is that of the policy that it had */
    {RULE, "i1", "7", "entry p1, entry ip_policy, ", TRUST_ALL},
    {RULE, "i1", "{}", "route i1, edge i1, entry i1, entry p1, entry ip_policy, ", TRUST_SKIP},
    {"ip_policy", "p1", NULL, "entry p1, entry ip_policy, ", TRUST_ALL},
    {RULE, "i1", NULL, "entry p1, entry ip_policy, ", TRUST_ALL},
    {RULE, "i1", NULL, "", TRUST_ALL},
    /* a restriction concerns its account, and so do the policies that it names */
    {LIMIT, "x1", "{\"account_id\":\"ac_1\",\"enforced\":true,\"ip_policy_ids\":[\"p1\"]}",
     "account ac_1, ", TRUST_ALL},
    {LIMIT, "x2", "{\"account_id\":\"ac_2\",\"enforced\":true,\"ip_policy_ids\":[\"p2\",\"p1\"]}",
     "account ac_2, ", TRUST_ALL},
    {"ip_policy", "p1", "{}", "entry p1, entry ip_policy, account ac_1, account ac_2, ", TRUST_ALL},
    {"ip_policy", "p2", "{}", "entry p2, entry ip_policy, account ac_2, ", TRUST_ALL},
    {RULE, "i1", "{\"ip_policy_id\":\"p2\",\"cidr\":\"10.0.0.0/8\",\"action\":\"deny\"}",
     "entry p2, entry ip_policy, account ac_2, ", TRUST_ALL},
    {RULE, "i1", NULL, "entry p2, entry ip_policy, account ac_2, ", TRUST_ALL},
    {LIMIT, "x1", "7", "account ac_1, ", TRUST_ALL},
    {LIMIT, "x1", "{}", "route x1, edge x1, entry x1, account ac_1, ", TRUST_SKIP},
    {LIMIT, "x1", NULL, "account ac_1, ", TRUST_ALL},
    {LIMIT, "x1", NULL, "", TRUST_ALL},
    {"ip_policy", "p1", NULL, "entry p1, entry ip_policy, account ac_2, ", TRUST_ALL},
    {LIMIT, "x2", NULL, "account ac_2, ", TRUST_ALL},
    {ROUTE, "e1", "{}", "route e1, edge e1, entry e1, ", TRUST_SKIP},
};

Test(touched, names_whom_a_change_concerns)
{
    table_t *table = table_new();

    for (size_t i = 0; i < sizeof(changes) / sizeof(*changes); i++) {
        change(table, changes[i].kind, changes[i].id, changes[i].text, changes[i].trust);
        cr_assert_str_eq(told, changes[i].told, "%zu: %s", i, told);
    }
    free_table(table);
}

/* ---- against what the table says of each request ---- */

enum { EDGES = 5, ROUTES = 14, REQUESTS = 300, STEPS = 20000 };

static const char *const hosts[] = {"a.t", "b.a.t", "c.a.t", "*.a.t", "*.t", "d.t"};
static const char *const paths[] = {"/", "/x", "/x/y", "/z"};

static unsigned random_below(unsigned n)
{
    static uint64_t seed = 7;

    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(seed >> 33) % n;
}

typedef struct request {
    const char *host, *path;
    char route[8], edge[8]; /* that serve it; "": nobody does */
} request_t;

static void route_request(const table_t *table, const request_t *request, char *route, char *edge)
{
    edge_t *found = table_edge(table, request->host, strlen(request->host));
    const route_t *serves;

    *route = *edge = '\0';
    if (!found || !found->present || edge_is_refused(found))
        return;
    serves = table_route(found, request->host, strlen(request->host), request->path,
                         strlen(request->path));
    if (!serves || serves->refused)
        return;
    snprintf(route, 8, "%s", serves->id);
    snprintf(edge, 8, "%s", serves->edge_id);
}

static void random_edge(table_t *table)
{
    char id[8], text[256] = "{\"hostports\":[";
    unsigned n = random_below(4);

    snprintf(id, sizeof(id), "e%u", random_below(EDGES));
    for (unsigned i = 0; i < n; i++) {
        size_t at = strlen(text);

        snprintf(text + at, sizeof(text) - at, "%s\"%s:443\"", i ? "," : "",
                 hosts[random_below(6)]);
    }
    strcat(text, "]}");
    change(table, EDGE, id, random_below(5) ? text : NULL,
           random_below(12) ? TRUST_ALL : (trust_t)random_below(TRUST_SKIP + 1));
}

static void random_route(table_t *table)
{
    char id[8], text[256];
    unsigned number = random_below(ROUTES);

    snprintf(id, sizeof(id), "r%u", number);
    snprintf(
        text, sizeof(text),
        "{\"edge_id\":\"e%u\",\"match_type\":\"%s\",\"match\":\"%s%s\",\"request_headers\":%s}",
        number % EDGES, random_below(2) ? "path_prefix" : "exact_path",
        random_below(3) ? "" : hosts[random_below(3)], paths[random_below(4)],
        random_below(6) ? "null" : "7");
    change(table, ROUTE, id, random_below(5) ? text : NULL,
           random_below(12) ? TRUST_ALL : (trust_t)random_below(TRUST_SKIP + 1));
}

static bool is_touched(const request_t *request)
{
    char route[24], edge[24];

    snprintf(route, sizeof(route), "route %s, ", request->route);
    snprintf(edge, sizeof(edge), "edge %s, ", request->edge);
    return strstr(told, route) || strstr(told, edge);
}

Test(touched, misses_nobody_whose_route_is_another_than_before)
{
    table_t *table = table_new();
    request_t *requests = calloc(REQUESTS, sizeof(*requests));
    unsigned taken = 0, named = 0, served = 0;

    for (int i = 0; i < REQUESTS; i++)
        requests[i] = (request_t){.host = hosts[random_below(3) + (i % 4 == 0) * 3],
                                  .path = paths[random_below(4)]};
    for (int step = 0; step < STEPS; step++) {
        if (random_below(3))
            random_route(table);
        else
            random_edge(table);
        for (int i = 0; i < REQUESTS; i++) {
            request_t *one = &requests[i];
            char route[8], edge[8];

            route_request(table, one, route, edge);
            served += *one->route != '\0';
            named += *one->route && is_touched(one);
            if (*one->route && strcmp(route, one->route)) {
                taken++;
                cr_assert(is_touched(one), "step %d: %s%s left %s of %s: %s", step, one->host,
                          one->path, one->route, one->edge, told);
            }
            strcpy(one->route, route);
            strcpy(one->edge, edge);
        }
    }
    cr_assert_gt(taken, 1000);
    cr_assert_lt(named, served / 2, "most are left in peace: %u of %u", named, served);
    free(requests);
    free_table(table);
}
