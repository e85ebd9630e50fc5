/* Walks stored and rendered documents to find secrets and references at any depth. */
#include "common/base/cleanup.h"
#include "common/schema/check_internal.h"

#include <errno.h>

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
        char at[SCHEMA_PATH_MAX];
        size_t i;

        if (!value || json_is_null(value))
            continue;
        at[0] = '\0';
        if (path)
            schema_path(at, path, key);
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
