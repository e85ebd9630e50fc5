#include "proto/event_types.h"

#include <stdio.h>
#include <string.h>

/* One list: a field row belongs to the event row above it. */
static const struct {
    const char *event; /* NULL: a field */
    bool traffic;
    field_t field;
} rows[] = {
#define AUDIT(type, text)   {type, false, {.meaning = text}},
#define TRAFFIC(type, text) {type, true, {.meaning = text}},
#define FIELD(event, id, name_, type_, flags_, fallback_, text)                                    \
    {NULL, true, {.name = name_, .type = type_, .flags = flags_, .meaning = text}},
#include "proto/events.def"
};

/* <audit>_created.v0 of a kind that has the operation. */
static bool is_audit_of_kind(const char *type)
{
    static const struct {
        const char *action;
        unsigned operation;
    } actions[] = {{"created", CREATE}, {"updated", UPDATE}, {"deleted", DELETE}};
    char name[96];

    for (const kind_t *kind = kind_all(); kind->name; kind++)
        for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++) {
            snprintf(name, sizeof(name), "%s_%s.v0", kind->audit, actions[i].action);
            if (kind->operations & actions[i].operation && !strcmp(name, type))
                return true;
        }
    return false;
}

static size_t find_event(const char *type)
{
    size_t i = 0;

    while (i < sizeof(rows) / sizeof(rows[0]) && (!rows[i].event || strcmp(rows[i].event, type)))
        i++;
    return i;
}

bool event_type_known(const char *type, bool *ret_traffic)
{
    size_t i = find_event(type);
    bool listed = i < sizeof(rows) / sizeof(rows[0]);

    *ret_traffic = listed && rows[i].traffic;
    return listed || is_audit_of_kind(type);
}

json_t *event_fields(const char *type)
{
    json_t *names = json_array();

    for (size_t i = find_event(type) + 1; i < sizeof(rows) / sizeof(rows[0]) && !rows[i].event; i++)
        if (json_array_append_new(names, json_string(rows[i].field.name))) {
            json_decref(names);
            return NULL;
        }
    return names;
}

const field_t *event_field(const char *type, const char *name)
{
    for (size_t i = find_event(type) + 1; i < sizeof(rows) / sizeof(rows[0]) && !rows[i].event; i++)
        if (!strcmp(rows[i].field.name, name))
            return &rows[i].field;
    return NULL;
}
