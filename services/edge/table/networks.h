/* Sets of networks, each allowed or denied, and what all of those that contain an address say of
 * it: a path-compressed binary tree for each family, so that an address costs one walk of at most
 * as many steps as its bits, and a change of one network no more, whatever the number of networks.
 * There are fewer than two nodes a network. Memory is the table's (slab.h). No nginx in here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

typedef struct network_node network_node_t;

/* A network, or an address as the network of all its bits. IPv4-mapped IPv6 (RFC 4291 2.5.5.2) is
 * IPv4. */
typedef struct network {
    uint64_t high, low; /* its bits, from the highest on; of IPv4 the first 32; zero behind them */
    uint8_t bits;       /* 0 to 32, or 0 to 128 */
    bool v6;
} network_t;

enum { NETWORKS_ALLOW = 1, NETWORKS_DENY = 2 };

/* All zero: empty. */
typedef struct networks {
    network_node_t *roots[2]; /* IPv4, IPv6 */
} networks_t;

/* Read "192.0.2.0/24" or "2001:db8::/32": an address without zone, a slash, how many bits, and
 * none set behind them. One that lies in ::ffff:0:0/96 becomes the IPv4 network that it stands for;
 * one that contains that, like ::/0, stays one of IPv6 addresses alone. False: it is no network. */
bool network_parse(const char *text, network_t *ret_network);

/* The address of a connection. False: it has none. */
bool network_of(const struct sockaddr *address, network_t *ret_network);

/* Add the network as allowed or denied; it may be there already, as either, and counts again.
 * Remove takes it back once, with the arguments that it was added with. */
void networks_add(networks_t *self, const network_t *network, bool deny);
void networks_remove(networks_t *self, const network_t *network, bool deny);

/* Which of NETWORKS_ALLOW and NETWORKS_DENY the networks say that contain the address; 0: none
 * does. Beside NETWORKS_DENY the other means nothing. */
unsigned networks_find(const networks_t *self, const network_t *address);

/* Is there none? Then it holds no memory. */
bool networks_is_empty(const networks_t *self);
