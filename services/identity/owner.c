#include "services/identity/owner.h"
#include "common/base/cleanup.h"
#include "common/resource/kind_rules.h"
#include "common/base/quote.h"

#include <string.h>

int owner_check(crud_t *crud, json_t *document, json_t *references, problem_t *problem)
{
    const char *owner = json_string_value(json_object_get(document, "owner_id"));
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int r;

    if (!owner)
        owner = json_string_value(json_object_get(crud->request->actor, "id"));
    if (!owner)
        return problem_add(problem, ERR_REQUIRED_MISSING, "owner_id", "is required");
    r = pg_exec(crud->pg, &res,
                "SELECT object_id IS NOT NULL FROM owner WHERE id = $1 AND account_id = $2", 2,
                owner, crud->request->account);
    if (r)
        return r;
    if (PQntuples(res) == 0)
        return problem_add(problem, ERR_REF_NONEXISTENT, "owner_id", "%s does not exist",
                           quote(owner).text);
    if (*PQgetvalue(res, 0, 0) == 't')
        json_array_append_new(references, json_pack("[s, s]", "owner_id", owner));
    json_object_set_new(document, "owner_id", json_string(owner));
    return 0;
}

/* Rules of bot_user and service_user: each has a row in table owner. */
static int owner_user_check(crud_t *crud, json_t *document, const json_t *old, json_t *references,
                            problem_t *problem)
{
    const char *id = json_string_value(json_object_get(document, "id"));
    const char *active = json_is_true(json_object_get(document, "active")) ? "t" : "f";

    (void)references;
    (void)problem;
    if (old)
        return pg_exec(crud->pg, NULL, "UPDATE owner SET active = $2::boolean WHERE id = $1", 2, id,
                       active);
    return pg_exec(crud->pg, NULL,
                   "INSERT INTO owner (id, account_id, email, active, object_id) "
                   "VALUES ($1, $2, $1, $3::boolean, $1)",
                   3, id, crud->request->account, active);
}

KIND_RULES(bot_user, .check = owner_user_check);
KIND_RULES(service_user, .check = owner_user_check);
