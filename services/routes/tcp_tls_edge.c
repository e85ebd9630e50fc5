/* tcp_edge and tls_edge: stored and checked. Edges do not serve them yet, so nothing is
 * published. */
#include "common/resource/kind_rules.h"
#include "services/routes/rules.h"

static bool is_on(const json_t *module)
{
    return json_is_object(module) && json_is_true(json_object_get(module, "enabled"));
}

static int tcp_edge_check(crud_t *crud, json_t *document, const json_t *old, json_t *references,
                          problem_t *problem)
{
    (void)old;
    return hostports_check(crud, document, true, references, problem);
}

static int tls_edge_check(crud_t *crud, json_t *document, const json_t *old, json_t *references,
                          problem_t *problem)
{
    const json_t *tls = json_object_get(document, "tls_termination");
    const char *where = json_string_value(json_object_get(tls, "terminate_at"));
    bool upstream = where && where[0] == 'u';

    (void)old;
    if (upstream && !json_is_null(json_object_get(tls, "min_version")))
        problem_add(problem, ERR_TLS_VERSION_INVALID, "tls_termination.min_version",
                    "must be null when TLS is terminated upstream");
    if (is_on(json_object_get(document, "mutual_tls")) && upstream && is_on(tls))
        problem_add(problem, ERR_MODULE_INCOMPATIBLE, "mutual_tls",
                    "needs tls_termination.terminate_at to be edge");
    return hostports_check(crud, document, false, references, problem);
}

KIND_RULES(tcp_edge, .check = tcp_edge_check);
KIND_RULES(tls_edge, .check = tls_edge_check);
