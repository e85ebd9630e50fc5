#include "services/edge/table/table_internal.h"

#include "common/base/invariant.h"
#include "services/edge/table/names.h"
#include "services/edge/table/slab.h"

#include <string.h>

const char *const module_names[MODULE_COUNT] = {
#define MODULE(id, name, file, decision) [MODULE_##id] = #name,
#include "proto/modules.def"
};

edge_t *table_edge(const table_t *self, const char *host, size_t len)
{
    const host_t *found = names_find(self->hosts, host, len);

    return found ? found->edge : NULL;
}

domain_t *table_domain(const table_t *self, const char *host, size_t len)
{
    return names_find(self->domain_names, host, len);
}

/* Before policies or rules of the table change: what was found out of them holds no longer. */
static void begin_policies(table_t *self)
{
    static uint64_t versions;

    self->policies_version = ++versions;
}

table_t *table_new(void)
{
    table_t *self = slab_alloc(sizeof(*self));

    begin_policies(self);
    self->edges = strmap_new();
    self->routes = strmap_new();
    self->backends = strmap_new();
    self->domains = strmap_new();
    self->certificates = strmap_new();
    self->policies = strmap_new();
    self->rules = strmap_new();
    self->accounts = strmap_new();
    self->restrictions = strmap_new();
    self->restricting = strmap_new();
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
        return table_apply_route(self, id, id_len, document, trust);
    if (IS("https_edge"))
        return table_apply_edge(self, id, id_len, document, trust);
    if (IS("static_backend"))
        return table_apply_backend(self, id, id_len, document, trust, backend_parse_static);
    if (IS("http_response_backend"))
        return table_apply_backend(self, id, id_len, document, trust, backend_parse_response);
    if (IS("weighted_backend"))
        return table_apply_backend(self, id, id_len, document, trust, backend_parse_weighted);
    if (IS("failover_backend"))
        return table_apply_backend(self, id, id_len, document, trust, backend_parse_failover);
    if (IS("reserved_domain"))
        return table_apply_pair(self, self->domains, id, id_len, document, true, trust);
    if (IS("tls_certificate"))
        return table_apply_pair(self, self->certificates, id, id_len, document, false, trust);
    if (IS("ip_policy"))
        return table_apply_policy(self, id, id_len, document, trust);
    if (IS("ip_policy_rule"))
        return table_apply_rule(self, id, id_len, document, trust);
    if (IS("ip_restriction"))
        return table_apply_restriction(self, id, id_len, document, trust);
#undef IS
    return 0; /* a kind that this edge does not serve */
}

/* Every kind of backend has one id, and no id two kinds: kind and id name an entry. */
static void note_refused(table_t *self, const char *kind, size_t kind_len, const char *id,
                         size_t id_len, bool refused)
{
    char key[2 * TABLE_ID_MAX + 1];

    if (!refused && strmap_count(self->refused) == 0)
        return;
    INVARIANT(kind_len + 1 + id_len <= sizeof(key)); /* table_apply refused longer ones */
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
    policy_t *policy = strmap_get(self->policies, id, len);
    rule_t *rule = strmap_get(self->rules, id, len);
    restriction_t *restriction = strmap_get(self->restrictions, id, len);

    if (route)
        route->refused = true;
    if (edge)
        edge->refused = true;
    if (backend)
        backend->refused = true;
    if (policy)
        policy->refused = true;
    if (rule)
        table_refuse_rule(rule);
    if (restriction)
        table_refuse_restriction(restriction);
}

int table_apply(table_t *self, const char *kind, size_t kind_len, const char *id, size_t id_len,
                const msgpack_object *document, trust_t trust)
{
    int r;

    if (!kind_len || kind_len > TABLE_ID_MAX || !id_len || id_len > TABLE_ID_MAX
        || memchr(id, '\0', id_len))
        return -1;
    if (trust == TRUST_SKIP || (kind_len >= 9 && !memcmp(kind, "ip_policy", 9)))
        begin_policies(self); /* ip_policy_rule, too; what is skipped may be of any kind */
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
        table_leave_place(edge, route);
        return true;
    }
    table_free_hosts(edge);
    table_free_edge(self, edge);
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
        policy_t *policy;
        rule_t *rule;
        restriction_t *restriction;

        if (free_edge_part(self)) { /* before the routes: their paths lead to the leaves */
            continue;
        } else if ((route = strmap_pop(self->routes))) {
            if (route->refs > 1)
                route_retire(route);
            route_release(route);
        } else if ((backend = strmap_pop(self->backends))) {
            table_let_go_backend(backend);
        } else if ((rule = strmap_pop(self->rules))) { /* before their policies */
            table_free_rule(self, rule);
        } else if ((restriction = strmap_pop(self->restrictions))) {
            table_free_restriction(self, restriction);
        } else if ((policy = strmap_pop(self->policies))) {
            table_free_policy(policy);
        } else if ((domain = strmap_pop(self->domains))
                   || (domain = strmap_pop(self->certificates))) {
            table_free_domain(self, domain);
        } else if (strmap_pop(self->hosts) || strmap_pop(self->domain_names)
                   || strmap_pop(self->refused)) {
            continue; /* only names: what they led to is gone */
        } else {
            INVARIANT(!self->dying && strmap_count(self->edges) == 0);
            INVARIANT(strmap_count(self->accounts) == 0 && strmap_count(self->restricting) == 0);
            strmap_destroy(&self->edges);
            strmap_destroy(&self->routes);
            strmap_destroy(&self->backends);
            strmap_destroy(&self->domains);
            strmap_destroy(&self->certificates);
            strmap_destroy(&self->policies);
            strmap_destroy(&self->rules);
            strmap_destroy(&self->accounts);
            strmap_destroy(&self->restrictions);
            strmap_destroy(&self->restricting);
            strmap_destroy(&self->hosts);
            strmap_destroy(&self->domain_names);
            strmap_destroy(&self->refused);
            slab_free(self);
            *self_p = self = NULL;
        }
    }
    return !self;
}
