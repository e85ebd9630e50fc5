/* Versions of routes that requests keep: an account's are bounded, and the oldest are over first. */
#include "common/codec/pack.h"
#include "services/edge/streams/touched.h"
#include "services/edge/table/retired.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { TEXT = 1 << 20 /* in the entry, and estimated twice */ };

static const route_t *over[100];
static int over_count;

static void on_over(const route_t *route)
{
    over[over_count++] = route;
}

static void on_touched(const stream_key_t *key)
{
    (void)key;
}

/* A version of a route whose description has so many bytes. */
static void apply(table_t *table, const char *id, const char *account, size_t text)
{
    static char description[TEXT + 1];
    msgpack_sbuffer buffer;
    msgpack_unpacked unpacked;
    json_t *document;

    memset(description, 'x', text);
    description[text] = '\0';
    document = json_pack("{s:s, s:s, s:s, s:s, s:s}", "edge_id", "edghts_1", "account_id", account,
                         "match_type", "path_prefix", "match", id, "description", description);
    msgpack_sbuffer_init(&buffer);
    msgpack_unpacked_init(&unpacked);
    pack_json(&buffer, document);
    cr_assert_eq(msgpack_unpack_next(&unpacked, buffer.data, buffer.size, NULL),
                 MSGPACK_UNPACK_SUCCESS);
    cr_assert_eq(touched_apply(table, "https_edge_route", 16, id, strlen(id), &unpacked.data,
                               TRUST_ALL, on_touched),
                 0);
    msgpack_unpacked_destroy(&unpacked);
    msgpack_sbuffer_destroy(&buffer);
    json_decref(document);
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
        cr_assert_eq(over[i], used[i], "%d", i);
        cr_assert(used[i]->is_over);
    }
    cr_assert(!used[over_count]->is_over);
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
    cr_assert(!small->is_over);
    route_release(small);
    for (int i = 0; i < 20; i++)
        route_release(large[i]);
    while (!table_free_some(&table, 100))
        ;
}

Test(retired, the_newest_stays_however_large_it_is)
{
    table_t *table = start();
    route_t *route;

    apply(table, "/a", "ac_1", TEXT);
    route = begin(table, "/a");
    route->bytes = 2 * RETIRED_BYTES_MAX;
    apply(table, "/a", "ac_1", 1);
    cr_assert(!route->is_over);
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
