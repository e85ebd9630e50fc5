#include "common/resource/kind_rules.h"
#include "common/base/invariant.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Bounds of the section that KIND_RULES fills: symbols made by the linker, NULL without such a
 * section. */
extern const kind_rules_t *const __start_kind_rules[] __attribute__((weak));
extern const kind_rules_t *const __stop_kind_rules[] __attribute__((weak));

const kind_rules_t *kind_rules_find(const kind_t *kind)
{
    for (const kind_rules_t *const *row = __start_kind_rules; row < __stop_kind_rules; row++)
        if (!strcmp((*row)->kind, kind->name))
            return *row;
    INVARIANT(!(kind->operations & KIND_HAS_RULES));
    return NULL;
}

static int refuse(const char *kind, const char *why)
{
    char text[200];

    snprintf(text, sizeof(text), "rules of kind %s: %s", kind, why);
    return fault(-EINVAL, text);
}

static bool has_commands(const kind_t *kind)
{
    const kind_command_t *row = kind_commands();

    while (row->kind && strcmp(row->kind, kind->name))
        row++;
    return row->kind;
}

static int check_row(const char *service, const kind_rules_t *row)
{
    const kind_t *kind = kind_find(row->kind);

    if (!kind)
        return refuse(row->kind, "there is no such kind");
    if (strcmp(kind->service, service))
        return refuse(row->kind, "the kind is of another service");
    if (!(kind->operations & KIND_HAS_RULES))
        return refuse(row->kind, "the kind's row does not say HAS_RULES");
    if (!row->check && !row->created && !row->publish && !row->keep && !row->retire && !row->gone
        && !row->named && !row->command && !row->lock_first)
        return refuse(row->kind, "there are none in them");
    if (!row->command && has_commands(kind))
        return refuse(row->kind, "none carries out the kind's commands");
    return 0;
}

int kind_rules_check(const char *service, const kind_rules_t *const *rows, size_t count)
{
    int r = 0;

    for (size_t i = 0; !r && i < count; i++)
        r = check_row(service, rows[i]);
    for (const kind_t *kind = kind_all(); !r && kind->name; kind++) {
        size_t has = 0;

        for (size_t i = 0; i < count; i++)
            has += !strcmp(rows[i]->kind, kind->name);
        if (has > 1)
            r = refuse(kind->name, "they are given twice");
        else if (!has && kind->operations & KIND_HAS_RULES && !strcmp(kind->service, service))
            r = refuse(kind->name, "they are not in this program");
        else if (!has && has_commands(kind) && !strcmp(kind->service, service))
            r = refuse(kind->name, "none carries out the kind's commands");
    }
    return r;
}

int kind_rules_check_own(const char *service)
{
    return kind_rules_check(service, __start_kind_rules,
                            (size_t)(__stop_kind_rules - __start_kind_rules));
}
