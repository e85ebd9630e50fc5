/* Permissions on the bus: proto/roles.def, proto/sockets.def and the roles of proto/verbs.def.
 * Tables only; common/bus/peer.h identifies peers. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum {
#define ROLE(id, name, about) ROLE_AT_##id,
#include "proto/roles.def"
    ROLES
};

/* A set of roles, one bit each. */
typedef unsigned roles_t;

enum {
#define ROLE(id, name, about) ROLE_##id = 1u << ROLE_AT_##id,
#include "proto/roles.def"
    ROLE_NOBODY = 0
};

typedef enum socket_id {
#define SOCKET(id, service, name, who, about) SOCKET_##id,
#define PRODUCER(role, family, name)
#define OPEN(name, method, about)
#include "proto/sockets.def"
    SOCKETS
} socket_id_t;

typedef struct socket_row {
    roles_t owner;    /* the service that binds it */
    const char *name; /* with the service's name it forms the ZAP domain: socket_domain() */
    roles_t who;      /* may connect */
} socket_row_t;

/* The name of one role; NULL when it is not exactly one. */
const char *role_name(roles_t role);

/* The role whose name is text, of so many bytes; ROLE_NOBODY when there is none. */
roles_t role_find(const char *text, size_t len);

/* Is text, of so many bytes, what a key may be called: role, or role@name with up to 63 letters,
 * digits, dots, dashes, underscores? *ret_role is set only then. */
bool peer_name_check(const char *text, size_t len, roles_t *ret_role);

/* The row of a socket. */
socket_row_t socket_row(socket_id_t id);

/* "service.name" of the socket. Returns out. */
char *socket_domain(socket_id_t id, char *out, size_t size);

/* The socket of that domain; SOCKETS: there is none. */
socket_id_t socket_find(const char *domain);

/* May a peer of either role connect to a socket of the other one? Then they need each other's
 * public keys. */
bool roles_meet(roles_t one, roles_t other);

/* Who may call a verb of the service. False: there is no such verb. */
bool verb_roles(const char *service, const char *verb, roles_t *ret_roles);

enum { VERB_BYTES = 8 << 10 };
/* Bytes of a request of the verb from a peer without documents, at most; VERB_BYTES for what is no
 * verb of the service's own. */
size_t verb_bytes(const char *service, const char *verb);

/* May a peer of the role call operations of a kind at the service? Only then may its requests be
 * large. */
bool role_has_documents(const char *service, roles_t role);

/* Who may hold a lease of the service. */
roles_t lease_roles(const char *service);

/* May a peer of the role, whose key is called name, send events of the family as this producer? */
bool role_may_produce(roles_t role, const char *name, const char *family, const char *producer);

/* Longest name of a worker or producer, for buffers of all sides. */
enum { ROLE_OWN_NAME_MAX = 127 };
/* May a key called own speak for name? name is own itself, or own followed by a slash and more, of
 * at most ROLE_OWN_NAME_MAX letters, digits, ".", "_", "-" and "/", so that it can be logged as it
 * is. */
bool peer_name_covers(const char *own, const char *name);
