#include "common/schema/schema.h"
#include "common/base/cleanup.h"
#include "common/base/id.h"
#include "common/codec/pack.h"
#include "common/base/quote.h"
#include "common/schema/format.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- check ---- */

enum { PATH_MAX_LEN = 160, ITEM_MAX = 4096, VALUE_BUFFER = 262144 + 1 };

/* Is it a module, but of other kinds? */
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

static int check_object(const object_type_t *type, unsigned operation, const json_t *old,
                        const json_t *body, const char *path, problem_t *problem, json_t *out);

static void path_join(char *out, const char *path, const char *name)
{
    snprintf(out, PATH_MAX_LEN, "%s%s%s", path, *path && *name != '[' ? "." : "", name);
}

static const char *type_words(field_type_t type)
{
    static const char *const words[] = {
        [FIELD_STR] = "a string",
        [FIELD_BOOL] = "true or false",
        [FIELD_U32] = "a whole number of zero or more",
        [FIELD_I32] = "a whole number",
        [FIELD_I64] = "a whole number",
        [FIELD_F64] = "a number",
        [FIELD_TIME] = "an RFC 3339 time",
        [FIELD_STRINGS] = "a list of strings",
        [FIELD_STRMAP] = "an object with string values",
        [FIELD_WEIGHT_MAP] = "an object of ids and whole numbers",
        [FIELD_NESTED] = "an object",
        [FIELD_NESTEDS] = "a list of objects",
        [FIELD_REFERENCE] = "an id",
        [FIELD_REFERENCES] = "a list of ids",
        [FIELD_CHILDREN] = "read-only",
        [FIELD_NONE] = "null",
    };

    return words[type];
}

static int wrong_type(const field_t *field, const char *path, problem_t *problem)
{
    return problem_add(problem, ERR_INVALID_FIELD, path, "must be %s", type_words(field->type));
}

/* One string against max bytes, enumeration or format; *ret_value is the normalised string. */
static int check_string(const field_t *field, const char *value, size_t len, size_t max,
                        const char *path, problem_t *problem, json_t **ret_value)
{
    _cleanup_(free_mem) char *buffer = NULL;
    const char *why = NULL;
    int r;

    if (max && len > max)
        return problem_add(problem, field->outcome, path,
                           "is %zu bytes long: the limit is %zu bytes", len, max);
    if (!field->allowed) {
        *ret_value = json_stringn(value, len);
        return *ret_value ? 0 : -ENOMEM;
    }
    if (field_choices(field)) {
        if (!schema_in_list(field_choices(field), value))
            return problem_add(problem, field->outcome, path, "%s is not one of %s",
                               quote(value).text, field_choices(field));
        *ret_value = json_stringn(value, len);
        return *ret_value ? 0 : -ENOMEM;
    }
    buffer = malloc(2 * len + 64);
    if (!buffer)
        return -ENOMEM;
    r = format_check(field_format(field), field->outcome, value, buffer, 2 * len + 64, &why);
    if (r > 0)
        return problem_add(problem, r, path, "%s", why);
    if (r)
        return r;
    *ret_value = json_string(buffer);
    return *ret_value ? 0 : -ENOMEM;
}

static int check_number(const field_t *field, const json_t *value, const char *path,
                        problem_t *problem, json_t **ret_value)
{
    double number = json_number_value(value);
    bool real = field->type == FIELD_F64;

    if (real ? !json_is_number(value) : !json_is_integer(value))
        return wrong_type(field, path, problem);
    if (!isfinite(number) || number < field->min || number > field->max)
        return problem_add(problem, field->outcome, path, "must be from %.10g to %.10g", field->min,
                           field->max);
    *ret_value = real ? json_real(number) : json_integer(json_integer_value(value));
    return *ret_value ? 0 : -ENOMEM;
}

static int check_count(const field_t *field, size_t count, const char *path, problem_t *problem)
{
    if ((double)count < field->min || (field->max > 0 && (double)count > field->max))
        return problem_add(problem, field->outcome, path,
                           "has %zu items: from %.0f to %.0f are allowed", count, field->min,
                           field->max);
    return 0;
}

/* Shape of a reference; that it exists is the owner's check. */
static int check_reference(const field_t *field, const char *id, const char *path,
                           problem_t *problem)
{
    const kind_t *kind = kind_of_id(id);

    if (kind && schema_in_list(field->kinds, kind->name))
        return 0;
    for (const char *at = field->kinds; at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL) {
        char name[64];

        snprintf(name, sizeof(name), "%.*s", (int)strcspn(at, "|"), at);
        if (!kind_find(name)) /* a kind that this server does not have yet: nothing of it exists */
            return problem_add(problem, ERR_REF_NONEXISTENT, path, "%s does not exist",
                               quote(id).text);
    }
    if (kind && field->flags & FIELD_PLAIN)
        return problem_add(problem, field->outcome, path, "%s is a %s: only %s can be in here",
                           quote(id).text, kind->name, field->kinds);
    return problem_add(problem, ERR_REF_WRONG_PREFIX, path, "%s is not the id of a %s",
                       quote(id).text, field->kinds);
}

static int check_list(const field_t *field, const json_t *value, const char *path,
                      problem_t *problem, json_t **ret_value)
{
    _cleanup_(json_clear_ref) json_t *list = json_array();
    json_t *item;
    size_t i;
    int r;

    if (!json_is_array(value))
        return wrong_type(field, path, problem);
    r = check_count(field, json_array_size(value), path, problem);
    if (r)
        return r;
    json_array_foreach(value, i, item)
    {
        char index[32], at[PATH_MAX_LEN];
        json_t *checked = NULL;

        snprintf(index, sizeof(index), "[%zu]", i);
        path_join(at, path, index);
        if (field->type == FIELD_NESTEDS) {
            checked = json_object();
            r = json_is_object(item) ? check_object(field->object, OPERATION_CREATE, NULL, item, at,
                                                    problem, checked)
                                     : wrong_type(field, at, problem);
        } else if (!json_is_string(item)) {
            r = problem_add(problem, ERR_INVALID_FIELD, at, "must be a string");
        } else if (field->type == FIELD_REFERENCES) {
            r = check_reference(field, json_string_value(item), at, problem);
            checked = r ? NULL : json_copy(item);
        } else {
            r = check_string(field, json_string_value(item), json_string_length(item), ITEM_MAX, at,
                             problem, &checked);
        }
        if (r < 0)
            return r;
        for (size_t k = 0; !r && field->type != FIELD_NESTEDS && k < json_array_size(list); k++)
            if (json_equal(json_array_get(list, k), checked))
                r = problem_add(problem, field->outcome, at, "is given twice");
        json_array_append_new(list, checked ? checked : json_null());
    }
    *ret_value = take(list);
    return 0;
}

/* id to weight. The kinds that may be in it are told apart from ids that are none. */
static int check_weights(const field_t *field, const json_t *value, const char *path,
                         problem_t *problem, json_t **ret_value)
{
    field_t one = *field;
    const char *key;
    json_t *item;
    int r;

    if (!json_is_object(value))
        return wrong_type(field, path, problem);
    if (json_object_size(value) > (size_t)field->max)
        return problem_add(problem, field->outcome, path, "has %zu items: the limit is %.0f",
                           json_object_size(value), field->max);
    one.flags |= FIELD_PLAIN;
    one.outcome = ERR_BACKEND_KIND;
    json_object_foreach((json_t *)value, key, item)
    {
        char at[PATH_MAX_LEN];

        path_join(at, path, key);
        r = check_reference(&one, key, at, problem);
        if (r < 0)
            return r;
        if (!json_is_integer(item) || json_integer_value(item) < 0
            || (double)json_integer_value(item) > field->highest)
            problem_add(problem, field->outcome, at, "must be a whole number from 0 to %.0f",
                        field->highest);
    }
    *ret_value = json_deep_copy(value);
    return *ret_value ? 0 : -ENOMEM;
}

static int check_map(const field_t *field, const json_t *value, const char *path,
                     problem_t *problem, json_t **ret_value)
{
    _cleanup_(json_clear_ref) json_t *map = json_object();
    const char *key;
    json_t *item;
    int r;

    if (!json_is_object(value))
        return wrong_type(field, path, problem);
    r = check_count(field, json_object_size(value), path, problem);
    if (r)
        return r;
    json_object_foreach((json_t *)value, key, item)
    {
        bool label = field_format(field) && !strcmp(field_format(field), "label");
        char at[PATH_MAX_LEN], name[257];
        const char *why;

        path_join(at, path, key);
        if (!json_is_string(item)) {
            problem_add(problem, ERR_INVALID_FIELD, at, "must be a string");
            continue;
        }
        why = label ? format_label(key, 1) : format_header_name(key);
        if (why) {
            problem_add(problem, field->outcome, at, "%s", why);
            continue;
        }
        why = label ? format_label(json_string_value(item), 0)
                    : format_header_value(json_string_value(item));
        if (why) {
            problem_add(problem, field->outcome, at, "%s", why);
            continue;
        }
        for (size_t i = 0; i <= strlen(key); i++)
            name[i] =
                (char)(field->flags & FIELD_LOWER_KEYS ? tolower((unsigned char)key[i]) : key[i]);
        if (json_object_get(map, name))
            problem_add(problem, field->outcome, at, "is given twice");
        json_object_set(map, name, item);
    }
    *ret_value = take(map);
    return 0;
}

static int check_value(const field_t *field, const json_t *value, const char *path,
                       problem_t *problem, json_t **ret_value)
{
    int r;

    switch (field->type) {
    case FIELD_STR:
    case FIELD_TIME:
        if (!json_is_string(value))
            return wrong_type(field, path, problem);
        return check_string(field, json_string_value(value), json_string_length(value),
                            (size_t)field->max, path, problem, ret_value);
    case FIELD_BOOL:
        if (!json_is_boolean(value))
            return wrong_type(field, path, problem);
        *ret_value = json_boolean(json_is_true(value));
        return 0;
    case FIELD_U32:
    case FIELD_I32:
    case FIELD_I64:
    case FIELD_F64:
        return check_number(field, value, path, problem, ret_value);
    case FIELD_STRINGS:
    case FIELD_NESTEDS:
    case FIELD_REFERENCES:
        return check_list(field, value, path, problem, ret_value);
    case FIELD_STRMAP:
        return check_map(field, value, path, problem, ret_value);
    case FIELD_WEIGHT_MAP:
        return check_weights(field, value, path, problem, ret_value);
    case FIELD_NESTED:
        if (!json_is_object(value))
            return wrong_type(field, path, problem);
        *ret_value = json_object();
        return check_object(field->object, OPERATION_CREATE, NULL, value, path, problem,
                            *ret_value);
    case FIELD_REFERENCE:
        if (!json_is_string(value))
            return wrong_type(field, path, problem);
        r = check_reference(field, json_string_value(value), path, problem);
        *ret_value = r ? NULL : json_string(json_string_value(value));
        return r;
    case FIELD_CHILDREN:
    case FIELD_NONE:
        break;
    }
    return wrong_type(field, path, problem);
}

/* What an absent field becomes at create. */
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
        return check_object(field->object, OPERATION_CREATE, NULL, empty, path, problem, value);
    }
    value = field->fallback ? json_loads(field->fallback, JSON_DECODE_ANY, NULL) : json_null();
    return json_object_set_new(out, field_key(field), value) ? -ENOMEM : 0;
}

/* A text of which "" is not a value: one of a list of words, or the name of something else. */
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

/* The value as the check leaves it; NULL: it is none of the field's. 0 | fault. */
static int normalise(const field_t *field, const json_t *value, json_t **ret_value)
{
    problem_t unheard = {.code = 0};
    int r = value ? check_value(field, value, "", &unheard, ret_value) : 0;

    problem_done(&unheard);
    if (r > 0) {
        json_decref(*ret_value);
        *ret_value = NULL;
    }
    return r < 0 ? r : 0;
}

/* Clients send a fixed field again with the value it has. The database writes times in its own
 * way. */
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
    r = check_value(field, given, path, problem, &value);
    if (value)
        json_object_set_new(out, field_key(field), value);
    return r;
}

static int check_object(const object_type_t *type, unsigned operation, const json_t *old,
                        const json_t *body, const char *path, problem_t *problem, json_t *out)
{
    char at[PATH_MAX_LEN];
    const char *key;
    json_t *value;
    int r;

    for (const field_t *field = type->fields; field->name; field++) {
        path_join(at, path, field_key(field));
        r = check_field(field, operation, old, json_object_get(body, field_key(field)), at, problem,
                        out);
        if (r < 0)
            return r;
    }
    json_object_foreach((json_t *)body, key, value)
    {
        if (field_find(type, key))
            continue;
        path_join(at, path, key);
        if (is_foreign_module(type, key))
            problem_add(problem, ERR_MODULE_INCOMPATIBLE, at, "is no module of this kind");
        else
            problem_add(problem, ERR_UNKNOWN_FIELD, at, "is not a field of this object");
    }
    return problem->code;
}

/* An older client's word for a field becomes the field's (ALIAS). *body is a copy when it has
 * one. */
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
        r = check_object(&kind->type, operation, old, said, "", problem, out);
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
    r = check_object(module->object, OPERATION_CREATE, NULL, body, module->name, problem, out);
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
    r = check_object(members->object, operation, old, body, "", problem, out);
    if (r)
        return r;
    *ret_member = take(out);
    return 0;
}

/* ---- secrets and references inside documents ---- */

typedef int (*visit_fn)(const field_t *field, json_t *owner, const char *key, json_t *value,
                        const char *path, void *context);

/* Call visit for every present, non-null field of a document in stored (or rendered) form. path
 * NULL: visit needs none, and making them costs more than most visits. */
static int visit_fields(const object_type_t *type, json_t *document, bool rendered,
                        const char *path, visit_fn visit, void *context)
{
    int r;

    for (const field_t *field = type->fields; field->name; field++) {
        const char *key = rendered ? field->name : field_key(field);
        json_t *value = json_object_get(document, key), *item;
        char at[PATH_MAX_LEN];
        size_t i;

        if (!value || json_is_null(value))
            continue;
        at[0] = '\0';
        if (path)
            path_join(at, path, key);
        r = visit(field, document, key, value, at, context);
        if (r)
            return r;
        if (field->type == FIELD_NESTED) {
            r = visit_fields(field->object, value, rendered, path ? at : NULL, visit, context);
            if (r)
                return r;
        }
        if (field->type == FIELD_NESTEDS || field->type == FIELD_CHILDREN)
            json_array_foreach(value, i, item)
            {
                r = visit_fields(field->object ? field->object : &kind_find(field->kinds)->type,
                                 item, rendered, path ? at : NULL, visit, context);
                if (r)
                    return r;
            }
    }
    return 0;
}

static int seal_one(const field_t *field, json_t *owner, const char *key, json_t *value,
                    const char *path, void *context)
{
    _cleanup_(free_mem) char *sealed = NULL;

    (void)path;
    if (!(field->flags & FIELD_SEALED) || !json_is_string(value))
        return 0;
    sealed = secret_seal(context, json_string_value(value), json_string_length(value));
    if (!sealed || json_object_set_new(owner, key, json_string(sealed)))
        return -ENOMEM;
    return 0;
}

static int unseal_one(const field_t *field, json_t *owner, const char *key, json_t *value,
                      const char *path, void *context)
{
    char *plain = NULL;
    size_t len;
    int r;

    (void)path;
    if (!(field->flags & FIELD_SEALED) || !json_is_string(value))
        return 0;
    r = secret_open(context, json_string_value(value), &plain, &len);
    if (r)
        return fault(r, "open a stored secret: is this the master key that sealed it?");
    if (json_object_set_new(owner, key, json_stringn(plain, len)))
        r = -ENOMEM;
    secret_free(&plain, len);
    return r;
}

static int mask_one(const field_t *field, json_t *owner, const char *key, json_t *value,
                    const char *path, void *context)
{
    (void)path;
    (void)context;
    if (field->flags & FIELD_SEALED && json_string_length(value))
        json_object_set_new(owner, key, json_string("***"));
    return 0;
}

/* Most kinds have no secrets: their documents need not be looked through. */
static bool has_secrets(const object_type_t *type)
{
    for (const field_t *field = type->fields; field->name; field++)
        if (field->flags & FIELD_SEALED
            || ((field->type == FIELD_NESTED || field->type == FIELD_NESTEDS)
                && has_secrets(field->object)))
            return true;
    return false;
}

bool schema_has_secrets(const kind_t *kind)
{
    return has_secrets(&kind->type);
}

int schema_seal(const kind_t *kind, json_t *document, const secret_key_t *key)
{
    return visit_fields(&kind->type, document, false, NULL, seal_one, (void *)key);
}

int schema_unseal(const kind_t *kind, json_t *document, const secret_key_t *key)
{
    return schema_has_secrets(kind)
               ? visit_fields(&kind->type, document, false, NULL, unseal_one, (void *)key)
               : 0;
}

void schema_mask(const kind_t *kind, json_t *rendered)
{
    visit_fields(&kind->type, rendered, true, NULL, mask_one, NULL);
}

static int collect_one(const field_t *field, json_t *owner, const char *key, json_t *value,
                       const char *path, void *context)
{
    const char *id;
    json_t *item;
    size_t i;

    (void)owner;
    (void)key;
    if (field->type == FIELD_REFERENCE && !(field->flags & (FIELD_OWNER | FIELD_READ_ONLY)))
        json_array_append_new(context, json_pack("[s, O]", path, value));
    if (field->type == FIELD_WEIGHT_MAP)
        json_object_foreach(value, id, item)
            json_array_append_new(context, json_pack("[s, s]", path, id));
    if (field->type == FIELD_REFERENCES)
        json_array_foreach(value, i, item)
            json_array_append_new(context, json_pack("[s, O]", path, item));
    return 0;
}

json_t *schema_references(const kind_t *kind, const json_t *document)
{
    json_t *out = json_array();

    visit_fields(&kind->type, (json_t *)document, false, "", collect_one, out);
    return out;
}
