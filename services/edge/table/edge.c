#include "services/edge/table/table_internal.h"

#include "common/base/invariant.h"
#include "services/edge/table/cookie_names.h"
#include "services/edge/table/document.h"
#include "services/edge/table/names.h"
#include "services/edge/table/slab.h"

#include <openssl/sha.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <string.h>

enum { HOSTS_MAX = 1000 };

edge_t *table_make_edge(table_t *self, const char *id, size_t len)
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

void table_free_hosts(edge_t *edge)
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
        names_unclaim(self->hosts, edge->hosts[i].name, &edge->hosts[i].claim);
    table_free_hosts(edge);
}

void table_free_edge(table_t *self, edge_t *edge)
{
    size_t bucket = 0;
    void *node = NULL;
    tree_t *tree;

    /* claims on names lead to its hosts, routes to its trees */
    INVARIANT(edge->host_count == 0 && strmap_count(edge->routes) == 0 && edge->astray == 0);
    while ((tree = strmap_next(edge->hosts_with_routes, &bucket, &node)))
        tree_destroy(&tree);
    tree_destroy(&edge->any);
    strmap_destroy(&edge->hosts_with_routes);
    strmap_destroy(&edge->routes);
    cookie_names_destroy(&edge->cookies);
    table_leave_account(self, edge->account);
    slab_free(edge->id);
    slab_free(edge->account_id);
    slab_free(edge);
}

void table_drop_edge_if_unused(table_t *self, edge_t *edge)
{
    if (edge->present || strmap_count(edge->routes))
        return;
    strmap_del(self->edges, edge->id, strlen(edge->id));
    table_free_edge(self, edge);
}

/* Tickets of one edge, under one set of TLS settings, are good for nothing else. */
static void set_profile(edge_t *edge)
{
    char text[TABLE_ID_MAX + 32];
    int n = snprintf(text, sizeof(text), "%s %d %d", edge->id, edge->min_version, edge->mutual_tls);

    INVARIANT(n > 0 && (size_t)n < sizeof(text));
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
        if (!name || !names_is_host(name)) {
            *bad = true;
            slab_free(name);
            continue;
        }
        names_fold(name, strlen(name));
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

int table_apply_edge(table_t *self, const char *id, size_t len, const msgpack_object *document,
                     trust_t trust)
{
    edge_t fresh = {.present = document && trust < TRUST_NONE}, *edge;

    if (fresh.present)
        parse_edge(&fresh, document, trust);
    if (document && !fresh.hosts)
        keep_hosts(self, id, len, &fresh);
    edge = table_make_edge(self, id, len);
    forget_hosts(self, edge);
    slab_free(edge->account_id);
    table_leave_account(self, edge->account);
    edge->present = fresh.present;
    edge->refused = fresh.refused;
    edge->account_id = fresh.account_id;
    edge->account = fresh.account_id ? table_join_account(self, fresh.account_id) : NULL;
    edge->mutual_tls = fresh.mutual_tls;
    edge->min_version = fresh.min_version;
    edge->hosts = fresh.hosts;
    edge->host_count = fresh.host_count;
    INVARIANT(edge->hosts ? edge->host_count <= HOSTS_MAX : edge->host_count == 0);
    for (size_t i = 0; i < edge->host_count; i++) {
        edge->hosts[i].edge = edge;
        edge->hosts[i].claim.id = edge->id;
        names_claim(self->hosts, edge->hosts[i].name, &edge->hosts[i].claim);
    }
    set_profile(edge);
    table_drop_edge_if_unused(self, edge);
    return document && (fresh.refused || trust != TRUST_ALL) ? -1 : 0;
}

bool edge_is_refused(const edge_t *edge)
{
    return edge->refused || edge->astray;
}
