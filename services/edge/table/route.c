#include "services/edge/table/table_internal.h"

#include "common/base/invariant.h"
#include "services/edge/table/cookie_names.h"
#include "services/edge/table/document.h"
#include "services/edge/table/names.h"
#include "services/edge/table/retired.h"
#include "services/edge/table/sign_in.h"
#include "services/edge/table/slab.h"

#include <string.h>

enum {
    MATCH_BYTES = 2048,
    SIGN_IN_MODULES = 1u << MODULE_OAUTH | 1u << MODULE_OIDC | 1u << MODULE_SAML,
    OFF_MAX = 3 /* sign-in modules that are off */
};

static void free_cookies(route_t *route)
{
    for (size_t i = 0; i < route->cookie_count; i++)
        slab_free(route->cookies[i]);
    slab_free(route->cookies);
    route->cookies = NULL;
    route->cookie_count = 0;
}

shared_text_t *route_sign_out(const route_t *route, module_id_t module)
{
    const sign_in_t *on = route->enabled & 1u << module ? route->configs[module] : NULL;

    if (on)
        return on->shared;
    return module == MODULE_OIDC   ? route->off[ROUTE_OFF_OIDC]
           : module == MODULE_SAML ? route->off[ROUTE_OFF_SAML]
                                   : NULL;
}

void route_release(route_t *route)
{
    if (!route)
        return;
    INVARIANT(route->refs > 0);
    if (--route->refs)
        return;
    retired_forget(&route->version);
    for (int i = 0; i < MODULE_COUNT; i++)
        if (route->configs[i] && edge_modules[i]->free)
            edge_modules[i]->free(route->configs[i]);
    for (int i = 0; i < ROUTE_OFF_COUNT; i++)
        shared_text_unref(&route->off[i]);
    free_cookies(route);
    slab_free(route->id);
    slab_free(route->account_id);
    slab_free(route->edge_id);
    slab_free(route->match);
    slab_free(route);
}

void route_retire(route_t *route)
{
    retired_add(&route->version, &(retired_entry_t){RETIRED_ROUTE, route->id, route->account_id});
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

void table_leave_place(edge_t *edge, route_t *route)
{
    tree_t *tree = route->match ? tree_for(edge, route, false) : NULL;
    const char *path;

    for (size_t i = 0; i < route->cookie_count; i++)
        cookie_names_drop(&edge->cookies, route->cookies[i]);
    edge->signing_in -= route->cookie_count > 0;
    if (!route->match) {
        INVARIANT(edge->astray > 0);
        edge->astray--;
        return;
    }
    INVARIANT(tree);
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

    INVARIANT(edge); /* it is there as long as routes of it are */
    table_leave_place(edge, route);
    strmap_del(edge->routes, route->id, strlen(route->id));
    table_drop_edge_if_unused(self, edge);
}

static void route_link(table_t *self, route_t *route)
{
    edge_t *edge = table_make_edge(self, route->edge_id, strlen(route->edge_id));
    const route_t *others;
    const char *path;

    if (route->match) {
        path = route_path(route);
        tree_put(tree_for(edge, route, true), path, strlen(path), route->exact, &route->claim);
    } else {
        edge->astray++;
    }
    for (size_t i = 0; i < route->cookie_count; i++)
        cookie_names_add(&edge->cookies, route->cookies[i]);
    edge->signing_in += route->cookie_count > 0;
    others = strmap_put(edge->routes, route->id, strlen(route->id), route);
    INVARIANT(!others);
    others = strmap_put(self->routes, route->id, strlen(route->id), route);
    INVARIANT(!others);
}

static void parse_module(route_t *route, module_id_t id, const msgpack_object *document)
{
    const edge_module_t *module = edge_modules[id];
    uint32_t bit = 1u << id;
    bool bad = document->type != MSGPACK_OBJECT_MAP;

    INVARIANT(!route->configs[id]);
    if (module && module->parse && !bad)
        route->configs[id] = module->parse(document, &bad);
    if (bad) {
        route->broken |= bit; /* and not enabled: no hook of it sees what parse did not finish */
        route->refused = true;
        return;
    }
    route->enabled |= bit;
    if (module && module->bytes && route->configs[id])
        route->version.bytes += (uint32_t)module->bytes(route->configs[id]);
    if (!module || (module->beyond && module->beyond(route->configs[id])))
        route->beyond |= bit;
}

/* MODULE_COUNT: no module of this version has the name. */
static int module_named(const msgpack_object_str *name)
{
    int i = 0;

    while (i < MODULE_COUNT
           && (strlen(module_names[i]) != name->size
               || memcmp(module_names[i], name->ptr, name->size) != 0))
        i++;
    return i;
}

/* Modules run in the order of their table, not of the document. A map that is none of them is taken
 * for a module of a newer version: nobody here can say what it guards, so the route is refused. */
static void parse_modules(route_t *route, const msgpack_object *document)
{
    const msgpack_object *modules[MODULE_COUNT] = {0};

    INVARIANT(document->type == MSGPACK_OBJECT_MAP); /* its edge_id was read from it */
    for (uint32_t i = 0; i < document->via.map.size; i++) {
        const msgpack_object *key = &document->via.map.ptr[i].key;
        const msgpack_object *value = &document->via.map.ptr[i].val;
        int id = MODULE_COUNT;

        if (key->type == MSGPACK_OBJECT_STR)
            id = module_named(&key->via.str);
        if (id == MODULE_COUNT
                ? key->type != MSGPACK_OBJECT_STR || value->type == MSGPACK_OBJECT_MAP
                : modules[id] != NULL)
            route->refused = true;
        if (id < MODULE_COUNT)
            modules[id] = value;
    }
    for (int i = 0; i < MODULE_COUNT && !route->refused; i++)
        if (modules[i] && modules[i]->type != MSGPACK_OBJECT_NIL)
            parse_module(route, (module_id_t)i, modules[i]);
}

static void keep_cookie(route_t *route, const msgpack_object *prefix)
{
    bool bad = false;
    char *text = document_text(prefix, &bad);

    if (text && strlen(text) <= SIGN_IN_PREFIX_MAX)
        route->cookies[route->cookie_count++] = text;
    else
        slab_free(text);
}

/* Of modules that are on, also of those that cannot be read, and of those that are off, whose
 * prefixes the document has in a list: browsers have their cookies still. */
static void parse_cookies(route_t *route, const msgpack_object *document)
{
    const msgpack_object *off = document_get(document, "cookie_prefixes"), *module;
    uint32_t count = off && off->type == MSGPACK_OBJECT_ARRAY ? off->via.array.size : 0;

    if (off && off->type != MSGPACK_OBJECT_NIL
        && (off->type != MSGPACK_OBJECT_ARRAY || count > OFF_MAX)) {
        route->refused = true;
        count = 0;
    }
    route->cookies = slab_alloc((OFF_MAX + MODULE_COUNT) * sizeof(*route->cookies));
    for (uint32_t i = 0; i < count; i++)
        keep_cookie(route, &off->via.array.ptr[i]);
    for (int i = 0; i < MODULE_COUNT; i++) {
        module = SIGN_IN_MODULES & 1u << i ? document_get(document, module_names[i]) : NULL;
        if (module && (module = document_get(module, "cookie_prefix")))
            keep_cookie(route, module);
    }
    if (!route->cookie_count)
        free_cookies(route);
}

static void parse_off(route_t *route, const msgpack_object *document)
{
    bool bad = document->type != MSGPACK_OBJECT_MAP;
    char *module = bad ? NULL : document_str(document, "module", &bad);
    char *sealed = bad ? NULL : document_str(document, "sealed", &bad);
    int at = !module                   ? ROUTE_OFF_COUNT
             : !strcmp(module, "oidc") ? ROUTE_OFF_OIDC
             : !strcmp(module, "saml") ? ROUTE_OFF_SAML
                                       : ROUTE_OFF_COUNT;

    if (!bad && sealed && at < ROUTE_OFF_COUNT && !route->off[at]
        && strlen(sealed) <= SIGN_IN_SEALED_MAX)
        route->off[at] = shared_text_new(sealed, strlen(sealed));
    slab_free(module);
    slab_free(sealed);
}

/* What the providers of modules that are off sign people out with. What cannot be read there lets
 * nobody in, so the route goes on without it. */
static void parse_sign_outs(route_t *route, const msgpack_object *document)
{
    const msgpack_object *list = document_get(document, "sign_outs");
    uint32_t count = list && list->type == MSGPACK_OBJECT_ARRAY ? list->via.array.size : 0;

    for (uint32_t i = 0; i < count && i < OFF_MAX; i++)
        parse_off(route, &list->via.array.ptr[i]);
}

/* Of an entry that cannot be told all of: those of the version before. */
static void keep_cookies(route_t *route, const route_t *known)
{
    if (!known || !known->cookie_count)
        return;
    route->cookies = slab_alloc(known->cookie_count * sizeof(*route->cookies));
    for (; route->cookie_count < known->cookie_count; route->cookie_count++) {
        const char *prefix = known->cookies[route->cookie_count];

        route->cookies[route->cookie_count] = document_copy(prefix, strlen(prefix));
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
        names_fold(match, route->host_len);
        route->match = match;
    } else {
        route->refused = true;
        slab_free(match);
    }
    slab_free(type);
}

/* The version before; a snapshot asks the table that it takes the place of. NULL: there is none. */
static const route_t *route_before(const table_t *self, const char *id, size_t len)
{
    const route_t *known = strmap_get(self->routes, id, len);

    return known || !self->before ? known : strmap_get(self->before->routes, id, len);
}

/* The edge that a route's entry is known to belong to, also where this version does not tell it: a
 * route never moves to another. NULL: no version that could be read was there. */
static char *route_owner(const route_t *known, const msgpack_object *document, trust_t *trust)
{
    bool bad = false;
    char *edge_id = *trust < TRUST_NONE ? document_str(document, "edge_id", &bad) : NULL;

    if (edge_id && *edge_id && strlen(edge_id) <= TABLE_ID_MAX)
        return edge_id;
    slab_free(edge_id);
    *trust = TRUST_NONE;
    return known ? document_copy(known->edge_id, strlen(known->edge_id)) : NULL;
}

/* Without a place it refuses all of its edge: nobody knows what it guarded. NULL: nobody can tell
 * whose it is, either. */
static route_t *parse_route(const table_t *self, const char *id, size_t len,
                            const msgpack_object *document, trust_t trust)
{
    route_t *route;
    const route_t *known = route_before(self, id, len);
    char *edge_id = route_owner(known, document, &trust);

    if (!edge_id)
        return NULL;
    route = slab_alloc(sizeof(*route));
    route->refs = 1;
    route->version.bytes = RETIRED_BASE;
    route->id = document_copy(id, len);
    route->claim.id = route->id;
    route->edge_id = edge_id;
    route->refused = trust != TRUST_ALL;
    if (trust <= TRUST_PLACE)
        parse_place(route, document);
    if (trust == TRUST_ALL) {
        route->account_id = document_str(document, "account_id", &route->refused);
        route->account_id_len = route->account_id ? strlen(route->account_id) : 0;
        route->version.bytes += (uint32_t)retired_weight(document);
        parse_cookies(route, document);
        parse_sign_outs(route, document);
        parse_modules(route, document);
    } else {
        keep_cookies(route, known);
    }
    return route;
}

int table_apply_route(table_t *self, const char *id, size_t len, const msgpack_object *document,
                      trust_t trust)
{
    route_t *route = document ? parse_route(self, id, len, document, trust) : NULL, *old;

    old = strmap_del(self->routes, id, len);
    if (old) {
        if (!route && self->route_gone)
            self->route_gone(old);
        route_unlink(self, old);
        route_release(old);
    }
    if (route) {
        if (self->route_added)
            self->route_added(route);
        route_link(self, route);
    }
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
