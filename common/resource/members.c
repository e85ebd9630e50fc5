#include "common/resource/members.h"
#include "common/base/cleanup.h"

#include <errno.h>
#include <string.h>

int members_find(const json_t *list, const field_t *field, const char *key)
{
    json_t *item;
    size_t i;

    json_array_foreach(list, i, item)
    {
        const char *value = json_string_value(json_object_get(item, field->key));

        if (key && value && !strcmp(value, key))
            return (int)i;
    }
    return -1;
}

int members_add(const field_t *field, json_t *list, const json_t *document, problem_t *problem,
                const json_t **ret_item)
{
    json_t *item = NULL;
    int r;

    if (field->max > 0 && json_array_size(list) >= (size_t)field->max)
        return problem_add(problem, field->outcome, field->name, "has %zu items: the limit is %.0f",
                           json_array_size(list), field->max);
    r = schema_check_member(field, OPERATION_CREATE, NULL, document, problem, &item);
    if (r)
        return r;
    if (json_array_append_new(list, item))
        return -ENOMEM;
    *ret_item = item;
    return 0;
}

int members_update(const field_t *field, json_t *list, size_t at, const json_t *document,
                   problem_t *problem)
{
    _cleanup_(json_clear_ref) json_t *patch = NULL;
    json_t *item = json_array_get(list, at);
    int r = schema_check_member(field, OPERATION_UPDATE, item, document, problem, &patch);

    if (r)
        return r;
    return json_object_update(item, patch) ? -ENOMEM : 0;
}
