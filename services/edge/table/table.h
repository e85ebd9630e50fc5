/* What an edge worker serves: hosts, routes, backends, certificates, built from config log entries.
 * No nginx in here; a worker has one table in force and builds a snapshot beside it. */
#pragma once

#include "services/edge/modules/module.h"
#include "services/edge/table/claim.h"
#include "services/edge/table/headers.h"
#include "services/edge/table/strmap.h"
#include "services/edge/table/tree.h"

#include <msgpack.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

/* Where requests of a route are counted (worker/tally.h); zero: with those of others. */
typedef struct route_place {
    uint32_t number, turn;
} route_place_t;

/* One version of an entry that requests hold references to: what retired.h has to know of it. */
typedef struct version {
    struct retired *retired; /* NULL: it is in force, or over */
    uint32_t bytes;          /* that it takes: an estimate */
    bool is_over;            /* requests that still use it are ended */
} version_t;

/* Modules that are told of where they are off, too. */
enum { ROUTE_OFF_OIDC, ROUTE_OFF_SAML, ROUTE_OFF_COUNT };

typedef struct route {
    claim_t claim; /* on its place in its edge; first, so that a claim there is a route */
    char *id, *account_id, *edge_id;
    size_t account_id_len;
    char *match; /* as stored, its host in lower case: host_len bytes, then the path. NULL: it has
                    no place */
    size_t host_len;
    bool exact;
    bool refused;     /* its entry cannot be applied: 503 */
    uint32_t enabled; /* bit of each module that is on */
    uint32_t beyond;  /* of those, what the edge cannot enforce: every request is denied */
    uint32_t broken;  /* modules whose documents cannot be read: it is refused because of them */
    void *configs[MODULE_COUNT];              /* of those that are on: what parse made */
    struct shared_text *off[ROUTE_OFF_COUNT]; /* the sealed modules oidc and saml, where they are
                                                 off; NULL: it has none that is off */
    char **cookies; /* prefixes of its sign-in modules' cookies, on or off */
    size_t cookie_count;
    route_place_t place; /* what route_added set */
    unsigned refs;       /* the table's and running requests' */
    version_t version;
    int64_t kept_back_said; /* last line of http/edge_kept_back.c; 0: none */
} route_t;

struct edge;
struct table_account; /* restriction.h */

/* An edge's claim on a host. */
typedef struct host {
    claim_t claim; /* first, so that a claim on a host is a host_t */
    struct edge *edge;
    char *name;
} host_t;

typedef struct edge {
    char *id, *account_id;
    struct table_account *account; /* NULL: the entry does not say whose it is, or none came */
    host_t *hosts;
    size_t host_count;
    bool refused;    /* its entry cannot be applied: 503 */
    unsigned astray; /* routes of it that are refused and have no place: nobody knows what they
                        guarded, so 503 */
    bool present;    /* an entry came; else only its routes did */
    bool mutual_tls; /* asked for: nobody is let in until the edge can verify it */
    int min_version; /* TLS1_2_VERSION or TLS1_3_VERSION */
    unsigned char profile[32];   /* of its TLS settings, the same in every worker: binds tickets */
    tree_t *any;                 /* routes without a host */
    strmap_t *hosts_with_routes; /* host -> tree_t */
    strmap_t *routes;            /* id -> route_t */
    strmap_t *cookies;           /* of all its routes (cookie_names.h); NULL: none */
    size_t signing_in;           /* routes of it with a sign-in module, on or off */
} edge_t;

/* A member of a weighted backend that has a weight. */
typedef struct choice {
    char *id;
    uint32_t upto; /* sum of the weights up to this one */
} choice_t;

typedef struct backend {
    char *id, *account_id;
    bool http_response;
    /* static */
    char *host; /* name or address, without brackets */
    uint16_t port;
    bool tls;
    bool refused;  /* a later version of it cannot be applied */
    uint64_t pool; /* of kept connections: its account's, for this TLS name or none */
    struct sockaddr_storage address;
    socklen_t address_len; /* 0: a name has it, below */
    bool literal;          /* an address, not a name */
    void *name;            /* the resolver's (control/resolve.h); NULL: none */
    void (*forget_name)(struct backend *backend); /* called before the backend is freed */
    /* weighted */
    choice_t *choices;
    size_t choice_count; /* the last one's upto is the sum of all; 0: no member has a weight */
    /* failover */
    char **members; /* ids, in the order in which they are tried; NULL: it is none */
    size_t member_count;
    /* http_response */
    unsigned status;
    char *body;
    size_t body_len;
    headers_t headers;
    uint64_t key;  /* backend_key's; 0: nobody asked for it yet */
    unsigned refs; /* the table's and running requests' */
    version_t version;
} backend_t;

typedef struct domain {
    claim_t claim; /* on its name; first, so that a claim on a name is a domain_t */
    char *id, *name;
    char *certificate_id; /* NULL: its own pair below, which one that is refused does not have */
    char *chain_pem, *key_pem;
    void *parsed;    /* edge_tls.c's, made at the first handshake */
    bool is_refused; /* edge_tls.c found that it cannot be served */
} domain_t;

typedef struct table {
    strmap_t *edges, *routes, *backends, *domains, *certificates; /* by id */
    strmap_t *policies, *rules;        /* the same; what is in them: ip_policy.h */
    strmap_t *accounts, *restrictions; /* the same; what is in them: restriction.h */
    uint64_t policies_version;         /* other than that of any other state of any table */
    strmap_t *restricting;             /* policy id -> naming_t's claims */
    strmap_t *hosts;                   /* host -> host_t's claims */
    strmap_t *domain_names;            /* name -> domain_t's claims */
    strmap_t *refused;                 /* kind and id of each entry that cannot be applied */
    void (*free_parsed)(void *parsed);
    void (*backend_added)(backend_t *backend); /* start to resolve its name */
    void (*route_added)(route_t *route);       /* a version of it, which has its id */
    void (*route_gone)(const route_t *route);  /* its entry went, or nothing of it can be told */
    /* Of a snapshot while it is built, what it takes the place of: it knows what entries that
     * cannot be read stood for. */
    const struct table *before;
    struct table *next; /* of those that wait to be freed */
    edge_t *dying;      /* the edge that is being taken apart */
} table_t;

enum { TABLE_ID_MAX = 128 /* bytes of an entry's id or kind; table_apply refuses longer ones */ };

/* An empty table, the caller's until table_free_some has freed it; never NULL. */
table_t *table_new(void);

/* Free at most budget objects; true when all is gone and *self_p NULL. Call until it is. */
bool table_free_some(table_t **self_p, size_t budget);

/* How much of an entry is read. Less of one in whose application workers died: each step asks less
 * of what may have killed them. What is left out is answered 503. */
typedef enum trust {
    TRUST_ALL,
    TRUST_PLACE, /* where it stands: its path, its hosts, its name */
    TRUST_OWNER, /* whose it is: a route's edge */
    TRUST_NONE,  /* that it is there: an edge's hosts and a route's edge, as they were, are refused
                  */
    TRUST_SKIP   /* nothing: what was there before stays and is refused */
} trust_t;

/* Apply one entry; document NULL removes it. What the table holds is a function of the set of
 * entries, not of the order in which they came. 0 | -1: the entry is not what the tables promise,
 * or not trusted, and is answered 503 in its own place. */
int table_apply(table_t *self, const char *kind, size_t kind_len, const char *id, size_t id_len,
                const msgpack_object *document, trust_t trust);

/* Entries that could not be applied. */
size_t table_refused(const table_t *self);

/* What serves host: len bytes in lower case, without port. The name itself wins, then *.parent.
 * NULL: nobody serves it. Borrowed until the table changes. */
edge_t *table_edge(const table_t *self, const char *host, size_t len);
domain_t *table_domain(const table_t *self, const char *host, size_t len);

/* Nothing of it may be served: 503. */
bool edge_is_refused(const edge_t *edge);

/* The route for a normalised path (path_len bytes) of this edge; one with a host beats one without.
 * NULL: none matches. Borrowed until the table changes, unless the caller raises refs. */
route_t *table_route(const edge_t *edge, const char *host, size_t host_len, const char *path,
                     size_t path_len);

/* The backend with this id. NULL: it is not there, or refused. Borrowed, as a route is. */
backend_t *table_backend(const table_t *self, const char *id);

/* The backend that serves request number (0, 1, 2, ...): of a weighted one a member, of a static or
 * http_response one itself. Of any requests whose numbers follow each other each member has its
 * share, give or take less than the members' logarithm to base 2, rounded up. NULL: it has no
 * member with a weight, the member is not there, or it is a failover backend, whose members are
 * tried in order. */
backend_t *table_choose(const table_t *self, backend_t *backend, uint64_t number);

/* Has the weighted backend a member with this id that has a weight? */
bool backend_shares(const backend_t *weighted, const char *id);

/* Does backend lead to the one with this id: is it that, shares it, or has it such a member? Then
 * *ret_through is the weighted member that does; NULL: no member shares it, or one of the members
 * is it. At most 100 members with 100 shares each are looked at. */
bool table_leads_to(const table_t *self, const backend_t *backend, const char *id,
                    backend_t **ret_through);

/* The same for each worker, and in memory that they share: of a static backend with its address and
 * TLS, so that another address is another key; of a weighted one whatever its weights are. Never 0,
 * nor below 2^63. */
uint64_t backend_key(backend_t *backend);

/* How many keep-alive pools backends have now, in all tables of the process. */
size_t table_pools(void);

/* Give one reference back; the last one frees it. The table has one, and each request that uses it
 * another (refs), so that it outlives a change of the configuration. NULL: nothing. */
void route_release(route_t *route);

/* The sealed module oidc or saml of the route, by which its provider signs people out: also where
 * it is off. Borrowed from the route; NULL: it has none. */
struct shared_text *route_sign_out(const route_t *route, module_id_t module);
void backend_release(backend_t *backend);
/* Requests have this version, and the table has it no more (retired.h). */
void route_retire(route_t *route);
void backend_retire(backend_t *backend);
