/* reserved_addr: the host of the settings and a free port of their range. */
#include "common/base/cleanup.h"
#include "common/resource/kind_rules.h"
#include "services/routes/rules.h"

#include <errno.h>
#include <inttypes.h>

static struct {
    const char *host;
    int64_t first, last;
} range;

int reserved_addr_setup(const config_t *config)
{
    range.host = config_str(config, "tcp-host");
    range.first = config_int(config, "tcp-port-first");
    range.last = config_int(config, "tcp-port-last");
    return range.first <= range.last
               ? 0
               : fault(-EINVAL, "tcp-port-first must not be above tcp-port-last");
}

static int reserved_addr_check(crud_t *crud, json_t *document, const json_t *old,
                               json_t *references, problem_t *problem)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    char first[24], last[24];
    int r;

    (void)references;
    if (old)
        return 0;
    snprintf(first, sizeof(first), "%" PRId64, range.first);
    snprintf(last, sizeof(last), "%" PRId64, range.last);
    /* One request at a time looks for a port; the port is taken when its row is committed. */
    r = pg_exec(crud->pg, NULL, "SELECT pg_advisory_xact_lock(hashtext('reserved_addr'))", 0);
    if (!r)
        r = pg_exec(crud->pg, &res,
                    "SELECT p FROM generate_series($1::int, $2::int) p WHERE NOT EXISTS "
                    "(SELECT 1 FROM reserved_addr WHERE port = p) ORDER BY p LIMIT 1",
                    2, first, last);
    if (r)
        return r;
    if (PQntuples(res) == 0)
        return problem_add(problem, ERR_LIMIT_EXCEEDED, NULL,
                           "all TCP ports from %" PRId64 " to %" PRId64 " are reserved",
                           range.first, range.last);
    json_object_set_new(document, "port", json_integer(strtol(PQgetvalue(res, 0, 0), NULL, 10)));
    json_object_set_new(document, "addr", json_sprintf("%s:%s", range.host, PQgetvalue(res, 0, 0)));
    return 0;
}

KIND_RULES(reserved_addr, .check = reserved_addr_check);
