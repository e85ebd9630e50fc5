#include "common/schema/event_types.h"

#include <stdio.h>
#include <string.h>

#include "common/schema/words.h"
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
#include "common/schema/words_end.h"

static const struct {
    const char *action;
    unsigned operation;
} actions[] = {
    {"created", OPERATION_CREATE}, {"updated", OPERATION_UPDATE}, {"deleted", OPERATION_DELETE}};

/* <audit>_created.v0 of a kind that has the operation. */
static bool is_audit_of_kind(const char *type)
{
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

/* How long the type is without its version; 0: it has none. */
static size_t base_of(const char *type, size_t len)
{
    size_t digits = 0;

    while (digits < len && type[len - 1 - digits] >= '0' && type[len - 1 - digits] <= '9')
        digits++;
    if (!digits || len - digits < 3 || memcmp(type + len - digits - 2, ".v", 2))
        return 0;
    return len - digits - 2;
}

bool event_type_is_traffic(const char *type, size_t len)
{
    size_t base = base_of(type, len);

    for (size_t i = 0; base && i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].event && rows[i].traffic
            && base_of(rows[i].event, strlen(rows[i].event)) == base
            && !memcmp(rows[i].event, type, base))
            return true;
    return false;
}

/* Does the type begin as this traffic event, or the kind's events? */
static bool begins_as_traffic(const char *type)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].event && rows[i].traffic
            && !strncmp(type, rows[i].event, base_of(rows[i].event, strlen(rows[i].event))))
            return true;
    return false;
}

static bool begins_as_kind(const kind_t *kind, const char *type, size_t *ret_len)
{
    char name[96];

    for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++) {
        *ret_len = (size_t)snprintf(name, sizeof(name), "%s_%s", kind->audit, actions[i].action);
        if (!strncmp(type, name, *ret_len))
            return true;
    }
    return false;
}

bool event_type_is_of(const char *type, const char *service)
{
    size_t base = base_of(type, strlen(type)), len;
    bool others = begins_as_traffic(type);

    if (!base)
        return false;
    for (const kind_t *kind = kind_all(); kind->name; kind++)
        if (begins_as_kind(kind, type, &len)) {
            if (!strcmp(kind->service, service) && len == base)
                return true;
            others |= strcmp(kind->service, service) != 0;
        }
    return !others;
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
