/* GET /openapi.json: OpenAPI 3.1 from the same tables that check requests. */
#include "common/base/cleanup.h"
#include "common/schema/schema.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

static json_t *object_schema(const object_type_t *type, bool request, unsigned operation);

static json_t *enum_of(const char *values)
{
    json_t *list = json_array();

    for (const char *at = values; at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL)
        json_array_append_new(list, json_stringn(at, strcspn(at, "|")));
    return list;
}

static json_t *ref_schema(void)
{
    return json_pack("{s:s, s:{s:{s:s}, s:{s:s}}, s:[s,s]}", "type", "object", "properties", "id",
                     "type", "string", "uri", "type", "string", "required", "id", "uri");
}

static json_t *string_schema(const field_t *field, bool request)
{
    bool unset = !request && field->fallback && !strcmp(field->fallback, "\"\"");
    json_t *schema = json_pack("{s:s}", "type", "string");

    if (field->max > 0)
        json_object_set_new(schema, "maxLength", json_integer((json_int_t)field->max));
    if (field_choices(field)) {
        json_t *values = enum_of(field_choices(field));

        if (unset) /* how a choice that nobody made is shown */
            json_array_append_new(values, json_string(""));
        json_object_set_new(schema, "enum", values);
    }
    return schema;
}

static json_t *number_schema(const field_t *field)
{
    bool real = field->type == FIELD_F64;
    const char *format = real ? "double" : field->type == FIELD_I32 ? "int32" : "int64";
    json_t *schema = json_pack("{s:s, s:s}", "type", real ? "number" : "integer", "format", format);

    if (field->max > field->min) { /* what is only read has no bounds */
        json_object_set_new(schema, "minimum", json_real(field->min));
        json_object_set_new(schema, "maximum", json_real(field->max));
    }
    return schema;
}

/* min and max of the field are the list's, not its items'. */
static json_t *item_schema(const field_t *field)
{
    json_t *schema = json_pack("{s:s}", "type", "string");

    if (field_choices(field))
        json_object_set_new(schema, "enum", enum_of(field_choices(field)));
    return schema;
}

static json_t *list_of(const field_t *field, json_t *items)
{
    json_t *schema = json_pack("{s:s, s:o}", "type", "array", "items", items);

    if (field->max > 0)
        json_object_set_new(schema, "maxItems", json_integer((json_int_t)field->max));
    if (field->min > 0)
        json_object_set_new(schema, "minItems", json_integer((json_int_t)field->min));
    return schema;
}

/* The schema of a map; item: the schema of every value. */
static json_t *map_of(const field_t *field, json_t *item)
{
    json_t *schema = json_pack("{s:s, s:o}", "type", "object", "additionalProperties", item);

    if (field->max > 0)
        json_object_set_new(schema, "maxProperties", json_integer((json_int_t)field->max));
    return schema;
}

static json_t *value_schema(const field_t *field, bool request)
{
    char ref[96];

    switch (field->type) {
    case FIELD_STR:
        return string_schema(field, request);
    case FIELD_TIME:
        return json_pack("{s:s, s:s}", "type", "string", "format", "date-time");
    case FIELD_BOOL:
        return json_pack("{s:s}", "type", "boolean");
    case FIELD_U32:
    case FIELD_I32:
    case FIELD_I64:
    case FIELD_F64:
        return number_schema(field);
    case FIELD_STRINGS:
        return list_of(field, item_schema(field));
    case FIELD_STRMAP:
        return map_of(field, json_pack("{s:s}", "type", "string"));
    case FIELD_WEIGHT_MAP:
        return map_of(field, json_pack("{s:s, s:i, s:i}", "type", "integer", "minimum", 0,
                                       "maximum", (int)field->highest));
    case FIELD_NESTED:
        return object_schema(field->object, request, OPERATION_CREATE);
    case FIELD_NESTEDS:
        return list_of(field, object_schema(field->object, request, OPERATION_CREATE));
    case FIELD_REFERENCE:
        return request || field->flags & FIELD_PLAIN ? json_pack("{s:s}", "type", "string")
                                                     : ref_schema();
    case FIELD_REFERENCES:
        return list_of(field, request || field->flags & FIELD_PLAIN
                                  ? json_pack("{s:s}", "type", "string")
                                  : ref_schema());
    case FIELD_CHILDREN:
        snprintf(ref, sizeof(ref), "#/components/schemas/%s", field->kinds);
        return json_pack("{s:s, s:{s:s}}", "type", "array", "items", "$ref", ref);
    case FIELD_NONE:
        break;
    }
    return json_pack("{s:s}", "type", "null");
}

/* OpenAPI 3.1 is JSON Schema 2020-12: null is a type. */
static json_t *or_null(json_t *schema)
{
    return json_pack("{s:[o, {s:s}]}", "anyOf", schema, "type", "null");
}

/* Add extensions (x-...) for generated tests: the name of a field's check, its error code, and
 * whether an empty value counts as absent. */
static void add_rule(json_t *value, const field_t *field, unsigned operation)
{
    if (schema_empty_is_absent(field, operation))
        json_object_set_new(value, "x-empty-is-absent", json_true());
    if (field_format(field))
        json_object_set_new(value, "x-format", json_string(field_format(field)));
    if (field->kinds)
        json_object_set_new(value, "x-kinds", json_string(field->kinds));
    if (field->flags & FIELD_REQUIRED)
        json_object_set_new(value, "x-required", json_true());
    json_object_set_new(value, "x-error", json_sprintf("ERR_POSTERN_%d", field->outcome));
}

static json_t *object_schema(const object_type_t *type, bool request, unsigned operation)
{
    json_t *properties = json_object(), *required = json_array(), *schema;

    for (const field_t *field = type->fields; field->name; field++) {
        json_t *value;

        if (field->flags & FIELD_HIDDEN || (!request && field->flags & FIELD_WRITE_ONLY)
            || (request && field->flags & (FIELD_READ_ONLY | FIELD_PATH))
            || (request && operation == OPERATION_UPDATE && field->flags & FIELD_IMMUTABLE))
            continue;
        value = value_schema(field, request);
        if (request || field->flags & FIELD_NULLABLE
            || (field->type == FIELD_NESTED
                && !(field->flags & (FIELD_ALWAYS | FIELD_READ_ONLY | FIELD_REQUIRED))))
            value = or_null(value);
        json_object_set_new(value, "description", json_string(field->meaning));
        if (request)
            add_rule(value, field, operation);
        if (field->fallback && request && operation == OPERATION_CREATE)
            json_object_set_new(value, "default",
                                json_loads(field->fallback, JSON_DECODE_ANY, NULL));
        json_object_set_new(properties, request ? field_key(field) : field->name, value);
        if (!request || (operation == OPERATION_CREATE && field->flags & FIELD_REQUIRED))
            json_array_append_new(required, json_string(request ? field_key(field) : field->name));
    }
    schema = json_pack("{s:s, s:o}", "type", "object", "properties", properties);
    if (json_array_size(required))
        json_object_set_new(schema, "required", required);
    else
        json_decref(required);
    return schema;
}

static json_t *content(json_t *schema)
{
    return json_pack("{s:{s:o}}", "application/json", "schema", schema);
}

static json_t *ref_to(const char *name)
{
    return json_pack("{s:o}", "$ref", json_sprintf("#/components/schemas/%s", name));
}

/* The responses of an operation. schema NULL: success has no body. */
static json_t *answers(const char *status, json_t *schema)
{
    json_t *success = json_pack("{s:s}", "description", "success");

    if (schema)
        json_object_set_new(success, "content", content(schema));
    return json_pack("{s:o, s:{s:s}}", status, success, "default", "$ref",
                     "#/components/responses/error");
}

static json_t *list_schema(const kind_t *kind)
{
    return json_pack("{s:s, s:{s:{s:s, s:o}, s:{s:s}, s:{s:[s,s]}}}", "type", "object",
                     "properties", kind->list_key, "type", "array", "items", ref_to(kind->name),
                     "uri", "type", "string", "next_page_uri", "type", "string", "null");
}

/* The parameters of a path; list: the kind that the path lists, NULL: it lists none. */
static json_t *path_parameters(const char *path, const kind_t *list)
{
    json_t *parameters = json_pack("[{s:s}]", "$ref", "#/components/parameters/version");

    for (const char *at = strchr(path, '{'); at; at = strchr(at + 1, '{'))
        json_array_append_new(parameters,
                              json_pack("{s:o, s:s, s:b, s:{s:s}}", "name",
                                        json_stringn(at + 1, strcspn(at + 1, "}")), "in", "path",
                                        "required", 1, "schema", "type", "string"));
    if (list) {
        json_array_append_new(parameters,
                              json_pack("{s:s, s:s, s:{s:s, s:i, s:i, s:i}}", "name", "limit", "in",
                                        "query", "schema", "type", "integer", "minimum", 1,
                                        "maximum", 100, "default", 100));
        json_array_append_new(parameters, json_pack("{s:s, s:s, s:{s:s}}", "name", "before_id",
                                                    "in", "query", "schema", "type", "string"));
    }
    for (const field_t *field = list ? list->type.fields : NULL; field && field->name; field++)
        if (field->flags & FIELD_QUERY)
            json_array_append_new(parameters, json_pack("{s:s, s:s, s:s, s:{s:s, s:{s:s}}}", "name",
                                                        field->name, "in", "query", "description",
                                                        "any of these", "schema", "type", "array",
                                                        "items", "type", "string"));
    if (list && list->operations & KIND_FILTERS)
        json_array_append_new(
            parameters,
            json_pack("{s:s, s:s, s:s, s:{s:s}}", "name", "filter", "in", "query", "description",
                      "CEL over obj: see Lists and filters in services/gateway/README.md", "schema",
                      "type", "string"));
    return parameters;
}

/* The responses of an operation; with an answer that is a module or a member: of this field. */
static json_t *responses_of(const operation_t *operation, const kind_t *kind, const field_t *field)
{
    json_t *schema = NULL;
    char status[16];

    switch (operation->answer) {
    case ANSWER_NOTHING:
        break;
    case ANSWER_OBJECT:
        schema = ref_to(kind->name);
        break;
    case ANSWER_OBJECTS:
        schema = list_schema(kind);
        break;
    case ANSWER_MEMBERS:
        assert(field);
        schema = json_pack("{s:s, s:{s:o, s:{s:s}}}", "type", "object", "properties", field->name,
                           list_of(field, object_schema(field->object, false, OPERATION_GET)),
                           "uri", "type", "string");
        break;
    case ANSWER_MODULE:
    case ANSWER_MEMBER:
        assert(field);
        schema = object_schema(field->object, false, OPERATION_GET);
        break;
    }
    snprintf(status, sizeof(status), "%d", operation->status);
    return answers(status, schema);
}

/* The request body of an operation on an object, or on this field of one; NULL: it takes none. */
static json_t *request_body_of(const operation_t *operation, const kind_t *kind,
                               const field_t *field)
{
    bool whole = operation->body & BODY_WHOLE;
    json_t *schema, *body;

    if (!(operation->body & (BODY_WHOLE | BODY_PATCH)))
        return NULL;
    schema = object_schema(field ? field->object : &kind->type, true,
                           whole ? OPERATION_CREATE : OPERATION_UPDATE);
    body = field ? json_object() : json_pack("{s:b}", "required", whole);
    json_object_set_new(body, "content", content(schema));
    return body;
}

/* Adds an operation to the path, which it takes. id: its operationId, taken, too; summary: NULL,
 * none; field: as in responses_of. */
static void put_operation(json_t *paths, char *path, const operation_t *operation, json_t *id,
                          const char *summary, const kind_t *kind, const field_t *field)
{
    json_t *item = json_object_get(paths, path), *entry, *body;
    char method[16] = "";

    if (!item)
        json_object_set_new(paths, path, item = json_object());
    for (size_t i = 0; operation->method[i] && i + 1 < sizeof(method); i++)
        method[i] = (char)tolower((unsigned char)operation->method[i]);
    entry = json_pack("{s:o}", "operationId", id);
    if (summary)
        json_object_set_new(entry, "summary", json_string(summary));
    json_object_set_new(entry, "tags", json_pack("[s]", kind->name));
    json_object_set_new(entry, "parameters",
                        path_parameters(path, operation->answer == ANSWER_OBJECTS ? kind : NULL));
    json_object_set_new(entry, "responses", responses_of(operation, kind, field));
    body = request_body_of(operation, kind, field);
    if (body)
        json_object_set_new(entry, "requestBody", body);
    json_object_set_new(item, method, entry);
    free(path);
}

/* The path of a place; field: the object's part that is there, or NULL. NULL: out of memory. */
static char *path_of(const kind_t *kind, operation_place_t place, const field_t *field)
{
    char *path = NULL;
    int r;

    if (place == PLACE_COLLECTION)
        r = asprintf(&path, "%s", kind->path);
    else if (place == PLACE_OBJECT)
        r = asprintf(&path, "%s/{id}", kind->path);
    else if (place == PLACE_MEMBER)
        r = asprintf(&path, "%s/{id}/%s/{%s}", kind->path, field->name, field->key);
    else
        r = asprintf(&path, "%s/{id}/%s", kind->path, field->name);
    return r < 0 ? NULL : path;
}

/* All operations of a kind at one place. */
static void add_place(json_t *paths, const kind_t *kind, operation_place_t place,
                      const field_t *field)
{
    for (const operation_t *row = operation_all(); row->name; row++) {
        int word = (int)strcspn(row->name, "_");
        char *path;

        if (!(row->places & place) || !(kind->operations & row->needs))
            continue;
        path = path_of(kind, place, field);
        if (path)
            put_operation(paths, path, row,
                          field
                              ? json_sprintf("%s_%s_%.*s", kind->name, field->name, word, row->name)
                              : json_sprintf("%s_%.*s", kind->name, word, row->name),
                          NULL, kind, field);
    }
}

/* The operations on each field with this flag. */
static void add_parts(json_t *paths, const kind_t *kind, unsigned flag, operation_place_t place)
{
    for (const field_t *field = kind->type.fields; field->name; field++)
        if (field->flags & flag)
            add_place(paths, kind, place, field);
}

/* Commands of all kinds, lists below another object (LIST_OF), and paths of no kind. */
static void add_other_paths(json_t *paths)
{
    for (const kind_command_t *row = kind_commands(); row->kind; row++) {
        const kind_t *kind = kind_find(row->kind);
        char *path;

        if (asprintf(&path, "%s/{id}/%s", kind->path, row->name) >= 0)
            put_operation(paths, path, operation_row(OPERATION_COMMAND),
                          json_sprintf("%s_%s", row->kind, row->name), row->meaning, kind, NULL);
    }
    for (const kind_list_t *row = kind_lists(); row->kind; row++) {
        char *path;

        if (asprintf(&path, "%s{%s}%s", row->head, row->key, row->tail) >= 0)
            put_operation(paths, path, operation_row(OPERATION_LIST),
                          json_sprintf("%s_list_by_%s", row->kind, row->key), NULL,
                          kind_find(row->kind), NULL);
    }
    json_object_set_new(
        paths, "/self",
        json_pack("{s:{s:s, s:[s], s:s, s:o, s:o}}", "get", "operationId", "self_get", "tags",
                  "self", "summary",
                  "The API key that the request was made with, its account and owner", "parameters",
                  path_parameters("", NULL), "responses",
                  answers("200", json_pack("{s:s}", "type", "object"))));
}

/* Components that operations refer to ($ref). */
static json_t *components(json_t *schemas)
{
    return json_pack("{s:o, s:{s:{s:s, s:s, s:b, s:s, s:{s:s, s:[s], s:s}}}, s:{s:{s:s, s:o}}, "
                     "s:{s:{s:s, s:s}}}",
                     "schemas", schemas, "parameters", "version", "name", "Service-Version", "in",
                     "header", "required", 1, "description", "version of the interface", "schema",
                     "type", "string", "enum", "2", "default", "2", "responses", "error",
                     "description", "error", "content", content(ref_to("error")), "securitySchemes",
                     "bearer", "type", "http", "scheme", "bearer");
}

json_t *schema_openapi(const char *base_url)
{
    json_t *paths = json_object(), *schemas = json_object();

    for (const kind_t *kind = kind_all(); kind->name; kind++) {
        json_object_set_new(schemas, kind->name, object_schema(&kind->type, false, OPERATION_GET));
        add_place(paths, kind, PLACE_COLLECTION, NULL);
        add_place(paths, kind, PLACE_OBJECT, NULL);
        add_parts(paths, kind, FIELD_MODULE, PLACE_MODULE);
        add_parts(paths, kind, FIELD_LISTED, PLACE_MEMBERS);
        add_parts(paths, kind, FIELD_LISTED, PLACE_MEMBER);
        add_parts(paths, kind, FIELD_DETACH, PLACE_DETACHABLE);
    }
    add_other_paths(paths);
    json_object_set_new(
        schemas, "error",
        json_pack("{s:s, s:{s:{s:s}, s:{s:s}, s:{s:s}, s:{s:s, s:{s:s}}}, s:[s,s,s]}", "type",
                  "object", "properties", "error_code", "type", "string", "status_code", "type",
                  "integer", "msg", "type", "string", "details", "type", "object",
                  "additionalProperties", "type", "string", "required", "status_code", "msg",
                  "details"));
    return json_pack("{s:s, s:{s:s, s:s, s:{s:s}}, s:[{s:s}], s:o, s:o, s:[{s:[]}]}", "openapi",
                     "3.1.0", "info", "title", "Postern API", "version", "2", "license", "name",
                     "Apache-2.0", "servers", "url", base_url, "paths", paths, "components",
                     components(schemas), "security", "bearer");
}
