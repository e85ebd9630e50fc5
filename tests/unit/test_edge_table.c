/* The edge's lookup structures, against plain search. */
#include "common/pack.h"
#include "services/edge/table.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* One of the edge's modules and one that nobody has; the edge's own rows need nginx. */
static const edge_module_t headers_module = {
    .parse = headers_module_parse, .free = headers_module_free, .beyond = headers_module_beyond};
const edge_module_t *const edge_modules[MODULE_COUNT] = {[MODULE_REQUEST_HEADERS] =
                                                             &headers_module};

static unsigned seed = 7;

static unsigned random_below(unsigned n)
{
    seed = seed * 1103515245u + 12345u;
    return (seed >> 16) % n;
}

Test(strmap, holds_replaces_and_removes_100000_keys)
{
    strmap_t *map = strmap_new();
    char key[32];

    for (long i = 0; i < 100000; i++)
        cr_assert_null(
            strmap_put(map, key, (size_t)snprintf(key, sizeof(key), "k%ld", i), (void *)(i + 1)));
    cr_assert_eq(strmap_count(map), 100000);
    for (long i = 0; i < 100000; i++)
        cr_assert_eq(strmap_get(map, key, (size_t)snprintf(key, sizeof(key), "k%ld", i)),
                     (void *)(i + 1));
    cr_assert_eq(strmap_put(map, "k5", 2, (void *)99), (void *)6);
    for (long i = 0; i < 100000; i += 2)
        cr_assert_not_null(strmap_del(map, key, (size_t)snprintf(key, sizeof(key), "k%ld", i)));
    cr_assert_null(strmap_get(map, "k0", 2));
    cr_assert_eq(strmap_get(map, "k1", 2), (void *)2);
    cr_assert_eq(strmap_count(map), 50000);
    while (strmap_pop(map))
        ;
    cr_assert_eq(strmap_count(map), 0);
    strmap_destroy(&map);
}

/* The rule itself: exact, else the longest prefix. */
static const char *plain_search(char (*paths)[16], const int *kinds, int n, const char *path)
{
    const char *best = NULL;

    for (int i = 0; i < n; i++) {
        if (kinds[i] == 1 && !strcmp(paths[i], path))
            return paths[i];
        if (kinds[i] == 0 && !strncmp(paths[i], path, strlen(paths[i]))
            && (!best || strlen(paths[i]) > strlen(best)))
            best = paths[i];
    }
    return best;
}

Test(tree, finds_what_a_plain_search_finds_while_it_changes)
{
    static char paths[300][16];
    static int kinds[300]; /* 0 prefix, 1 exact, -1 not there */
    tree_t *tree = tree_new();

    for (int i = 0; i < 300; i++)
        kinds[i] = -1;
    for (int round = 0; round < 20000; round++) {
        int i = (int)random_below(300);
        char path[16] = "/";

        if (kinds[i] >= 0) {
            cr_assert_eq(tree_del(tree, paths[i], strlen(paths[i]), kinds[i]), paths[i]);
            kinds[i] = -1;
        } else {
            bool taken = false;

            snprintf(paths[i], sizeof(paths[i]), "/");
            for (unsigned k = random_below(6); k > 0; k--)
                strncat(paths[i], &"ab/"[random_below(3)], 1);
            kinds[i] = (int)random_below(2);
            for (int k = 0; k < 300; k++)
                taken |= k != i && kinds[k] == kinds[i] && !strcmp(paths[k], paths[i]);
            if (taken)
                kinds[i] = -1;
            else
                cr_assert_null(tree_put(tree, paths[i], strlen(paths[i]), kinds[i], paths[i]));
        }
        for (unsigned k = random_below(8); k > 0; k--)
            strncat(path, &"ab/"[random_below(3)], 1);
        cr_assert_eq(tree_find(tree, path, strlen(path)), plain_search(paths, kinds, 300, path),
                     "%s", path);
    }
    for (int i = 0; i < 300; i++)
        if (kinds[i] >= 0)
            tree_del(tree, paths[i], strlen(paths[i]), kinds[i]);
    cr_assert(tree_empty(tree));
    tree_destroy(&tree);
}

static void apply(table_t *table, const char *kind, const char *id, const char *text)
{
    json_t *document = text ? json_loads(text, 0, NULL) : json_null();
    msgpack_sbuffer buffer;
    msgpack_unpacked unpacked;

    cr_assert_not_null(document, "%s", text);
    msgpack_sbuffer_init(&buffer);
    msgpack_unpacked_init(&unpacked);
    pack_json(&buffer, document);
    msgpack_unpack_next(&unpacked, buffer.data, buffer.size, NULL);
    cr_assert_eq(table_apply(table, kind, strlen(kind), id, strlen(id), &unpacked.data), 0);
    msgpack_unpacked_destroy(&unpacked);
    msgpack_sbuffer_destroy(&buffer);
    json_decref(document);
}

static const char *find(table_t *table, const char *host, const char *path)
{
    edge_t *edge = table_edge(table, host, strlen(host));
    route_t *route =
        edge && edge->present ? table_route(edge, host, strlen(host), path, strlen(path)) : NULL;

    return route ? route->id : "none";
}

static void drop(table_t *table)
{
    while (!table_free_some(&table, 3))
        ;
}

Test(table, takes_entries_in_any_order)
{
    table_t *table = table_new();

    apply(table, "https_edge_route", "r1",
          "{\"edge_id\":\"e\",\"match\":\"/\",\"match_type\":\"path_prefix\"}");
    apply(table, "https_edge_route", "r2",
          "{\"edge_id\":\"e\",\"match\":\"a.test/x\",\"match_type\":\"exact_path\"}");
    cr_assert_str_eq(find(table, "a.test", "/"), "none");
    apply(table, "https_edge", "e", "{\"hostports\":[\"a.test:443\",\"*.w.test:443\"]}");
    cr_assert_str_eq(find(table, "a.test", "/x"), "r2");
    cr_assert_str_eq(find(table, "b.w.test", "/x"), "r1");
    cr_assert_str_eq(find(table, "w.test", "/x"), "none");
    apply(table, "https_edge", "e", NULL);
    cr_assert_str_eq(find(table, "a.test", "/x"), "none");
    apply(table, "https_edge_route", "r1", NULL);
    apply(table, "https_edge_route", "r2", NULL);
    cr_assert_eq(strmap_count(table->edges), 0, "nothing is left of an edge that is gone");
    drop(table);
}

Test(table, a_route_keeps_what_its_modules_made_of_their_documents)
{
    table_t *table = table_new();
    const headers_t *headers;
    route_t *route;

    apply(table, "https_edge", "e", "{\"hostports\":[\"a.test:443\"]}");
    apply(table, "https_edge_route", "r",
          "{\"edge_id\":\"e\",\"match\":\"/"
          "\",\"match_type\":\"path_prefix\",\"oauth\":null,\"saml\":{},"
          "\"request_headers\":{\"add\":{\"X-One\":\"1\",\"bad\":2},\"remove\":[\"X-Two\",3]}}");
    route = table_route(table_edge(table, "a.test", 6), "a.test", 6, "/", 1);
    cr_assert_not_null(route);
    cr_assert_eq(route->enabled, 1u << MODULE_REQUEST_HEADERS | 1u << MODULE_SAML);
    cr_assert_null(route->configs[MODULE_SAML], "nobody has it: it is on all the same");
    cr_assert_eq(route->beyond, 1u << MODULE_SAML);
    headers = route->configs[MODULE_REQUEST_HEADERS];
    cr_assert_eq(headers->add_count, 1);
    cr_assert_str_eq(headers->add[0].lower, "x-one");
    cr_assert_str_eq(headers->add[0].value, "1");
    cr_assert_eq(headers->remove_count, 1);
    cr_assert_str_eq(headers->remove[0].name, "X-Two");
    route->refs++; /* a request */
    apply(table, "https_edge_route", "r", NULL);
    drop(table);
    cr_assert_str_eq(headers->add[0].name, "X-One", "as long as a request runs");
    route_release(route);
}

Test(table, a_header_with_an_expression_is_beyond_the_edge)
{
    static const struct {
        const char *value;
        bool beyond;
    } rows[] = {{"a", false}, {"$a{}", false}, {"${a}", true}, {"b ${", true}};
    table_t *table = table_new();
    char document[256];

    apply(table, "https_edge", "e", "{\"hostports\":[\"a.test:443\"]}");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const route_t *route;

        snprintf(document, sizeof(document),
                 "{\"edge_id\":\"e\",\"match\":\"/\",\"match_type\":\"path_prefix\","
                 "\"request_headers\":{\"add\":{\"X-One\":\"1\",\"X-Two\":\"%s\"}}}",
                 rows[i].value);
        apply(table, "https_edge_route", "r", document);
        route = table_route(table_edge(table, "a.test", 6), "a.test", 6, "/", 1);
        cr_assert_eq(route->beyond != 0, rows[i].beyond, "%s", rows[i].value);
        cr_assert_eq(route->enabled, 1u << MODULE_REQUEST_HEADERS);
    }
    drop(table);
}

Test(table, a_hostport_that_moved_stays_with_its_new_edge)
{
    table_t *table = table_new();

    apply(table, "https_edge", "e1", "{\"hostports\":[\"a.test:443\"]}");
    apply(table, "https_edge", "e2", "{\"hostports\":[\"a.test:443\"]}");
    apply(table, "https_edge", "e1", "{\"hostports\":[]}");
    cr_assert_str_eq(table_edge(table, "a.test", 6)->id, "e2");
    drop(table);
}

Test(table, ticket_profiles_differ_by_edge_and_by_settings)
{
    table_t *table = table_new();
    unsigned char first[32];

    apply(table, "https_edge", "e1", "{\"hostports\":[\"a.test:443\"]}");
    apply(table, "https_edge", "e2", "{\"hostports\":[\"b.test:443\"]}");
    memcpy(first, table_edge(table, "a.test", 6)->profile, 32);
    cr_assert_neq(memcmp(first, table_edge(table, "b.test", 6)->profile, 32), 0);
    apply(table, "https_edge", "e1", "{\"hostports\":[\"a.test:443\"],\"min_version\":\"1.3\"}");
    cr_assert_neq(memcmp(first, table_edge(table, "a.test", 6)->profile, 32), 0);
    drop(table);
}

Test(table, tls_names_have_pools_of_their_own)
{
    table_t *table = table_new();

    apply(table, "static_backend", "b1", "{\"address\":\"10.0.0.1:443\",\"tls\":true}");
    apply(table, "static_backend", "b2", "{\"address\":\"10.0.0.2:443\",\"tls\":true}");
    apply(table, "static_backend", "b3", "{\"address\":\"10.0.0.1:443\",\"tls\":false}");
    apply(table, "static_backend", "b4", "{\"address\":\"[::1]:80\",\"tls\":false}");
    cr_assert_neq(table_backend(table, "b1")->pool, table_backend(table, "b2")->pool);
    cr_assert_eq(table_backend(table, "b3")->pool, 0);
    cr_assert(table_backend(table, "b4")->literal);
    drop(table);
}
