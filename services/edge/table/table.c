#include "services/edge/table/table.h"

#include "services/edge/table/document.h"
#include "services/edge/table/slab.h"

#include <arpa/inet.h>
#include <openssl/sha.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const module_names[MODULE_COUNT] = {
#define MODULE(id, name, file, decision) [MODULE_##id] = #name,
#include "proto/modules.def"
};

enum {
    ID_BYTES = 128,
    HOST_BYTES = 253,
    MATCH_BYTES = 2048,
    HOSTS_MAX = 1000,
    CHOICES_MAX = 100,
    WEIGHT_MAX = 10000
};

/* ---- claims on names ---- */

static void claim_name(strmap_t *map, const char *name, claim_t *claim)
{
    size_t len = strlen(name);
    claim_t *first = strmap_get(map, name, len);

    claim_put(&first, claim);
    strmap_put(map, name, len, first);
}

static void unclaim_name(strmap_t *map, const char *name, const claim_t *claim)
{
    size_t len = strlen(name);
    claim_t *first = strmap_get(map, name, len);

    claim_del(&first, claim);
    if (first)
        strmap_put(map, name, len, first);
    else
        strmap_del(map, name, len);
}

/* Names are looked up in lower case. */
static void fold(char *name, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (name[i] >= 'A' && name[i] <= 'Z')
            name[i] += 'a' - 'A';
}

static bool is_name(const char *name)
{
    return name && *name && strlen(name) <= HOST_BYTES;
}

/* ---- pools of connections ---- */

/* One for the process, because pooled connections outlive a table. */
static strmap_t *pools;

typedef struct pool {
    uint64_t number;
    size_t users; /* backends */
} pool_t;

/* A number for each TLS name that a backend has: connections verified for one name are never
 * reused for another, also not for one that comes when the last backend of a name is gone. */
static uint64_t join_pool(const char *name)
{
    static uint64_t last;
    pool_t *pool;

    if (!pools)
        pools = strmap_new();
    pool = strmap_get(pools, name, strlen(name));
    if (!pool) {
        pool = slab_alloc(sizeof(*pool));
        pool->number = ++last;
        strmap_put(pools, name, strlen(name), pool);
    }
    pool->users++;
    return pool->number;
}

static void leave_pool(const char *name)
{
    pool_t *pool = strmap_get(pools, name, strlen(name));

    if (--pool->users)
        return;
    strmap_del(pools, name, strlen(name));
    slab_free(pool);
}

size_t table_pools(void)
{
    return pools ? strmap_count(pools) : 0;
}

/* ---- backends ---- */

void backend_release(backend_t *backend)
{
    if (!backend || --backend->refs)
        return;
    if (backend->forget_name)
        backend->forget_name(backend);
    if (backend->pool)
        leave_pool(backend->host);
    headers_done(&backend->headers);
    for (size_t i = 0; i < backend->choice_count; i++)
        slab_free(backend->choices[i].id);
    slab_free(backend->choices);
    slab_free(backend->id);
    slab_free(backend->account_id);
    slab_free(backend->host);
    slab_free(backend->body);
    slab_free(backend);
}

static void set_literal(backend_t *backend)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)&backend->address;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&backend->address;

    if (inet_pton(AF_INET, backend->host, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(backend->port);
        backend->address_len = sizeof(*v4);
    } else if (inet_pton(AF_INET6, backend->host, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(backend->port);
        backend->address_len = sizeof(*v6);
    }
    backend->literal = backend->address_len > 0;
}

/* host:port, or [address]:port; *ret_port. NULL: neither. */
static char *split_address(char *address, uint16_t *ret_port)
{
    char *colon = strrchr(address, ':'), *end;
    unsigned long port;

    if (!colon || colon[1] < '0' || colon[1] > '9')
        return NULL;
    port = strtoul(colon + 1, &end, 10);
    if (*end || port < 1 || port > UINT16_MAX)
        return NULL;
    *ret_port = (uint16_t)port;
    *colon = '\0';
    if (address[0] == '[' && colon[-1] == ']') {
        colon[-1] = '\0';
        address++;
    }
    return is_name(address) ? address : NULL;
}

static void parse_static(backend_t *backend, const msgpack_object *document, bool *bad)
{
    char *address = document_str(document, "address", bad);
    const char *host = address ? split_address(address, &backend->port) : NULL;

    backend->account_id = document_str(document, "account_id", bad);
    backend->tls = document_bool(document, "tls", bad);
    if (host && !*bad) {
        backend->host = document_copy(host, strlen(host));
        if (backend->tls)
            backend->pool = join_pool(backend->host);
        set_literal(backend);
    } else {
        *bad = true;
    }
    slab_free(address);
}

static void parse_response(backend_t *backend, const msgpack_object *document, bool *bad)
{
    backend->http_response = true;
    backend->status = document_number(document, "status_code", 200, 599, 200, bad);
    backend->body = document_str(document, "body", bad);
    backend->body_len = backend->body ? strlen(backend->body) : 0;
    headers_parse(&backend->headers, document_get(document, "headers"), NULL, bad);
}

static void parse_weighted(backend_t *backend, const msgpack_object *document, bool *bad)
{
    const msgpack_object *members = document_get(document, "backends");
    uint32_t sum = 0;

    if (!members || members->type != MSGPACK_OBJECT_MAP || members->via.map.size > CHOICES_MAX) {
        *bad = true;
        return;
    }
    backend->choices = slab_alloc((members->via.map.size + 1) * sizeof(*backend->choices));
    for (uint32_t i = 0; i < members->via.map.size; i++) {
        const msgpack_object_kv *pair = &members->via.map.ptr[i];
        choice_t *choice = &backend->choices[backend->choice_count];

        if (pair->val.type != MSGPACK_OBJECT_POSITIVE_INTEGER || pair->val.via.u64 > WEIGHT_MAX
            || pair->key.type != MSGPACK_OBJECT_STR) {
            *bad = true;
            return;
        }
        if (!pair->val.via.u64)
            continue;
        choice->id = document_text(&pair->key, bad);
        if (!choice->id)
            return;
        choice->upto = sum += (uint32_t)pair->val.via.u64;
        backend->choice_count++;
    }
}

/* One that cannot be applied is not there: its routes answer 503, and so does its share of a
 * weighted one. */
static int apply_backend(table_t *self, const char *id, size_t len, const msgpack_object *document,
                         trust_t trust, void (*parse)(backend_t *, const msgpack_object *, bool *))
{
    backend_t *backend = NULL;
    bool bad = document && trust != TRUST_ALL;

    if (document && !bad) {
        backend = slab_alloc(sizeof(*backend));
        backend->refs = 1;
        backend->id = document_copy(id, len);
        parse(backend, document, &bad);
    }
    if (bad) {
        backend_release(backend);
        backend = NULL;
    }
    if (!backend) {
        backend_release(strmap_del(self->backends, id, len));
        return bad ? -1 : 0;
    }
    if (backend->host && !backend->literal && self->backend_added)
        self->backend_added(backend);
    backend_release(strmap_put(self->backends, id, len, backend));
    return 0;
}

backend_t *table_backend(const table_t *self, const char *id)
{
    backend_t *backend = strmap_get(self->backends, id, strlen(id));

    return backend && !backend->refused ? backend : NULL;
}

backend_t *table_choose(const table_t *self, backend_t *backend, uint32_t number)
{
    size_t i = 0;

    if (!backend || !backend->choices)
        return backend;
    if (!backend->choice_count)
        return NULL;
    number %= backend->choices[backend->choice_count - 1].upto;
    while (number >= backend->choices[i].upto)
        i++;
    backend = table_backend(self, backend->choices[i].id);
    return backend && backend->choices ? NULL : backend; /* shares are not nested */
}

/* ---- edges ---- */

static edge_t *edge_of(table_t *self, const char *id, size_t len)
{
    edge_t *edge = strmap_get(self->edges, id, len);

    if (edge)
        return edge;
    edge = slab_alloc(sizeof(*edge));
    edge->id = document_copy(id, len);
    edge->any = tree_new();
    edge->hosts_with_routes = strmap_new();
    edge->routes = strmap_new();
    strmap_put(self->edges, id, len, edge);
    return edge;
}

static void free_hosts(edge_t *edge)
{
    for (size_t i = 0; i < edge->host_count; i++)
        slab_free(edge->hosts[i].name);
    slab_free(edge->hosts);
    edge->hosts = NULL;
    edge->host_count = 0;
}

static void forget_hosts(table_t *self, edge_t *edge)
{
    for (size_t i = 0; i < edge->host_count; i++)
        unclaim_name(self->hosts, edge->hosts[i].name, &edge->hosts[i].claim);
    free_hosts(edge);
}

static void edge_free(edge_t *edge)
{
    size_t bucket = 0;
    void *node = NULL;
    tree_t *tree;

    while ((tree = strmap_next(edge->hosts_with_routes, &bucket, &node)))
        tree_destroy(&tree);
    tree_destroy(&edge->any);
    strmap_destroy(&edge->hosts_with_routes);
    strmap_destroy(&edge->routes);
    slab_free(edge->id);
    slab_free(edge->account_id);
    slab_free(edge);
}

/* An edge that is gone lives on while routes of it do: entries come in any order. */
static void edge_drop_if_unused(table_t *self, edge_t *edge)
{
    if (edge->present || strmap_count(edge->routes))
        return;
    strmap_del(self->edges, edge->id, strlen(edge->id));
    edge_free(edge);
}

/* Tickets of one edge, under one set of TLS settings, are good for nothing else. */
static void set_profile(edge_t *edge)
{
    char text[ID_BYTES + 32];
    int n = snprintf(text, sizeof(text), "%s %d %d", edge->id, edge->min_version, edge->mutual_tls);

    SHA256((const unsigned char *)text, (size_t)n, edge->profile);
}

/* The hosts that can be told, also where others cannot. */
static void parse_hosts(edge_t *edge, const msgpack_object *hostports, bool *bad)
{
    uint32_t size;

    if (!hostports || hostports->type != MSGPACK_OBJECT_ARRAY) {
        *bad = true;
        return;
    }
    size = hostports->via.array.size;
    if (size > HOSTS_MAX) {
        size = HOSTS_MAX;
        *bad = true;
    }
    edge->hosts = slab_alloc((size + 1) * sizeof(*edge->hosts));
    for (uint32_t i = 0; i < size; i++) {
        char *name = document_text(&hostports->via.array.ptr[i], bad);

        if (name)
            name[strcspn(name, ":")] = '\0';
        if (!name || !is_name(name)) {
            *bad = true;
            slab_free(name);
            continue;
        }
        fold(name, strlen(name));
        edge->hosts[edge->host_count++].name = name;
    }
}

/* TLS 1.2 where the entry says nothing. */
static int parse_version(const msgpack_object *document, bool *bad)
{
    char *version = document_str(document, "min_version", bad);
    int number = TLS1_2_VERSION;

    if (version && !strcmp(version, "1.3"))
        number = TLS1_3_VERSION;
    else if (version && strcmp(version, "1.2"))
        *bad = true;
    slab_free(version);
    return number;
}

/* What the entry says, in an edge of its own: nothing of the table changes before all of it is
 * read. */
static void parse_edge(edge_t *fresh, const msgpack_object *document, trust_t trust)
{
    fresh->refused = trust != TRUST_ALL;
    fresh->min_version = TLS1_2_VERSION;
    if (trust <= TRUST_PLACE)
        parse_hosts(fresh, document_get(document, "hostports"), &fresh->refused);
    if (trust == TRUST_ALL) {
        fresh->account_id = document_str(document, "account_id", &fresh->refused);
        fresh->mutual_tls = document_bool(document, "mutual_tls", &fresh->refused);
        fresh->min_version = parse_version(document, &fresh->refused);
    }
}

/* Where the entry does not tell its hosts, those that it had are refused: a wildcard above them
 * must not get their traffic. A snapshot asks the table that it takes the place of. */
static void keep_hosts(const table_t *self, const char *id, size_t len, edge_t *fresh)
{
    const edge_t *known = strmap_get(self->edges, id, len);

    if ((!known || !known->host_count) && self->before)
        known = strmap_get(self->before->edges, id, len);
    if (!known || !known->host_count)
        return;
    fresh->present = fresh->refused = true;
    fresh->hosts = slab_alloc((known->host_count + 1) * sizeof(*fresh->hosts));
    for (; fresh->host_count < known->host_count; fresh->host_count++) {
        const char *name = known->hosts[fresh->host_count].name;

        fresh->hosts[fresh->host_count].name = document_copy(name, strlen(name));
    }
}

static int apply_edge(table_t *self, const char *id, size_t len, const msgpack_object *document,
                      trust_t trust)
{
    edge_t fresh = {.present = document && trust < TRUST_NONE}, *edge;

    if (fresh.present)
        parse_edge(&fresh, document, trust);
    if (document && !fresh.hosts)
        keep_hosts(self, id, len, &fresh);
    edge = edge_of(self, id, len);
    forget_hosts(self, edge);
    slab_free(edge->account_id);
    edge->present = fresh.present;
    edge->refused = fresh.refused;
    edge->account_id = fresh.account_id;
    edge->mutual_tls = fresh.mutual_tls;
    edge->min_version = fresh.min_version;
    edge->hosts = fresh.hosts;
    edge->host_count = fresh.host_count;
    for (size_t i = 0; i < edge->host_count; i++) {
        edge->hosts[i].edge = edge;
        edge->hosts[i].claim.id = edge->id;
        claim_name(self->hosts, edge->hosts[i].name, &edge->hosts[i].claim);
    }
    set_profile(edge);
    edge_drop_if_unused(self, edge);
    return document && (fresh.refused || trust != TRUST_ALL) ? -1 : 0;
}

bool edge_is_refused(const edge_t *edge)
{
    return edge->refused || edge->astray;
}

/* ---- routes ---- */

void route_release(route_t *route)
{
    if (!route || --route->refs)
        return;
    for (int i = 0; i < MODULE_COUNT; i++)
        if (route->configs[i] && edge_modules[i]->free)
            edge_modules[i]->free(route->configs[i]);
    slab_free(route->id);
    slab_free(route->account_id);
    slab_free(route->edge_id);
    slab_free(route->match);
    slab_free(route);
}

static tree_t *tree_for(edge_t *edge, const route_t *route, bool make)
{
    tree_t *tree;

    if (route->host_len == 0)
        return edge->any;
    tree = strmap_get(edge->hosts_with_routes, route->match, route->host_len);
    if (!tree && make) {
        tree = tree_new();
        strmap_put(edge->hosts_with_routes, route->match, route->host_len, tree);
    }
    return tree;
}

/* A host alone: as a prefix every path of it, as an exact path only "/". */
static const char *route_path(const route_t *route)
{
    const char *path = route->match + route->host_len;

    return *path || !route->exact ? path : "/";
}

/* Take the route's claim back, in the table or while it is taken apart. */
static void leave_place(edge_t *edge, route_t *route)
{
    tree_t *tree = route->match ? tree_for(edge, route, false) : NULL;
    const char *path;

    if (!tree) {
        edge->astray--;
        return;
    }
    path = route_path(route);
    tree_del(tree, path, strlen(path), route->exact, &route->claim);
    if (tree != edge->any && tree_empty(tree)) {
        strmap_del(edge->hosts_with_routes, route->match, route->host_len);
        tree_destroy(&tree);
    }
}

static void route_unlink(table_t *self, route_t *route)
{
    edge_t *edge = strmap_get(self->edges, route->edge_id, strlen(route->edge_id));

    leave_place(edge, route);
    strmap_del(edge->routes, route->id, strlen(route->id));
    edge_drop_if_unused(self, edge);
}

static void route_link(table_t *self, route_t *route)
{
    edge_t *edge = edge_of(self, route->edge_id, strlen(route->edge_id));
    const char *path;

    if (route->match) {
        path = route_path(route);
        tree_put(tree_for(edge, route, true), path, strlen(path), route->exact, &route->claim);
    } else {
        edge->astray++;
    }
    strmap_put(edge->routes, route->id, strlen(route->id), route);
    strmap_put(self->routes, route->id, strlen(route->id), route);
}

static void parse_module(route_t *route, module_id_t id, const msgpack_object *document)
{
    const edge_module_t *module = edge_modules[id];
    uint32_t bit = 1u << id;
    bool bad = document->type != MSGPACK_OBJECT_MAP;

    if (module && module->parse && !bad)
        route->configs[id] = module->parse(document, &bad);
    if (bad) {
        route->broken |= bit; /* and not enabled: no hook of it sees what parse did not finish */
        route->refused = true;
        return;
    }
    route->enabled |= bit;
    if (!module || (module->beyond && module->beyond(route->configs[id])))
        route->beyond |= bit;
}

static void parse_modules(route_t *route, const msgpack_object *document)
{
    const msgpack_object *module;

    for (int i = 0; i < MODULE_COUNT && !route->refused; i++) {
        module = document_get(document, module_names[i]);
        if (module && module->type != MSGPACK_OBJECT_NIL)
            parse_module(route, (module_id_t)i, module);
    }
}

/* Where in its edge; without all three it has no place. */
static void parse_place(route_t *route, const msgpack_object *document)
{
    bool bad = false;
    char *match = document_str(document, "match", &bad),
         *type = document_str(document, "match_type", &bad);

    route->exact = type && !strcmp(type, "exact_path");
    if (!bad && match && *match && strlen(match) <= MATCH_BYTES
        && (route->exact || (type && !strcmp(type, "path_prefix")))) {
        route->host_len = strcspn(match, "/");
        fold(match, route->host_len);
        route->match = match;
    } else {
        route->refused = true;
        slab_free(match);
    }
    slab_free(type);
}

/* The edge that a route's entry is known to belong to, also where this version does not tell it: a
 * route never moves to another. A snapshot asks the table that it takes the place of. NULL: no
 * version that could be read was there. */
static char *route_owner(const table_t *self, const char *id, size_t len,
                         const msgpack_object *document, trust_t *trust)
{
    bool bad = false;
    char *edge_id = *trust < TRUST_NONE ? document_str(document, "edge_id", &bad) : NULL;
    const route_t *known;

    if (edge_id && *edge_id && strlen(edge_id) <= ID_BYTES)
        return edge_id;
    slab_free(edge_id);
    *trust = TRUST_NONE;
    known = strmap_get(self->routes, id, len);
    if (!known && self->before)
        known = strmap_get(self->before->routes, id, len);
    return known ? document_copy(known->edge_id, strlen(known->edge_id)) : NULL;
}

/* Without a place it refuses all of its edge: nobody knows what it guarded. NULL: nobody can tell
 * whose it is, either. */
static route_t *parse_route(const table_t *self, const char *id, size_t len,
                            const msgpack_object *document, trust_t trust)
{
    route_t *route;
    char *edge_id = route_owner(self, id, len, document, &trust);

    if (!edge_id)
        return NULL;
    route = slab_alloc(sizeof(*route));
    route->refs = 1;
    route->id = document_copy(id, len);
    route->claim.id = route->id;
    route->edge_id = edge_id;
    route->refused = trust != TRUST_ALL;
    if (trust <= TRUST_PLACE)
        parse_place(route, document);
    if (trust == TRUST_ALL) {
        route->account_id = document_str(document, "account_id", &route->refused);
        route->account_id_len = route->account_id ? strlen(route->account_id) : 0;
        parse_modules(route, document);
    }
    return route;
}

static int apply_route(table_t *self, const char *id, size_t len, const msgpack_object *document,
                       trust_t trust)
{
    route_t *route = document ? parse_route(self, id, len, document, trust) : NULL, *old;

    old = strmap_del(self->routes, id, len);
    if (old) {
        route_unlink(self, old);
        route_release(old);
    }
    if (route)
        route_link(self, route);
    return document && (!route || route->refused) ? -1 : 0;
}

route_t *table_route(const edge_t *edge, const char *host, size_t host_len, const char *path,
                     size_t path_len)
{
    const tree_t *tree = strmap_count(edge->hosts_with_routes)
                             ? strmap_get(edge->hosts_with_routes, host, host_len)
                             : NULL;
    claim_t *claim = tree ? tree_find(tree, path, path_len) : NULL;

    return (route_t *)(claim ? claim : tree_find(edge->any, path, path_len));
}

/* ---- domains and certificates ---- */

static void domain_free(const table_t *self, domain_t *domain)
{
    if (!domain)
        return;
    if (domain->parsed && self->free_parsed)
        self->free_parsed(domain->parsed);
    if (domain->key_pem)
        OPENSSL_cleanse(domain->key_pem, strlen(domain->key_pem));
    slab_free(domain->id);
    slab_free(domain->name);
    slab_free(domain->certificate_id);
    slab_free(domain->chain_pem);
    slab_free(domain->key_pem);
    slab_free(domain);
}

/* A name that has no pair keeps it from the wildcard above: nobody shakes hands for it. */
static void forget_pair(domain_t *domain)
{
    slab_free(domain->certificate_id);
    slab_free(domain->chain_pem);
    if (domain->key_pem)
        OPENSSL_cleanse(domain->key_pem, strlen(domain->key_pem));
    slab_free(domain->key_pem);
    domain->certificate_id = domain->chain_pem = domain->key_pem = NULL;
}

static void parse_pair(domain_t *domain, const msgpack_object *document, bool *bad)
{
    domain->certificate_id = document_str(document, "certificate_id", bad);
    domain->chain_pem = document_str(document, "certificate_pem", bad);
    domain->key_pem = document_str(document, "private_key_pem", bad);
    if (!domain->certificate_id && (!domain->chain_pem || !domain->key_pem))
        *bad = true;
    if (*bad)
        forget_pair(domain);
}

/* NULL: nothing of it can be told. */
static domain_t *parse_domain(const table_t *self, const char *id, size_t len,
                              const msgpack_object *document, bool named, trust_t trust, bool *bad)
{
    domain_t *domain = slab_alloc(sizeof(*domain));

    domain->id = document_copy(id, len);
    domain->claim.id = domain->id;
    if (named && trust <= TRUST_PLACE)
        domain->name = document_str(document, "domain", bad);
    if (domain->name)
        fold(domain->name, strlen(domain->name));
    if (trust == TRUST_ALL)
        parse_pair(domain, document, bad);
    else
        *bad = true;
    if (named && !is_name(domain->name))
        *bad = true;
    if (*bad && !is_name(domain->name))
        domain_free(self, domain), domain = NULL;
    return domain;
}

/* A domain by its id; a certificate is a domain without a name. */
static int apply_pair(table_t *self, strmap_t *map, const char *id, size_t len,
                      const msgpack_object *document, bool named, trust_t trust)
{
    bool bad = false;
    domain_t *domain = document ? parse_domain(self, id, len, document, named, trust, &bad) : NULL;
    domain_t *old = strmap_del(map, id, len);

    if (old && old->name)
        unclaim_name(self->domain_names, old->name, &old->claim);
    domain_free(self, old);
    if (domain)
        strmap_put(map, id, len, domain);
    if (domain && named)
        claim_name(self->domain_names, domain->name, &domain->claim);
    return bad ? -1 : 0;
}

/* host itself, else *.parent */
static void *by_name(const strmap_t *map, const char *host, size_t len)
{
    void *value = strmap_get(map, host, len);
    const char *dot;
    char wildcard[256];
    size_t rest;

    if (value || !(dot = memchr(host, '.', len)))
        return value;
    rest = len - (size_t)(dot - host);
    if (rest + 1 > sizeof(wildcard))
        return NULL;
    wildcard[0] = '*';
    memcpy(wildcard + 1, dot, rest);
    return strmap_get(map, wildcard, rest + 1);
}

edge_t *table_edge(const table_t *self, const char *host, size_t len)
{
    const host_t *found = by_name(self->hosts, host, len);

    return found ? found->edge : NULL;
}

domain_t *table_domain(const table_t *self, const char *host, size_t len)
{
    return by_name(self->domain_names, host, len);
}

/* ---- the table ---- */

table_t *table_new(void)
{
    table_t *self = slab_alloc(sizeof(*self));

    self->edges = strmap_new();
    self->routes = strmap_new();
    self->backends = strmap_new();
    self->domains = strmap_new();
    self->certificates = strmap_new();
    self->hosts = strmap_new();
    self->domain_names = strmap_new();
    self->refused = strmap_new();
    return self;
}

static int apply_entry(table_t *self, const char *kind, size_t kind_len, const char *id,
                       size_t id_len, const msgpack_object *document, trust_t trust)
{
#define IS(name) (kind_len == sizeof(name) - 1 && !memcmp(kind, name, kind_len))
    if (IS("https_edge_route"))
        return apply_route(self, id, id_len, document, trust);
    if (IS("https_edge"))
        return apply_edge(self, id, id_len, document, trust);
    if (IS("static_backend"))
        return apply_backend(self, id, id_len, document, trust, parse_static);
    if (IS("http_response_backend"))
        return apply_backend(self, id, id_len, document, trust, parse_response);
    if (IS("weighted_backend"))
        return apply_backend(self, id, id_len, document, trust, parse_weighted);
    if (IS("reserved_domain"))
        return apply_pair(self, self->domains, id, id_len, document, true, trust);
    if (IS("tls_certificate"))
        return apply_pair(self, self->certificates, id, id_len, document, false, trust);
#undef IS
    return 0; /* a kind that this edge does not serve */
}

/* Every kind of backend has one id, and no id two kinds: kind and id name an entry. */
static void note_refused(table_t *self, const char *kind, size_t kind_len, const char *id,
                         size_t id_len, bool refused)
{
    char key[2 * ID_BYTES + 1];

    if (!refused && strmap_count(self->refused) == 0)
        return;
    memcpy(key, kind, kind_len);
    key[kind_len] = '\0';
    memcpy(key + kind_len + 1, id, id_len);
    if (refused)
        strmap_put(self->refused, key, kind_len + 1 + id_len, self);
    else
        strmap_del(self->refused, key, kind_len + 1 + id_len);
}

/* Of an entry that is not touched: what is there of it, whichever kind has the id. */
static void mark_refused(table_t *self, const char *id, size_t len)
{
    route_t *route = strmap_get(self->routes, id, len);
    edge_t *edge = strmap_get(self->edges, id, len);
    backend_t *backend = strmap_get(self->backends, id, len);

    if (route)
        route->refused = true;
    if (edge)
        edge->refused = true;
    if (backend)
        backend->refused = true;
}

int table_apply(table_t *self, const char *kind, size_t kind_len, const char *id, size_t id_len,
                const msgpack_object *document, trust_t trust)
{
    int r;

    if (!kind_len || kind_len > ID_BYTES || !id_len || id_len > ID_BYTES
        || memchr(id, '\0', id_len))
        return -1;
    if (trust == TRUST_SKIP) {
        mark_refused(self, id, id_len);
        note_refused(self, kind, kind_len, id, id_len, true);
        return -1;
    }
    if (document && document->type == MSGPACK_OBJECT_NIL)
        document = NULL;
    if (document && document->type != MSGPACK_OBJECT_MAP)
        trust = TRUST_NONE;
    r = apply_entry(self, kind, kind_len, id, id_len, document, trust);
    note_refused(self, kind, kind_len, id, id_len, r != 0);
    return r;
}

size_t table_refused(const table_t *self)
{
    return strmap_count(self->refused);
}

/* One leaf of one edge, then the edge itself when it has none. True when there was something. */
static bool free_edge_part(table_t *self)
{
    edge_t *edge = self->dying;
    route_t *route;

    if (!edge)
        edge = self->dying = strmap_pop(self->edges);
    if (!edge)
        return false;
    route = strmap_pop(edge->routes);
    if (route) {
        leave_place(edge, route);
        return true;
    }
    free_hosts(edge);
    edge_free(edge);
    self->dying = NULL;
    return true;
}

bool table_free_some(table_t **self_p, size_t budget)
{
    table_t *self = *self_p;

    for (; self && budget > 0; budget--) {
        route_t *route;
        backend_t *backend;
        domain_t *domain;

        if (free_edge_part(self)) { /* before the routes: their paths lead to the leaves */
            continue;
        } else if ((route = strmap_pop(self->routes))) {
            route_release(route);
        } else if ((backend = strmap_pop(self->backends))) {
            backend_release(backend);
        } else if ((domain = strmap_pop(self->domains))
                   || (domain = strmap_pop(self->certificates))) {
            domain_free(self, domain);
        } else if (strmap_pop(self->hosts) || strmap_pop(self->domain_names)
                   || strmap_pop(self->refused)) {
            continue; /* only names: what they led to is gone */
        } else {
            strmap_destroy(&self->edges);
            strmap_destroy(&self->routes);
            strmap_destroy(&self->backends);
            strmap_destroy(&self->domains);
            strmap_destroy(&self->certificates);
            strmap_destroy(&self->hosts);
            strmap_destroy(&self->domain_names);
            strmap_destroy(&self->refused);
            slab_free(self);
            *self_p = self = NULL;
        }
    }
    return !self;
}
