#include "table.h"

#include "document.h"
#include "slab.h"

#include <arpa/inet.h>
#include <openssl/sha.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const module_names[MODULE_COUNT] = {
    [MODULE_IP_RESTRICTION] = "ip_restriction",
    [MODULE_USER_AGENT_FILTER] = "user_agent_filter",
    [MODULE_CIRCUIT_BREAKER] = "circuit_breaker",
    [MODULE_WEBHOOK_VERIFICATION] = "webhook_verification",
    [MODULE_OAUTH] = "oauth",
    [MODULE_OIDC] = "oidc",
    [MODULE_SAML] = "saml",
    [MODULE_TRAFFIC_POLICY] = "traffic_policy",
    [MODULE_REQUEST_HEADERS] = "request_headers",
    [MODULE_BACKEND] = "backend",
    [MODULE_WEBSOCKET_TCP_CONVERTER] = "websocket_tcp_converter",
    [MODULE_RESPONSE_HEADERS] = "response_headers",
    [MODULE_COMPRESSION] = "compression",
};

/* ---- backends ---- */

void backend_release(backend_t *backend)
{
    if (!backend || --backend->refs)
        return;
    headers_done(&backend->headers);
    for (size_t i = 0; i < backend->choice_count; i++)
        slab_free(backend->choices[i].id);
    slab_free(backend->choices);
    slab_free(backend->id);
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

/* A number for each TLS name: connections verified for one are never reused for another. One map
 * for the process, because pooled connections outlive a table. */
static uint64_t pool_of(const char *name)
{
    static strmap_t *pools;
    void *pool;

    if (!pools)
        pools = strmap_new();
    pool = strmap_get(pools, name, strlen(name));
    if (!pool) {
        pool = (void *)(uintptr_t)(strmap_count(pools) + 1);
        strmap_put(pools, name, strlen(name), pool);
    }
    return (uint64_t)(uintptr_t)pool;
}

static backend_t *parse_static(const msgpack_object *document)
{
    char *address = document_str(document, "address"),
         *colon = address ? strrchr(address, ':') : NULL;
    backend_t *backend;

    if (!colon) {
        slab_free(address);
        return NULL;
    }
    backend = slab_alloc(sizeof(*backend));
    *colon = '\0';
    backend->port = (uint16_t)atoi(colon + 1);
    if (address[0] == '[' && colon[-1] == ']') {
        colon[-1] = '\0';
        backend->host = document_copy(address + 1, strlen(address + 1));
    } else {
        backend->host = document_copy(address, strlen(address));
    }
    slab_free(address);
    backend->tls = document_bool(document, "tls");
    if (backend->tls)
        backend->pool = pool_of(backend->host);
    set_literal(backend);
    return backend;
}

static backend_t *parse_response(const msgpack_object *document)
{
    const msgpack_object *status = document_get(document, "status_code");
    backend_t *backend = slab_alloc(sizeof(*backend));

    backend->http_response = true;
    backend->status =
        status && status->type == MSGPACK_OBJECT_POSITIVE_INTEGER ? (unsigned)status->via.u64 : 200;
    backend->body = document_str(document, "body");
    backend->body_len = backend->body ? strlen(backend->body) : 0;
    headers_parse(&backend->headers, document_get(document, "headers"), NULL);
    return backend;
}

static backend_t *parse_weighted(const msgpack_object *document)
{
    const msgpack_object *members = document_get(document, "backends");
    backend_t *backend;
    uint32_t sum = 0;

    if (!members || members->type != MSGPACK_OBJECT_MAP)
        return NULL;
    backend = slab_alloc(sizeof(*backend));
    backend->choices = slab_alloc((members->via.map.size + 1) * sizeof(*backend->choices));
    for (uint32_t i = 0; i < members->via.map.size; i++) {
        const msgpack_object_kv *pair = &members->via.map.ptr[i];

        if (pair->val.type != MSGPACK_OBJECT_POSITIVE_INTEGER || !pair->val.via.u64)
            continue;
        sum += (uint32_t)pair->val.via.u64; /* at most 100 times 10,000 */
        backend->choices[backend->choice_count].id = document_text(&pair->key);
        backend->choices[backend->choice_count++].upto = sum;
    }
    return backend;
}

static int apply_backend(table_t *self, const char *id, size_t len, const msgpack_object *document,
                         backend_t *(*parse)(const msgpack_object *document))
{
    backend_t *backend = NULL;

    if (document) {
        backend = parse(document);
        if (!backend)
            return -1;
        backend->id = document_copy(id, len);
        backend->refs = 1;
        backend_release(strmap_put(self->backends, id, len, backend));
        if (backend->host && !backend->literal && self->backend_added)
            self->backend_added(backend);
        return 0;
    }
    backend_release(strmap_del(self->backends, id, len));
    return 0;
}

backend_t *table_backend(const table_t *self, const char *id)
{
    return strmap_get(self->backends, id, strlen(id));
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

static void forget_hosts(table_t *self, edge_t *edge)
{
    for (size_t i = 0; i < edge->host_count; i++) {
        size_t len = strlen(edge->hosts[i]);

        if (strmap_get(self->hosts, edge->hosts[i], len) == edge)
            strmap_del(self->hosts, edge->hosts[i], len);
        slab_free(edge->hosts[i]);
    }
    slab_free(edge->hosts);
    edge->hosts = NULL;
    edge->host_count = 0;
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
    char text[128];
    int n = snprintf(text, sizeof(text), "%s %d %d", edge->id, edge->min_version, edge->mutual_tls);

    SHA256((const unsigned char *)text, (size_t)n, edge->profile);
}

static int apply_edge(table_t *self, const char *id, size_t len, const msgpack_object *document)
{
    edge_t *edge = edge_of(self, id, len);
    const msgpack_object *hostports, *version;

    forget_hosts(self, edge);
    slab_free(edge->account_id);
    edge->account_id = NULL;
    edge->present = document != NULL;
    if (!document) {
        edge_drop_if_unused(self, edge);
        return 0;
    }
    edge->account_id = document_str(document, "account_id");
    edge->mutual_tls = document_bool(document, "mutual_tls");
    version = document_get(document, "min_version");
    edge->min_version = version && version->type == MSGPACK_OBJECT_STR && version->via.str.size == 3
                                && !memcmp(version->via.str.ptr, "1.3", 3)
                            ? TLS1_3_VERSION
                            : TLS1_2_VERSION;
    set_profile(edge);
    hostports = document_get(document, "hostports");
    if (!hostports || hostports->type != MSGPACK_OBJECT_ARRAY)
        return -1;
    edge->hosts = slab_alloc((hostports->via.array.size + 1) * sizeof(char *));
    for (uint32_t i = 0; i < hostports->via.array.size; i++) {
        char *hostport = document_text(&hostports->via.array.ptr[i]);

        if (!hostport)
            return -1;
        hostport[strcspn(hostport, ":")] = '\0';
        edge->hosts[edge->host_count++] = hostport;
        strmap_put(self->hosts, hostport, strlen(hostport), edge);
    }
    return 0;
}

/* ---- routes ---- */

void route_release(route_t *route)
{
    if (!route || --route->refs)
        return;
    for (int i = 0; i < MODULE_COUNT; i++)
        if (route->configs[i])
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

static void route_unlink(table_t *self, route_t *route)
{
    edge_t *edge = strmap_get(self->edges, route->edge_id, strlen(route->edge_id));
    const char *path = route_path(route);
    tree_t *tree = tree_for(edge, route, false);

    tree_del(tree, path, strlen(path), route->exact);
    if (tree != edge->any && tree_empty(tree)) {
        strmap_del(edge->hosts_with_routes, route->match, route->host_len);
        tree_destroy(&tree);
    }
    strmap_del(edge->routes, route->id, strlen(route->id));
    edge_drop_if_unused(self, edge);
}

static void parse_module(route_t *route, module_id_t id, const msgpack_object *document)
{
    const edge_module_t *module = edge_modules[id];
    uint32_t bit = 1u << id;

    route->enabled |= bit;
    if (!module)
        route->beyond |= bit;
    else if (module->parse)
        route->configs[id] = module->parse(document);
    if (module && module->beyond && module->beyond(route->configs[id]))
        route->beyond |= bit;
}

static route_t *parse_route(const msgpack_object *document)
{
    route_t *route = slab_alloc(sizeof(*route));
    const msgpack_object *module;
    char *type = document_str(document, "match_type");

    route->refs = 1;
    route->account_id = document_str(document, "account_id");
    route->account_id_len = route->account_id ? strlen(route->account_id) : 0;
    route->edge_id = document_str(document, "edge_id");
    route->match = document_str(document, "match");
    route->exact = type && !strcmp(type, "exact_path");
    slab_free(type);
    if (!route->match || !route->edge_id) {
        route_release(route);
        return NULL;
    }
    route->host_len = strcspn(route->match, "/");
    for (int i = 0; i < MODULE_COUNT; i++) {
        module = document_get(document, module_names[i]);
        if (module && module->type == MSGPACK_OBJECT_MAP)
            parse_module(route, (module_id_t)i, module);
    }
    return route;
}

static int apply_route(table_t *self, const char *id, size_t len, const msgpack_object *document)
{
    route_t *old = strmap_del(self->routes, id, len), *route;
    const char *path;
    edge_t *edge;

    if (old) {
        route_unlink(self, old);
        route_release(old);
    }
    if (!document)
        return 0;
    route = parse_route(document);
    if (!route)
        return -1;
    route->id = document_copy(id, len);
    edge = edge_of(self, route->edge_id, strlen(route->edge_id));
    path = route_path(route);
    tree_put(tree_for(edge, route, true), path, strlen(path), route->exact, route);
    strmap_put(edge->routes, id, len, route);
    strmap_put(self->routes, id, len, route);
    return 0;
}

route_t *table_route(const edge_t *edge, const char *host, size_t host_len, const char *path,
                     size_t path_len)
{
    const tree_t *tree = strmap_count(edge->hosts_with_routes)
                             ? strmap_get(edge->hosts_with_routes, host, host_len)
                             : NULL;
    route_t *route = tree ? tree_find(tree, path, path_len) : NULL;

    return route ? route : tree_find(edge->any, path, path_len);
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
    slab_free(domain->name);
    slab_free(domain->certificate_id);
    slab_free(domain->chain_pem);
    slab_free(domain->key_pem);
    slab_free(domain);
}

/* A domain by its id; a certificate is a domain without a name. */
static int apply_pair(table_t *self, strmap_t *map, const char *id, size_t len,
                      const msgpack_object *document, bool named)
{
    domain_t *old = strmap_del(map, id, len), *domain;

    if (old && old->name && strmap_get(self->domain_names, old->name, strlen(old->name)) == old)
        strmap_del(self->domain_names, old->name, strlen(old->name));
    domain_free(self, old);
    if (!document)
        return 0;
    domain = slab_alloc(sizeof(*domain));
    domain->name = named ? document_str(document, "domain") : NULL;
    domain->certificate_id = document_str(document, "certificate_id");
    domain->chain_pem = document_str(document, "certificate_pem");
    domain->key_pem = document_str(document, "private_key_pem");
    if ((named && !domain->name)
        || (!domain->certificate_id && (!domain->chain_pem || !domain->key_pem))) {
        domain_free(self, domain);
        return -1;
    }
    strmap_put(map, id, len, domain);
    if (named)
        strmap_put(self->domain_names, domain->name, strlen(domain->name), domain);
    return 0;
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
    return by_name(self->hosts, host, len);
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
    return self;
}

int table_apply(table_t *self, const char *kind, size_t kind_len, const char *id, size_t id_len,
                const msgpack_object *document)
{
    if (document && document->type == MSGPACK_OBJECT_NIL)
        document = NULL;
    if (document && document->type != MSGPACK_OBJECT_MAP)
        return -1;
#define IS(name) (kind_len == sizeof(name) - 1 && !memcmp(kind, name, kind_len))
    if (IS("https_edge_route"))
        return apply_route(self, id, id_len, document);
    if (IS("https_edge"))
        return apply_edge(self, id, id_len, document);
    if (IS("static_backend"))
        return apply_backend(self, id, id_len, document, parse_static);
    if (IS("http_response_backend"))
        return apply_backend(self, id, id_len, document, parse_response);
    if (IS("weighted_backend"))
        return apply_backend(self, id, id_len, document, parse_weighted);
    if (IS("reserved_domain"))
        return apply_pair(self, self->domains, id, id_len, document, true);
    if (IS("tls_certificate"))
        return apply_pair(self, self->certificates, id, id_len, document, false);
#undef IS
    return 0; /* a kind that this edge does not serve */
}

/* One leaf of one edge, then the edge itself when it has none. True when there was something. */
static bool free_edge_part(table_t *self)
{
    edge_t *edge = self->dying;
    const char *path;
    route_t *route;

    if (!edge)
        edge = self->dying = strmap_pop(self->edges);
    if (!edge)
        return false;
    route = strmap_pop(edge->routes);
    if (route) {
        path = route_path(route);
        tree_del(tree_for(edge, route, false), path, strlen(path), route->exact);
        return true;
    }
    for (size_t i = 0; i < edge->host_count; i++)
        slab_free(edge->hosts[i]);
    slab_free(edge->hosts);
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
        } else if (strmap_pop(self->hosts) || strmap_pop(self->domain_names)) {
            continue; /* only names: what they led to is gone */
        } else {
            strmap_destroy(&self->edges);
            strmap_destroy(&self->routes);
            strmap_destroy(&self->backends);
            strmap_destroy(&self->domains);
            strmap_destroy(&self->certificates);
            strmap_destroy(&self->hosts);
            strmap_destroy(&self->domain_names);
            slab_free(self);
            *self_p = self = NULL;
        }
    }
    return !self;
}
