/* Renders objects for the API: JSON text made from the JSON text of PostgreSQL, field by field as
 * the tables say. Strings, numbers and nested values are copied without decoding, because most
 * objects are only passed on. */
#include "common/base/cleanup.h"
#include "common/base/id.h"
#include "common/codec/pack.h"
#include "common/schema/schema.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { MEMBERS_MAX = 64, DEPTH_MAX = 8 }; /* of objects in the tables, not inside PLAIN values */

typedef struct span {
    const char *at;
    size_t len;
} span_t;

typedef struct member {
    span_t name, value; /* name: without its quotes */
} member_t;

typedef struct object {
    member_t members[MEMBERS_MAX];
    size_t n;
} object_t;

/* ---- the text that is read ---- */

static const char *skip_spaces(const char *at)
{
    while (*at == ' ' || *at == '\t' || *at == '\r' || *at == '\n')
        at++;
    return at;
}

/* at: the opening quote. Returns the position after the closing one; NULL: there is none. */
static const char *skip_string(const char *at)
{
    for (at++; *at && *at != '"'; at++)
        if (*at == '\\' && at[1])
            at++;
    return *at ? at + 1 : NULL;
}

/* The position after the value that begins at `at`; NULL: the value is not complete. */
static const char *skip_value(const char *at)
{
    size_t depth = 0;

    if (*at == '"')
        return skip_string(at);
    if (*at != '{' && *at != '[') {
        size_t len = strcspn(at, ",]} \t\r\n");

        return len ? at + len : NULL;
    }
    do {
        at += strcspn(at, "\"{}[]");
        if (*at == '"') {
            at = skip_string(at);
            if (!at)
                return NULL;
            continue;
        }
        if (!*at)
            return NULL;
        depth += *at == '{' || *at == '[' ? 1 : (size_t)-1;
        at++;
    } while (depth > 0);
    return at;
}

/* Take the value at `at`, which ',' or end must follow. Returns the position of that; NULL:
 * malformed. */
static const char *take_value(const char *at, char end, span_t *ret_value)
{
    const char *behind = skip_value(at), *next = behind ? skip_spaces(behind) : NULL;

    if (!next || (*next != ',' && *next != end))
        return NULL;
    *ret_value = (span_t){at, (size_t)(behind - at)};
    return *next == ',' ? skip_spaces(next + 1) : next;
}

static int read_object(const char *at, object_t *ret_object)
{
    ret_object->n = 0;
    if (*at++ != '{')
        return -EINVAL;
    for (at = skip_spaces(at); *at != '}';) {
        member_t *member = &ret_object->members[ret_object->n];
        const char *name = at;

        if (ret_object->n++ == MEMBERS_MAX || *at != '"' || !(at = skip_string(at)))
            return -EINVAL;
        member->name = (span_t){name + 1, (size_t)(at - name) - 2};
        at = skip_spaces(at);
        if (*at++ != ':')
            return -EINVAL;
        at = take_value(skip_spaces(at), '}', &member->value);
        if (!at)
            return -EINVAL;
    }
    return 0;
}

static const span_t nothing = {"null", 4}; /* the value of an absent member */

static span_t find(const object_t *object, const char *name)
{
    size_t len = strlen(name);

    for (size_t i = 0; i < object->n; i++)
        if (object->members[i].name.len == len && !memcmp(object->members[i].name.at, name, len))
            return object->members[i].value;
    return nothing;
}

static bool is_null(span_t value)
{
    return value.len == 4 && !memcmp(value.at, "null", 4);
}

/* A string without escapes. */
static int copy_string(span_t value, char *out, size_t size)
{
    if (value.len < 2 || *value.at != '"' || value.len - 2 >= size
        || memchr(value.at, '\\', value.len))
        return -EINVAL;
    memcpy(out, value.at + 1, value.len - 2);
    out[value.len - 2] = '\0';
    return 0;
}

int schema_text_member(const char *row, const char *name, char *out, size_t size)
{
    object_t object;
    int r = read_object(row, &object);

    return r ? r : copy_string(find(&object, name), out, size);
}

/* ---- the text that is made ---- */

static int put(msgpack_sbuffer *out, const char *bytes, size_t len)
{
    return msgpack_sbuffer_write(out, bytes, len) ? -ENOMEM : 0;
}

static int put_text(msgpack_sbuffer *out, const char *text)
{
    return put(out, text, strlen(text));
}

char *schema_uri(const kind_t *kind, const char *id, const char *parent_id, const char *base_url)
{
    const char *open = strchr(kind->path, '{'), *close = open ? strchr(open, '}') : NULL;
    char text[1024];

    if (open)
        snprintf(text, sizeof(text), "%s%.*s%s%s/%s", base_url, (int)(open - kind->path),
                 kind->path, parent_id ? parent_id : "", close + 1, id);
    else
        snprintf(text, sizeof(text), "%s%s/%s", base_url, kind->path, id);
    return strdup(text);
}

/* {id, uri}. beside: the object that the reference stands in, which also refers to the parent of
 * what has one; NULL: none does. */
static int put_ref(msgpack_sbuffer *out, span_t value, const object_t *beside, const char *base_url)
{
    _cleanup_(free_mem) char *uri = NULL;
    const kind_t *kind;
    char id[ID_MAX], parent[ID_MAX] = "";
    int r = copy_string(value, id, sizeof(id));

    if (r)
        return r;
    kind = kind_of_id(id);
    if (kind && kind->parent_key && beside)
        (void)copy_string(find(beside, kind->parent_key), parent, sizeof(parent));
    uri = kind ? schema_uri(kind, id, parent, base_url) : strdup("");
    if (!uri || put_text(out, "{\"id\":\"") || put_text(out, id) || put_text(out, "\",\"uri\":\"")
        || put_text(out, uri) || put_text(out, "\"}"))
        return -ENOMEM;
    return 0;
}

/* PostgreSQL prints 2026-01-02T03:04:05.678+00:00; the API gives whole seconds with Z. */
static int put_time(msgpack_sbuffer *out, span_t value)
{
    char text[] = "\"0000-00-00T00:00:00Z\"";

    if (*value.at != '"' || value.len < sizeof(text) - 2 || memchr(value.at, '\\', value.len))
        return put_text(out, "null");
    memcpy(text + 1, value.at + 1, 19);
    text[11] = 'T';
    return put(out, text, sizeof(text) - 1);
}

static int put_object(msgpack_sbuffer *out, const object_type_t *type, span_t value,
                      const char *base_url, int depth);

static int put_list(msgpack_sbuffer *out, const field_t *field, span_t value, const char *base_url,
                    int depth)
{
    const char *at = value.at;
    int r;

    if (is_null(value))
        return put_text(out, field->flags & FIELD_NULLABLE ? "null" : "[]");
    if (*at++ != '[')
        return -EINVAL;
    r = put(out, "[", 1);
    for (at = skip_spaces(at); !r && *at != ']';) {
        bool first = out->data[out->size - 1] == '[';
        span_t item;

        at = take_value(at, ']', &item);
        if (!at)
            return -EINVAL;
        if (!first)
            r = put(out, ",", 1);
        if (r)
            return r;
        if (field->flags & FIELD_PLAIN)
            r = put(out, item.at, item.len);
        else if (field->type == FIELD_REFERENCES)
            r = put_ref(out, item, NULL, base_url);
        else
            r = put_object(out, field->object, item, base_url, depth);
    }
    return r ? r : put(out, "]", 1);
}

static int put_value(msgpack_sbuffer *out, const field_t *field, const object_t *stored,
                     const char *base_url, int depth)
{
    span_t value = find(stored, field_key(field));

    if (field->type == FIELD_REFERENCES || field->type == FIELD_NESTEDS)
        return put_list(out, field, value, base_url, depth);
    if (is_null(value) && field->fallback && !(field->flags & FIELD_NULLABLE))
        return put_text(out,
                        field->fallback); /* rows that were stored before the field was there */
    if (is_null(value) || field->type == FIELD_NONE)
        return put_text(out, "null");
    if (field->flags & FIELD_BLANK)
        return put_text(out, "\"\"");
    if (field->type == FIELD_NESTED)
        return put_object(out, field->object, value, base_url, depth);
    if (field->type == FIELD_REFERENCE && !(field->flags & FIELD_PLAIN))
        return put_ref(out, value, stored, base_url);
    if (field->type == FIELD_TIME)
        return put_time(out, value);
    return put(out, value.at, value.len);
}

/* uri: of an object of its own; NULL for those inside. */
static int put_fields(msgpack_sbuffer *out, const object_type_t *type, const object_t *stored,
                      const char *base_url, const char *uri, int depth)
{
    const char *before = "{\"";
    int r = 0;

    for (const field_t *field = type->fields; !r && field->name; field++) {
        if (field->flags & (FIELD_WRITE_ONLY | FIELD_HIDDEN))
            continue;
        if (put_text(out, before) || put_text(out, field->name) || put_text(out, "\":"))
            return -ENOMEM;
        before = ",\"";
        if (uri && !strcmp(field->name, "uri"))
            r = put(out, "\"", 1) || put_text(out, uri) || put(out, "\"", 1) ? -ENOMEM : 0;
        else
            r = put_value(out, field, stored, base_url, depth);
    }
    return r ? r : put_text(out, *before == '{' ? "{}" : "}");
}

static int put_object(msgpack_sbuffer *out, const object_type_t *type, span_t value,
                      const char *base_url, int depth)
{
    object_t stored;
    int r = depth == DEPTH_MAX ? -EINVAL : read_object(value.at, &stored);

    return r ? r : put_fields(out, type, &stored, base_url, NULL, depth + 1);
}

/* ---- whole objects ---- */

int schema_text(msgpack_sbuffer *out, const kind_t *kind, const char *row, const char *base_url)
{
    _cleanup_(free_mem) char *uri = NULL;
    char id[ID_MAX] = "", parent[ID_MAX] = "";
    object_t stored;
    int r = read_object(row, &stored);

    if (r)
        return r;
    (void)copy_string(find(&stored, "id"), id, sizeof(id));
    if (kind->parent_key)
        (void)copy_string(find(&stored, kind->parent_key), parent, sizeof(parent));
    uri = schema_uri(kind, id, parent, base_url);
    return uri ? put_fields(out, &kind->type, &stored, base_url, uri, 0) : -ENOMEM;
}

bool schema_text_is_whole(const kind_t *kind)
{
    for (const field_t *field = kind->type.fields; field->name; field++)
        if (field->type == FIELD_CHILDREN || field->flags & FIELD_LISTED)
            return false;
    return true;
}

/* uri of each item of the LISTED fields. */
static void render_members(const kind_t *kind, json_t *rendered)
{
    const char *uri = json_string_value(json_object_get(rendered, "uri"));

    for (const field_t *field = kind->type.fields; field->name; field++) {
        json_t *item;
        size_t i;

        if (field->flags & FIELD_LISTED)
            json_array_foreach(json_object_get(rendered, field->name), i, item) json_object_set_new(
                item, "uri",
                json_sprintf("%s/%s/%s", uri, field->name,
                             json_string_value(json_object_get(item, field->key))));
    }
}

json_t *schema_render(const kind_t *kind, const json_t *row, const char *base_url)
{
    _cleanup_(free_mem) char *stored = json_dumps(row, JSON_COMPACT);
    msgpack_sbuffer text;
    json_t *out = NULL;

    msgpack_sbuffer_init(&text);
    if (stored && !schema_text(&text, kind, stored, base_url))
        out = json_loadb(text.data, text.size, JSON_ALLOW_NUL, NULL);
    msgpack_sbuffer_destroy(&text);
    if (out)
        render_members(kind, out);
    return out;
}
