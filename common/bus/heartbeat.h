/* Heartbeats: when a connection of the bus counts as dead. A path may break silently: a firewall
 * drops the flow, an address moves, a machine loses power. TCP takes a quarter of an hour to
 * notice, and never does while something still acknowledges the bytes. So both ends send heartbeats
 * (PING), and the end that connected reconnects. Used by the services (bus.c) and the edge
 * (edge_socket.c).
 *
 * But libzmq (4.3.4 and 4.3.5) aborts the process if it sends heartbeats on a connection that it
 * has stopped reading because of the receive high-water mark: when the connection ends
 * ("!_io_error"), or is made anew ("_input_stopped", its issues 3937 and 4767). So a socket has a
 * receive mark or sends heartbeats, never both. Services that receive from many peers have a mark:
 * they close a connection whose peer stops sending heartbeats (ZMQ_HEARTBEAT_TTL), or TCP's
 * keep-alive does. The connecting end receives only what it asked for, and has no mark. */
#pragma once

enum {
    HEARTBEAT_MS = 1000,
    HEARTBEAT_SILENCE_MS = 3000, /* nothing received: the connection is closed */
    HEARTBEAT_UNSENT_MS = 5000,  /* TCP: sent data is not acknowledged (TCP_USER_TIMEOUT) */
    /* TCP: timeout of connect; the kernel alone would retry for two minutes, at growing
     * intervals */
    HEARTBEAT_CONNECT_MS = 3000,
    /* connected, but the handshake is not complete: long, because a loaded peer is slow; the
     * listening end waits less (bus.c) */
    HEARTBEAT_HANDSHAKE_MS = 10000,
    HEARTBEAT_KEEPALIVE_S = 5, /* TCP: interval of keep-alive probes */
    HEARTBEAT_KEEPALIVE_TRIES = 3
};
