#include "common/resource/columns.h"
#include "common/base/cleanup.h"
#include "common/base/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

bool columns_has(const field_t *field)
{
    return field->type != FIELD_NONE && !(field->flags & (FIELD_COMPUTED | FIELD_INPUT));
}

static int check_column(pg_t *pg, const kind_t *kind, const field_t *field)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    char text[300];
    int r;

    r = pg_exec(pg, &res,
                "SELECT FROM pg_attribute WHERE attrelid = to_regclass(quote_ident($1)) "
                "AND attname = $2 AND attnum > 0 AND NOT attisdropped",
                2, kind->name, field_key(field));
    if (r || PQntuples(res) == 1)
        return r;
    snprintf(text, sizeof(text),
             "kind %s: field %s is stored, and its table has no such column: is a migration "
             "missing?",
             kind->name, field->name);
    return fault(-EINVAL, text);
}

static int check_function(pg_t *pg, const kind_t *kind, const field_t *field)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    char text[300];
    int r;

    snprintf(text, sizeof(text), "%s_%s(%s)", kind->name, field->name, kind->name);
    r = pg_exec(pg, &res, "SELECT to_regprocedure($1) IS NOT NULL", 1, text);
    if (r || *PQgetvalue(res, 0, 0) == 't')
        return r;
    snprintf(
        text, sizeof(text),
        "kind %s: field %s is derived, and there is no function %s_%s: is a migration missing?",
        kind->name, field->name, kind->name, field->name);
    return fault(-EINVAL, text);
}

int columns_check(pg_t *pg, const char *service)
{
    int r = 0;

    for (const kind_t *kind = kind_all(); !r && kind->name; kind++)
        for (const field_t *field = kind->type.fields;
             !r && !strcmp(kind->service, service) && field->name; field++)
            if (columns_has(field))
                r = check_column(pg, kind, field);
            else if (field->flags & FIELD_DERIVED)
                r = check_function(pg, kind, field);
    return r;
}
