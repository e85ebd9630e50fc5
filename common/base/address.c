#include "common/base/address.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BYTES = 16, V4_AT = 12, V4_BITS = 96, ITEM_MAX = 128, OWN_MAX = 256, OWN_SECONDS = 10 };

/* Addresses of both families in one form: IPv4 as IPv6-mapped (RFC 4291 2.5.5.2). */
typedef struct rule {
    uint8_t bytes[BYTES];
    unsigned bits;
    bool own; /* any address of this machine, instead of bytes */
    uint16_t first, last;
} rule_t;

typedef struct rules {
    rule_t *rows;
    size_t count;
} rules_t;

struct address_rules {
    rules_t always, own, denied, allowed;
    bool leads[2][256]; /* for each family: the first bytes of addresses that a rule may forbid */
    uint8_t
        ports[(1 << 16) / 8]; /* bit set: a rule forbids the port on this machine's own addresses */
};

static const uint8_t mapped[V4_AT] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

/* RFC 6890, and where clouds have their metadata and credentials: 169.254.169.254 of nearly all; of
 * Alibaba 100.100.100.200 and fd00:100::100:200, of Azure 168.63.129.16, of EC2 fd00:ec2::254, of
 * EKS fd00:ec2::23, of GCE fd20:ce::254, of Linode fd00:a9fe:a9fe::1, of Oracle 192.0.0.192 and
 * fd00:c1::a9fe:a9fe, of Scaleway fd00:42::42. */
static const char always[] =
    "0.0.0.0/8 169.254.0.0/16 224.0.0.0/4 255.255.255.255 ::/128 fe80::/10 ff00::/8 "
    "100.100.100.200 168.63.129.16 192.0.0.192 fd00:ec2::23 fd00:ec2::254 fd20:ce::254 "
    "fd00:42::42 fd00:a9fe:a9fe::1 fd00:c1::a9fe:a9fe fd00:100::100:200 " ADDRESS_TRANSLATORS;

static void from_v4(uint8_t bytes[BYTES], const void *v4)
{
    memcpy(bytes, mapped, V4_AT);
    memcpy(bytes + V4_AT, v4, BYTES - V4_AT);
}

/* ---- reading settings ---- */

static bool parse_number(const char *text, long max, long *ret)
{
    char *end;

    if (!isdigit((unsigned char)*text) || strlen(text) > 5)
        return false;
    *ret = strtol(text, &end, 10);
    return !*end && *ret <= max;
}

/* Parse "80" or "80-90"; writes NULs into text. */
static bool parse_ports(char *text, rule_t *rule)
{
    char *dash = strchr(text, '-');
    long first, last;

    if (dash)
        *dash++ = '\0';
    if (!parse_number(text, 65535, &first) || !parse_number(dash ? dash : text, 65535, &last)
        || first < 1 || last < first)
        return false;
    rule->first = (uint16_t)first;
    rule->last = (uint16_t)last;
    return true;
}

/* Parse an address or network without brackets; writes NULs into text. */
static bool parse_network(char *text, rule_t *rule)
{
    char *slash = strchr(text, '/');
    unsigned char v4[4];
    long bits;

    if (slash)
        *slash++ = '\0';
    if (inet_pton(AF_INET, text, v4) == 1) {
        bits = 32;
        if (slash && !parse_number(slash, 32, &bits))
            return false;
        from_v4(rule->bytes, v4);
        rule->bits = V4_BITS + (unsigned)bits;
        return true;
    }
    bits = 128;
    if (inet_pton(AF_INET6, text, rule->bytes) != 1 || (slash && !parse_number(slash, 128, &bits)))
        return false;
    rule->bits = (unsigned)bits;
    return true;
}

/* Parse one item of a list; writes NULs into text. */
static bool parse_item(char *text, bool with_own, rule_t *rule)
{
    char *port = NULL, *end;

    rule->first = 0;
    rule->last = UINT16_MAX;
    if (text[strspn(text, "0123456789-")] == '\0') {
        rule->own = true;
        return with_own && parse_ports(text, rule);
    }
    if (*text == '[') {
        end = strchr(text, ']');
        if (!end || (end[1] && end[1] != ':'))
            return false;
        port = end[1] ? end + 2 : NULL;
        *end = '\0';
        text++;
    } else if (strchr(text, ':') && strchr(text, ':') == strrchr(text, ':')) {
        port = strchr(text, ':');
        *port++ = '\0';
    }
    return (!port || parse_ports(port, rule)) && parse_network(text, rule);
}

static int parse_list(rules_t *rules, const char *text, bool with_own, char **ret_bad)
{
    static const char between[] = " ,\t\n";
    char item[ITEM_MAX];
    size_t len;

    for (text = text ? text : ""; *(text += strspn(text, between)); text += len) {
        rule_t *rows = realloc(rules->rows, (rules->count + 1) * sizeof(*rows));

        if (!rows)
            return -ENOMEM;
        rules->rows = rows;
        len = strcspn(text, between);
        snprintf(item, sizeof(item), "%.*s", (int)len, text);
        memset(&rows[rules->count], 0, sizeof(*rows));
        if (len >= sizeof(item) || !parse_item(item, with_own, &rows[rules->count])) {
            *ret_bad = strndup(text, len);
            return *ret_bad ? -EINVAL : -ENOMEM;
        }
        rules->count++;
    }
    return 0;
}

/* ---- a quick answer for most addresses ---- */

static void mark_leads(bool leads[256], unsigned first, unsigned bits)
{
    unsigned count = bits < 8 ? 1u << (8 - bits) : 1;

    memset(leads + (first & ~(count - 1)), true, count);
}

static void mark_rules(address_rules_t *self, const rules_t *rules)
{
    for (size_t i = 0; i < rules->count; i++) {
        const rule_t *rule = &rules->rows[i];

        if (rule->own) {
            for (unsigned port = rule->first; port <= rule->last; port++)
                self->ports[port / 8] |= (uint8_t)(1u << port % 8);
            continue;
        }
        if (rule->bits >= V4_BITS && !memcmp(rule->bytes, mapped, V4_AT))
            mark_leads(self->leads[0], rule->bytes[V4_AT], rule->bits - V4_BITS);
        /* 0.0.0.0/0 is kept as ::/0 */
        else if (rule->bits < V4_BITS && !memcmp(rule->bytes, mapped, rule->bits / 8))
            memset(self->leads[0], true, sizeof(self->leads[0]));
        mark_leads(self->leads[1], rule->bytes[0], rule->bits);
    }
}

/* Note which first bytes and which ports rules may forbid, so that most addresses need not be
 * compared with each rule. IPv6 addresses that lead to an IPv4 one begin with 00 or 20 (see
 * embedded_v4). */
static void mark_lists(address_rules_t *self)
{
    mark_rules(self, &self->always);
    mark_rules(self, &self->own);
    mark_rules(self, &self->denied);
    self->leads[1][0x00] = true;
    self->leads[1][0x20] = true;
}

/* True: no rule can forbid it. False: the rules have to be compared. */
static bool is_plain(const address_rules_t *self, unsigned family, uint8_t first, uint16_t port)
{
    return !self->leads[family][first] && !(self->ports[port / 8] & 1u << port % 8);
}

int address_rules_new(address_rules_t **ret_rules, const char *own, const char *denied,
                      const char *allowed, char **ret_bad)
{
    address_rules_t *self = calloc(1, sizeof(*self));
    int r;

    *ret_bad = NULL;
    if (!self)
        return -ENOMEM;
    r = parse_list(&self->always, always, false, ret_bad);
    if (!r)
        r = parse_list(&self->own, own, true, ret_bad);
    if (!r)
        r = parse_list(&self->denied, denied, false, ret_bad);
    if (!r)
        r = parse_list(&self->allowed, allowed, false, ret_bad);
    if (r)
        address_rules_destroy(&self);
    else
        mark_lists(self);
    *ret_rules = self;
    return r;
}

void address_rules_destroy(address_rules_t **self_p)
{
    address_rules_t *self = *self_p;

    *self_p = NULL;
    if (!self)
        return;
    free(self->always.rows);
    free(self->own.rows);
    free(self->denied.rows);
    free(self->allowed.rows);
    free(self);
}

/* ---- this machine's addresses ---- */

/* This machine's addresses, read at most ten seconds ago. One for each thread, so that none waits
 * for another. */
typedef struct own {
    time_t read_at;
    size_t count;
    bool complete;
    uint8_t addresses[OWN_MAX][BYTES];
} own_t;

static void read_own(own_t *own)
{
    struct ifaddrs *list, *one;

    own->count = 0;
    own->complete = getifaddrs(&list) == 0;
    if (!own->complete)
        return;
    for (one = list; one; one = one->ifa_next) {
        if (!one->ifa_addr
            || (one->ifa_addr->sa_family != AF_INET && one->ifa_addr->sa_family != AF_INET6))
            continue;
        if (own->count == OWN_MAX) {
            own->complete = false;
            break;
        }
        if (one->ifa_addr->sa_family == AF_INET)
            from_v4(own->addresses[own->count++],
                    &((const struct sockaddr_in *)one->ifa_addr)->sin_addr);
        else
            memcpy(own->addresses[own->count++],
                   &((const struct sockaddr_in6 *)one->ifa_addr)->sin6_addr, BYTES);
    }
    freeifaddrs(list);
}

static bool is_own(const uint8_t bytes[BYTES])
{
    static _Thread_local own_t own;
    struct timespec now;

    if ((!memcmp(bytes, mapped, V4_AT) && bytes[V4_AT] == 127)
        || !memcmp(bytes, &in6addr_loopback, BYTES))
        return true;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    if (!own.read_at || now.tv_sec - own.read_at >= OWN_SECONDS) {
        read_own(&own);
        own.read_at = now.tv_sec ? now.tv_sec : 1;
    }
    for (size_t i = 0; i < own.count; i++)
        if (!memcmp(bytes, own.addresses[i], BYTES))
            return true;
    return !own.complete; /* unreadable: any address could be this machine's */
}

/* ---- judging ---- */

static bool rule_covers(const rule_t *rule, const uint8_t bytes[BYTES], uint16_t port)
{
    unsigned whole = rule->bits / 8, rest = rule->bits % 8;

    if (port < rule->first || port > rule->last)
        return false;
    if (rule->own)
        return is_own(bytes);
    return !memcmp(rule->bytes, bytes, whole)
           && (!rest || !((rule->bytes[whole] ^ bytes[whole]) >> (8 - rest)));
}

static bool rules_cover(const rules_t *rules, const uint8_t bytes[BYTES], uint16_t port)
{
    for (size_t i = 0; i < rules->count; i++)
        if (rule_covers(&rules->rows[i], bytes, port))
            return true;
    return false;
}

static const char *fault_of(const address_rules_t *self, const uint8_t bytes[BYTES], uint16_t port)
{
    if (rules_cover(&self->allowed, bytes, port))
        return NULL;
    if (rules_cover(&self->always, bytes, port))
        return "is a link-local, multicast, unspecified, metadata, local translation or Teredo "
               "address";
    if (rules_cover(&self->own, bytes, port))
        return "is a socket of Postern's own";
    if (rules_cover(&self->denied, bytes, port))
        return "is denied by the operator";
    return NULL;
}

/* The IPv4 address inside an IPv6 address of a translator or tunnel: RFC 6052 (64:ff9b::/96), 3056
 * (2002::/16), 4291 2.5.5.1 (::/96), 2765 (::ffff:0:0:0/96). False: there is none. */
static bool embedded_v4(const uint8_t bytes[BYTES], uint8_t out[BYTES])
{
    static const uint8_t nat64[V4_AT] = {0, 0x64, 0xff, 0x9b}, compatible[V4_AT] = {0},
                         translated[V4_AT] = {0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

    if (bytes[0] == 0x20 && bytes[1] == 0x02) {
        from_v4(out, bytes + 2);
        return true;
    }
    if ((!memcmp(bytes, compatible, V4_AT) && memcmp(bytes, &in6addr_loopback, BYTES))
        || !memcmp(bytes, nat64, V4_AT) || !memcmp(bytes, translated, V4_AT)) {
        from_v4(out, bytes + V4_AT);
        return true;
    }
    return false;
}

const char *address_fault(const address_rules_t *self, const struct sockaddr *address)
{
    uint8_t bytes[BYTES], inner[BYTES];
    const char *why;
    uint16_t port;

    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;

        port = ntohs(v4->sin_port);
        if (is_plain(self, 0, *(const uint8_t *)&v4->sin_addr, port))
            return NULL;
        from_v4(bytes, &v4->sin_addr);
    } else if (address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;

        port = ntohs(v6->sin6_port);
        if (is_plain(self, 1, v6->sin6_addr.s6_addr[0], port))
            return NULL;
        memcpy(bytes, &v6->sin6_addr, BYTES);
    } else {
        return "is no internet address";
    }
    why = fault_of(self, bytes, port);
    if (!why && embedded_v4(bytes, inner) && !rules_cover(&self->allowed, bytes, port))
        why = fault_of(self, inner, port);
    return why;
}

bool address_v4_of(const struct sockaddr *address, uint8_t ret_v4[4])
{
    uint8_t bytes[BYTES], inner[BYTES];

    if (address->sa_family == AF_INET) {
        memcpy(ret_v4, &((const struct sockaddr_in *)address)->sin_addr, 4);
        return true;
    }
    if (address->sa_family != AF_INET6)
        return false;
    memcpy(bytes, &((const struct sockaddr_in6 *)address)->sin6_addr, BYTES);
    if (!memcmp(bytes, mapped, V4_AT))
        memcpy(inner, bytes, BYTES);
    else if (!embedded_v4(bytes, inner))
        return false;
    memcpy(ret_v4, inner + V4_AT, 4);
    return true;
}

bool address_parse(const char *host, uint16_t port, struct sockaddr_storage *ret_address)
{
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    char text[ITEM_MAX];
    size_t len = strlen(host);

    if (len >= 2 && host[0] == '[' && host[len - 1] == ']') {
        host++;
        len -= 2;
    }
    if (len >= sizeof(text))
        return false;
    memcpy(text, host, len);
    text[len] = '\0';
    if (getaddrinfo(text, NULL, &hints, &list))
        return false;
    memcpy(ret_address, list->ai_addr, list->ai_addrlen);
    if (list->ai_family == AF_INET)
        ((struct sockaddr_in *)ret_address)->sin_port = htons(port);
    else
        ((struct sockaddr_in6 *)ret_address)->sin6_port = htons(port);
    freeaddrinfo(list);
    return true;
}
