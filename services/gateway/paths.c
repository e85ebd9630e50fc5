#include "services/gateway/paths.h"

#include <stdio.h>
#include <string.h>

/* Match what stands behind the object's id: a module, a command, a list of members, or one
 * member. */
static operation_place_t match_part(const kind_t *kind, const char *path, target_t *target)
{
    size_t len = strcspn(path, "/");

    if (len >= sizeof(target->part))
        return PLACE_NOWHERE;
    snprintf(target->part, sizeof(target->part), "%.*s", (int)len, path);
    path += len;
    if (kind_module(kind, target->part) && !*path)
        return PLACE_MODULE;
    if (kind_detachable(kind, target->part) && !*path)
        return PLACE_DETACHABLE;
    if (kind_command(kind, target->part) && !*path)
        return PLACE_COMMAND;
    if (!kind_members(kind, target->part))
        return PLACE_NOWHERE;
    if (!*path)
        return PLACE_MEMBERS;
    if (!path[1] || strchr(path + 1, '/') || strlen(path + 1) >= sizeof(target->member))
        return PLACE_NOWHERE;
    snprintf(target->member, sizeof(target->member), "%s", path + 1);
    return PLACE_MEMBER;
}

/* Match a collection path segment by segment; {name} takes any one segment, which is kept in
 * parent. */
static operation_place_t match_pattern(const kind_t *kind, const char *path, target_t *target)
{
    const char *pattern = kind->path;
    size_t len;

    target->parent[0] = target->id[0] = target->part[0] = target->member[0] = '\0';
    while (*pattern) {
        size_t want, got;

        if (*pattern++ != '/' || *path++ != '/')
            return PLACE_NOWHERE;
        want = strcspn(pattern, "/");
        got = strcspn(path, "/");
        if (got == 0 || got >= sizeof(target->parent))
            return PLACE_NOWHERE;
        if (*pattern == '{')
            snprintf(target->parent, sizeof(target->parent), "%.*s", (int)got, path);
        else if (want != got || strncmp(pattern, path, got))
            return PLACE_NOWHERE;
        pattern += want;
        path += got;
    }
    if (!*path)
        return PLACE_COLLECTION;
    if (*path++ != '/')
        return PLACE_NOWHERE;
    len = strcspn(path, "/");
    if (len == 0 || len >= sizeof(target->id))
        return PLACE_NOWHERE;
    snprintf(target->id, sizeof(target->id), "%.*s", (int)len, path);
    path += len;
    if (!*path)
        return PLACE_OBJECT;
    return match_part(kind, path + 1, target);
}

const char *path_left_out(const char *path)
{
    static const struct {
        const char *path, *reason;
    } rows[] = {
#define LEFT_OUT(path, reason) {path, reason},
#include "proto/left_out.def"
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t n = strlen(rows[i].path), len = strlen(path);

        if (rows[i].path[0] == '*') {
            if (len >= n && !strcmp(path + len - (n - 1), rows[i].path + 1))
                return rows[i].reason;
            continue;
        }
        if (rows[i].path[n - 1] == '*') {
            if (!strncmp(rows[i].path, path, n - 1))
                return rows[i].reason;
            continue;
        }
        if (!strncmp(rows[i].path, path, n) && (!path[n] || path[n] == '/'))
            return rows[i].reason;
    }
    return NULL;
}

/* The path has this operation: add its method to Allow, and choose it if its method is the
 * request's. */
static void allow(target_t *target, const operation_t *operation, const char *method)
{
    size_t n = strlen(target->allow);

    snprintf(target->allow + n, sizeof(target->allow) - n, "%s%s", n ? ", " : "",
             operation->method);
    if (!strcmp(operation->method, method))
        target->operation = operation;
}

/* A list of a kind below another object. */
static bool match_list(const char *method, const char *path, target_t *target)
{
    for (const kind_list_t *row = kind_lists(); row->kind; row++) {
        const char *id = path + strlen(row->head);
        size_t len;

        if (strncmp(path, row->head, strlen(row->head)))
            continue;
        len = strcspn(id, "/");
        if (!len || len >= sizeof(target->parent) || strcmp(id + len, row->tail))
            continue;
        snprintf(target->parent, sizeof(target->parent), "%.*s", (int)len, id);
        target->kind = kind_find(row->kind);
        target->parent_key = row->key;
        allow(target, operation_row(OPERATION_LIST), method);
        return true;
    }
    return false;
}

void path_match(const char *method, const char *path, target_t *ret_target)
{
    memset(ret_target, 0, sizeof(*ret_target));
    if (match_list(method, path, ret_target))
        return;
    for (const kind_t *kind = kind_all(); kind->name; kind++) {
        operation_place_t place = match_pattern(kind, path, ret_target);

        if (!place)
            continue;
        ret_target->kind = kind;
        ret_target->parent_key = kind->parent_key;
        for (const operation_t *row = operation_all(); row->name; row++)
            if (row->places & place && kind->operations & row->needs)
                allow(ret_target, row, method);
        return;
    }
}
