/* proto/kinds and proto/types.def as tables in memory, and how to find a row. */
#include "common/base/id.h"
#include "common/schema/schema.h"

#include <string.h>

#include "common/schema/words.h"

enum { ID_LEN_MAX = 64 };

#define FIELD(...)
#define OBJECT(...)
#define REF(...)
#define REFS(...)
#define BEGIN(type_name) extern const object_type_t type_##type_name;
#define END
#include "proto/types.def"
#undef FIELD
#undef OBJECT
#undef REF
#undef REFS

/* clang-format off */
#define FIELD(name_, type_, flags_, min_, max_, allowed_, fallback_, outcome_, meaning_)          \
    {.name = #name_, .type = type_, .flags = flags_, .min = min_, .max = max_,                     \
     .allowed = allowed_, .fallback = fallback_, .outcome = outcome_, .meaning = meaning_},
#define OBJECT(name_, object_, flags_, meaning_)                                                  \
    {.name = #name_, .type = FIELD_NESTED, .flags = flags_, .object = &type_##object_,             \
     .outcome = ERR_INVALID_FIELD, .meaning = meaning_},
#define OBJECTS(name_, object_, flags_, min_, max_, fallback_, meaning_)                          \
    {.name = #name_, .type = FIELD_NESTEDS, .flags = flags_, .min = min_, .max = max_,             \
     .object = &type_##object_, .fallback = fallback_, .outcome = ERR_INVALID_FIELD,               \
     .meaning = meaning_},
#define MEMBERS(name_, object_, key_, max_, outcome_, meaning_)                                   \
    {.name = #name_, .type = FIELD_NESTEDS, .flags = FIELD_LISTED | FIELD_KEEP_EMPTY, .max = max_, \
     .key = #key_, .object = &type_##object_, .fallback = "[]", .outcome = outcome_,               \
     .meaning = meaning_},
#define REF(name_, write_name_, flags_, kinds_, fallback_, outcome_, meaning_)                    \
    {.name = #name_, .write_name = #write_name_, .type = FIELD_REFERENCE, .flags = flags_,         \
     .max = ID_LEN_MAX, .kinds = kinds_, .fallback = fallback_, .outcome = outcome_,               \
     .meaning = meaning_},
#define REFS(name_, write_name_, flags_, min_, max_, kinds_, outcome_, meaning_)                  \
    {.name = #name_, .write_name = #write_name_, .type = FIELD_REFERENCES, .flags = flags_,        \
     .min = min_, .max = max_, .kinds = kinds_, .fallback = "[]", .outcome = outcome_,             \
     .meaning = meaning_},
#define IDS(name_, flags_, min_, max_, kinds_, outcome_, meaning_)                                \
    {.name = #name_, .type = FIELD_REFERENCES, .flags = (flags_) | FIELD_PLAIN, .min = min_,       \
     .max = max_, .kinds = kinds_, .fallback = "[]", .outcome = outcome_, .meaning = meaning_},
#define ID(name_, flags_, kinds_, outcome_, meaning_)                                             \
    {.name = #name_, .type = FIELD_REFERENCE, .flags = (flags_) | FIELD_PLAIN, .max = ID_LEN_MAX,  \
     .kinds = kinds_, .outcome = outcome_, .meaning = meaning_},
#define WEIGHTS(name_, flags_, max_, highest_, kinds_, outcome_, meaning_)                        \
    {.name = #name_, .type = FIELD_WEIGHT_MAP, .flags = flags_, .max = max_, .highest = highest_,  \
     .kinds = kinds_, .fallback = "{}", .outcome = outcome_, .meaning = meaning_},
#define KINDS(name_, kind_, meaning_)                                                             \
    {.name = #name_, .type = FIELD_CHILDREN, .flags = FIELD_READ_ONLY | FIELD_COMPUTED,            \
     .kinds = #kind_, .outcome = ERR_INVALID_FIELD, .meaning = meaning_},
#define LAST {.name = NULL}
/* clang-format on */

#define BEGIN(type_name)                                                                           \
    static const field_t fields_of_##type_name[];                                                  \
    const object_type_t type_##type_name = {#type_name, fields_of_##type_name};                    \
    static const field_t fields_of_##type_name[] = {
#define END                                                                                        \
    LAST                                                                                           \
    }                                                                                              \
    ;
#include "proto/types.def"

/* clang-format off */
#define KIND(name, ...) static const field_t fields_of_##name[] = {
#define KIND_END LAST };
#include "proto/kinds.def"
/* clang-format on */

#undef FIELD
#undef OBJECT
#undef OBJECTS
#undef MEMBERS
#undef REF
#undef REFS
#undef IDS
#undef ID
#undef WEIGHTS
#undef KINDS

static const kind_t kinds[] = {
#define KIND(name, prefix, service, audit, list_key, path, parent_key, operations)                 \
    {#name,      prefix,     service,                                                              \
     audit,      list_key,   path,                                                                 \
     parent_key, operations, {#name, fields_of_##name}},
#include "proto/kinds.def"
    {NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, {NULL, NULL}},
};

static const kind_command_t commands[] = {
#define COMMAND(kind, name, meaning) {#kind, #name, meaning},
#include "proto/kinds.def"
    {NULL, NULL, NULL},
};

static const kind_list_t lists[] = {
#define LIST_OF(kind, head, tail, key) {#kind, head, tail, #key},
#include "proto/kinds.def"
    {NULL, NULL, NULL, NULL},
};

static const kind_alias_t aliases[] = {
#define ALIAS(kind, word, field) {#kind, #word, #field},
#include "proto/kinds.def"
    {NULL, NULL, NULL},
};

static const struct {
    const char *kind;
    int outcome;
} wrong_parents[] = {
#define WRONG_PARENT(kind, outcome) {#kind, outcome},
#include "proto/kinds.def"
    {NULL, ERR_NOT_FOUND},
};

static const kind_unique_t uniques[] = {
#define UNIQUE(constraint, outcome, field, text) {#constraint, outcome, field, text},
#include "proto/kinds.def"
    {NULL, 0, NULL, NULL},
};
#include "common/schema/words_end.h"

const kind_command_t *kind_commands(void)
{
    return commands;
}

const kind_list_t *kind_lists(void)
{
    return lists;
}

const kind_alias_t *kind_aliases(void)
{
    return aliases;
}

int kind_wrong_parent(const kind_t *kind)
{
    size_t i = 0;

    while (wrong_parents[i].kind && strcmp(wrong_parents[i].kind, kind->name))
        i++;
    return wrong_parents[i].outcome;
}

const kind_unique_t *kind_unique(const char *constraint)
{
    for (const kind_unique_t *row = uniques; row->constraint; row++)
        if (!strcmp(row->constraint, constraint))
            return row;
    return NULL;
}

const kind_t *kind_all(void)
{
    return kinds;
}

const kind_t *kind_find(const char *name)
{
    for (const kind_t *kind = kinds; kind->name; kind++)
        if (!strcmp(kind->name, name))
            return kind;
    return NULL;
}

const kind_t *kind_of_id(const char *id)
{
    for (const kind_t *kind = kinds; kind->name; kind++)
        if (id_check(kind->prefix, id))
            return kind;
    return NULL;
}

const field_t *kind_owner(const kind_t *kind)
{
    const field_t *field = kind->type.fields;

    while (field->name && !(field->flags & FIELD_OWNER))
        field++;
    return field->name ? field : NULL;
}

const kind_t *kind_parent(const kind_t *kind)
{
    for (const kind_t *parent = kinds; parent->name; parent++)
        for (const field_t *field = parent->type.fields; field->name; field++)
            if (field->type == FIELD_CHILDREN && !strcmp(field->kinds, kind->name))
                return parent;
    return NULL;
}

const field_t *kind_module(const kind_t *kind, const char *name)
{
    const field_t *field = field_find(&kind->type, name);

    return field && field->flags & FIELD_MODULE ? field : NULL;
}

const field_t *kind_query(const kind_t *kind, const char *name)
{
    for (const field_t *field = kind->type.fields; field->name; field++) {
        size_t len = strlen(field->name);

        if (field->flags & FIELD_QUERY && !strncmp(field->name, name, len)
            && (!name[len] || !strcmp(name + len, "s")))
            return field;
    }
    return NULL;
}

const field_t *kind_detachable(const kind_t *kind, const char *name)
{
    const field_t *field = kind->type.fields;

    while (field->name && !(field->flags & FIELD_DETACH && !strcmp(field->name, name)))
        field++;
    return field->name ? field : NULL;
}

bool kind_command(const kind_t *kind, const char *name)
{
    for (const kind_command_t *row = commands; row->kind; row++)
        if (!strcmp(row->kind, kind->name) && !strcmp(row->name, name))
            return true;
    return false;
}

const field_t *kind_members(const kind_t *kind, const char *name)
{
    const field_t *field = field_find(&kind->type, name);

    return field && field->flags & FIELD_LISTED ? field : NULL;
}

const char *field_key(const field_t *field)
{
    return field->write_name ? field->write_name : field->name;
}

const char *field_choices(const field_t *field)
{
    return field->allowed && *field->allowed != '@' ? field->allowed : NULL;
}

const char *field_format(const field_t *field)
{
    return field->allowed && *field->allowed == '@' ? field->allowed + 1 : NULL;
}

const field_t *field_find(const object_type_t *type, const char *name)
{
    for (const field_t *field = type->fields; field->name; field++)
        if (!strcmp(field_key(field), name))
            return field;
    return NULL;
}

bool schema_in_list(const char *list, const char *text)
{
    size_t n = strlen(text);

    for (const char *at = list; at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL)
        if (!strncmp(at, text, n) && (at[n] == '|' || !at[n]))
            return true;
    return false;
}
