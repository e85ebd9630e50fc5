#include "services/edge/streams/touched.h"

#include "services/edge/table/ip_policy.h"
#include "services/edge/table/restriction.h"

#include <string.h>

static void touch_id(touched_fn touched, stream_kind_t kind, const char *id, size_t len)
{
    touched(&(stream_key_t){kind, id, len});
}

/* ---- routes ---- */

static bool is_same_place(const route_t *one, const route_t *other)
{
    return one->match && other->match && one->exact == other->exact
           && !strcmp(one->match, other->match);
}

/* Called after the change; old is the route before it. A route with a new match may take requests
 * from any other route of its edge (and one whose match cannot be read refuses the whole edge), so
 * all streams of the edge are touched. A route that is removed or keeps its match touches only its
 * own. */
static void touch_route(const table_t *table, const char *id, size_t len, const route_t *old,
                        touched_fn touched)
{
    const route_t *route = strmap_get(table->routes, id, len);

    touch_id(touched, STREAM_ROUTE, id, len);
    if (route && (!old || !is_same_place(old, route)))
        touch_id(touched, STREAM_EDGE, route->edge_id, strlen(route->edge_id));
}

/* ---- edges ---- */

/* The first claim of another edge; an edge may name a host twice. */
static const edge_t *other_claimant(const host_t *first, const edge_t *edge)
{
    while (first && first->edge == edge)
        first = (const host_t *)first->claim.next;
    return first ? first->edge : NULL;
}

/* The edge that would serve the name if host's edge did not: the next one that claims it, or that
 * claims the wildcard above it. NULL: there is none, or another edge serves the name already. */
static const edge_t *next_owner(const table_t *table, const host_t *host)
{
    const host_t *first = strmap_get(table->hosts, host->name, strlen(host->name));
    const edge_t *other = other_claimant(first, host->edge);
    const char *dot = strchr(host->name, '.');
    char name[256];

    if (first->edge != host->edge)
        return NULL;
    if (other || !dot || strlen(dot) + 2 > sizeof(name))
        return other;
    name[0] = '*';
    memcpy(name + 1, dot, strlen(dot) + 1);
    return other_claimant(strmap_get(table->hosts, name, strlen(name)), host->edge);
}

static void touch_edge(const table_t *table, const char *id, size_t len, touched_fn touched)
{
    const edge_t *edge = strmap_get(table->edges, id, len), *last = edge;

    touch_id(touched, STREAM_EDGE, id, len);
    for (size_t i = 0; edge && i < edge->host_count; i++) {
        const edge_t *other = next_owner(table, &edge->hosts[i]);

        if (other && other != last)
            touch_id(touched, STREAM_EDGE, other->id, strlen(other->id));
        last = other ? other : last;
    }
}

/* ---- any entry ---- */

static bool is_kind(const char *kind, size_t len, const char *name)
{
    return len == strlen(name) && !memcmp(kind, name, len);
}

/* ---- IP policies ---- */

/* A policy, by itself, as one of many that a route names, or in a restriction of an account: of all
 * edges of that. */
static void touch_policy(const table_t *table, const char *id, size_t len, touched_fn touched)
{
    const naming_t *naming = table_namings(table, id, len);

    touch_id(touched, STREAM_ENTRY, id, len);
    touch_id(touched, STREAM_ENTRY, POLICY_ANY, strlen(POLICY_ANY));
    for (; naming; naming = (const naming_t *)naming->claim.next)
        touch_id(touched, STREAM_ACCOUNT, naming->account->id, strlen(naming->account->id));
}

/* The policy that a rule belongs to, or the account of a restriction, in text that outlives a
 * change of both; "": none. */
typedef struct owner {
    char id[TABLE_ID_MAX + 1];
} owner_t;

static owner_t owner_named(const char *id)
{
    owner_t owner = {""};

    if (id && strlen(id) < sizeof(owner.id))
        memcpy(owner.id, id, strlen(id) + 1);
    return owner;
}

/* The owners that an entry with this id has as a rule and as a restriction. */
typedef struct owners {
    owner_t policy, account;
} owners_t;

static owners_t owners_of(const table_t *table, const char *id, size_t len)
{
    return (owners_t){owner_named(table_policy_of(table, id, len)),
                      owner_named(table_account_of(table, id, len))};
}

/* Behind the change; before is what its policy was. */
static void touch_rule(const table_t *table, const char *id, size_t len, const owner_t *before,
                       touched_fn touched)
{
    owner_t now = owner_named(table_policy_of(table, id, len));

    if (*before->id)
        touch_policy(table, before->id, strlen(before->id), touched);
    if (*now.id && strcmp(now.id, before->id) != 0)
        touch_policy(table, now.id, strlen(now.id), touched);
}

/* ---- restrictions of accounts ---- */

/* Behind the change; before is what its account was. */
static void touch_restriction(const table_t *table, const char *id, size_t len,
                              const owner_t *before, touched_fn touched)
{
    owner_t now = owner_named(table_account_of(table, id, len));

    if (*before->id)
        touch_id(touched, STREAM_ACCOUNT, before->id, strlen(before->id));
    if (*now.id && strcmp(now.id, before->id) != 0)
        touch_id(touched, STREAM_ACCOUNT, now.id, strlen(now.id));
}

/* ---- all of them ---- */

/* A skipped entry makes whatever has its id answer 503: touch the id as each kind. */
static void touch_any(const table_t *table, const char *id, size_t len, const owners_t *owners,
                      touched_fn touched)
{
    touch_id(touched, STREAM_ROUTE, id, len);
    touch_id(touched, STREAM_EDGE, id, len);
    touch_id(touched, STREAM_ENTRY, id, len);
    if (strmap_get(table->policies, id, len))
        touch_policy(table, id, len, touched);
    touch_rule(table, id, len, &owners->policy, touched);
    touch_restriction(table, id, len, &owners->account, touched);
}

int touched_apply(table_t *table, const char *kind, size_t kind_len, const char *id, size_t id_len,
                  const msgpack_object *document, trust_t trust, touched_fn touched)
{
    route_t *old = touched ? strmap_get(table->routes, id, id_len) : NULL;
    owners_t owners = {{""}, {""}};
    int r;

    if (old)
        old->refs++; /* kept for the comparison below */
    if (touched)
        owners = owners_of(table, id, id_len);
    r = table_apply(table, kind, kind_len, id, id_len, document, trust);
    if (!touched)
        return r;
    if (trust == TRUST_SKIP)
        touch_any(table, id, id_len, &owners, touched);
    else if (is_kind(kind, kind_len, "https_edge_route"))
        touch_route(table, id, id_len, old, touched);
    else if (is_kind(kind, kind_len, "https_edge"))
        touch_edge(table, id, id_len, touched);
    else if (is_kind(kind, kind_len, "ip_policy_rule"))
        touch_rule(table, id, id_len, &owners.policy, touched);
    else if (is_kind(kind, kind_len, "ip_policy"))
        touch_policy(table, id, id_len, touched);
    else if (is_kind(kind, kind_len, "ip_restriction"))
        touch_restriction(table, id, id_len, &owners.account, touched);
    else
        touch_id(touched, STREAM_ENTRY, id, id_len);
    if (old && old->refs > 1 && strmap_get(table->routes, id, id_len) != old)
        route_retire(old); /* requests have it, beside this function */
    route_release(old);
    return r;
}
