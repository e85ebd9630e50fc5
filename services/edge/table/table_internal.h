/* What the files of the table share: table.c takes entries by their kind, backend.c, edge.c,
 * route.c, domain.c, ip_policy.c and restriction.c apply them. Nobody else includes this. */
#pragma once

#include "services/edge/table/ip_policy.h"
#include "services/edge/table/restriction.h"
#include "services/edge/table/table.h"

/* Apply one entry of a kind, as table_apply says: id is len bytes without NUL, 1 to TABLE_ID_MAX;
 * document NULL removes it, and is a map where trust is below TRUST_NONE. 0 | -1: it is refused. */
int table_apply_edge(table_t *self, const char *id, size_t len, const msgpack_object *document,
                     trust_t trust);
int table_apply_route(table_t *self, const char *id, size_t len, const msgpack_object *document,
                      trust_t trust);

/* map: of domains, which are named, or of certificates, which are domains without a name. */
int table_apply_pair(table_t *self, strmap_t *map, const char *id, size_t len,
                     const msgpack_object *document, bool named, trust_t trust);

/* ip_policy.c */
int table_apply_policy(table_t *self, const char *id, size_t len, const msgpack_object *document,
                       trust_t trust);
int table_apply_rule(table_t *self, const char *id, size_t len, const msgpack_object *document,
                     trust_t trust);
/* An entry that is not touched: its policy denies everybody. */
void table_refuse_rule(rule_t *rule);
/* Of a table that is taken apart: a rule that nothing leads to any more, with its policy, where
 * that has no entry and no other rule; a policy without rules. */
void table_free_rule(table_t *self, rule_t *rule);
void table_free_policy(policy_t *policy);

/* restriction.c */
int table_apply_restriction(table_t *self, const char *id, size_t len,
                            const msgpack_object *document, trust_t trust);
/* An entry that is not touched: its account denies everybody. */
void table_refuse_restriction(restriction_t *restriction);
/* Of a table that is taken apart: a restriction that nothing leads to any more. */
void table_free_restriction(table_t *self, restriction_t *restriction);
/* The account with this id, made where there is none; the caller has a use of it, which
 * table_leave_account gives back. NULL: nothing. */
table_account_t *table_join_account(table_t *self, const char *id);
void table_leave_account(table_t *self, table_account_t *account);

typedef void backend_parse_t(backend_t *backend, const msgpack_object *document, bool *bad);

/* parse: one of those below. */
/* A backend that is in the table no more: requests may keep it. NULL is fine. */
void table_let_go_backend(backend_t *backend);
int table_apply_backend(table_t *self, const char *id, size_t len, const msgpack_object *document,
                        trust_t trust, backend_parse_t *parse);

/* What an entry of each kind of backend says; *bad is set where that cannot be read, and the
 * backend is to be released all the same. */
void backend_parse_static(backend_t *backend, const msgpack_object *document, bool *bad);
void backend_parse_response(backend_t *backend, const msgpack_object *document, bool *bad);
void backend_parse_weighted(backend_t *backend, const msgpack_object *document, bool *bad);
void backend_parse_failover(backend_t *backend, const msgpack_object *document, bool *bad);

/* The edge with this id, made where there is none: routes may come before their edge. The table's.
 */
edge_t *table_make_edge(table_t *self, const char *id, size_t len);

/* Free the edge where neither its entry nor a route of it is there. Entries come in any order, so
 * one whose entry is gone lives on while routes of it do. */
void table_drop_edge_if_unused(table_t *self, edge_t *edge);

/* Parts of a table that is taken apart: the edge's names, whose claims nobody looks at any more;
 * the edge, without routes; what a domain holds, NULL: nothing. */
void table_free_hosts(edge_t *edge);
void table_free_edge(table_t *self, edge_t *edge);
void table_free_domain(const table_t *self, domain_t *domain);

/* Take the route's claim on its place in the edge back, or its mark on an edge where it has none.
 */
void table_leave_place(edge_t *edge, route_t *route);
