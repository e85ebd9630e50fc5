/* Which addresses Postern connects to for a tenant's sake. Never, unless a setting allows it: link-local and unspecified
 * addresses, multicast, broadcast, the metadata services of clouds, and Postern's own sockets. No I/O but a look at the machine's
 * own addresses; who has a name to connect to resolves it first and asks about what it became. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

typedef struct address_rules address_rules_t;

/* Lists of items, separated by spaces or commas; NULL: none. An item of own is a port or ports (8400, 8411-8415) on any of this
 * machine's own addresses, or what an item of denied and of allowed is: an address or network, with or without a port or ports
 * (10.0.0.0/8, 10.1.2.3:80, fd00::/8, [fd00::1]:80-90). 0 | -EINVAL: *ret_bad is the item that is none, yours to free | -ENOMEM. */
int address_rules_new(address_rules_t **ret_rules, const char *own, const char *denied,
                      const char *allowed, char **ret_bad);
void address_rules_destroy(address_rules_t **self_p);

/* NULL: it may be connected to. Else why not, to be put behind a name: "is ...". */
const char *address_fault(const address_rules_t *self, const struct sockaddr *address);

/* An address in any spelling that the system's resolver takes without asking anybody: 127.1, 0x7f000001, 017700000001,
 * ::ffff:127.0.0.1, fe80::1%lo, with or without brackets. False: it is a name. */
bool address_parse(const char *host, uint16_t port, struct sockaddr_storage *ret_address);
