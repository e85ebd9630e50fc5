/* Who is at the other end: every socket of the bus has CURVE, and the key that a peer showed
 * says its role (proto/roles.def) and its name. One ZAP handler for each process looks the key
 * up in DIR/peers, where what is called ROLE.cert or ROLE@NAME.cert is the public key of such a
 * peer, and lets it in where proto/sockets.def has its role. What a message says of its sender
 * counts for nothing. */
#pragma once

#include "common/schema/role.h"

#include <czmq.h>

typedef struct peer {
    roles_t role;     /* ROLE_NOBODY: not known, and nothing is to be done for it */
    const char *id;   /* role or role@name: borrowed from the frame */
    const char *name; /* of the key: what is behind the @, else that of the role */
} peer_t;

/* Start the handler, once; dir is that of this process's keys. 0 | fault. */
int peer_start(const char *dir);

/* Before CZMQ ends; the exit of the process does it. */
void peer_stop(void);

/* Who sent this frame, which came from a socket that was bound with keys (common/bus/bus.h). It
 * is one of the message's own: the identity that a ROUTER puts before them has the property only
 * where it was not waited for (libzmq 4.3.4). */
peer_t peer_of(zframe_t *frame);

/* The number of the connection that this frame came over, which no other of the process has;
 * NULL: libzmq says it itself, of nobody. Borrowed from the frame. */
const char *peer_connection(zframe_t *frame);

/* Count a refusal, and log it once a minute for each peer and reason. From any thread. */
void peer_refused(socket_id_t socket, const char *who, const char *what);

/* postern_bus_refused_total for each socket of the service. Returns bytes written. */
size_t peer_metrics(const char *service, char *out, size_t size);
