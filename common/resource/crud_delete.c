/* Objects that go, with their children. */
#include "common/base/cleanup.h"
#include "common/resource/crud_internal.h"
#include "common/resource/kind_rules.h"

/* Audit and unpublish one row, its children first. */
static int retire_row(crud_t *self, const kind_t *kind, const json_t *row)
{
    const kind_rules_t *rules = kind_rules_find(kind);
    _cleanup_(json_clear_ref) json_t *rendered = NULL;
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    bool whole;
    int r;

    r = pg_exec(self->pg, &res, "SELECT id, kind FROM object WHERE parent_id = $1 ORDER BY id", 1,
                crud_text(row, "id"));
    for (int i = 0; !r && i < PQntuples(res); i++) {
        const kind_t *child = kind_find(PQgetvalue(res, i, 1));
        _cleanup_(json_clear_ref) json_t *child_row = NULL;

        r = crud_load_last(self, child, self->request->account, PQgetvalue(res, i, 0), &child_row);
        if (r == ERR_NOT_FOUND)
            r = 0; /* another transaction has deleted it */
        else if (!r)
            r = retire_row(self, child, child_row);
    }
    if (!r)
        r = crud_render_changed(self, kind, row, &rendered, &whole);
    if (!r)
        r = crud_add_audit(self, kind, "deleted", rendered);
    if (!r && rules && rules->publish && !rules->retire)
        r = crud_publish(self, kind->name, crud_text(row, "id"), NULL);
    if (!r && rules && rules->gone)
        r = rules->gone(self, row);
    return r;
}

/* Wait for those who are making children of the object, and let nobody begin: creators hold FOR
 * KEY SHARE on it (create_in_transaction). A child that came after its siblings were listed
 * would go with the object without an audit event, and stay with the edges for ever. Comes
 * behind the lock on the object's row, as in an update, whose references refer to the object. */
static int lock_out_children(crud_t *self, const char *id)
{
    return pg_exec(self->pg, NULL, "SELECT 1 FROM object WHERE id = $1 FOR UPDATE", 1, id);
}

/* Delete an object whose row is locked. */
static int delete_row(crud_t *self, const kind_t *kind, const json_t *row, problem_t *problem)
{
    const kind_rules_t *rules = kind_rules_find(kind);
    int r = 0;

    if (rules && rules->keep)
        r = rules->keep(self, row, problem);
    if (!r && rules && rules->retire)
        r = rules->retire(self, row, problem);
    if (!r)
        r = retire_row(self, kind, row);
    if (r)
        return r;
    r = pg_exec(self->pg, NULL, "DELETE FROM object WHERE id = $1", 1, crud_text(row, "id"));
    if (r == PG_REFERENCED)
        return problem_add(problem, ERR_IN_USE, NULL,
                           "%s is used by another object: change or delete that one first",
                           crud_text(row, "id"));
    return r;
}

int crud_delete(crud_t *self, const kind_t *kind, reply_t *reply)
{
    _cleanup_(json_clear_ref) json_t *row = NULL;
    int r;

    r = crud_load_doomed(self, kind, &row);
    if (!r)
        r = lock_out_children(self, crud_text(row, "id"));
    if (!r)
        r = crud_check_row(self, kind, row, &reply->problem);
    return r ? r : delete_row(self, kind, row, &reply->problem);
}

int crud_remove(crud_t *self, const kind_t *kind, const char *id, problem_t *problem)
{
    _cleanup_(json_clear_ref) json_t *row = NULL;
    int r;

    r = crud_load_last(self, kind, self->request->account, id, &row);
    if (!r)
        r = lock_out_children(self, id);
    return r ? r : delete_row(self, kind, row, problem);
}
