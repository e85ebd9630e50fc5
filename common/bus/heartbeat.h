/* When a connection of the bus counts as dead. A path may end without a word: a firewall forgets
 * the flow, an address moves, a machine loses power. TCP takes a quarter of an hour to notice,
 * and never does where something still takes the bytes. So each end asks, and who connected
 * tries again. The same for the services (bus.c) and the edge (edge_helper.c).
 *
 * But libzmq (4.3.4 and 4.3.5) aborts the process where it asks on a connection that it has
 * stopped to read because of the receive mark: when that ends ("!_io_error"), or is made anew
 * ("_input_stopped", its issues 3937 and 4767). So a socket has a receive mark or asks, never
 * both. Services that take from many have a mark: they end a connection whose peer has asked
 * before and does not any more (ZMQ_HEARTBEAT_TTL), or with TCP's own means. Who connects takes
 * what it asked for, and has none. */
#pragma once

enum {
    HEARTBEAT_MS = 1000,
    HEARTBEAT_SILENCE_MS = 3000, /* nothing at all came: the connection is closed */
    HEARTBEAT_UNSENT_MS = 5000,  /* TCP: what was sent is not acknowledged */
    /* TCP: nobody answers; the kernel would try for two minutes, ever more seldom */
    HEARTBEAT_CONNECT_MS = 3000,
    /* connected, and no greeting or no key: longer, a loaded peer needs a while; who listens
     * waits less (bus.c) */
    HEARTBEAT_HANDSHAKE_MS = 10000,
    HEARTBEAT_KEEPALIVE_S = 5, /* TCP: the machine at the other end is asked so often */
    HEARTBEAT_KEEPALIVE_TRIES = 3
};
