#include "common/schema/role.h"
#include "common/schema/schema.h"

#include <stdio.h>
#include <string.h>

/* The words of the tables. */
enum {
#define ROLE(id, name, about) id = ROLE_##id,
#include "proto/roles.def"
    NOBODY = ROLE_NOBODY,
    VERBS = 1 << 30,
    PRODUCERS = 1 << 29
};

enum { NAME_MAX_BYTES = 63 };

#define NAME_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

typedef struct verb_row {
    const char *service, *kind, *operation; /* of no kind: NULL and the whole verb */
    roles_t who;
    unsigned most_kib; /* of a request; 0: a kind's */
} verb_row_t;

static const char *const names[] = {
#define ROLE(id, name, about) name,
#include "proto/roles.def"
    NULL,
};

static const verb_row_t verbs[] = {
#define VERB(service, name, handler, who, most, shapes) {#service, NULL, name, who, most},
#define KIND_VERB(service, kind, operation, who)        {service, kind, operation, who, 0},
#include "proto/verbs.def"
    {NULL, NULL, NULL, NOBODY, 0},
};

static const struct {
    const char *service;
    roles_t who;
} leases[] = {
#define VERB(service, name, handler, who, most, shapes)
#define LEASE(service, who) {service, who},
#include "proto/verbs.def"
};

static const socket_row_t sockets[] = {
#define SOCKET(id, service, name, who, about) {service, name, who},
#define PRODUCER(role, family, name)
#define OPEN(name, method, about)
#include "proto/sockets.def"
};

static const struct {
    roles_t role;
    const char *family, *name;
} producers[] = {
#define SOCKET(id, service, name, who, about)
#define PRODUCER(role, family, name) {role, family, name},
#define OPEN(name, method, about)
#include "proto/sockets.def"
};

const char *role_name(roles_t role)
{
    for (int i = 0; i < ROLES; i++)
        if (role == 1u << i)
            return names[i];
    return NULL;
}

roles_t role_find(const char *text, size_t len)
{
    for (int i = 0; i < ROLES; i++)
        if (strlen(names[i]) == len && !memcmp(names[i], text, len))
            return 1u << i;
    return ROLE_NOBODY;
}

bool peer_name_check(const char *text, size_t len, roles_t *ret_role)
{
    const char *at = memchr(text, '@', len);
    size_t role_len = at ? (size_t)(at - text) : len;
    roles_t role = role_find(text, role_len);

    if (!role || (at && (len - role_len < 2 || len - role_len > NAME_MAX_BYTES + 1)))
        return false;
    for (size_t i = role_len + 1; i < len; i++)
        if (!strchr(NAME_CHARACTERS, text[i]) || !text[i])
            return false;
    *ret_role = role;
    return true;
}

bool verb_roles(const char *service, const char *verb, roles_t *ret_roles)
{
    const char *dot = strchr(verb, '.');
    char name[64];
    const kind_t *kind;

    for (const verb_row_t *row = verbs; row->service; row++)
        if (!row->kind && !strcmp(row->service, service) && !strcmp(row->operation, verb)) {
            *ret_roles = row->who;
            return true;
        }
    snprintf(name, sizeof(name), "%.*s", dot ? (int)(dot - verb) : 0, verb);
    kind = dot ? kind_find(name) : NULL;
    if (!kind || strcmp(kind->service, service))
        return false;
    *ret_roles = NOBODY;
    for (const verb_row_t *row = verbs; row->service; row++)
        if (row->kind && !strcmp(row->service, service)
            && (!strcmp(row->kind, "*") || !strcmp(row->kind, name))
            && (!strcmp(row->operation, "*") || !strcmp(row->operation, dot + 1))) {
            *ret_roles = row->who;
            break;
        }
    return true;
}

size_t verb_bytes(const char *service, const char *verb)
{
    for (const verb_row_t *row = verbs; row->service; row++)
        if (!row->kind && !strcmp(row->service, service) && !strcmp(row->operation, verb))
            return (size_t)row->most_kib << 10;
    return VERB_BYTES;
}

bool role_has_documents(const char *service, roles_t role)
{
    for (const verb_row_t *row = verbs; row->service; row++)
        if (row->kind && !strcmp(row->service, service) && row->who & role)
            return true;
    return false;
}

roles_t lease_roles(const char *service)
{
    for (size_t i = 0; i < sizeof(leases) / sizeof(leases[0]); i++)
        if (!strcmp(leases[i].service, service))
            return leases[i].who;
    return NOBODY;
}

/* All roles that may send any request to the service. */
static roles_t roles_of_requests(const char *service)
{
    roles_t all = lease_roles(service);

    for (const verb_row_t *row = verbs; row->service; row++)
        if (!strcmp(row->service, service))
            all |= row->who;
    return all;
}

static roles_t roles_of_producers(void)
{
    roles_t all = ROLE_NOBODY;

    for (size_t i = 0; i < sizeof(producers) / sizeof(producers[0]); i++)
        all |= producers[i].role;
    return all;
}

socket_row_t socket_row(socket_id_t id)
{
    socket_row_t row = sockets[id];

    if (row.who == VERBS)
        row.who = roles_of_requests(role_name(row.owner));
    if (row.who == PRODUCERS)
        row.who = roles_of_producers();
    return row;
}

char *socket_domain(socket_id_t id, char *out, size_t size)
{
    snprintf(out, size, "%s.%s", role_name(sockets[id].owner), sockets[id].name);
    return out;
}

socket_id_t socket_find(const char *domain)
{
    char name[64];
    int id = 0;

    while (id < SOCKETS && strcmp(socket_domain((socket_id_t)id, name, sizeof(name)), domain))
        id++;
    return (socket_id_t)id;
}

bool roles_meet(roles_t one, roles_t other)
{
    for (int id = 0; id < SOCKETS; id++) {
        socket_row_t row = socket_row((socket_id_t)id);

        if ((row.owner == one && row.who & other) || (row.owner == other && row.who & one))
            return true;
    }
    return false;
}

bool peer_name_covers(const char *own, const char *name)
{
    size_t len = strlen(own), all = strnlen(name, ROLE_OWN_NAME_MAX + 1);

    return len > 0 && all <= ROLE_OWN_NAME_MAX && !strncmp(name, own, len)
           && (name[len] == '\0' || name[len] == '/') && strspn(name, NAME_CHARACTERS "/") == all;
}

bool role_may_produce(roles_t role, const char *name, const char *family, const char *producer)
{
    for (size_t i = 0; i < sizeof(producers) / sizeof(producers[0]); i++)
        if (producers[i].role == role && !strcmp(producers[i].family, family)
            && (strcmp(producers[i].name, "%") ? !strcmp(producers[i].name, producer)
                                               : peer_name_covers(name, producer)))
            return true;
    return false;
}
