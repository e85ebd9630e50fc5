#include "services/gateway/paths.h"

#include <stdio.h>
#include <string.h>

/* Match one segment after another; {name} takes any one segment, kept in parent. 1: the collection,
 * 2: one object of it, 0: neither. */
static int match_pattern(const char *pattern, const char *path, target_t *target)
{
    target->parent[0] = target->id[0] = '\0';
    while (*pattern) {
        size_t want, got;

        if (*pattern++ != '/' || *path++ != '/')
            return 0;
        want = strcspn(pattern, "/");
        got = strcspn(path, "/");
        if (got == 0 || got >= sizeof(target->parent))
            return 0;
        if (*pattern == '{')
            snprintf(target->parent, sizeof(target->parent), "%.*s", (int)got, path);
        else if (want != got || strncmp(pattern, path, got))
            return 0;
        pattern += want;
        path += got;
    }
    if (!*path)
        return 1;
    if (*path != '/' || !path[1] || strchr(path + 1, '/') || strlen(path + 1) >= sizeof(target->id))
        return 0;
    snprintf(target->id, sizeof(target->id), "%s", path + 1);
    return 2;
}

void path_match(const char *method, const char *path, target_t *ret_target)
{
    static const struct {
        int where;
        const char *method, *verb;
        unsigned operation;
    } rows[] = {
        {1, "POST", "create", CREATE},  {1, "GET", "list", LIST},        {2, "GET", "get", GET},
        {2, "PATCH", "update", UPDATE}, {2, "DELETE", "delete", DELETE},
    };

    memset(ret_target, 0, sizeof(*ret_target));
    for (const kind_t *kind = kind_all(); kind->name; kind++) {
        int where = match_pattern(kind->path, path, ret_target);

        if (!where)
            continue;
        ret_target->kind = kind;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
            size_t n = strlen(ret_target->allow);

            if (rows[i].where != where || !(kind->operations & rows[i].operation))
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
