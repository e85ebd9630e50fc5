#include "services/edge/table/networks.h"

#include "common/base/invariant.h"
#include "services/edge/table/slab.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

/* Below it are networks that begin with its bits. One that nobody added parts two of them, so it
 * has both children. */
struct network_node {
    network_node_t *child[2]; /* by the bit behind its own */
    uint64_t high, low;
    uint32_t allowed, denied; /* how often it was added */
    uint8_t bits;
};

enum { V4_BITS = 32, V6_BITS = 128, MAPPED_BITS = 96, TEXT_MAX = 64 };

/* ---- bits ---- */

static unsigned bit_at(const network_t *network, unsigned n)
{
    return n < 64 ? network->high >> (63 - n) & 1 : network->low >> (127 - n) & 1;
}

/* How many bits are the same, at most as many as the shorter has. */
static unsigned common_bits(const network_node_t *node, const network_t *network)
{
    uint64_t high = node->high ^ network->high, low = node->low ^ network->low;
    unsigned most = node->bits < network->bits ? node->bits : network->bits;
    unsigned same = high  ? (unsigned)__builtin_clzll(high)
                    : low ? 64 + (unsigned)__builtin_clzll(low)
                          : V6_BITS;

    return same < most ? same : most;
}

/* size bytes as they stand on the wire: 4 or 16. */
static network_t of_bytes(const unsigned char *bytes, size_t size, unsigned bits)
{
    network_t out = {.bits = (uint8_t)bits, .v6 = size == 16};

    for (size_t i = 0; i < 8; i++) {
        out.high = out.high << 8 | (i < size ? bytes[i] : 0);
        out.low = out.low << 8 | (i + 8 < size ? bytes[i + 8] : 0);
    }
    return out;
}

/* What lies in ::ffff:0:0/96 is IPv4. */
static network_t of_v6(const unsigned char *bytes, unsigned bits)
{
    static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff};

    if (bits >= MAPPED_BITS && !memcmp(bytes, mapped, sizeof(mapped)))
        return of_bytes(bytes + sizeof(mapped), 4, bits - MAPPED_BITS);
    return of_bytes(bytes, 16, bits);
}

/* Is a bit set behind those of the network? */
static bool has_host_bits(const network_t *network)
{
    uint64_t high = network->high, low = network->low;

    if (network->bits >= 64)
        high = 0, low = network->bits < 128 ? low << (network->bits - 64) : 0;
    else
        high <<= network->bits;
    return high || low;
}

/* ---- text ---- */

/* Digits without a sign or a zero in front; at most most. -1: it is none. */
static int parse_bits(const char *text, int most)
{
    size_t len = strspn(text, "0123456789");
    long bits;

    if (len < 1 || len > 3 || text[len] || (len > 1 && *text == '0'))
        return -1;
    bits = strtol(text, NULL, 10);
    return bits <= most ? (int)bits : -1;
}

bool network_parse(const char *text, network_t *ret_network)
{
    const char *slash = strchr(text, '/');
    unsigned char bytes[16] = {0};
    char address[TEXT_MAX];
    bool v6;
    int bits;

    if (!slash || (size_t)(slash - text) >= sizeof(address))
        return false;
    memcpy(address, text, (size_t)(slash - text));
    address[slash - text] = '\0';
    v6 = strchr(address, ':') != NULL;
    bits = parse_bits(slash + 1, v6 ? V6_BITS : V4_BITS);
    if (bits < 0 || inet_pton(v6 ? AF_INET6 : AF_INET, address, bytes) != 1)
        return false;
    *ret_network = v6 ? of_v6(bytes, (unsigned)bits) : of_bytes(bytes, 4, (unsigned)bits);
    return !has_host_bits(ret_network);
}

bool network_of(const struct sockaddr *address, network_t *ret_network)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;

    if (address->sa_family == AF_INET)
        *ret_network = of_bytes((const unsigned char *)&v4->sin_addr, 4, V4_BITS);
    else if (address->sa_family == AF_INET6)
        *ret_network = of_v6(v6->sin6_addr.s6_addr, V6_BITS);
    else
        return false;
    return true;
}

/* ---- the tree ---- */

static network_node_t *node_new(const network_t *network, unsigned bits)
{
    network_node_t *node = slab_alloc(sizeof(*node));

    node->high = network->high;
    node->low = network->low;
    node->bits = (uint8_t)bits;
    return node;
}

static unsigned node_bit(const network_node_t *node, unsigned n)
{
    return bit_at(&(network_t){.high = node->high, .low = node->low}, n);
}

/* A new parent above *at, of the bits that it and the network begin with. */
static network_node_t *split_node(network_node_t **at, const network_t *network, unsigned bits)
{
    network_node_t *lower = *at, *upper = node_new(network, bits);

    INVARIANT(bits < lower->bits);
    upper->child[node_bit(lower, bits)] = lower;
    *at = upper;
    return upper;
}

/* The network's node, made where there is none. */
static network_node_t *make_node(network_node_t **at, const network_t *network)
{
    while (*at) {
        unsigned same = common_bits(*at, network);

        if (same < (*at)->bits)
            split_node(at, network, same);
        if ((*at)->bits == network->bits)
            return *at;
        at = &(*at)->child[bit_at(network, (*at)->bits)];
    }
    *at = node_new(network, network->bits);
    return *at;
}

void networks_add(networks_t *self, const network_t *network, bool deny)
{
    network_node_t *node = make_node(&self->roots[network->v6], network);

    if (deny)
        node->denied++;
    else
        node->allowed++;
}

/* Take a node away that nobody added any more and that does not part two others. */
static void tidy_node(network_node_t **at)
{
    network_node_t *node = *at;

    if (node->allowed || node->denied || (node->child[0] && node->child[1]))
        return;
    *at = node->child[0] ? node->child[0] : node->child[1];
    slab_free(node);
}

void networks_remove(networks_t *self, const network_t *network, bool deny)
{
    network_node_t **at = &self->roots[network->v6], **above = NULL;
    uint32_t *count;

    while (*at && (*at)->bits < network->bits) {
        above = at;
        at = &(*at)->child[bit_at(network, (*at)->bits)];
    }
    INVARIANT(*at && (*at)->bits == network->bits && common_bits(*at, network) == network->bits);
    count = deny ? &(*at)->denied : &(*at)->allowed;
    INVARIANT(*count > 0);
    --*count;
    tidy_node(at);
    if (above) /* it may have lost a child */
        tidy_node(above);
}

unsigned networks_find(const networks_t *self, const network_t *address)
{
    const network_node_t *node = self->roots[address->v6];
    unsigned found = 0;

    while (node && common_bits(node, address) == node->bits) {
        if (node->denied)
            return NETWORKS_DENY;
        if (node->allowed)
            found = NETWORKS_ALLOW;
        if (node->bits == address->bits)
            break;
        node = node->child[bit_at(address, node->bits)];
    }
    return found;
}

bool networks_is_empty(const networks_t *self)
{
    return !self->roots[0] && !self->roots[1];
}
