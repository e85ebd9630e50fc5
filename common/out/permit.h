/* Which addresses the way out (common/out/outbound.h) connects to. A tenant chooses where a request
 * goes, so what is inside of the operator's networks is closed to it until a setting opens it.
 *
 * Never, whatever is allowed: link-local, unspecified, multicast and broadcast addresses, and the
 * metadata services of clouds. Unless the list `allowed` has them: Postern's own sockets, what the
 * operator denies, loopback addresses, private networks (RFC 1918, 4193, 6598), and translators'
 * addresses that lead nobody knows where. An IPv4 address inside an IPv6 one counts as itself. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

typedef struct permit permit_t;

enum { PERMIT_WHY_MAX = 256 };

/* Make the rules from lists as of common/base/address.h; NULL: empty. 0 | -EINVAL: *ret_bad is the
 * wrong item, which the caller frees | -ENOMEM. */
int permit_new(permit_t **ret_permit, const char *own, const char *denied, const char *allowed,
               char **ret_bad);
/* NULL is fine. */
void permit_destroy(permit_t **self_p);

/* May this address be connected to? False: why is the address and the reason, for an operator's
 * log; it names the setting that would open it, where one does. */
bool permit_address(const permit_t *self, const struct sockaddr *address, char why[PERMIT_WHY_MAX]);
