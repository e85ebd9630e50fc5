/* Checks request bodies against the tables: which fields an object has, what an absent or empty
 * field means at create and at update, and old names of fields. */
#include "common/base/cleanup.h"
#include "common/schema/check_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

void schema_path(char out[SCHEMA_PATH_MAX], const char *path, const char *name)
{
    snprintf(out, SCHEMA_PATH_MAX, "%s%s%s", path, *path && *name != '[' ? "." : "", name);
}

/* Is this the name of a module that other kinds have? */
static bool is_foreign_module(const object_type_t *type, const char *name)
{
    const field_t *field = type->fields;

    while (field->name && !(field->flags & FIELD_MODULE))
        field++;
    if (!field->name)
        return false;
    for (const kind_t *kind = kind_all(); kind->name; kind++)
        if (kind_module(kind, name))
            return true;
    return false;
}

/* Set the default of a field that is absent at create, or report that it is required. */
static int set_fallback(const field_t *field, const char *path, problem_t *problem, json_t *out)
{
    json_t *value;

    if (field->flags & FIELD_REQUIRED)
        return problem_add(problem,
                           *path && strchr(path, '.') ? field->outcome : ERR_REQUIRED_MISSING, path,
                           "is required");
    if (field->type == FIELD_NESTED && field->flags & FIELD_ALWAYS) {
        _cleanup_(json_clear_ref) json_t *empty = json_object();

        value = json_object();
        json_object_set_new(out, field_key(field), value);
        return schema_check_object(field->object, OPERATION_CREATE, NULL, empty, path, problem,
                                   value);
    }
    value = field->fallback ? json_loads(field->fallback, JSON_DECODE_ANY, NULL) : json_null();
    return json_object_set_new(out, field_key(field), value) ? -ENOMEM : 0;
}

/* Is "" never a value of this text? So for an enumeration, a time or a reference. */
static bool is_choice(const field_t *field)
{
    return field->type == FIELD_REFERENCE || field->type == FIELD_TIME
           || (field->type == FIELD_STR && field_choices(field));
}

bool schema_empty_is_absent(const field_t *field, unsigned operation)
{
    if (operation == OPERATION_UPDATE && field->flags & FIELD_KEEP_EMPTY)
        return true;
    if (field->flags & FIELD_REQUIRED)
        return false;
    switch (field->type) {
    case FIELD_STR:
    case FIELD_TIME:
    case FIELD_REFERENCE: /* a free text that may change is cleared by "" */
        return is_choice(field)
               || (operation == OPERATION_UPDATE && field->flags & FIELD_IMMUTABLE);
    case FIELD_U32:
    case FIELD_I32:
    case FIELD_F64:
        return field->min > 0;
    default:
        return (field->flags & FIELD_KEEP_EMPTY) != 0;
    }
}

/* "", 0, [] or {} */
static bool is_empty(const json_t *given)
{
    switch (json_typeof(given)) {
    case JSON_STRING:
        return json_string_length(given) == 0;
    case JSON_INTEGER:
    case JSON_REAL:
        return json_number_value(given) == 0;
    case JSON_ARRAY:
        return json_array_size(given) == 0;
    case JSON_OBJECT:
        return json_object_size(given) == 0;
    default:
        return false;
    }
}

/* Is it the empty value of the field's own type? Of another type it is a mistake. */
static bool is_empty_of(const field_t *field, const json_t *given)
{
    switch (field->type) {
    case FIELD_STR:
    case FIELD_TIME:
    case FIELD_REFERENCE:
        return json_is_string(given) && is_empty(given);
    case FIELD_U32:
    case FIELD_I32:
        return json_is_integer(given) && is_empty(given);
    case FIELD_F64:
        return json_is_number(given) && is_empty(given);
    case FIELD_STRINGS:
    case FIELD_NESTEDS:
    case FIELD_REFERENCES:
        return json_is_array(given) && is_empty(given);
    case FIELD_STRMAP:
    case FIELD_WEIGHT_MAP:
    case FIELD_NESTED:
        return json_is_object(given) && is_empty(given);
    default:
        return false;
    }
}

static bool is_absent(const field_t *field, unsigned operation, const json_t *given)
{
    return !given || json_is_null(given)
           || (schema_empty_is_absent(field, operation) && is_empty_of(field, given));
}

/* The normalised value; *ret_value NULL: the value is not valid for the field. 0 | fault. */
static int normalise(const field_t *field, const json_t *value, json_t **ret_value)
{
    problem_t unheard = {.code = 0};
    int r = value ? schema_check_value(field, value, "", &unheard, ret_value) : 0;

    problem_done(&unheard);
    if (r > 0) {
        json_decref(*ret_value);
        *ret_value = NULL;
    }
    return r < 0 ? r : 0;
}

/* A field that cannot change may be sent with its stored value, as clients do. Both are normalised,
 * because PostgreSQL writes times differently. */
static int check_fixed(const field_t *field, const json_t *old, const json_t *given,
                       const char *path, problem_t *problem, json_t *out)
{
    _cleanup_(json_clear_ref) json_t *stored = NULL;
    _cleanup_(json_clear_ref) json_t *value = NULL;
    int r = normalise(field, given, &value);

    if (!r && field->type == FIELD_TIME)
        r = normalise(field, json_object_get(old, field_key(field)), &stored);
    else if (!r)
        stored = json_incref(json_object_get(old, field_key(field)));
    if (r)
        return r;
    if (!value || !stored || !json_equal(stored, value))
        return problem_add(problem, ERR_IMMUTABLE_FIELD, path, "cannot change after creation");
    return json_object_set(out, field_key(field), value) ? -ENOMEM : 0;
}

static int check_field(const field_t *field, unsigned operation, const json_t *old,
                       const json_t *given, const char *path, problem_t *problem, json_t *out)
{
    json_t *value = NULL;
    int r;

    if (field->flags & (FIELD_READ_ONLY | FIELD_PATH | FIELD_HIDDEN)) {
        if (operation == OPERATION_CREATE && field->fallback && !(field->flags & FIELD_COMPUTED)
            && (!given || json_is_null(given)))
            return set_fallback(field, path, problem, out);
        if (!given || field->flags & FIELD_PATH || !strcmp(field->name, "id"))
            return 0; /* clients repeat path parameters in the body */
        if (json_is_null(given))
            return 0;
        return problem_add(problem,
                           field->outcome == ERR_INVALID_FIELD ? ERR_UNKNOWN_FIELD : field->outcome,
                           path, "is read-only");
    }
    if (is_absent(field, operation, given))
        return operation == OPERATION_CREATE ? set_fallback(field, path, problem, out) : 0;
    if (operation == OPERATION_UPDATE && field->flags & FIELD_IMMUTABLE)
        return check_fixed(field, old, given, path, problem, out);
    if (json_is_string(given) && !json_string_length(given)) {
        if (field->flags & FIELD_REQUIRED && !field_format(field))
            return set_fallback(field, path, problem, out);
        if (!(field->flags & FIELD_REQUIRED) && field->type == FIELD_STR)
            return set_fallback(field, path, problem, out);
    }
    r = schema_check_value(field, given, path, problem, &value);
    if (value)
        json_object_set_new(out, field_key(field), value);
    return r;
}

int schema_check_object(const object_type_t *type, unsigned operation, const json_t *old,
                        const json_t *body, const char *path, problem_t *problem, json_t *out)
{
    char at[SCHEMA_PATH_MAX];
    const char *key;
    json_t *value;
    int r;

    for (const field_t *field = type->fields; field->name; field++) {
        schema_path(at, path, field_key(field));
        r = check_field(field, operation, old, json_object_get(body, field_key(field)), at, problem,
                        out);
        if (r < 0)
            return r;
    }
    json_object_foreach((json_t *)body, key, value)
    {
        if (field_find(type, key))
            continue;
        schema_path(at, path, key);
        if (is_foreign_module(type, key))
            problem_add(problem, ERR_MODULE_INCOMPATIBLE, at, "is no module of this kind");
        else
            problem_add(problem, ERR_UNKNOWN_FIELD, at, "is not a field of this object");
    }
    return problem->code;
}

/* Rename fields that older clients call otherwise (ALIAS). *body becomes a copy if there is one. */
static int take_aliases(const kind_t *kind, json_t **body, problem_t *problem)
{
    for (const kind_alias_t *row = kind_aliases(); row->kind; row++) {
        json_t *said = json_object_get(*body, row->word), *own, *copy;

        if (!said || strcmp(kind->name, row->kind))
            continue;
        copy = json_copy(*body);
        if (!copy)
            return -ENOMEM;
        json_decref(*body);
        *body = copy;
        own = json_object_get(copy, row->field);
        if (!json_is_null(said) && !is_empty(said)) {
            if (own && !json_is_null(own) && !is_empty(own) && !json_equal(said, own))
                return problem_add(problem, ERR_TWO_WORDS, row->word,
                                   "is another word for %s, which has another value", row->field);
            json_object_set(copy, row->field, said);
        }
        json_object_del(copy, row->word);
    }
    return 0;
}

int schema_check(const kind_t *kind, unsigned operation, const json_t *old, const json_t *body,
                 problem_t *problem, json_t **ret_document)
{
    _cleanup_(json_clear_ref) json_t *out = json_object();
    _cleanup_(json_clear_ref) json_t *said = json_incref((json_t *)body);
    int r;

    if (!json_is_object(body))
        return problem_add(problem, ERR_BODY_UNPARSABLE, NULL, "the body must be a JSON object");
    r = take_aliases(kind, &said, problem);
    if (!r)
        r = schema_check_object(&kind->type, operation, old, said, "", problem, out);
    if (r)
        return r;
    *ret_document = take(out);
    return 0;
}

int schema_check_module(const field_t *module, const json_t *body, problem_t *problem,
                        json_t **ret_module)
{
    _cleanup_(json_clear_ref) json_t *out = json_object();
    int r;

    if (!json_is_object(body))
        return problem_add(problem, ERR_BODY_UNPARSABLE, NULL, "the body must be a JSON object");
    r = schema_check_object(module->object, OPERATION_CREATE, NULL, body, module->name, problem,
                            out);
    if (r)
        return r;
    *ret_module = take(out);
    return 0;
}

int schema_check_member(const field_t *members, unsigned operation, const json_t *old,
                        const json_t *body, problem_t *problem, json_t **ret_member)
{
    _cleanup_(json_clear_ref) json_t *out = json_object();
    int r;

    if (!json_is_object(body))
        return problem_add(problem, ERR_BODY_UNPARSABLE, NULL, "the body must be a JSON object");
    r = schema_check_object(members->object, operation, old, body, "", problem, out);
    if (r)
        return r;
    *ret_member = take(out);
    return 0;
}
