/* Authentication of peers: every socket of the bus uses CURVE, and a peer's public key determines
 * its role (proto/roles.def) and name. One ZAP handler per process looks the key up in DIR/peers,
 * whose files ROLE.cert and ROLE@NAME.cert hold the known public keys, and accepts the peer if
 * proto/sockets.def allows its role on the socket. A sender named inside a message is never
 * trusted. */
#pragma once

#include "common/schema/role.h"

#include <czmq.h>

typedef struct peer {
    roles_t role;     /* ROLE_NOBODY: unknown; refuse every request */
    const char *id;   /* role or role@name; borrowed from the frame */
    const char *name; /* the part after the @, else the role's name */
} peer_t;

/* Start the handler, once; dir is that of this process's keys. 0 | fault. */
int peer_start(const char *dir);

/* Stop the handler. Only tests need it: otherwise the exit of the process does. */
void peer_stop(void);

/* The sender of this frame, received from a socket that was bound with keys (common/bus/bus.h).
 * Pass a frame of the message itself, not the identity that a ROUTER puts before it: that one does
 * not always have the property (libzmq 4.3.4). */
peer_t peer_of(zframe_t *frame);

/* The number of the connection that this frame came over, unique in this process. Borrowed from the
 * frame. NULL: libzmq made the message itself, for example when a connection ended. */
const char *peer_connection(zframe_t *frame);

/* Count a refusal, and log it once a minute for each peer and reason. From any thread. */
void peer_refused(socket_id_t socket, const char *who, const char *what);

/* postern_bus_refused_total for each socket of the service. Returns bytes written. */
size_t peer_metrics(const char *service, char *out, size_t size);
