/* Rules of event subscriptions beyond their table. */
#include "common/resource/kind_rules.h"
#include "common/cel/cel.h"
#include "common/base/quote.h"
#include "common/schema/event_types.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Filterable fields of the event type in context, by dotted name: ev.conn.client_ip, ... */
static bool find_variable(const void *context, const char *name, cel_type_t *ret_type)
{
    const field_t *field = strncmp(name, "ev.", 3) ? NULL : event_field(context, name + 3);

    if (!field || !(field->flags & FIELD_FILTER))
        return false;
    *ret_type = field->type == FIELD_I32 || field->type == FIELD_I64 ? CEL_INT : CEL_STRING;
    return true;
}

static int check_filter(const char *type, const char *filter, const char *path, problem_t *problem)
{
    const cel_env_t env = {find_variable, type, NULL};
    cel_error_t error;
    cel_t *cel = NULL;
    int r = cel_parse(&cel, filter, strlen(filter), &error);

    if (!r)
        r = cel_check(cel, &env, &error);
    if (!r && cel_root(cel)->type != CEL_BOOL && cel_root(cel)->type != CEL_DYN)
        r = problem_add(problem, ERR_EVENT_FILTER, path, "is %s %s: it must be true or false",
                        quote_article(cel_type_name(cel_root(cel)->type)),
                        cel_type_name(cel_root(cel)->type));
    else if (r > 0)
        r = problem_add(problem, ERR_EVENT_FILTER, path, "at byte %zu: %s", error.at, error.text);
    cel_destroy(&cel);
    return r;
}

static int check_fields(const char *type, const json_t *fields, const char *path,
                        problem_t *problem)
{
    json_t *field;
    size_t i;

    if (!json_array_size(fields))
        return problem_add(problem, ERR_EVENT_FIELDS, path,
                           "is empty: say which fields of %s to capture, or leave it out for all",
                           type);
    json_array_foreach(fields, i, field) if (!event_field(type, json_string_value(field)))
        problem_add(problem, ERR_EVENT_FIELDS, path, "%s is not a field of %s",
                    quote(json_string_value(field)).text, type);
    return problem->code;
}

/* Generated clients cannot leave a list out and send an empty one, so a traffic event without
 * fields gets all of them. */
static int complete_fields(json_t *source, const char *type)
{
    json_t *all;

    if (!json_is_null(json_object_get(source, "fields")))
        return 0;
    all = event_fields(type);
    return all && !json_object_set_new(source, "fields", all) ? 0 : -ENOMEM;
}

static int check_source(json_t *source, size_t i, problem_t *problem)
{
    const char *type = json_string_value(json_object_get(source, "type"));
    const json_t *fields = json_object_get(source, "fields");
    const char *filter = json_string_value(json_object_get(source, "filter"));
    char at_fields[64], at_filter[64];
    bool traffic;
    int r;

    event_type_known(type, &traffic);
    snprintf(at_fields, sizeof(at_fields), "sources[%zu].fields", i);
    snprintf(at_filter, sizeof(at_filter), "sources[%zu].filter", i);
    if (!traffic) {
        if (json_array_size(fields))
            return problem_add(problem, ERR_EVENT_FIELDS, at_fields,
                               "%s is an audit event: it "
                               "is captured whole",
                               type);
        return filter ? problem_add(problem, ERR_EVENT_FILTER, at_filter,
                                    "%s is an audit event: it takes no filter", type)
                      : 0;
    }
    r = complete_fields(source, type);
    if (!r)
        r = check_fields(type, json_object_get(source, "fields"), at_fields, problem);
    return r || !filter ? r : check_filter(type, filter, at_filter, problem);
}

/* Each source's type occurs once; fields and filter only where its type takes them, with fields
 * that it has; a traffic event without fields gets all of them. */
static int event_subscription_check(crud_t *crud, json_t *document, const json_t *old,
                                    json_t *references, problem_t *problem)
{
    const json_t *sources = json_object_get(document, "sources");
    size_t i, k;
    json_t *source;
    int r;

    (void)crud;
    (void)old;
    (void)references;
    json_array_foreach(sources, i, source)
    {
        for (k = 0; k < i; k++)
            if (json_equal(json_object_get(source, "type"),
                           json_object_get(json_array_get(sources, k), "type")))
                return problem_add(problem, ERR_EVENT_SOURCE_DUPLICATE, "sources",
                                   "has a source of type %s already",
                                   json_string_value(json_object_get(source, "type")));
        r = check_source(source, i, problem);
        if (r < 0)
            return r;
    }
    return problem->code;
}

KIND_RULES(event_subscription, .check = event_subscription_check);
