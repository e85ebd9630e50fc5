/* Parts of an object that have paths of their own: modules (one object each) and members (items
 * of a list, found by a key). A change of one is a change of the object, with its rules and its
 * event. */
#include "common/base/cleanup.h"
#include "common/resource/change.h"
#include "common/resource/crud_internal.h"
#include "common/resource/members.h"
#include "common/base/id.h"
#include "common/base/quote.h"

#include <errno.h>
#include <string.h>

/* ---- modules ---- */

static int check_module_precondition(crud_t *self, const kind_t *kind, const json_t *row,
                                     const char *module, problem_t *problem)
{
    _cleanup_(json_clear_ref) json_t *rendered = schema_render(kind, row, self->base_url);
    const json_t *value = json_object_get(rendered, module);

    return change_check_precondition(crud_text(self->request->body, "if_match"),
                                     json_is_object(value) ? value : NULL, problem);
}

int crud_get_module(crud_t *self, const kind_t *kind, reply_t *reply)
{
    const char *module = crud_text(self->request->body, OPERATION_PART);
    _cleanup_(json_clear_ref) json_t *row = NULL;
    _cleanup_(json_clear_ref) json_t *rendered = NULL;
    int r;

    if (!module || !kind_module(kind, module))
        return ERR_NOT_FOUND;
    r = crud_load_addressed(self, kind, false, &row);
    if (r)
        return r;
    rendered = schema_render(kind, row, self->base_url);
    if (!json_is_object(json_object_get(rendered, module)))
        return problem_add(&reply->problem, ERR_NOT_FOUND, NULL, "%s has no module %s",
                           crud_text(row, "id"), module);
    reply->body = json_incref(json_object_get(rendered, module));
    change_etag(reply->body, reply->etag);
    return 0;
}

/* Set the module to value (NULL: remove it); *ret_rendered is the object after that. */
static int put_module(crud_t *self, const kind_t *kind, const field_t *module, json_t *value,
                      const json_t *old, reply_t *reply, json_t **ret_rendered)
{
    _cleanup_(json_clear_ref) json_t *patch =
        json_pack("{s:o}", field_key(module), value ? json_incref(value) : json_null());

    return crud_change_row(self, kind, old, patch, reply, ret_rendered);
}

/* Begin a change of the module that the path names, or with detach of a DETACH field: *ret_old
 * is the object, locked. 0 | code | fault. */
static int begin_module(crud_t *self, const kind_t *kind, reply_t *reply, bool detach,
                        const field_t **ret_module, json_t **ret_old)
{
    const char *name = crud_text(self->request->body, OPERATION_PART);
    int r;

    *ret_module = name ? kind_module(kind, name) : NULL;
    if (name && !*ret_module && detach)
        *ret_module = kind_detachable(kind, name);
    if (!*ret_module)
        return ERR_NOT_FOUND;
    r = crud_load_addressed(self, kind, true, ret_old);
    return r ? r : check_module_precondition(self, kind, *ret_old, name, &reply->problem);
}

int crud_replace_module(crud_t *self, const kind_t *kind, reply_t *reply)
{
    _cleanup_(json_clear_ref) json_t *old = NULL;
    _cleanup_(json_clear_ref) json_t *value = NULL;
    _cleanup_(json_clear_ref) json_t *rendered = NULL;
    const field_t *module;
    int r = begin_module(self, kind, reply, false, &module, &old);

    if (!r)
        r = schema_check_module(module, json_object_get(self->request->body, "document"),
                                &reply->problem, &value);
    if (!r)
        r = put_module(self, kind, module, value, old, reply, &rendered);
    if (r)
        return r;
    reply->body = json_incref(json_object_get(rendered, module->name));
    change_etag(reply->body, reply->etag);
    return 0;
}

/* Deleting a module that is not set succeeds: clients delete modules without looking first. */
int crud_delete_module(crud_t *self, const kind_t *kind, reply_t *reply)
{
    _cleanup_(json_clear_ref) json_t *old = NULL;
    _cleanup_(json_clear_ref) json_t *rendered = NULL;
    const field_t *module;
    int r = begin_module(self, kind, reply, true, &module, &old);

    if (r || json_is_null(json_object_get(old, field_key(module))))
        return r;
    return put_module(self, kind, module, NULL, old, reply, &rendered);
}

/* ---- members: the items of a list that have paths of their own ---- */

/* Load the row and the list field that the path names. */
static int load_members(crud_t *self, const kind_t *kind, bool lock, const field_t **ret_field,
                        json_t **ret_row)
{
    const char *name = crud_text(self->request->body, OPERATION_PART);

    *ret_field = name ? kind_members(kind, name) : NULL;
    return *ret_field ? crud_load_addressed(self, kind, lock, ret_row) : ERR_NOT_FOUND;
}

static int no_member(crud_t *self, const char *key, reply_t *reply)
{
    return problem_add(&reply->problem, ERR_NOT_FOUND, NULL, "%s has no %s",
                       crud_text(self->request->body, "id"), key ? quote(key).text : "member");
}

/* The rendered item becomes the answer. */
static int answer_member(const json_t *rendered, const field_t *field, const char *key,
                         reply_t *reply)
{
    const json_t *list = json_object_get(rendered, field->name);
    int at = members_find(list, field, key);

    if (at < 0)
        return fault(-EIO, "a member that was stored is not there");
    reply->body = json_incref(json_array_get(list, (size_t)at));
    change_etag(reply->body, reply->etag);
    return 0;
}

/* As load_members, with the object rendered as the API shows it. */
static int render_members(crud_t *self, const kind_t *kind, const field_t **ret_field,
                          json_t **ret_rendered)
{
    _cleanup_(json_clear_ref) json_t *row = NULL;
    int r = load_members(self, kind, false, ret_field, &row);

    if (r)
        return r;
    *ret_rendered = schema_render(kind, row, self->base_url);
    return *ret_rendered ? 0 : -ENOMEM;
}

int crud_list_members(crud_t *self, const kind_t *kind, reply_t *reply)
{
    _cleanup_(json_clear_ref) json_t *rendered = NULL;
    const field_t *field;
    int r = render_members(self, kind, &field, &rendered);

    if (r)
        return r;
    reply->body = json_pack("{s:O, s:o}", field->name, json_object_get(rendered, field->name),
                            "uri", json_sprintf("%s/%s", crud_text(rendered, "uri"), field->name));
    return reply->body ? 0 : -ENOMEM;
}

int crud_get_member(crud_t *self, const kind_t *kind, reply_t *reply)
{
    const char *key = crud_text(self->request->body, "member");
    _cleanup_(json_clear_ref) json_t *rendered = NULL;
    const field_t *field;
    int r = render_members(self, kind, &field, &rendered);

    if (r)
        return r;
    if (members_find(json_object_get(rendered, field->name), field, key) < 0)
        return no_member(self, key, reply);
    return answer_member(rendered, field, key, reply);
}

/* Begin a change of one member: *ret_list is a copy of the stored list, *ret_at the member's index.
 * names_one: the path names the member, which must exist. */
static int begin_member(crud_t *self, const kind_t *kind, reply_t *reply, bool names_one,
                        const field_t **ret_field, json_t **ret_row, json_t **ret_list, int *ret_at)
{
    const char *key = crud_text(self->request->body, "member");
    _cleanup_(json_clear_ref) json_t *rendered = NULL;
    int r = load_members(self, kind, true, ret_field, ret_row);

    if (r)
        return r;
    *ret_list = json_deep_copy(json_object_get(*ret_row, (*ret_field)->name));
    *ret_at = members_find(*ret_list, *ret_field, key);
    if (!names_one)
        return 0;
    if (*ret_at < 0)
        return no_member(self, key, reply);
    rendered = schema_render(kind, *ret_row, self->base_url);
    return change_check_precondition(
        crud_text(self->request->body, "if_match"),
        json_array_get(json_object_get(rendered, (*ret_field)->name), (size_t)*ret_at),
        &reply->problem);
}

static int end_member(crud_t *self, const kind_t *kind, const field_t *field, const json_t *row,
                      json_t *list, const char *key, reply_t *reply)
{
    _cleanup_(json_clear_ref) json_t *patch = json_pack("{s:O}", field->name, list);
    _cleanup_(json_clear_ref) json_t *rendered = NULL;
    int r = crud_change_row(self, kind, row, patch, reply, &rendered);

    return r || !key ? r : answer_member(rendered, field, key, reply);
}

int crud_create_member(crud_t *self, const kind_t *kind, reply_t *reply)
{
    const json_t *document = json_object_get(self->request->body, "document");
    _cleanup_(json_clear_ref) json_t *row = NULL;
    _cleanup_(json_clear_ref) json_t *list = NULL;
    const json_t *item;
    const field_t *field;
    int r, at;

    r = begin_member(self, kind, reply, false, &field, &row, &list, &at);
    if (r)
        return r;
    r = members_add(field, list, document, &reply->problem, &item);
    return r ? r : end_member(self, kind, field, row, list, crud_text(item, field->key), reply);
}

int crud_redo_create_member(crud_t *self, const kind_t *kind, reply_t *reply)
{
    const json_t *document = json_object_get(self->request->body, "document");
    _cleanup_(json_clear_ref) json_t *rendered = NULL;
    const field_t *field;
    const char *key;
    int r = render_members(self, kind, &field, &rendered);

    if (r)
        return r;
    key = crud_text(document, field->key);
    if (members_find(json_object_get(rendered, field->name), field, key) < 0)
        return no_member(self, key, reply); /* deleted since it was made */
    return answer_member(rendered, field, key, reply);
}

int crud_update_member(crud_t *self, const kind_t *kind, reply_t *reply)
{
    const char *key = crud_text(self->request->body, "member");
    const json_t *document = json_object_get(self->request->body, "document");
    _cleanup_(json_clear_ref) json_t *row = NULL;
    _cleanup_(json_clear_ref) json_t *list = NULL;
    const field_t *field;
    int r, at;

    r = begin_member(self, kind, reply, true, &field, &row, &list, &at);
    if (r)
        return r;
    r = members_update(field, list, (size_t)at, document, &reply->problem);
    return r ? r : end_member(self, kind, field, row, list, key, reply);
}

int crud_delete_member(crud_t *self, const kind_t *kind, reply_t *reply)
{
    _cleanup_(json_clear_ref) json_t *row = NULL;
    _cleanup_(json_clear_ref) json_t *list = NULL;
    const field_t *field;
    int r, at;

    r = begin_member(self, kind, reply, true, &field, &row, &list, &at);
    if (r)
        return r;
    json_array_remove(list, (size_t)at);
    return end_member(self, kind, field, row, list, NULL, reply);
}
