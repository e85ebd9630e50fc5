/* Between the files of crud only: crud_call.c (calls and their transactions), crud.c (objects),
 * crud_read.c (rows, and what is shown of them), crud_list.c (lists), crud_part.c (modules and
 * members). */
#pragma once

#include "common/resource/crud.h"
#include "common/base/id.h"

#define CRUD_CLAIMED                                                                               \
    "request_pkey" /* violated: the request was executed before; see common/resource/schema.sql */

enum { CRUD_SQL_MAX = 256 };

/* A string field of a JSON object, borrowed; NULL: there is none. */
static inline const char *crud_text(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

/* The row of kind's table t as it is read to be shown, in SQL: to_jsonb(t) and what is derived. */
const char *crud_row_sql(const kind_t *kind, char out[CRUD_SQL_MAX]);
/* " AND ..." in SQL: what else holds of rows of t that anybody is shown; "" for most kinds. */
const char *crud_shown_sql(const kind_t *kind, char out[CRUD_SQL_MAX]);

/* Row i of "SELECT to_jsonb(t)", with secrets decrypted. */
int crud_row_at(const crud_t *self, const kind_t *kind, const PGresult *res, int i,
                json_t **ret_row);
/* Append the API's text of row i to out; for kinds with schema_text_is_whole. */
int crud_text_at(const crud_t *self, const kind_t *kind, const PGresult *res, int i,
                 msgpack_sbuffer *out);

/* Fill the CHILDREN fields of rendered objects, with one query for up to 64 children. 0 |
 * ERR_ANSWER_TOO_LARGE: they are larger than an answer may be, and the fields are null | fault. */
int crud_add_children(crud_t *self, const kind_t *kind, json_t *list);

/* Render a row as the API shows it, with CHILDREN; the caller owns it. 0 | ERR_ANSWER_TOO_LARGE:
 * *ret_rendered is without them | fault. */
int crud_render_row(crud_t *self, const kind_t *kind, const json_t *row, json_t **ret_rendered);

/* The same of an object after a change, for its audit event: *ret_whole is whether CHILDREN are in
 * it. */
int crud_render_changed(crud_t *self, const kind_t *kind, const json_t *row, json_t **ret_rendered,
                        bool *ret_whole);

/* Does the row fulfil the request's If-Match, if it has one? 0 | ERR_PRECONDITION_FAILED |
 * fault. */
int crud_check_row(crud_t *self, const kind_t *kind, const json_t *row, problem_t *problem);

/* Note that an object was "created", "updated" or "deleted", as rendered, in the outbox. 0 |
 * fault. */
int crud_add_audit(crud_t *self, const kind_t *kind, const char *action, const json_t *rendered);

/* Load and lock a row that is to be deleted: also one that has ended (FIELD_ENDS), which is shown
 * to nobody, but which an edge whose clock is behind may still serve. As crud_load. */
int crud_load_last(crud_t *self, const kind_t *kind, const char *account, const char *id,
                   json_t **ret_row);

/* The row that the path names; the parent in the path must be its parent. */
int crud_load_addressed(crud_t *self, const kind_t *kind, bool lock, json_t **ret_row);
/* The same of one that is to be deleted: crud_load_last, behind the kind's lock_first. */
int crud_load_doomed(crud_t *self, const kind_t *kind, json_t **ret_row);

/* Operations on objects; crud_redo_<name> answers a repetition of one that was executed before. */
int crud_create(crud_t *self, const kind_t *kind, reply_t *reply);
int crud_redo_create(crud_t *self, const kind_t *kind, reply_t *reply);
int crud_get(crud_t *self, const kind_t *kind, reply_t *reply);
int crud_update(crud_t *self, const kind_t *kind, reply_t *reply);
int crud_delete(crud_t *self, const kind_t *kind, reply_t *reply);

/* A command of the kind: its rule carries it out. */
int crud_command(crud_t *self, const kind_t *kind, reply_t *reply);

/* A page of objects, newest first. */
int crud_list(crud_t *self, const kind_t *kind, reply_t *reply);

/* Operations on one module of an object; the answer is the module. */
int crud_get_module(crud_t *self, const kind_t *kind, reply_t *reply);
int crud_replace_module(crud_t *self, const kind_t *kind, reply_t *reply);
int crud_delete_module(crud_t *self, const kind_t *kind, reply_t *reply);

/* Operations on the items of a LISTED field; the answer is the item, or all of them. */
int crud_list_members(crud_t *self, const kind_t *kind, reply_t *reply);
int crud_get_member(crud_t *self, const kind_t *kind, reply_t *reply);
int crud_create_member(crud_t *self, const kind_t *kind, reply_t *reply);
int crud_redo_create_member(crud_t *self, const kind_t *kind, reply_t *reply);
int crud_update_member(crud_t *self, const kind_t *kind, reply_t *reply);
int crud_delete_member(crud_t *self, const kind_t *kind, reply_t *reply);
