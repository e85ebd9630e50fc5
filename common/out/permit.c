#include "common/out/permit.h"
#include "common/base/address.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

#define LOOPBACK "127.0.0.0/8 ::1"
/* RFC 1918, 6598 (carriers' NAT), 6890 2.2.2 (protocols, benchmarks, reserved), 4193, and the
 * site-local addresses that RFC 3879 took back. */
#define PRIVATE                                                                                    \
    "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 100.64.0.0/10 192.0.0.0/24 198.18.0.0/15 "            \
    "240.0.0.0/4 fc00::/7 fec0::/10"

/* Each with what it forbids beside what common/base/address.h always does. */
struct permit {
    address_rules_t *never; /* without exceptions, but of translators: they are told by rules */
    address_rules_t *rules, *loopback, *private;
};

int permit_new(permit_t **ret_permit, const char *own, const char *denied, const char *allowed,
               char **ret_bad)
{
    permit_t *self = calloc(1, sizeof(*self));
    int r;

    *ret_permit = NULL;
    *ret_bad = NULL;
    if (!self)
        return -ENOMEM;
    r = address_rules_new(&self->never, NULL, NULL, ADDRESS_TRANSLATORS, ret_bad);
    if (!r)
        r = address_rules_new(&self->rules, own, denied, allowed, ret_bad);
    if (!r)
        r = address_rules_new(&self->loopback, NULL, LOOPBACK, allowed, ret_bad);
    if (!r)
        r = address_rules_new(&self->private, NULL, PRIVATE, allowed, ret_bad);
    if (r)
        permit_destroy(&self);
    *ret_permit = self;
    return r;
}

void permit_destroy(permit_t **self_p)
{
    permit_t *self = *self_p;

    if (!self)
        return;
    address_rules_destroy(&self->never);
    address_rules_destroy(&self->rules);
    address_rules_destroy(&self->loopback);
    address_rules_destroy(&self->private);
    free(self);
    *self_p = NULL;
}

bool permit_address(const permit_t *self, const struct sockaddr *address, char why[PERMIT_WHY_MAX])
{
    socklen_t size =
        address->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    const char *fault = address_fault(self->never, address);
    char text[64];

    if (!fault)
        fault = address_fault(self->rules, address);
    if (!fault && address_fault(self->loopback, address))
        fault = "is a loopback address that POSTERN_OUT_ALLOWED does not have";
    if (!fault && address_fault(self->private, address))
        fault = "is of a private network, and POSTERN_OUT_ALLOWED does not have it";
    if (!fault)
        return true;
    if (getnameinfo(address, size, text, sizeof(text), NULL, 0, NI_NUMERICHOST))
        snprintf(text, sizeof(text), "the address");
    snprintf(why, PERMIT_WHY_MAX, "%s %s", text, fault);
    return false;
}
