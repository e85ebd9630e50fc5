/* Which addresses Postern connects to for a tenant's sake. Refused unless a setting allows it:
 * link-local and unspecified addresses, multicast, broadcast, the metadata services of clouds, and
 * Postern's own sockets. No I/O but reading the machine's own addresses: names are resolved by the
 * caller, who asks about the addresses. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* The translators of 64:ff9b:1::/48 (RFC 8215) have the IPv4 address where each network likes, and
 * Teredo (RFC 4380) has two: nobody can say where these lead. */
#define ADDRESS_TRANSLATORS "64:ff9b:1::/48 2001::/32"

typedef struct address_rules address_rules_t;

/* Make rules from lists of items, separated by spaces or commas; NULL: empty. An item of denied and
 * allowed is an address or network, with or without a port or ports (10.0.0.0/8, 10.1.2.3:80,
 * fd00::/8, [fd00::1]:80-90). An item of own is such an item, or a port or ports (8400, 8411-8415)
 * of this machine. 0 | -EINVAL: *ret_bad is the wrong item, which the caller frees | -ENOMEM. */
int address_rules_new(address_rules_t **ret_rules, const char *own, const char *denied,
                      const char *allowed, char **ret_bad);
void address_rules_destroy(address_rules_t **self_p);

/* May this address be connected to? NULL: yes. Else the reason, to follow a name: "is ...". */
const char *address_fault(const address_rules_t *self, const struct sockaddr *address);

/* The IPv4 host that an address stands for: of AF_INET itself, of AF_INET6 the one that is mapped
 * (::ffff:0:0/96), or inside an address of a translator or tunnel: RFC 6052 (64:ff9b::/96), 3056
 * (2002::/16), 4291 2.5.5.1 (::/96), 2765 (::ffff:0:0:0/96). False: it stands for none. */
bool address_v4_of(const struct sockaddr *address, uint8_t ret_v4[4]);

/* Parse an address in any spelling that the system's resolver takes without a query: 127.1,
 * 0x7f000001, 017700000001, ::ffff:127.0.0.1, fe80::1%lo, with or without brackets. False: it is a
 * name. */
bool address_parse(const char *host, uint16_t port, struct sockaddr_storage *ret_address);
