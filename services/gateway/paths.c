#include "services/gateway/paths.h"

#include <stdio.h>
#include <string.h>

enum { NOWHERE, COLLECTION, ONE, PART };

/* Match one segment after another; {name} takes any one segment, kept in parent. */
static int match_pattern(const kind_t *kind, const char *path, target_t *target)
{
    const char *pattern = kind->path;
    size_t len;

    target->parent[0] = target->id[0] = target->module[0] = '\0';
    while (*pattern) {
        size_t want, got;

        if (*pattern++ != '/' || *path++ != '/')
            return NOWHERE;
        want = strcspn(pattern, "/");
        got = strcspn(path, "/");
        if (got == 0 || got >= sizeof(target->parent))
            return NOWHERE;
        if (*pattern == '{')
            snprintf(target->parent, sizeof(target->parent), "%.*s", (int)got, path);
        else if (want != got || strncmp(pattern, path, got))
            return NOWHERE;
        pattern += want;
        path += got;
    }
    if (!*path)
        return COLLECTION;
    if (*path++ != '/')
        return NOWHERE;
    len = strcspn(path, "/");
    if (len == 0 || len >= sizeof(target->id))
        return NOWHERE;
    snprintf(target->id, sizeof(target->id), "%.*s", (int)len, path);
    path += len;
    if (!*path)
        return ONE;
    if (!kind_module(kind, path + 1))
        return NOWHERE;
    snprintf(target->module, sizeof(target->module), "%s", path + 1);
    return PART;
}

void path_match(const char *method, const char *path, target_t *ret_target)
{
    static const struct {
        int where;
        const char *method, *verb;
        unsigned operation, needs; /* needs: of the kind */
    } rows[] = {
        {COLLECTION, "POST", "create", CREATE, CREATE},
        {COLLECTION, "GET", "list", LIST, LIST},
        {ONE, "GET", "get", GET, GET},
        {ONE, "PATCH", "update", UPDATE, UPDATE},
        {ONE, "DELETE", "delete", DELETE, DELETE},
        {PART, "PUT", "replace_module", REPLACE_MODULE, UPDATE},
        {PART, "GET", "get_module", GET_MODULE, GET},
        {PART, "DELETE", "delete_module", DELETE_MODULE, UPDATE},
    };

    memset(ret_target, 0, sizeof(*ret_target));
    for (const kind_t *kind = kind_all(); kind->name; kind++) {
        int where = match_pattern(kind, path, ret_target);

        if (!where)
            continue;
        ret_target->kind = kind;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
            size_t n = strlen(ret_target->allow);

            if (rows[i].where != where || !(kind->operations & rows[i].needs))
                continue;
            snprintf(ret_target->allow + n, sizeof(ret_target->allow) - n, "%s%s", n ? ", " : "",
                     rows[i].method);
            if (!strcmp(rows[i].method, method)) {
                ret_target->operation = rows[i].operation;
                ret_target->verb = rows[i].verb;
            }
        }
        return;
    }
}
