/* When a connection of the bus counts as dead. A path may end without a word: a firewall forgets the flow, an address moves, a
 * machine loses power. TCP takes a quarter of an hour to notice, and never does where something still takes the bytes. So each
 * end asks, and who connected tries again. The same for the services (bus.c) and the edge (edge_helper.c). */
#pragma once

enum {
    HEARTBEAT_MS = 1000,
    HEARTBEAT_SILENCE_MS = 3000, /* nothing at all came: the connection is closed */
    HEARTBEAT_UNSENT_MS = 5000,  /* TCP: what was sent is not acknowledged */
    HEARTBEAT_CONNECT_MS =
        3000, /* TCP: nobody answers; the kernel would try for two minutes, ever more seldom */
    HEARTBEAT_HANDSHAKE_MS =
        10000 /* connected, and no greeting or no key: longer, a loaded peer needs a while */
};
