/* Versions of routes and backends that requests keep: an account's are bounded, and the oldest are over first. */
#include "common/codec/pack.h"
#include "services/edge/streams/touched.h"
#include "services/edge/table/retired.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { TEXT = 1 << 20 /* in the entry, and estimated twice */ };

static retired_kind_t over_kinds[100];
static char over_ids[100][20];
static int over_count;

static void on_over(const retired_entry_t *entry)
{
    over_kinds[over_count] = entry->kind;
    snprintf(over_ids[over_count++], sizeof(over_ids[0]), "%s", entry->id);
}

static void on_touched(const stream_key_t *key)
{
    (void)key;
}

/* Takes the document. */
static void apply_document(table_t *table, const char *kind, const char *id, json_t *document)
{
    msgpack_sbuffer buffer;
    msgpack_unpacked unpacked;

    msgpack_sbuffer_init(&buffer);
    msgpack_unpacked_init(&unpacked);
    pack_json(&buffer, document);
    cr_assert_eq(msgpack_unpack_next(&unpacked, buffer.data, buffer.size, NULL),
                 MSGPACK_UNPACK_SUCCESS);
    cr_assert_eq(touched_apply(table, kind, strlen(kind), id, strlen(id), &unpacked.data, TRUST_ALL,
                               on_touched),
                 0);
    msgpack_unpacked_destroy(&unpacked);
    msgpack_sbuffer_destroy(&buffer);
    json_decref(document);
}

static const char *description(size_t text)
{
    static char out[TEXT + 1];

    memset(out, 'x', text);
    out[text] = '\0';
    return out;
}

/* A version of a route whose description has so many bytes. */
static void apply(table_t *table, const char *id, const char *account, size_t text)
{
    apply_document(table, "https_edge_route", id,
                   json_pack("{s:s, s:s, s:s, s:s, s:s}", "edge_id", "edghts_1", "account_id",
                             account, "match_type", "path_prefix", "match", id, "description",
                             description(text)));
}

/* The same of a backend of any kind. */
static void apply_backend(table_t *table, const char *kind, const char *account, size_t text)
{
    apply_document(table, kind, "bkd_1",
                   json_pack("{s:s, s:s, s:s, s:o}", "account_id", account, "address",
                             "127.0.0.1:80", "description", description(text), "backends",
                             strcmp(kind, "failover_backend") ? json_object() : json_array()));
}

static backend_t *begin_backend(const table_t *table)
{
    backend_t *backend = strmap_get(table->backends, "bkd_1", 5);

    cr_assert_not_null(backend);
    backend->refs++;
    return backend;
}

/* A request begins with the route as it is now. */
static route_t *begin(const table_t *table, const char *id)
{
    route_t *route = strmap_get(table->routes, id, strlen(id));

    cr_assert_not_null(route);
    route->refs++;
    return route;
}

static table_t *start(void)
{
    over_count = 0;
    retired_set_over(on_over);
    return table_new();
}

Test(retired, a_version_counts_from_its_replacement_to_its_last_request)
{
    table_t *table = start();
    route_t *first, *again;

    apply(table, "/a", "ac_1", TEXT);
    first = begin(table, "/a");
    again = begin(table, "/a");
    cr_assert_eq(retired_bytes("ac_1"), 0);
    apply(table, "/a", "ac_1", 1);
    cr_assert_geq(retired_bytes("ac_1"), (size_t)2 * TEXT);
    cr_assert_eq(retired_bytes("ac_2"), 0);
    route_release(first);
    cr_assert_geq(retired_bytes("ac_1"), (size_t)2 * TEXT);
    route_release(again);
    cr_assert_eq(retired_bytes("ac_1"), 0);
    apply(table, "/a", "ac_1", TEXT);
    cr_assert_eq(retired_bytes("ac_1"), 0, "nobody used the version before");
    while (!table_free_some(&table, 100))
        ;
}

Test(retired, beyond_the_bound_the_oldest_are_over)
{
    enum { KEPT = RETIRED_BYTES_MAX / (2 * TEXT) };
    table_t *table = start();
    route_t *used[3 * KEPT];

    for (int i = 0; i < 3 * KEPT; i++) {
        apply(table, i % 2 ? "/a" : "/b", "ac_1", TEXT);
        used[i] = begin(table, i % 2 ? "/a" : "/b");
        cr_assert_leq(retired_bytes("ac_1"), (size_t)RETIRED_BYTES_MAX);
    }
    cr_assert_geq(over_count, 2 * KEPT - 2);
    cr_assert_leq(over_count, 2 * KEPT + 2);
    for (int i = 0; i < over_count; i++) {
        cr_assert_eq(over_kinds[i], RETIRED_ROUTE);
        cr_assert_str_eq(over_ids[i], i % 2 ? "/a" : "/b");
        cr_assert(used[i]->version.is_over);
    }
    cr_assert(!used[over_count]->version.is_over);
    for (int i = 0; i < 3 * KEPT; i++)
        route_release(used[i]);
    cr_assert_eq(retired_bytes("ac_1"), 0);
    while (!table_free_some(&table, 100))
        ;
}

Test(retired, an_account_pays_for_its_own)
{
    table_t *table = start();
    route_t *small, *large[20];

    apply(table, "/small", "ac_1", 10);
    small = begin(table, "/small");
    apply(table, "/small", "ac_1", 10);
    for (int i = 0; i < 20; i++) {
        apply(table, "/large", "ac_2", TEXT);
        large[i] = begin(table, "/large");
    }
    cr_assert_gt(over_count, 0);
    cr_assert(!small->version.is_over);
    route_release(small);
    for (int i = 0; i < 20; i++)
        route_release(large[i]);
    while (!table_free_some(&table, 100))
        ;
}

Test(retired, many_accounts_leave_some_to_others_and_what_is_left_decides)
{
    enum { ACCOUNTS = 40, EACH = 10 };
    static route_t *used[ACCOUNTS * EACH];
    table_t *table = start();
    route_t *small;
    char id[16], account[16];

    for (int i = 0; i < ACCOUNTS * EACH; i++) {
        snprintf(id, sizeof(id), "/%d", i / EACH);
        snprintf(account, sizeof(account), "ac_%d", i / EACH);
        apply(table, id, account, TEXT);
        used[i] = begin(table, id);
        over_count = 0; /* there are more than it has room for */
    }
    cr_assert_leq(retired_bytes(NULL), (size_t)RETIRED_ALL_MAX);
    cr_assert_geq(retired_bytes(NULL), (size_t)RETIRED_ALL_MAX / 2);
    cr_assert_geq(retired_bytes("ac_0"), (size_t)RETIRED_BYTES_MAX * 3 / 4, "who came first");
    cr_assert_lt(retired_bytes("ac_39"), (size_t)RETIRED_BYTES_MAX / 2);
    apply(table, "/small", "ac_small", 10);
    small = begin(table, "/small");
    apply(table, "/small", "ac_small", 10);
    cr_assert(!small->version.is_over);
    route_release(small);
    for (int i = 0; i < ACCOUNTS * EACH; i++)
        route_release(used[i]);
    cr_assert_eq(retired_bytes(NULL), 0);
    while (!table_free_some(&table, 100))
        ;
}

Test(retired, where_nothing_is_left_the_newest_is_over_too)
{
    enum { LARGE = RETIRED_ALL_MAX / 8 };
    table_t *table = start();
    route_t *used[10];
    char id[16], account[16];

    for (int i = 0; i < 10; i++) {
        snprintf(id, sizeof(id), "/%d", i);
        snprintf(account, sizeof(account), "ac_%d", i);
        apply(table, id, account, 1);
        used[i] = begin(table, id);
        used[i]->version.bytes = LARGE;
        apply(table, id, account, 1);
        cr_assert_eq(used[i]->version.is_over, i >= 8, "%d", i);
    }
    cr_assert_leq(retired_bytes(NULL), (size_t)RETIRED_ALL_MAX);
    for (int i = 0; i < 10; i++)
        route_release(used[i]);
    cr_assert_eq(retired_bytes(NULL), 0);
    while (!table_free_some(&table, 100))
        ;
}

Test(retired, the_newest_stays_however_large_it_is)
{
    table_t *table = start();
    route_t *route;

    apply(table, "/a", "ac_1", TEXT);
    route = begin(table, "/a");
    route->version.bytes = 2 * RETIRED_BYTES_MAX;
    apply(table, "/a", "ac_1", 1);
    cr_assert(!route->version.is_over);
    route_release(route);
    while (!table_free_some(&table, 100))
        ;
}

Test(retired, a_table_that_is_replaced_leaves_what_requests_use)
{
    table_t *table = start();
    route_t *route;

    apply(table, "/a", "ac_1", TEXT);
    route = begin(table, "/a");
    while (!table_free_some(&table, 100))
        ;
    cr_assert_geq(retired_bytes("ac_1"), (size_t)2 * TEXT);
    route_release(route);
    cr_assert_eq(retired_bytes("ac_1"), 0);
}

Test(retired, versions_of_a_backend_count_of_whatever_kind)
{
    static const char *const kinds[] = {"static_backend", "http_response_backend",
                                        "weighted_backend", "failover_backend"};
    enum { KEPT = RETIRED_BYTES_MAX / (2 * TEXT), USED = 2 * KEPT };

    for (size_t kind = 0; kind < sizeof(kinds) / sizeof(kinds[0]); kind++) {
        table_t *table = start();
        backend_t *used[USED];

        apply_backend(table, kinds[kind], "ac_1", TEXT);
        for (int i = 0; i < USED; i++) {
            used[i] = begin_backend(table);
            cr_assert_leq(retired_bytes("ac_1"), (size_t)RETIRED_BYTES_MAX, "%s", kinds[kind]);
            apply_backend(table, kinds[kind], "ac_1", TEXT);
        }
        cr_assert_geq(over_count, KEPT, "%s", kinds[kind]);
        cr_assert_eq(over_kinds[0], RETIRED_BACKEND);
        cr_assert_str_eq(over_ids[0], "bkd_1");
        for (int i = 0; i < USED; i++)
            cr_assert_eq(used[i]->version.is_over, i < over_count, "%s %d", kinds[kind], i);
        for (int i = 0; i < USED; i++)
            backend_release(used[i]);
        cr_assert_eq(retired_bytes("ac_1"), 0);
        apply_backend(table, kinds[kind], "ac_1", TEXT);
        cr_assert_eq(retired_bytes("ac_1"), 0, "nobody used the version before");
        while (!table_free_some(&table, 100))
            ;
    }
}

Test(retired, routes_and_backends_of_an_account_have_one_bound)
{
    enum { KEPT = RETIRED_BYTES_MAX / (2 * TEXT) };
    table_t *table = start();
    route_t *route;
    backend_t *used[KEPT + 1];

    apply(table, "/a", "ac_1", TEXT);
    route = begin(table, "/a");
    apply(table, "/a", "ac_1", 1);
    apply_backend(table, "static_backend", "ac_1", TEXT);
    for (int i = 0; i <= KEPT; i++) {
        used[i] = begin_backend(table);
        apply_backend(table, "static_backend", "ac_1", TEXT);
    }
    cr_assert(route->version.is_over, "it is the oldest");
    cr_assert_eq(over_kinds[0], RETIRED_ROUTE);
    cr_assert(!used[KEPT]->version.is_over);
    route_release(route);
    for (int i = 0; i <= KEPT; i++)
        backend_release(used[i]);
    while (!table_free_some(&table, 100))
        ;
}

Test(retired, a_backend_that_is_deleted_or_whose_table_goes_is_kept_by_its_requests)
{
    table_t *table = start();
    backend_t *deleted, *gone;

    apply_backend(table, "static_backend", "ac_1", TEXT);
    deleted = begin_backend(table);
    cr_assert_eq(
        touched_apply(table, "static_backend", 14, "bkd_1", 5, NULL, TRUST_ALL, on_touched), 0);
    cr_assert_geq(retired_bytes("ac_1"), (size_t)2 * TEXT);
    apply_backend(table, "static_backend", "ac_1", TEXT);
    gone = begin_backend(table);
    while (!table_free_some(&table, 100))
        ;
    cr_assert_geq(retired_bytes("ac_1"), (size_t)4 * TEXT);
    backend_release(deleted);
    backend_release(gone);
    cr_assert_eq(retired_bytes("ac_1"), 0);
}
