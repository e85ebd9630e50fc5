/* Entries of the config log, which are bytes from outside: whatever they say, the table answers
 * lookups, the same in whatever order they are applied, and nothing is left when it goes. */
#include "common/codec/pack.h"
#include "services/edge/table/ip_policy.h"
#include "services/edge/table/restriction.h"
#include "services/edge/table/table.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Two of the edge's modules and one that nobody has; the edge's own rows need nginx. */
static const edge_module_t headers_module = {
    .parse = headers_module_parse, .free = headers_module_free, .beyond = headers_module_beyond};
static const edge_module_t restriction_module = {
    .parse = policy_names_parse, .free = policy_names_free, .entries = policy_names_entries};
const edge_module_t *const edge_modules[MODULE_COUNT] = {
    [MODULE_REQUEST_HEADERS] = &headers_module, [MODULE_IP_RESTRICTION] = &restriction_module};

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

static void check(bool holds)
{
    if (!holds)
        abort();
}

/* Whom policies admit, alone and together. */
static void compare_policies(const table_t *one, const table_t *other)
{
    static const char *const sets[][2] = {{"p1", "p2"}, {"p1", "p1"}, {"p2", "p3"}, {"p3", "p3"}};
    static const char *const from[] = {"10.0.0.1", "10.1.0.1", "192.0.2.1", "::1", "2001:db8::1"};
    char bytes[sizeof(policy_names_t) + 2 * sizeof(char *)] __attribute__((aligned(16))) = {0};
    policy_names_t *names = (policy_names_t *)bytes;

    names->count = 2;
    for (size_t s = 0; s < sizeof(sets) / sizeof(sets[0]); s++)
        for (size_t f = 0; f < sizeof(from) / sizeof(from[0]); f++) {
            struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
            struct sockaddr_in v4 = {.sin_family = AF_INET};
            bool is_v4 = inet_pton(AF_INET, from[f], &v4.sin_addr) == 1;
            const struct sockaddr *at = is_v4 ? (void *)&v4 : (void *)&v6;
            const char *first, *second;
            admission_t admission;

            check(is_v4 || inet_pton(AF_INET6, from[f], &v6.sin6_addr) == 1);
            names->ids[0] = (char *)sets[s][0];
            names->ids[1] = (char *)sets[s][1];
            names->number = s + 1; /* verdicts that are kept, next to some that are not */
            admission = table_admits(one, names, at, &first);
            names->number = 0;
            check(admission == table_admits(one, names, at, &second) && first == second);
            check(admission == table_admits(other, names, at, &second) && first == second);
        }
}

static void compare_accounts(const table_t *one, const table_t *other, const char *id)
{
    const table_account_t *first = strmap_get(one->accounts, id, strlen(id)),
                          *second = strmap_get(other->accounts, id, strlen(id));
    struct sockaddr_in from = {.sin_family = AF_INET};
    account_verdict_t a, b;

    check(!(first && first->restrictions) == !(second && second->restrictions));
    if (!first || !second)
        return;
    check(inet_pton(AF_INET, "10.0.0.1", &from.sin_addr) == 1);
    a = table_account_admits(one, first, (const struct sockaddr *)&from);
    b = table_account_admits(other, second, (const struct sockaddr *)&from);
    check(a.admission == b.admission && a.enforced == b.enforced && !a.by == !b.by
          && (!a.by || !strcmp(a.by->id, b.by->id)));
}

static bool is_same_text(const char *one, const char *other)
{
    return one && other ? !strcmp(one, other) : one == other;
}

static bool is_same_bytes(const void *one, size_t len, const void *other, size_t other_len)
{
    return len == other_len && (!len || !memcmp(one, other, len));
}

static void compare_routes(const route_t *one, const route_t *other)
{
    check(!one == !other);
    if (!one)
        return;
    check(one->refused == other->refused);
    if (one->refused)
        return;
    check(is_same_text(one->edge_id, other->edge_id)
          && is_same_text(one->account_id, other->account_id)
          && is_same_text(one->match, other->match) && one->host_len == other->host_len
          && one->exact == other->exact && one->enabled == other->enabled
          && one->beyond == other->beyond);
}

static void compare_edges(const edge_t *one, const edge_t *other)
{
    bool here = one && one->present;

    check(here == (other && other->present));
    if (!here)
        return;
    check(edge_is_refused(one) == edge_is_refused(other));
    if (edge_is_refused(one))
        return;
    check(is_same_text(one->account_id, other->account_id) && one->host_count == other->host_count
          && one->mutual_tls == other->mutual_tls && one->min_version == other->min_version
          && !memcmp(one->profile, other->profile, sizeof(one->profile)));
}

static void compare_backends(const table_t *a, const table_t *b, const char *id)
{
    backend_t *one = table_backend(a, id), *other = table_backend(b, id);

    check(!one == !other);
    if (!one)
        return;
    check(is_same_text(one->account_id, other->account_id) && is_same_text(one->host, other->host)
          && one->port == other->port && one->tls == other->tls
          && one->http_response == other->http_response && one->status == other->status
          && one->choice_count == other->choice_count && one->member_count == other->member_count
          && !one->members == !other->members && backend_key(one) == backend_key(other)
          && is_same_bytes(&one->address, one->address_len, &other->address, other->address_len)
          && is_same_bytes(one->body, one->body_len, other->body, other->body_len));
    for (size_t i = 0; i < one->member_count; i++)
        check(is_same_text(one->members[i], other->members[i]));
    for (uint32_t share = 0; share < 300; share += 7) {
        const backend_t *first = table_choose(a, one, share),
                        *second = table_choose(b, other, share);

        check(!first == !second && (!first || is_same_text(first->id, second->id)));
    }
}

/* All that can be asked of them. */
static void compare(const table_t *one, const table_t *other, const msgpack_object_array *all)
{
    for (size_t h = 0; h < sizeof(hosts) / sizeof(hosts[0]); h++) {
        for (size_t p = 0; p < sizeof(paths) / sizeof(paths[0]); p++)
            check(!strcmp(find(one, hosts[h], paths[p]), find(other, hosts[h], paths[p])));
        check(!strcmp(find_domain(one, hosts[h]), find_domain(other, hosts[h])));
    }
    compare_policies(one, other);
    compare_accounts(one, other, "ac_1");
    compare_accounts(one, other, "ac_2");
    for (uint32_t i = 0; i < all->size && i < ENTRIES_MAX; i++) {
        const msgpack_object *id = &all->ptr[i].via.array.ptr[1];
        const domain_t *domain, *second;
        char *text;

        if (!is_entry(&all->ptr[i]))
            continue;
        text = strndup(id->via.str.ptr, id->via.str.size);
        compare_routes(strmap_get(one->routes, text, strlen(text)),
                       strmap_get(other->routes, text, strlen(text)));
        compare_edges(strmap_get(one->edges, text, strlen(text)),
                      strmap_get(other->edges, text, strlen(text)));
        compare_backends(one, other, text);
        domain = strmap_get(one->domains, text, strlen(text));
        second = strmap_get(other->domains, text, strlen(text));
        check(!domain == !second);
        if (domain)
            check(is_same_text(domain->name, second->name)
                  && is_same_text(domain->certificate_id, second->certificate_id)
                  && is_same_text(domain->chain_pem, second->chain_pem)
                  && is_same_text(domain->key_pem, second->key_pem));
        free(text);
    }
}

/* The newest of each, in any order, and any of them again. */
static void apply_shuffled(table_t *table, const msgpack_object_array *all, uint32_t n,
                           uint64_t seed)
{
    uint32_t order[2 * ENTRIES_MAX], count = 0; /* the newest once or twice */

    for (uint32_t i = 0; i < n; i++)
        if (is_entry(&all->ptr[i]) && !is_replaced(all, i)) {
            order[count++] = i;
            if (seed >> i % 61 & 1)
                order[count++] = i;
        }
    for (uint32_t i = count; i > 1; i--) {
        uint32_t k, kept = order[i - 1];

        seed = seed * 6364136223846793005u + 1442695040888963407u;
        k = (uint32_t)(seed >> 33) % i;
        order[i - 1] = order[k];
        order[k] = kept;
    }
    for (uint32_t i = 0; i < count; i++)
        apply(table, &all->ptr[order[i]], TRUST_ALL);
}

static void try_entries(const msgpack_object_array *all, uint64_t seed)
{
    table_t *every = table_new(), *newest = table_new(), *shuffled = table_new(),
            *wary = table_new();
    uint32_t n = all->size < ENTRIES_MAX ? all->size : ENTRIES_MAX;

    for (uint32_t i = 0; i < n; i++)
        if (is_entry(&all->ptr[i])) {
            apply(every, &all->ptr[i], TRUST_ALL);
            apply(wary, &all->ptr[i], (trust_t)(i % (TRUST_SKIP + 1)));
        }
    /* to whom routes belonged that no longer tell it */
    newest->before = shuffled->before = every;
    for (uint32_t i = n; i-- > 0;)
        if (is_entry(&all->ptr[i]) && !is_replaced(all, i))
            apply(newest, &all->ptr[i], TRUST_ALL);
    apply_shuffled(shuffled, all, n, seed);
    if (has_one_kind_an_id(all)) {
        compare(every, newest, all);
        compare(every, shuffled, all);
        check(table_refused(every) == table_refused(newest)
              && table_refused(every) == table_refused(shuffled));
    }
    compare(wary, wary, all);
    drop(every);
    drop(newest);
    drop(shuffled);
    drop(wary);
}

/* Another order for each input. */
static uint64_t seed_of(const uint8_t *data, size_t size)
{
    uint64_t seed = 1469598103934665603u;

    for (size_t i = 0; i < size; i++)
        seed = (seed ^ data[i]) * 1099511628211u;
    return seed;
}

/* ---- entries made of few words, so that they meet; the bytes choose ---- */

typedef struct in {
    const uint8_t *at, *end;
} in_t;

static unsigned take(in_t *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

typedef struct field {
    const char *name;
    const char *values[8];
} field_t;

typedef struct kind {
    const char *name, *ids[4];
    field_t fields[8];
} entry_kind_t;

/* Values that begin with a digit are numbers, '+' and '-' are booleans, '{' is a map of backends or
 * headers, '[' a list of hosts. */
static const entry_kind_t kinds[] = {
    {"https_edge",
     {"e1", "e2", "e3"},
     {{"account_id", {"ac_1", "ac_2"}},
      {"hostports",
       {"[a.test:443", "[A.test:443", "[b.test:443", "[*.w.test:443", "[x.w.test:443",
        "[a.test:443,b.test:443", "[", "[nothing"}},
      {"mutual_tls", {"-", "+", "-", "1"}},
      {"min_version", {"1.2", "1.3", "1.1"}}}},
    {"https_edge_route",
     {"r1", "r2", "r3", "r4"},
     {{"account_id", {"ac_1", "ac_2"}},
      {"edge_id", {"e1", "e2", "e3", ""}},
      {"match", {"/", "/a", "/admin", "a.test/", "A.test/admin", "x.w.test/", "", "/admin/x"}},
      {"match_type", {"path_prefix", "exact_path", "regex"}},
      {"backend", {"{b1", "{b2", "b"}},
      {"request_headers", {"{x", "+"}},
      {"ip_restriction", {"{ip_policy_ids", "{x"}},
      {"oidc", {"{o"}}}},
    {"static_backend",
     {"b1", "b2", "b3"},
     {{"account_id", {"ac_1", "ac_2"}},
      {"address", {"127.0.0.1:80", "[::1]:80", "name.test:443", "name.test", ":1", "a:0"}},
      {"tls", {"-", "+", "1"}}}},
    {"http_response_backend",
     {"b4", "b5"},
     {{"account_id", {"ac_1"}},
      {"status_code", {"200", "404", "99", "x"}},
      {"body", {"one", "other"}},
      {"headers", {"{x", "{y", "x"}}}},
    {"weighted_backend",
     {"b6", "b7"},
     {{"account_id", {"ac_1"}}, {"backends", {"{b1", "{b4", "{b6", "{", "x", "{b1,b2", "{b2,b1"}}}},
    {"failover_backend",
     {"b8", "b9"},
     {{"account_id", {"ac_1"}}, {"backends", {"[", "[b1", "[b4,b1", "[b8", "{b1", "x"}}}},
    {"reserved_domain",
     {"d1", "d2", "d3"},
     {{"domain", {"a.test", "A.TEST", "*.w.test", "x.w.test", "", "b.test"}},
      {"certificate_id", {"c1", "c2"}},
      {"certificate_pem", {"pem"}},
      {"private_key_pem", {"key"}}}},
    {"tls_certificate",
     {"c1", "c2"},
     {{"certificate_pem", {"pem", "other"}}, {"private_key_pem", {"key"}}}},
    {"ip_policy", {"p1", "p2", "p3"}, {{"account_id", {"ac_1"}}}},
    {"ip_policy_rule",
     {"i1", "i2", "i3", "i4"},
     {{"ip_policy_id", {"p1", "p2", "p3", "p1", "p2", "7"}},
      {"cidr",
       {"10.0.0.0/8", "10.1.0.0/16", "0.0.0.0/0", "::/0", "::ffff:10.0.0.0/104", "2001:db8::/32",
        "10.0.0.1/8", "::1/128"}},
      {"action", {"allow", "allow", "allow", "deny", "drop"}}}},
    {"ip_restriction",
     {"l1", "l2", "l3"},
     {{"account_id", {"ac_1", "ac_2", "7", ""}},
      {"enforced", {"+", "-", "+", "1"}},
      {"ip_policy_ids", {"[p1", "[p1,p2", "[p2", "[p3,p3", "["}}}},
    {"event_destination", {"x1"}, {{"name", {"of no use here"}}}},
};

static void put(msgpack_packer *to, const char *text, size_t len)
{
    msgpack_pack_str(to, len);
    msgpack_pack_str_body(to, text, len);
}

static unsigned count_of(const char *const *values, unsigned most)
{
    unsigned n = 0;

    while (n < most && values[n])
        n++;
    return n;
}

/* "{b1,b2": names with numbers or texts; "[x,y": texts. */
static void put_items(msgpack_packer *to, const char *text, in_t *in)
{
    bool map = *text == '{';
    const char *at = text + 1;
    size_t n = *at != '\0';

    for (const char *comma = at; (comma = strchr(comma, ',')); comma++)
        n++;
    if (map)
        msgpack_pack_map(to, n);
    else
        msgpack_pack_array(to, n);
    for (; n; n--) {
        size_t len = strcspn(at, ",");

        put(to, at, len);
        if (map && take(in) % 8u)
            msgpack_pack_int(to, (int)(take(in) % 4u));
        else if (map)
            put(to, "value", 5);
        at += len + 1;
    }
}

static void put_value(msgpack_packer *to, const char *value, in_t *in)
{
    if (*value == '{' || *value == '[')
        put_items(to, value, in);
    else if (*value == '+' || *value == '-')
        *value == '+' ? msgpack_pack_true(to) : msgpack_pack_false(to);
    else if (*value >= '0' && *value <= '9' && !strpbrk(value, ".:"))
        msgpack_pack_int(to, atoi(value));
    else
        put(to, value, strlen(value));
}

static void put_entry(msgpack_packer *to, in_t *in)
{
    const entry_kind_t *kind = &kinds[take(in) % (sizeof(kinds) / sizeof(kinds[0]))];
    const char *id = kind->ids[take(in) % count_of(kind->ids, 4)];
    unsigned n = 0, without = take(in), which[8] = {0};

    while (n < 8 && kind->fields[n].name)
        n++;
    msgpack_pack_array(to, 3);
    put(to, kind->name, strlen(kind->name));
    put(to, id, strlen(id));
    if (without >= 0xe0) { /* removed, or no document */
        without % 4u ? msgpack_pack_nil(to) : put(to, "text", 4);
        return;
    }
    without = without < 0x80 ? n : without % n;
    for (unsigned i = 0; i < n; i++)
        which[i] = take(in);
    msgpack_pack_map(to, without < n ? n - 1 : n);
    for (unsigned i = 0; i < n; i++)
        if (i != without) {
            const field_t *field = &kind->fields[i];

            put(to, field->name, strlen(field->name));
            put_value(to, field->values[which[i] % count_of(field->values, 8)], in);
        }
}

static void make_entries(msgpack_sbuffer *out, in_t *in)
{
    msgpack_packer to;
    size_t n = 1 + take(in) % ENTRIES_MAX;

    msgpack_packer_init(&to, out, msgpack_sbuffer_write);
    msgpack_pack_array(&to, n);
    while (n--)
        put_entry(&to, in);
}

static void try_bytes(const void *data, size_t size, uint64_t seed)
{
    msgpack_unpacked unpacked;

    if (pack_check(data, size))
        return;
    msgpack_unpacked_init(&unpacked);
    if (msgpack_unpack_next(&unpacked, data, size, NULL) == MSGPACK_UNPACK_SUCCESS
        && unpacked.data.type == MSGPACK_OBJECT_ARRAY)
        try_entries(&unpacked.data.via.array, seed);
    msgpack_unpacked_destroy(&unpacked);
}

/* An array begins with a byte beyond 0x80. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    in_t in = {data, data + size};
    msgpack_sbuffer made;

    if (size && *data >= 0x80) {
        try_bytes(data, size, seed_of(data, size));
        return 0;
    }
    msgpack_sbuffer_init(&made);
    make_entries(&made, &in);
    try_bytes(made.data, made.size, seed_of(data, size));
    msgpack_sbuffer_destroy(&made);
    return 0;
}
