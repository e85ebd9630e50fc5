/* The edge's lookup structures, against plain search. */
#include "common/codec/pack.h"
#include "services/edge/table/cookie_names.h"
#include "services/edge/table/shared_text.h"
#include "services/edge/table/table.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

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

/* The rule itself: exact, else the longest prefix; of several with one path the first by id. */
typedef struct {
    claim_t claim;
    char path[16], id[8];
    int kind; /* 0 prefix, 1 exact, -1 not there */
} place_t;

static const claim_t *plain_search(const place_t *places, int n, const char *path)
{
    const place_t *best = NULL;

    for (int i = 0; i < n; i++) {
        const place_t *one = &places[i];
        int exact = one->kind == 1 && !strcmp(one->path, path);
        int prefix = one->kind == 0 && !strncmp(one->path, path, strlen(one->path));

        if (!exact && !prefix)
            continue;
        if (!best || one->kind > best->kind
            || (one->kind == best->kind
                && (strlen(one->path) > strlen(best->path)
                    || (!strcmp(one->path, best->path) && strcmp(one->id, best->id) < 0))))
            best = one;
    }
    return best ? &best->claim : NULL;
}

Test(tree, finds_what_a_plain_search_finds_while_it_changes)
{
    static place_t places[300];
    tree_t *tree = tree_new();

    for (int i = 0; i < 300; i++) {
        snprintf(places[i].id, sizeof(places[i].id), "%03d", i * 7 % 300);
        places[i].claim.id = places[i].id;
        places[i].kind = -1;
    }
    for (int round = 0; round < 20000; round++) {
        place_t *one = &places[random_below(300)];
        char path[16] = "/";

        if (one->kind >= 0) {
            tree_del(tree, one->path, strlen(one->path), one->kind, &one->claim);
            one->kind = -1;
        } else {
            snprintf(one->path, sizeof(one->path), "/");
            for (unsigned k = random_below(6); k > 0; k--)
                strncat(one->path, &"ab/"[random_below(3)], 1);
            one->kind = (int)random_below(2);
            tree_put(tree, one->path, strlen(one->path), one->kind, &one->claim);
        }
        for (unsigned k = random_below(8); k > 0; k--)
            strncat(path, &"ab/"[random_below(3)], 1);
        cr_assert_eq(tree_find(tree, path, strlen(path)), plain_search(places, 300, path), "%s",
                     path);
    }
    for (int i = 0; i < 300; i++)
        if (places[i].kind >= 0)
            tree_del(tree, places[i].path, strlen(places[i].path), places[i].kind,
                     &places[i].claim);
    cr_assert(tree_empty(tree));
    tree_destroy(&tree);
}

static int apply_trusting(table_t *table, const char *kind, const char *id, const char *text,
                          trust_t trust)
{
    json_t *document = text ? json_loads(text, JSON_DECODE_ANY, NULL) : json_null();
    msgpack_sbuffer buffer;
    msgpack_unpacked unpacked;
    int r;

    cr_assert_not_null(document, "%s", text);
    msgpack_sbuffer_init(&buffer);
    msgpack_unpacked_init(&unpacked);
    pack_json(&buffer, document);
    msgpack_unpack_next(&unpacked, buffer.data, buffer.size, NULL);
    r = table_apply(table, kind, strlen(kind), id, strlen(id), &unpacked.data, trust);
    msgpack_unpacked_destroy(&unpacked);
    msgpack_sbuffer_destroy(&buffer);
    json_decref(document);
    return r;
}

static void apply(table_t *table, const char *kind, const char *id, const char *text)
{
    cr_assert_eq(apply_trusting(table, kind, id, text, TRUST_ALL), 0, "%s", text ? text : "nil");
}

static void refuse(table_t *table, const char *kind, const char *id, const char *text)
{
    cr_assert_eq(apply_trusting(table, kind, id, text, TRUST_ALL), -1, "%s", text);
}

static const char *find(table_t *table, const char *host, const char *path)
{
    edge_t *edge = table_edge(table, host, strlen(host));
    route_t *route;

    if (!edge || !edge->present)
        return "none";
    if (edge_is_refused(edge))
        return "503";
    route = table_route(edge, host, strlen(host), path, strlen(path));
    return !route ? "none" : route->refused ? "503" : route->id;
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
          "\",\"match_type\":\"path_prefix\",\"oauth\":null,\"traffic_policy\":{},"
          "\"request_headers\":{\"add\":{\"X-One\":\"1\"},\"remove\":[\"X-Two\"]}}");
    route = table_route(table_edge(table, "a.test", 6), "a.test", 6, "/", 1);
    cr_assert_not_null(route);
    cr_assert_eq(route->enabled, 1u << MODULE_REQUEST_HEADERS | 1u << MODULE_TRAFFIC_POLICY);
    cr_assert_null(route->configs[MODULE_TRAFFIC_POLICY], "nobody has it: it is on all the same");
    cr_assert_eq(route->beyond, 1u << MODULE_TRAFFIC_POLICY);
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

static bool hides(table_t *table, const char *cookie)
{
    char folded[COOKIE_NAME_MAX];
    size_t len = cookie_name_fold(folded, cookie, strlen(cookie));

    return cookie_names_have(table_edge(table, "a.test", 6)->cookies, folded, len, false);
}

Test(table, an_edge_knows_the_cookies_of_all_its_sign_in_modules_on_or_off)
{
    table_t *table = table_new();
    static const char r1[] = "{\"account_id\": \"ac\", \"edge_id\": \"e\", \"match_type\": "
                             "\"path_prefix\", \"match\": \"/\", \"saml\": "
                             "{\"cookie_prefix\": \"One.\"}}",
                      r2[] = "{\"account_id\": \"ac\", \"edge_id\": \"e\", \"match_type\": "
                             "\"path_prefix\", \"match\": \"/2\", \"cookie_prefixes\": "
                             "[\"One.\", \"two.\"]}";

    apply(table, "https_edge_route", "r1", r1);
    apply(table, "https_edge_route", "r2", r2);
    apply(table, "https_edge", "e", "{\"account_id\": \"ac\", \"hostports\": [\"a.test:443\"]}");
    cr_assert(hides(table, "One.session") && hides(table, "one_NONCE")
              && hides(table, "two.nonce"));
    cr_assert_eq(table_edge(table, "a.test", 6)->signing_in, 2);
    cr_assert(hides(table, "__Host-postern.session") && hides(table, "postern.nonce"));
    cr_assert(hides(table, "__Host-One.session") && hides(table, "__host_two.nonce") == false
              && hides(table, "__Host-two_nonce"));
    cr_assert_not(hides(table, "__Host-three.session") || hides(table, "__Host-session"));
    cr_assert_not(hides(table, "session") || hides(table, "three.session") || hides(table, "One."));
    apply(table, "https_edge_route", "r1", r1);
    apply(table, "https_edge_route", "r1", NULL);
    cr_assert(hides(table, "One.session"), "the other one has it still");
    cr_assert_eq(apply_trusting(table, "https_edge_route", "r2", r2, TRUST_NONE), -1);
    cr_assert(hides(table, "two.session"), "a version that is not read has those before");
    refuse(table, "https_edge_route", "r2",
           "{\"account_id\": \"ac\", \"edge_id\": \"e\", \"match_type\": \"path_prefix\", "
           "\"match\": \"/2\", \"oidc\": {\"cookie_prefix\": \"bad.\"}, "
           "\"cookie_prefixes\": [\"1\", \"2\", \"3\", \"4\"]}");
    cr_assert(hides(table, "bad.session") && !hides(table, "two.session"));
    apply(table, "https_edge_route", "r2", NULL);
    cr_assert_null(table_edge(table, "a.test", 6)->cookies);
    cr_assert_eq(table_edge(table, "a.test", 6)->signing_in, 0);
    apply(table, "https_edge_route", "r1", r1);
    drop(table);
}

static const char *sign_out_of(table_t *table, const char *id, module_id_t module)
{
    const route_t *route = strmap_get(table->routes, id, strlen(id));
    const shared_text_t *text = route_sign_out(route, module);

    cr_assert_not(route->refused);
    return text ? text->at : NULL;
}

/* What lets nobody in may be missing: the route goes on. */
Test(table, a_route_has_what_sign_outs_of_modules_that_are_off_are_taken_with)
{
#define HEAD                                                                                       \
    "{\"account_id\": \"ac\", \"edge_id\": \"e\", \"match_type\": \"path_prefix\", \"match\": "    \
    "\"/\", "                                                                                      \
    "\"sign_outs\": "
    table_t *table = table_new();
    static const char *const bad[] = {
        HEAD "1}", HEAD "[1, {\"sealed\": \"x\"}, {\"module\": \"saml\"}]}",
        HEAD "[{\"module\": \"oauth\", \"sealed\": \"x\"}, {\"module\": 1, \"sealed\": \"x\"}]}",
        HEAD "[{}, {}, {}, {\"module\": \"saml\", \"sealed\": \"beyond three\"}]}"};

    apply(table, "https_edge_route", "r1",
          HEAD
          "[{\"module\": \"saml\", \"sealed\": \"of saml\"}, {\"module\": \"saml\", \"sealed\": "
          "\"again\"}, {\"module\": \"oidc\", \"sealed\": \"of oidc\"}]}");
    cr_assert_str_eq(sign_out_of(table, "r1", MODULE_SAML), "of saml");
    cr_assert_str_eq(sign_out_of(table, "r1", MODULE_OIDC), "of oidc");
    cr_assert_null(sign_out_of(table, "r1", MODULE_OAUTH));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        apply(table, "https_edge_route", "r1", bad[i]);
        cr_assert(!sign_out_of(table, "r1", MODULE_SAML) && !sign_out_of(table, "r1", MODULE_OIDC),
                  "%s", bad[i]);
    }
    drop(table);
#undef HEAD
}

Test(table, a_route_that_is_refused_for_a_module_says_which)
{
    static const struct {
        const char *modules;
        uint32_t broken;
    } rows[] = {
        {"\"backend\":{\"backend_id\":\"b\"}", 0},
        {"\"request_headers\":{\"add\":\"no map\"}", 1u << MODULE_REQUEST_HEADERS},
        {"\"request_headers\":{\"add\":{\"X-One\":\"a\\r\\nb\"}}", 1u << MODULE_REQUEST_HEADERS},
        {"\"saml\":\"no map\",\"request_headers\":{}", 1u << MODULE_SAML},
    };
    table_t *table = table_new();
    char document[256];

    apply(table, "https_edge", "e", "{\"hostports\":[\"a.test:443\"]}");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const route_t *route;

        snprintf(document, sizeof(document),
                 "{\"edge_id\":\"e\",\"match\":\"/\",\"match_type\":\"path_prefix\",%s}",
                 rows[i].modules);
        (rows[i].broken ? refuse : apply)(table, "https_edge_route", "r", document);
        route = table_route(table_edge(table, "a.test", 6), "a.test", 6, "/", 1);
        cr_assert_eq(route->broken, rows[i].broken, "%s", rows[i].modules);
        cr_assert_eq(route->enabled & route->broken, 0, "its hooks would run: %s", rows[i].modules);
        cr_assert_eq(route->refused, rows[i].broken != 0, "%s", rows[i].modules);
    }
    drop(table);
}

Test(table, a_route_with_what_may_be_a_module_of_a_newer_version_is_refused)
{
    static const struct {
        const char *fields;
        bool refused;
    } rows[] = {
        {"\"teleport\":{\"to\":\"b\"}", true},
        {"\"teleport\":{}", true},
        {"\"Backend\":{\"backend_id\":\"b\"}", true},
        {"\"backen\":{}", true},
        {"\"backends\":{}", true},
        {"\"\":{}", true},
        {"\"teleport\":null", false},
        {"\"description\":\"a plain field that this version does not know\"", false},
        {"\"weight\":7", false},
    };
    table_t *table = table_new();
    char document[256];

    apply(table, "https_edge", "e", "{\"hostports\":[\"a.test:443\"]}");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        snprintf(document, sizeof(document),
                 "{\"edge_id\":\"e\",\"match\":\"/\",\"match_type\":\"path_prefix\",%s}",
                 rows[i].fields);
        (rows[i].refused ? refuse : apply)(table, "https_edge_route", "r", document);
        cr_assert_eq(table_route(table_edge(table, "a.test", 6), "a.test", 6, "/", 1)->refused,
                     rows[i].refused, "%s", rows[i].fields);
    }
    drop(table);
}

/* A name given twice, and one that is no text: as no JSON can say it. */
Test(table, a_route_with_a_module_twice_or_under_no_name_is_refused)
{
    static const char twice[] = "\x85\xa7"
                                "edge_id\xa1"
                                "e\xa5"
                                "match\xa1/\xaa"
                                "match_type\xabpath_prefix"
                                "\xa4saml\xc0\xa4saml\x80",
                      binary[] = "\x84\xa7"
                                 "edge_id\xa1"
                                 "e\xa5"
                                 "match\xa1/\xaa"
                                 "match_type\xabpath_prefix"
                                 "\xc4\x04saml\x80";
    static const struct {
        const char *bytes;
        size_t len;
    } rows[] = {{twice, sizeof(twice) - 1}, {binary, sizeof(binary) - 1}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        table_t *table = table_new();
        msgpack_unpacked document;

        msgpack_unpacked_init(&document);
        cr_assert_eq(msgpack_unpack_next(&document, rows[i].bytes, rows[i].len, NULL),
                     MSGPACK_UNPACK_SUCCESS);
        cr_assert_neq(table_apply(table, "https_edge_route", 16, "r", 1, &document.data, TRUST_ALL),
                      0, "row %zu", i);
        msgpack_unpacked_destroy(&document);
        drop(table);
    }
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

Test(table, accounts_and_tls_names_have_pools_of_their_own)
{
    table_t *table = table_new();

    apply(table, "static_backend", "b1", "{\"address\":\"10.0.0.1:443\",\"tls\":true}");
    apply(table, "static_backend", "b2", "{\"address\":\"10.0.0.2:443\",\"tls\":true}");
    apply(table, "static_backend", "b3", "{\"address\":\"10.0.0.1:443\",\"tls\":false}");
    apply(table, "static_backend", "b4", "{\"address\":\"[::1]:80\",\"tls\":false}");
    cr_assert_neq(table_backend(table, "b1")->pool, table_backend(table, "b2")->pool);
    cr_assert_eq(table_backend(table, "b3")->pool, table_backend(table, "b4")->pool);
    cr_assert_neq(table_backend(table, "b3")->pool, table_backend(table, "b1")->pool);
    cr_assert(table_backend(table, "b4")->literal);
    apply(table, "static_backend", "b5",
          "{\"address\":\"10.0.0.1:443\",\"tls\":true,\"account_id\":\"ac_1\"}");
    apply(table, "static_backend", "b6",
          "{\"address\":\"10.0.0.1:443\",\"tls\":true,\"account_id\":\"ac_2\"}");
    apply(table, "static_backend", "b7", "{\"address\":\"10.0.0.1:80\",\"account_id\":\"ac_1\"}");
    apply(table, "static_backend", "b8", "{\"address\":\"10.0.0.1:80\",\"account_id\":\"ac_2\"}");
    for (int i = 5; i <= 8; i++) {
        for (int other = 1; other < i; other++) {
            char one[3] = {'b', (char)('0' + i)}, two[3] = {'b', (char)('0' + other)};

            cr_assert_neq(table_backend(table, one)->pool, table_backend(table, two)->pool);
        }
    }
    drop(table);
}

Test(table, a_tls_name_is_forgotten_with_the_last_backend_that_has_it)
{
    table_t *table = table_new(), *snapshot = table_new();
    static const char one[] = "{\"address\":\"one.test:443\",\"tls\":true}";
    backend_t *held;
    uint64_t first, pool;
    char text[128];

    apply(table, "static_backend", "b1", one);
    first = table_backend(table, "b1")->pool;
    apply(table, "static_backend", "b1", one);
    cr_assert_eq(table_backend(table, "b1")->pool, first, "its connections are kept over changes");
    apply(snapshot, "static_backend", "b1", one);
    drop(table);
    cr_assert_eq(table_backend(snapshot, "b1")->pool, first, "and over snapshots");
    held = table_backend(snapshot, "b1");
    held->refs++;
    for (int i = 0; i < 10000; i++) {
        snprintf(text, sizeof(text), "{\"address\":\"n%d.test:443\",\"tls\":true}", i);
        apply(snapshot, "static_backend", "b1", text);
    }
    pool = table_backend(snapshot, "b1")->pool;
    cr_assert_eq(table_pools(), 2, "its name, and one that a request holds: %zu", table_pools());
    backend_release(held);
    apply(snapshot, "static_backend", "b2", one);
    cr_assert_gt(table_backend(snapshot, "b2")->pool, pool, "a number is not given twice");
    drop(snapshot);
    cr_assert_eq(table_pools(), 0);
}

/* ---- the same entries, the same answers ---- */

Test(table, one_of_two_claims_goes_and_the_other_serves)
{
    table_t *table = table_new();

    apply(table, "https_edge", "e", "{\"hostports\":[\"h.test:443\"]}");
    apply(table, "https_edge_route", "r1",
          "{\"edge_id\":\"e\",\"match\":\"h.test\",\"match_type\":\"exact_path\"}");
    apply(table, "https_edge_route", "r2",
          "{\"edge_id\":\"e\",\"match\":\"h.test/\",\"match_type\":\"exact_path\"}");
    cr_assert_str_eq(find(table, "h.test", "/"), "r1");
    apply(table, "https_edge_route", "r1", NULL);
    cr_assert_str_eq(find(table, "h.test", "/"), "r2");
    apply(table, "https_edge_route", "r2", NULL);
    cr_assert_str_eq(find(table, "h.test", "/"), "none");
    drop(table);
}

/* What a worker is told when it missed two changes: the newest of each, in the order of their
 * revisions. */
Test(table, a_route_leaves_its_old_place_to_whoever_has_it_now)
{
    table_t *table = table_new();

    apply(table, "https_edge", "e", "{\"hostports\":[\"h.test:443\"]}");
    apply(table, "https_edge_route", "a",
          "{\"edge_id\":\"e\",\"match\":\"/admin\",\"match_type\":\"path_prefix\"}");
    apply(table, "https_edge_route", "b",
          "{\"edge_id\":\"e\",\"match\":\"/admin\",\"match_type\":\"path_prefix\"}");
    apply(table, "https_edge_route", "a",
          "{\"edge_id\":\"e\",\"match\":\"/admin-old\",\"match_type\":\"path_prefix\"}");
    cr_assert_str_eq(find(table, "h.test", "/admin"), "b");
    cr_assert_str_eq(find(table, "h.test", "/admin-old"), "a");
    drop(table);
}

static const char *const entry_hosts[] = {"a.test", "b.test", "*.w.test", "A.TEST"};
static const char *const entry_paths[] = {"/",       "/a",     "/admin",   "/admin/x",  "a.test",
                                          "a.test/", "A.test", "a.test/a", "x.w.test/", "b.test"};

/* An entry as the model knows it; what is not its kind's is not used. */
typedef struct {
    char kind, id[8]; /* E edge, R route, D domain, B backend, W weighted, C certificate */
    bool there, bad;
    int edge;  /* of a route; -1: not told */
    int match; /* of entry_paths; -1: not told */
    bool exact;
    unsigned hosts; /* bits of entry_hosts; of a domain one number */
    int target;     /* of a weighted backend, a domain's certificate; -1: none */
    bool dirty;
} entry_t;

enum { EDGES = 4, ROUTES = 14, DOMAINS = 5, BACKENDS = 4, WEIGHTED = 3, CERTIFICATES = 2 };
enum { ENTRIES = EDGES + ROUTES + DOMAINS + BACKENDS + WEIGHTED + CERTIFICATES };

static entry_t entries[ENTRIES];

static void make_entries(void)
{
    static const struct {
        char kind;
        int count;
    } kinds[] = {{'E', EDGES},    {'R', ROUTES},   {'D', DOMAINS},
                 {'B', BACKENDS}, {'W', WEIGHTED}, {'C', CERTIFICATES}};
    int n = 0;

    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
        for (int i = 0; i < kinds[k].count; i++, n++) {
            memset(&entries[n], 0, sizeof(entries[n]));
            entries[n].kind = kinds[k].kind;
            snprintf(entries[n].id, sizeof(entries[n].id), "%c%d", kinds[k].kind, i);
        }
}

/* A route never moves to another edge. */
static int home_of(const entry_t *route)
{
    return atoi(route->id + 1) % EDGES;
}

/* What a route that does not tell its edge had said before; one that is new tells it. */
static int random_edge(const entry_t *route, bool was_there)
{
    return was_there && random_below(20) == 0 ? -1 : home_of(route);
}

static void change(entry_t *entry)
{
    bool was_there = entry->there;

    entry->dirty = true;
    entry->there = random_below(4) != 0;
    entry->bad = random_below(8) == 0;
    entry->edge = entry->kind == 'R' ? random_edge(entry, was_there) : -1;
    entry->match = random_below(20) ? (int)random_below(10) : -1;
    entry->exact = random_below(2);
    entry->hosts = entry->kind == 'E' ? random_below(16) : random_below(4);
    entry->target = (int)random_below(3) - 1;
}

static void write_hosts(char *out, size_t size, unsigned hosts)
{
    size_t n = 0;

    for (int i = 0; i < 4; i++)
        if (hosts & 1u << i)
            n += (size_t)snprintf(out + n, size - n, "%s\"%s:443\"", n ? "," : "", entry_hosts[i]);
    if (!n)
        *out = '\0';
}

static void write_document(const entry_t *entry, char *out, size_t size)
{
    char hosts[256], edge[16], match[32];

    switch (entry->kind) {
    case 'E':
        write_hosts(hosts, sizeof(hosts), entry->hosts);
        snprintf(out, size, "{\"hostports\":[%s],\"min_version\":%s}", hosts,
                 entry->bad ? "\"9\"" : "\"1.2\"");
        break;
    case 'R':
        snprintf(edge, sizeof(edge), entry->edge < 0 ? "7" : "\"E%d\"", entry->edge);
        snprintf(match, sizeof(match), entry->match < 0 ? "[]" : "\"%s\"",
                 entry->match < 0 ? "" : entry_paths[entry->match]);
        snprintf(out, size, "{\"edge_id\":%s,\"match_type\":\"%s\",\"match\":%s%s}", edge,
                 entry->exact ? "exact_path" : "path_prefix", match,
                 entry->bad ? ",\"request_headers\":{\"add\":{\"a b\":\"1\"}}" : "");
        break;
    case 'D':
        if (entry->target >= 0)
            snprintf(out, size, "{\"domain\":\"%s\",\"certificate_id\":\"C%d\"}",
                     entry_hosts[entry->hosts], entry->target);
        else
            snprintf(out, size,
                     "{\"domain\":\"%s\",\"certificate_pem\":\"%s\",\"private_key_pem\":%s}",
                     entry_hosts[entry->hosts], entry->id, entry->bad ? "1" : "\"k\"");
        break;
    case 'B':
        snprintf(out, size, "{\"address\":\"10.0.0.1:%s\"}", entry->bad ? "0" : "80");
        break;
    case 'W':
        snprintf(out, size, "{\"backends\":{\"B%d\":%s}}", entry->target + 1,
                 entry->bad ? "4294967296" : "3");
        break;
    default:
        snprintf(out, size, "{\"certificate_pem\":\"%s\",\"private_key_pem\":%s}", entry->id,
                 entry->bad ? "null" : "\"k\"");
    }
}

static void put(table_t *table, const entry_t *entry)
{
    static const char *const kinds[] = {
        ['E'] = "https_edge",     ['R'] = "https_edge_route", ['D'] = "reserved_domain",
        ['B'] = "static_backend", ['W'] = "weighted_backend", ['C'] = "tls_certificate"};
    char text[512];

    write_document(entry, text, sizeof(text));
    apply_trusting(table, kinds[(int)entry->kind], entry->id, entry->there ? text : NULL,
                   TRUST_ALL);
}

static const entry_t *entry_of(char kind, int number)
{
    for (int i = 0; i < ENTRIES; i++)
        if (entries[i].kind == kind && atoi(entries[i].id + 1) == number)
            return &entries[i];
    return NULL;
}

/* The first by id that claims the name, or the wildcard above it. */
static const entry_t *model_holder(char kind, const char *host)
{
    for (int wildcard = 0; wildcard < 2; wildcard++)
        for (int i = 0; i < ENTRIES; i++)
            for (int h = 0; h < 4; h++) {
                const entry_t *one = &entries[i];
                const char *name = entry_hosts[h];

                if (one->kind != kind || !one->there
                    || !(kind == 'E' ? one->hosts & 1u << h : one->hosts == (unsigned)h))
                    continue;
                if (wildcard ? name[0] == '*' && strchr(host, '.')
                                   && !strcmp(name + 1, strchr(host, '.'))
                             : !strcasecmp(name, host))
                    return one;
            }
    return NULL;
}

static bool route_is_better(const entry_t *one, const entry_t *best)
{
    const char *a = entry_paths[one->match], *b = entry_paths[best->match];
    bool host_a = *a != '/', host_b = *b != '/';
    const char *path_a = strchr(a, '/') ? strchr(a, '/') : one->exact ? "/" : "";
    const char *path_b = strchr(b, '/') ? strchr(b, '/') : best->exact ? "/" : "";

    if (host_a != host_b)
        return host_a;
    if (one->exact != best->exact)
        return one->exact;
    if (strlen(path_a) != strlen(path_b))
        return strlen(path_a) > strlen(path_b);
    return strcmp(one->id, best->id) < 0;
}

static bool route_fits(const entry_t *one, const char *host, const char *path)
{
    const char *match = entry_paths[one->match];
    size_t host_len = strcspn(match, "/");
    const char *own = match[host_len] || !one->exact ? match + host_len : "/";

    if (host_len && (strlen(host) != host_len || strncasecmp(match, host, host_len)))
        return false;
    return one->exact ? !strcmp(own, path) : !strncmp(own, path, strlen(own));
}

static const char *model_find(const char *host, const char *path)
{
    const entry_t *edge = model_holder('E', host), *best = NULL;

    if (!edge)
        return "none";
    if (edge->bad)
        return "503";
    for (int i = 0; i < ENTRIES; i++) {
        const entry_t *one = &entries[i];

        if (one->kind != 'R' || !one->there || home_of(one) != atoi(edge->id + 1))
            continue;
        if (one->match < 0 || one->edge < 0)
            return "503";
        if (route_fits(one, host, path) && (!best || route_is_better(one, best)))
            best = one;
    }
    return !best ? "none" : best->bad ? "503" : best->id;
}

static const char *model_chain(const char *host)
{
    const entry_t *domain = model_holder('D', host), *certificate;

    if (!domain)
        return "none";
    if (domain->target < 0)
        return domain->bad ? "none" : domain->id;
    certificate = entry_of('C', domain->target);
    return certificate->there && !certificate->bad ? certificate->id : "none";
}

static const char *find_chain(const table_t *table, const char *host)
{
    const domain_t *domain = table_domain(table, host, strlen(host));

    if (domain && domain->certificate_id)
        domain =
            strmap_get(table->certificates, domain->certificate_id, strlen(domain->certificate_id));
    return domain && domain->chain_pem ? domain->chain_pem : "none";
}

static void compare(table_t *table, const char *which, int round)
{
    static const char *const hosts[] = {"a.test", "b.test", "x.w.test", "y.w.test", "c.test"};
    static const char *const paths[] = {"/", "/a", "/ab", "/admin", "/admin/x", "/admin/xy"};
    size_t refused = 0;

    for (size_t h = 0; h < 5; h++) {
        for (size_t p = 0; p < 6; p++)
            cr_assert_str_eq(find(table, hosts[h], paths[p]), model_find(hosts[h], paths[p]),
                             "%s, round %d: %s%s", which, round, hosts[h], paths[p]);
        cr_assert_str_eq(find_chain(table, hosts[h]), model_chain(hosts[h]), "%s, round %d: %s",
                         which, round, hosts[h]);
    }
    for (int i = 0; i < WEIGHTED; i++) {
        const entry_t *one = entry_of('W', i), *member = entry_of('B', one->target + 1);
        backend_t *backend = table_backend(table, one->id);
        const backend_t *chosen = table_choose(table, backend, 1);

        cr_assert_eq(backend != NULL, one->there && !one->bad);
        cr_assert_eq(chosen != NULL, backend && member->there && !member->bad);
    }
    for (int i = 0; i < ENTRIES; i++) {
        const entry_t *one = &entries[i];
        bool bad = one->bad && !(one->kind == 'D' && one->target >= 0);

        bad |= one->kind == 'R' && (one->edge < 0 || one->match < 0);
        refused += one->there && bad;
    }
    cr_assert_eq(table_refused(table), refused, "%s, round %d", which, round);
}

/* All of them, or those that changed since the last time, in any order. */
static void put_shuffled(table_t *table, bool only_changed)
{
    int order[ENTRIES];

    for (int i = 0; i < ENTRIES; i++)
        order[i] = i;
    for (int i = ENTRIES - 1; i > 0; i--) {
        int k = (int)random_below((unsigned)i + 1), swap = order[i];

        order[i] = order[k];
        order[k] = swap;
    }
    for (int i = 0; i < ENTRIES; i++) {
        entry_t *one = &entries[order[i]];

        if (only_changed ? one->dirty : one->there)
            put(table, one);
    }
}

/* One table hears every change, one the newest of each since it last listened, in any order, one is
 * a snapshot. */
Test(table, is_a_function_of_its_entries_not_of_their_order)
{
    table_t *live = table_new(), *late = table_new();

    make_entries();
    for (int round = 0; round < 1500; round++) {
        table_t *snapshot = table_new();

        for (unsigned k = 1 + random_below(6); k > 0; k--) {
            entry_t *one = &entries[random_below(ENTRIES)];

            change(one);
            put(live, one);
        }
        late->before = snapshot->before = live; /* what a route that cannot be read belonged to */
        put_shuffled(late, true);
        put_shuffled(snapshot, false);
        for (int i = 0; i < ENTRIES; i++)
            entries[i].dirty = false;
        compare(live, "every change", round);
        compare(late, "what is new", round);
        compare(snapshot, "a snapshot", round);
        drop(snapshot);
    }
    drop(live);
    drop(late);
}

Test(table, an_entry_that_breaks_a_rule_is_refused_and_nothing_of_it_is_served)
{
    static const struct {
        const char *kind, *document;
    } rows[] = {
        {"static_backend", "{}"},
        {"static_backend", "{\"address\":7}"},
        {"static_backend", "{\"address\":\"a.test\"}"},
        {"static_backend", "{\"address\":\":80\"}"},
        {"static_backend", "{\"address\":\"a.test:65536\"}"},
        {"static_backend", "{\"address\":\"a.test:80x\"}"},
        {"static_backend", "{\"address\":\"[]:80\"}"},
        {"static_backend", "{\"address\":\"a.test:80\",\"tls\":\"yes\"}"},
        {"http_response_backend", "{\"status_code\":101}"},
        {"http_response_backend", "{\"status_code\":\"200\"}"},
        {"http_response_backend", "{\"body\":[]}"},
        {"http_response_backend", "{\"headers\":{\"X\":\"a\\r\\nb\"}}"},
        {"weighted_backend", "{\"backends\":{\"b\":4294967296}}"},
        {"weighted_backend", "{\"backends\":{\"b\":10001}}"},
        {"weighted_backend", "{\"backends\":{\"b\":-1}}"},
        {"weighted_backend", "{\"backends\":[\"b\"]}"},
        {"weighted_backend", "[]"},
        {"failover_backend", "{}"},
        {"failover_backend", "{\"backends\":{\"b\":1}}"},
        {"failover_backend", "{\"backends\":[\"b\",1]}"},
        {"failover_backend", "{\"backends\":[null]}"},
        {"http_response_backend", "5"},
    };
    table_t *table = table_new();

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        apply(table, "http_response_backend", "b", "{\"status_code\":200}");
        refuse(table, rows[i].kind, "b", rows[i].document);
        cr_assert_null(table_backend(table, "b"), "%s", rows[i].document);
    }
    drop(table);
}

Test(table, a_failover_backend_has_its_members_in_order_and_is_nobody_s_share)
{
    char many[101 * 4 + 32] = "{\"backends\":[\"b\"";
    table_t *table = table_new();
    backend_t *backend;

    apply(table, "failover_backend", "f", "{\"backends\":[\"z\",\"a\",\"m\"]}");
    backend = table_backend(table, "f");
    cr_assert_eq(backend->member_count, 3);
    cr_assert_str_eq(backend->members[0], "z");
    cr_assert_str_eq(backend->members[2], "m");
    cr_assert_null(table_choose(table, backend, 0));
    apply(table, "weighted_backend", "w", "{\"backends\":{\"f\":1}}");
    cr_assert_null(table_choose(table, table_backend(table, "w"), 0));
    apply(table, "failover_backend", "f", "{\"backends\":[]}");
    cr_assert_eq(table_backend(table, "f")->member_count, 0);
    cr_assert_null(table_choose(table, table_backend(table, "f"), 0));
    for (int i = 0; i < 99; i++)
        strcat(many, ",\"b\"");
    strcat(many, "]}");
    apply(table, "failover_backend", "f", many);
    cr_assert_eq(table_backend(table, "f")->member_count, 100);
    strcpy(many + strlen(many) - 2, ",\"b\"]}");
    refuse(table, "failover_backend", "f", many);
    cr_assert_null(table_backend(table, "f"));
    drop(table);
}

/* What an upgraded stream to x stays for: backend f leads there, by the weighted backend with the
 * name in through ("": by none), or not at all. */
static void lead(table_t *table, bool want, const char *through)
{
    backend_t *backend = table_backend(table, "f"), *found = (void *)1;

    cr_assert_eq(table_leads_to(table, backend, "x", &found), want);
    cr_assert_str_eq(found ? found->id : "", through);
}

Test(table, a_failover_backend_leads_to_what_its_members_lead_to)
{
    table_t *table = table_new();

    apply(table, "static_backend", "x", "{\"address\":\"127.0.0.1:80\"}");
    apply(table, "weighted_backend", "v", "{\"backends\":{\"x\":1}}");
    apply(table, "weighted_backend", "w", "{\"backends\":{\"y\":1,\"x\":2}}");
    apply(table, "failover_backend", "f", "{\"backends\":[\"gone\",\"v\",\"w\",\"x\"]}");
    lead(table, true, "");
    apply(table, "failover_backend", "f", "{\"backends\":[\"gone\",\"v\",\"w\"]}");
    lead(table, true, "v");
    apply(table, "weighted_backend", "v", "{\"backends\":{\"x\":0,\"y\":1}}");
    lead(table, true, "w");
    apply(table, "weighted_backend", "w", "{\"backends\":{}}");
    lead(table, false, "");
    apply(table, "failover_backend", "f", "{\"backends\":[]}");
    lead(table, false, "");
    apply(table, "weighted_backend", "f", "{\"backends\":{\"x\":1}}");
    lead(table, true, "");
    apply(table, "weighted_backend", "f", "{\"backends\":{\"y\":1}}");
    lead(table, false, "");
    cr_assert(table_leads_to(table, table_backend(table, "x"), "x", &(backend_t *){NULL}));
    drop(table);
}

/* In all workers, and whatever the weights are; another address is another key. */
Test(table, the_key_of_a_backend_is_of_what_is_dialled)
{
    table_t *table = table_new();
    uint64_t key, weighted;

    apply(table, "static_backend", "b", "{\"address\":\"127.0.0.1:80\"}");
    key = backend_key(table_backend(table, "b"));
    cr_assert(key >> 63);
    apply(table, "static_backend", "b", "{\"address\":\"127.0.0.1:80\",\"account_id\":\"x\"}");
    cr_assert_eq(backend_key(table_backend(table, "b")), key);
    apply(table, "static_backend", "b", "{\"address\":\"127.0.0.1:81\"}");
    cr_assert_neq(backend_key(table_backend(table, "b")), key);
    apply(table, "static_backend", "b", "{\"address\":\"127.0.0.1:80\",\"tls\":true}");
    cr_assert_neq(backend_key(table_backend(table, "b")), key);
    apply(table, "static_backend", "c", "{\"address\":\"127.0.0.1:80\"}");
    cr_assert_neq(backend_key(table_backend(table, "c")), key);
    apply(table, "weighted_backend", "w", "{\"backends\":{\"b\":1}}");
    weighted = backend_key(table_backend(table, "w"));
    apply(table, "weighted_backend", "w", "{\"backends\":{\"b\":1,\"c\":2}}");
    cr_assert_eq(backend_key(table_backend(table, "w")), weighted);
    drop(table);
}

/* Nobody knows what they guarded: a shorter, public route must not serve it. */
Test(table, a_route_that_cannot_be_applied_answers_503_where_it_stood)
{
    table_t *table = table_new();
    static const char route[] =
        "{\"edge_id\":\"e\",\"match\":\"/admin\",\"match_type\":\"path_prefix\"}";

    apply(table, "https_edge", "e", "{\"hostports\":[\"h.test:443\"]}");
    apply(table, "https_edge_route", "public",
          "{\"edge_id\":\"e\",\"match\":\"/\",\"match_type\":\"path_prefix\"}");
    refuse(
        table, "https_edge_route", "r",
        "{\"edge_id\":\"e\",\"match\":\"/admin\",\"match_type\":\"path_prefix\",\"oidc\":\"on\"}");
    cr_assert_str_eq(find(table, "h.test", "/admin/x"), "503");
    cr_assert_str_eq(find(table, "h.test", "/x"), "public");
    refuse(table, "https_edge_route", "r",
           "{\"edge_id\":\"e\",\"match\":\"/admin\",\"match_type\":\"best\"}");
    cr_assert_str_eq(find(table, "h.test", "/x"), "503", "it has no place: all of its edge");
    cr_assert_eq(table_refused(table), 1);
    apply(table, "https_edge_route", "r", route);
    cr_assert_str_eq(find(table, "h.test", "/admin/x"), "r");
    cr_assert_eq(table_refused(table), 0);
    for (trust_t trust = TRUST_PLACE; trust <= TRUST_SKIP; trust++)
        cr_assert_eq(apply_trusting(table, "https_edge_route", "r", route, trust), -1);
    apply_trusting(table, "https_edge_route", "r", route, TRUST_PLACE);
    cr_assert_str_eq(find(table, "h.test", "/admin/x"), "503");
    cr_assert_str_eq(find(table, "h.test", "/x"), "public");
    apply_trusting(table, "https_edge_route", "r", route, TRUST_OWNER);
    cr_assert_str_eq(find(table, "h.test", "/x"), "503");
    apply(table, "https_edge_route", "r", NULL);
    cr_assert_str_eq(find(table, "h.test", "/x"), "public");
    apply_trusting(table, "https_edge", "e", "{\"hostports\":[\"h.test:443\"]}", TRUST_PLACE);
    cr_assert_str_eq(find(table, "h.test", "/x"), "503");
    drop(table);
}

/* The public route above it must not get its traffic. */
Test(table, a_route_that_no_longer_tells_its_edge_refuses_all_of_the_edge_that_it_had)
{
    static const char public[] =
        "{\"edge_id\":\"e\",\"match\":\"/\",\"match_type\":\"path_prefix\"}";
    static const char route[] =
        "{\"edge_id\":\"e\",\"match\":\"/admin\",\"match_type\":\"path_prefix\"}";
    static const char edge[] = "{\"hostports\":[\"h.test:443\"]}";
    static const struct {
        const char *document;
        trust_t trust;
    } rows[] = {
        {"{\"match\":\"/admin\",\"match_type\":\"path_prefix\"}", TRUST_ALL},
        {"{\"edge_id\":7,\"match\":\"/admin\",\"match_type\":\"path_prefix\"}", TRUST_ALL},
        {"{\"edge_id\":\"\"}", TRUST_ALL},
        {"7", TRUST_ALL},
        {"[]", TRUST_ALL},
        {route, TRUST_NONE},
    };
    table_t *table = table_new(), *snapshot;

    apply(table, "https_edge", "e", edge);
    apply(table, "https_edge_route", "public", public);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        apply(table, "https_edge_route", "r", route);
        cr_assert_str_eq(find(table, "h.test", "/admin"), "r");
        apply_trusting(table, "https_edge_route", "r", rows[i].document, rows[i].trust);
        cr_assert_str_eq(find(table, "h.test", "/admin"), "503", "%s", rows[i].document);
        cr_assert_str_eq(find(table, "h.test", "/x"), "503", "%s", rows[i].document);
        cr_assert_eq(table_refused(table), 1);
        apply_trusting(table, "https_edge_route", "r", rows[i].document, rows[i].trust);
        cr_assert_str_eq(find(table, "h.test", "/admin"), "503", "again: %s", rows[i].document);
        snapshot = table_new();
        snapshot->before = table;
        apply_trusting(snapshot, "https_edge_route", "r", rows[i].document, rows[i].trust);
        apply(snapshot, "https_edge_route", "public", public);
        apply(snapshot, "https_edge", "e", edge);
        cr_assert_str_eq(find(snapshot, "h.test", "/admin"), "503", "%s", rows[i].document);
        drop(table);
        table = snapshot;
        table->before = NULL;
    }
    apply(table, "https_edge_route", "r", NULL);
    cr_assert_str_eq(find(table, "h.test", "/admin"), "public");
    drop(table);
}

/* A wildcard above them must not get their traffic. */
Test(table, an_edge_that_no_longer_tells_its_hosts_refuses_those_that_it_had)
{
    static const char edge[] = "{\"hostports\":[\"a.w.test:443\",\"b.test:443\"]}";
    static const struct {
        const char *document;
        trust_t trust;
    } rows[] = {{"{}", TRUST_ALL},
                {"{\"hostports\":\"a.w.test:443\"}", TRUST_ALL},
                {"7", TRUST_ALL},
                {edge, TRUST_OWNER},
                {edge, TRUST_NONE}};
    static const char wildcard[] = "{\"hostports\":[\"*.w.test:443\"]}";
    table_t *table = table_new(), *snapshot;

    apply(table, "https_edge", "w", wildcard);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        apply(table, "https_edge", "e", edge);
        cr_assert_str_eq(find(table, "b.test", "/"), "none");
        apply_trusting(table, "https_edge", "e", rows[i].document, rows[i].trust);
        cr_assert_str_eq(find(table, "a.w.test", "/"), "503", "%s", rows[i].document);
        cr_assert_str_eq(find(table, "b.test", "/"), "503", "%s", rows[i].document);
        cr_assert_eq(table_refused(table), 1);
        snapshot = table_new();
        snapshot->before = table;
        apply_trusting(snapshot, "https_edge", "e", rows[i].document, rows[i].trust);
        apply(snapshot, "https_edge", "w", wildcard);
        cr_assert_str_eq(find(snapshot, "a.w.test", "/"), "503", "%s", rows[i].document);
        drop(table);
        table = snapshot;
        table->before = NULL;
    }
    apply(table, "https_edge", "e", NULL);
    cr_assert_eq(table_edge(table, "a.w.test", 8), table_edge(table, "x.w.test", 8));
    drop(table);
}

Test(table, what_is_not_even_touched_is_served_by_nobody)
{
    static const char route[] =
        "{\"edge_id\":\"e\",\"match\":\"/admin\",\"match_type\":\"path_prefix\"}";
    table_t *table = table_new();

    apply(table, "https_edge", "e", "{\"hostports\":[\"h.test:443\"]}");
    apply(table, "https_edge_route", "r", route);
    apply(table, "http_response_backend", "b", "{}");
    apply_trusting(table, "https_edge_route", "r", route, TRUST_SKIP);
    cr_assert_str_eq(find(table, "h.test", "/admin"), "503");
    apply_trusting(table, "http_response_backend", "b", "{}", TRUST_SKIP);
    cr_assert_null(table_backend(table, "b"));
    cr_assert_eq(table_refused(table), 2);
    apply(table, "https_edge_route", "r", route);
    apply(table, "http_response_backend", "b", "{}");
    cr_assert_str_eq(find(table, "h.test", "/admin"), "r");
    cr_assert_not_null(table_backend(table, "b"));
    apply_trusting(table, "https_edge", "e", "{}", TRUST_SKIP);
    cr_assert_str_eq(find(table, "h.test", "/admin"), "503");
    drop(table);
}

/* As bytes from outside: JSON has no such keys. */
Test(table, a_member_of_a_weighted_backend_that_is_no_string_is_refused)
{
    static const char documents[][24] = {
        "\x81\xa8"
        "backends"
        "\x81\x01\x01", /* {1: 1} */
        "\x81\xa8"
        "backends"
        "\x81\xc0\x01", /* {nil: 1} */
        "\x81\xa8"
        "backends"
        "\x81\x90\x01", /* {[]: 1} */
        "\x81\xa8"
        "backends"
        "\x81\xa1"
        "b"
        "\xcf\0\0\0\1\0\0\0\0", /* {b: 2^32} */
        "\x81\xa8"
        "backends"
        "\x81\xa1"
        "b"
        "\xc0", /* {b: nil} */
    };
    table_t *table = table_new();

    for (size_t i = 0; i < sizeof(documents) / sizeof(documents[0]); i++) {
        msgpack_unpacked unpacked;

        msgpack_unpacked_init(&unpacked);
        cr_assert_eq(msgpack_unpack_next(&unpacked, documents[i], sizeof(documents[i]), NULL),
                     MSGPACK_UNPACK_SUCCESS);
        cr_assert_eq(table_apply(table, "weighted_backend", 16, "w", 1, &unpacked.data, TRUST_ALL),
                     -1);
        cr_assert_null(table_choose(table, table_backend(table, "w"), 7));
        msgpack_unpacked_destroy(&unpacked);
    }
    drop(table);
}
