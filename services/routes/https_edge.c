/* https_edge: hostports must be reserved, one edge each. */
#include "common/cleanup.h"
#include "services/routes/rules.h"

#include <errno.h>
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

int https_edge_check(crud_t *crud, json_t *document, const json_t *old, json_t *references,
                     problem_t *problem)
{
    const char *edge_id = json_string_value(json_object_get(document, "id"));
    const json_t *hostports = json_object_get(document, "hostports");
    json_t *item;
    size_t i;
    int r;

    (void)old;
    r = pg_exec(crud->pg, NULL, "DELETE FROM https_edge_hostport WHERE edge_id = $1", 1, edge_id);
    if (r)
        return r;
    json_array_foreach(hostports, i, item)
    {
        const char *hostport = json_string_value(item);
        char host[260], path[40];
        json_t *domain_id = NULL;

        snprintf(path, sizeof(path), "hostports[%zu]", i);
        snprintf(host, sizeof(host), "%.*s", (int)strcspn(hostport, ":"), hostport);
        r = find_domain(crud, host, &domain_id);
        if (r)
            return r;
        if (!domain_id) {
            problem_add(problem, ERR_HOSTPORT_NOT_RESERVED, path,
                        "the domain '%.200s' is not reserved in this account", host);
            continue;
        }
        json_array_append_new(references, json_pack("[s, o]", path, domain_id));
        r = pg_exec(crud->pg, NULL,
                    "INSERT INTO https_edge_hostport (hostport, edge_id) VALUES ($1, $2)", 2,
                    hostport, edge_id);
        if (r)
            return r;
    }
    return problem->code;
}

int https_edge_publish(crud_t *crud, const json_t *row, json_t **ret_document)
{
    const json_t *tls = json_object_get(row, "tls_termination");
    const json_t *mutual = json_object_get(row, "mutual_tls");

    (void)crud;
    *ret_document = json_pack("{s:O, s:O, s:O?}", "account_id", json_object_get(row, "account_id"),
                              "hostports", json_object_get(row, "hostports"), "min_version",
                              tls && json_is_true(json_object_get(tls, "enabled"))
                                  ? json_object_get(tls, "min_version")
                                  : NULL);
    if (!*ret_document)
        return -ENOMEM;
    if (mutual && json_is_true(json_object_get(mutual, "enabled")))
        json_object_set_new(*ret_document, "mutual_tls", json_true());
    return 0;
}
