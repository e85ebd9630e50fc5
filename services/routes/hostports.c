/* Hostports of all kinds of edges: each is reserved in the account and belongs to one edge. Each is
 * also an endpoint, which lives as long as the edge has the hostport. */
#include "common/base/memory.h"
#include "common/base/cleanup.h"
#include "common/base/id.h"
#include "common/base/quote.h"
#include "services/routes/rules.h"

#include <errno.h>
#include <string.h>

/* Claim the name of an old domain without a claim: when names became global, it overlapped with an
 * older domain of another account, which may have been deleted since. */
static int claim_late(crud_t *crud, const char *id, const char *domain, bool *ret_held)
{
    problem_t problem = {0};
    int r = name_claim(crud, id, domain, NULL, &problem);

    problem_done(&problem);
    *ret_held = r == 0;
    return r < 0 ? r : 0;
}

/* The reserved domain that covers a host: its own name, or the wildcard one label up. */
static int find_domain(crud_t *crud, const char *host, json_t **ret_id)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    const char *dot = strchr(host, '.');
    char wildcard[260];
    bool held;
    int r;

    if (name_is_own(host))
        return 0; /* the name is covered by a wildcard, whose claim counts */
    snprintf(wildcard, sizeof(wildcard), "*%s", dot ? dot : ".");
    r = pg_exec(crud->pg, &res,
                "SELECT id, domain, EXISTS (SELECT 1 FROM name_claim c WHERE c.owner_id = d.id) "
                "FROM reserved_domain d WHERE account_id = $1 AND domain IN ($2, $3) "
                "ORDER BY domain = $2 DESC LIMIT 1",
                3, crud->request->account, host, wildcard);
    *ret_id = NULL;
    if (r || PQntuples(res) == 0)
        return r;
    if (*PQgetvalue(res, 0, 2) != 't') {
        r = claim_late(crud, PQgetvalue(res, 0, 0), PQgetvalue(res, 0, 1), &held);
        if (r || !held)
            return r;
    }
    *ret_id = json_string(PQgetvalue(res, 0, 0));
    return *ret_id ? 0 : -ENOMEM;
}

static int find_addr(crud_t *crud, const char *addr, json_t **ret_id)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int r =
        pg_exec(crud->pg, &res, "SELECT id FROM reserved_addr WHERE account_id = $1 AND addr = $2",
                2, crud->request->account, addr);

    if (r)
        return r;
    *ret_id = PQntuples(res) ? json_string(PQgetvalue(res, 0, 0)) : NULL;
    return 0;
}

int hostport_reserved(crud_t *crud, const char *hostport, bool tcp, json_t **ret_id,
                      bool *ret_other)
{
    json_t *other = NULL;
    char host[260];
    int r;

    snprintf(host, sizeof(host), "%.*s", (int)strcspn(hostport, ":"), hostport);
    *ret_other = false;
    r = tcp ? find_addr(crud, hostport, ret_id) : find_domain(crud, host, ret_id);
    if (r || *ret_id)
        return r;
    r = tcp ? find_domain(crud, host, &other) : find_addr(crud, hostport, &other);
    *ret_other = other != NULL;
    json_decref(other);
    return r;
}

/* Does an agent of any account serve this URL through a tunnel? */
static int check_tunnels(crud_t *crud, const char *url, const char *path, problem_t *problem)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int r = pg_exec(crud->pg, &res, "SELECT 1 FROM tunnel WHERE public_url = $1 LIMIT 1", 1, url);

    if (!r && PQntuples(res))
        problem_add(problem, ERR_HOSTPORT_AGENT, path, "an agent serves %s now", quote(url).text);
    return r;
}

/* Delete the endpoints of hostports that the edge does not have any more. */
static int drop_endpoints(crud_t *crud, const char *edge_id, const json_t *hostports)
{
    _cleanup_(free_mem) char *kept = memory_need(
        json_is_array(hostports) ? json_dumps(hostports, JSON_COMPACT) : strdup("[]"), "hostports");

    return pg_exec(crud->pg, NULL,
                   "DELETE FROM endpoint WHERE edge_id = $1 AND hostport NOT IN "
                   "(SELECT jsonb_array_elements_text($2::jsonb))",
                   2, edge_id, kept);
}

/* Make the endpoint of a hostport, if there is none. 0 | fault; that it belongs to another edge is
 * added to problem. */
static int keep_endpoint(crud_t *crud, const char *edge_id, const char *hostport,
                         const char *reserved, const char *path, problem_t *problem)
{
    const char *kind = kind_of_id(edge_id)->name; /* "https_edge", ... */
    const char *who = json_string_value(json_object_get(crud->request->actor, "id"));
    char id[ID_MAX], proto[16], host[260], url[300];
    bool https, tcp;
    int r;

    id_make("ep", id);
    snprintf(proto, sizeof(proto), "%.*s", (int)strcspn(kind, "_"), kind);
    snprintf(host, sizeof(host), "%.*s", (int)strcspn(hostport, ":"), hostport);
    https = !strcmp(proto, "https");
    tcp = !strcmp(proto, "tcp");
    snprintf(url, sizeof(url), "%s://%s", proto, https ? host : hostport);
    r = check_tunnels(crud, url, path, problem);
    if (r || problem->code)
        return r;
    return pg_exec(
        crud->pg, NULL,
        "INSERT INTO endpoint (id, account_id, public_url, url, proto, scheme, hostport, "
        "host, port, edge_id, principal_id, domain_id, tcp_addr_id) "
        "SELECT $1, $2, $3, $3, $4, $4, $5, $6, $7::int, $8, $9, $10, $11 "
        "WHERE NOT EXISTS (SELECT 1 FROM endpoint WHERE hostport = $5 AND edge_id = $8)",
        11, id, crud->request->account, url, proto, hostport, host, strchr(hostport, ':') + 1,
        edge_id, who, tcp ? NULL : reserved, tcp ? reserved : NULL);
}

int hostports_check(crud_t *crud, const json_t *document, bool tcp, json_t *references,
                    problem_t *problem)
{
    const char *edge_id = json_string_value(json_object_get(document, "id"));
    const json_t *hostports = json_object_get(document, "hostports");
    json_t *item;
    size_t i;
    int r;

    r = drop_endpoints(crud, edge_id, hostports);
    if (r)
        return r;
    json_array_foreach(hostports, i, item)
    {
        const char *hostport = json_string_value(item);
        json_t *reserved = NULL;
        char path[40];
        bool other;

        snprintf(path, sizeof(path), "hostports[%zu]", i);
        r = hostport_reserved(crud, hostport, tcp, &reserved, &other);
        if (r)
            return r;
        if (!reserved) {
            problem_add(problem, other ? ERR_HOSTPORT_WRONG_KIND : ERR_HOSTPORT_NOT_RESERVED, path,
                        other ? tcp ? "%s is a domain: a TCP edge needs a reserved address"
                                    : "%s is a TCP address: this edge needs a reserved domain"
                        : tcp ? "%s is not reserved in this account (POST /reserved_addrs)"
                              : "%s is not reserved in this account (POST /reserved_domains)",
                        quote(hostport).text);
            continue;
        }
        json_array_append_new(references, json_pack("[s, o]", path, reserved));
        r = endpoint_check_pool(crud, hostport, path, problem);
        if (!r)
            r = keep_endpoint(crud, edge_id, hostport, json_string_value(reserved), path, problem);
        if (r)
            return r;
    }
    return problem->code;
}
