/* Hostports of all kinds of edges: each is reserved in the account and belongs to one edge. */
#include "common/cleanup.h"
#include "services/routes/rules.h"

#include <string.h>

/* The reserved domain that covers a host: its own name, or the wildcard one label up. */
static int find_domain(crud_t *crud, const char *host, json_t **ret_id)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    const char *dot = strchr(host, '.');
    char wildcard[260];
    int r;

    snprintf(wildcard, sizeof(wildcard), "*%s", dot ? dot : ".");
    r = pg_exec(crud->pg, &res,
                "SELECT id FROM reserved_domain WHERE account_id = $1 AND domain IN ($2, $3) "
                "ORDER BY domain = $2 DESC LIMIT 1",
                3, crud->request->account, host, wildcard);
    if (r)
        return r;
    *ret_id = PQntuples(res) ? json_string(PQgetvalue(res, 0, 0)) : NULL;
    return 0;
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

/* What the hostport is reserved as; the other kind only tells a better error. */
static int find_reserved(crud_t *crud, const char *hostport, bool tcp, json_t **ret_id,
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

int hostports_check(crud_t *crud, const json_t *document, bool tcp, json_t *references,
                    problem_t *problem)
{
    const char *edge_id = json_string_value(json_object_get(document, "id"));
    const json_t *hostports = json_object_get(document, "hostports");
    json_t *item;
    size_t i;
    int r;

    r = pg_exec(crud->pg, NULL, "DELETE FROM edge_hostport WHERE edge_id = $1", 1, edge_id);
    if (r)
        return r;
    json_array_foreach(hostports, i, item)
    {
        const char *hostport = json_string_value(item);
        json_t *reserved = NULL;
        char path[40];
        bool other;

        snprintf(path, sizeof(path), "hostports[%zu]", i);
        r = find_reserved(crud, hostport, tcp, &reserved, &other);
        if (r)
            return r;
        if (!reserved) {
            problem_add(problem, other ? ERR_HOSTPORT_WRONG_KIND : ERR_HOSTPORT_NOT_RESERVED, path,
                        other ? tcp ? "'%.200s' is a domain: a TCP edge needs a reserved address"
                                    : "'%.200s' is a TCP address: this edge needs a reserved domain"
                              : "'%.200s' is not reserved in this account",
                        hostport);
            continue;
        }
        json_array_append_new(references, json_pack("[s, o]", path, reserved));
        r = pg_exec(crud->pg, NULL, "INSERT INTO edge_hostport (hostport, edge_id) VALUES ($1, $2)",
                    2, hostport, edge_id);
        if (r)
            return r;
    }
    return problem->code;
}
