/* One value of a request against its field: type, bounds, format, and how it is stored. */
#include "common/base/cleanup.h"
#include "common/base/quote.h"
#include "common/schema/check_internal.h"
#include "common/schema/format.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ITEM_MAX = 4096 };

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

/* Check the form of a reference; the owning service checks that its target exists. */
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
        return problem_add(problem, field->outcome, path, "%s is %s %s: only %s can be in here",
                           quote(id).text, quote_article(kind->name), kind->name, field->kinds);
    return problem_add(problem, ERR_REF_WRONG_PREFIX, path, "%s is not the id of %s %s",
                       quote(id).text, quote_article(field->kinds), field->kinds);
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
        char index[32], at[SCHEMA_PATH_MAX];
        json_t *checked = NULL;

        snprintf(index, sizeof(index), "[%zu]", i);
        schema_path(at, path, index);
        if (field->type == FIELD_NESTEDS) {
            checked = json_object();
            r = json_is_object(item) ? schema_check_object(field->object, OPERATION_CREATE, NULL,
                                                           item, at, problem, checked)
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

/* A map from id to weight: malformed ids, and ids of kinds that are not allowed, get different
 * errors. */
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
        char at[SCHEMA_PATH_MAX];

        schema_path(at, path, key);
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
        char at[SCHEMA_PATH_MAX], name[257];
        const char *why;

        schema_path(at, path, key);
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

int schema_check_value(const field_t *field, const json_t *value, const char *path,
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
        return schema_check_object(field->object, OPERATION_CREATE, NULL, value, path, problem,
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
