/* Entries of the config log, which are bytes from outside: whatever they say, the table answers lookups, the same in whatever order
 * they are applied, and nothing is left when it goes. */
#include "common/pack.h"
#include "services/edge/table.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* One of the edge's modules and one that nobody has; the edge's own rows need nginx. */
static const edge_module_t headers_module = {
    .parse = headers_module_parse, .free = headers_module_free, .beyond = headers_module_beyond};
const edge_module_t *const edge_modules[MODULE_COUNT] = {[MODULE_REQUEST_HEADERS] =
                                                             &headers_module};

enum { ENTRIES_MAX = 64 };

static const char *const hosts[] = {"a.test", "b.test", "x.w.test"};
static const char *const paths[] = {"/", "/a", "/admin", "/admin/x"};

static bool is_entry(const msgpack_object *entry)
{
    return entry->type == MSGPACK_OBJECT_ARRAY && entry->via.array.size == 3
           && entry->via.array.ptr[0].type == MSGPACK_OBJECT_STR
           && entry->via.array.ptr[1].type == MSGPACK_OBJECT_STR;
}

static bool is_same(const msgpack_object *one, const msgpack_object *other)
{
    return one->via.str.size == other->via.str.size
           && !memcmp(one->via.str.ptr, other->via.str.ptr, one->via.str.size);
}

/* Is there a later entry of the same id? Ids are of one kind. */
static bool is_replaced(const msgpack_object_array *all, uint32_t i)
{
    for (uint32_t k = i + 1; k < all->size && k < ENTRIES_MAX; k++)
        if (is_entry(&all->ptr[k])
            && is_same(&all->ptr[k].via.array.ptr[1], &all->ptr[i].via.array.ptr[1]))
            return true;
    return false;
}

static void apply(table_t *table, const msgpack_object *entry, trust_t trust)
{
    const msgpack_object *items = entry->via.array.ptr;

    table_apply(table, items[0].via.str.ptr, items[0].via.str.size, items[1].via.str.ptr,
                items[1].via.str.size, &items[2], trust);
}

/* What a request finds, as text that can be compared. */
static const char *find(const table_t *table, const char *host, const char *path)
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

static const char *find_domain(const table_t *table, const char *host)
{
    domain_t *domain = table_domain(table, host, strlen(host));

    return !domain ? "none" : domain->id;
}

static bool has_one_kind_an_id(const msgpack_object_array *all)
{
    for (uint32_t i = 0; i < all->size && i < ENTRIES_MAX; i++)
        for (uint32_t k = 0; k < i; k++)
            if (is_entry(&all->ptr[i]) && is_entry(&all->ptr[k])
                && is_same(&all->ptr[i].via.array.ptr[1], &all->ptr[k].via.array.ptr[1])
                && !is_same(&all->ptr[i].via.array.ptr[0], &all->ptr[k].via.array.ptr[0]))
                return false;
    return true;
}

static void drop(table_t *table)
{
    while (!table_free_some(&table, 3))
        ;
}

static void compare(const table_t *one, const table_t *other)
{
    for (size_t h = 0; h < sizeof(hosts) / sizeof(hosts[0]); h++) {
        for (size_t p = 0; p < sizeof(paths) / sizeof(paths[0]); p++)
            if (strcmp(find(one, hosts[h], paths[p]), find(other, hosts[h], paths[p])))
                abort();
        if (strcmp(find_domain(one, hosts[h]), find_domain(other, hosts[h])))
            abort();
    }
}

static void try_entries(const msgpack_object_array *all)
{
    table_t *every = table_new(), *newest = table_new(), *wary = table_new();
    uint32_t n = all->size < ENTRIES_MAX ? all->size : ENTRIES_MAX;

    for (uint32_t i = 0; i < n; i++)
        if (is_entry(&all->ptr[i])) {
            apply(every, &all->ptr[i], TRUST_ALL);
            apply(wary, &all->ptr[i], (trust_t)(i % (TRUST_SKIP + 1)));
        }
    newest->before = every; /* to whom routes belonged that no longer tell it */
    for (uint32_t i = n; i-- > 0;)
        if (is_entry(&all->ptr[i]) && !is_replaced(all, i))
            apply(newest, &all->ptr[i], TRUST_ALL);
    if (has_one_kind_an_id(all)) {
        compare(every, newest);
        if (table_refused(every) != table_refused(newest))
            abort();
    }
    compare(wary, wary);
    drop(every);
    drop(newest);
    drop(wary);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    msgpack_unpacked unpacked;

    if (pack_check(data, size))
        return 0;
    msgpack_unpacked_init(&unpacked);
    if (msgpack_unpack_next(&unpacked, (const char *)data, size, NULL) == MSGPACK_UNPACK_SUCCESS
        && unpacked.data.type == MSGPACK_OBJECT_ARRAY)
        try_entries(&unpacked.data.via.array);
    msgpack_unpacked_destroy(&unpacked);
    return 0;
}
