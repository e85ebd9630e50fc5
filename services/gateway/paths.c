#include "services/gateway/paths.h"

#include <stdio.h>
#include <string.h>

enum { NOWHERE, COLLECTION, ONE, PART, DETACHABLE, MEMBERS, MEMBER, COMMANDS };

/* Match what stands behind the object's id: a module, a command, a list of members, or one member.
 * 0 | ERR_UNKNOWN_PATH. */
static int match_part(const kind_t *kind, const char *path, target_t *target)
{
    size_t len = strcspn(path, "/");

    if (len >= sizeof(target->module))
        return NOWHERE;
    snprintf(target->module, sizeof(target->module), "%.*s", (int)len, path);
    path += len;
    if (kind_module(kind, target->module) && !*path)
        return PART;
    if (kind_detachable(kind, target->module) && !*path)
        return DETACHABLE;
    if (kind_command(kind, target->module) && !*path)
        return COMMANDS;
    if (!kind_members(kind, target->module))
        return NOWHERE;
    if (!*path)
        return MEMBERS;
    if (!path[1] || strchr(path + 1, '/') || strlen(path + 1) >= sizeof(target->member))
        return NOWHERE;
    snprintf(target->member, sizeof(target->member), "%s", path + 1);
    return MEMBER;
}

/* Match a collection path segment by segment; {name} takes any one segment, which is kept in
 * parent. */
static int match_pattern(const kind_t *kind, const char *path, target_t *target)
{
    const char *pattern = kind->path;
    size_t len;

    target->parent[0] = target->id[0] = target->module[0] = target->member[0] = '\0';
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
        snprintf(target->allow, sizeof(target->allow), "GET");
        target->kind = kind_find(row->kind);
        target->parent_key = row->key;
        target->verb = "list";
        target->operation = strcmp(method, "GET") ? 0 : OPERATION_LIST;
        return true;
    }
    return false;
}

void path_match(const char *method, const char *path, target_t *ret_target)
{
    static const struct {
        int where;
        const char *method, *verb;
        unsigned operation, needs; /* needs: the operation that the kind must have */
    } rows[] = {
        {COLLECTION, "POST", "create", OPERATION_CREATE, OPERATION_CREATE},
        {COLLECTION, "GET", "list", OPERATION_LIST, OPERATION_LIST},
        {ONE, "GET", "get", OPERATION_GET, OPERATION_GET},
        {ONE, "PATCH", "update", OPERATION_UPDATE, OPERATION_UPDATE},
        {ONE, "DELETE", "delete", OPERATION_DELETE, OPERATION_DELETE},
        {PART, "PUT", "replace_module", OPERATION_REPLACE_MODULE, OPERATION_UPDATE},
        {PART, "GET", "get_module", OPERATION_GET_MODULE, OPERATION_GET},
        {PART, "DELETE", "delete_module", OPERATION_DELETE_MODULE, OPERATION_UPDATE},
        {DETACHABLE, "DELETE", "delete_module", OPERATION_DELETE_MODULE, OPERATION_UPDATE},
        {COMMANDS, "POST", "command", OPERATION_COMMAND, OPERATION_GET},
        {MEMBERS, "POST", "create_member", OPERATION_CREATE_MEMBER, OPERATION_UPDATE},
        {MEMBERS, "GET", "list_members", OPERATION_LIST_MEMBERS, OPERATION_GET},
        {MEMBER, "GET", "get_member", OPERATION_GET_MEMBER, OPERATION_GET},
        {MEMBER, "PATCH", "update_member", OPERATION_UPDATE_MEMBER, OPERATION_UPDATE},
        {MEMBER, "DELETE", "delete_member", OPERATION_DELETE_MEMBER, OPERATION_UPDATE},
    };

    memset(ret_target, 0, sizeof(*ret_target));
    if (match_list(method, path, ret_target))
        return;
    for (const kind_t *kind = kind_all(); kind->name; kind++) {
        int where = match_pattern(kind, path, ret_target);

        if (!where)
            continue;
        ret_target->kind = kind;
        ret_target->parent_key = kind->parent_key;
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
