/* Formats of names and addresses: of hosts, ports, networks and paths. */
#include "common/base/cleanup.h"
#include "common/codec/path.h"
#include "common/schema/format_internal.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const char *format_hostname_fault(const char *name, size_t len, int wildcard)
{
    size_t label = 0;

    if (wildcard && len > 2 && !strncmp(name, "*.", 2)) {
        name += 2;
        len -= 2;
    }
    if (!len || len > 253)
        return "a host name has from 1 to 253 bytes";
    for (size_t i = 0; i <= len; i++) {
        char c = i < len ? name[i] : '.';

        if (c == '.') {
            if (!label || label > 63)
                return "a label of a host name has from 1 to 63 bytes";
            if (name[i - 1] == '-')
                return "a label of a host name cannot end with a hyphen";
            label = 0;
            continue;
        }
        if (!islower((unsigned char)c) && !isdigit((unsigned char)c) && (c != '-' || !label))
            return "a host name takes letters, digits, dots, and hyphens inside a label";
        label++;
    }
    return NULL;
}

static int all_digits_and_dots(const char *name)
{
    return name[strspn(name, "0123456789.")] == '\0';
}

const char *format_domain(const char *value, char *out, size_t size, int *outcome)
{
    size_t len = strlen(value);
    const char *why;

    (void)size;
    (void)outcome;
    for (size_t i = 0; i <= len; i++)
        out[i] = (char)tolower((unsigned char)value[i]);
    if (len && out[len - 1] == '.')
        out[--len] = '\0';
    why = format_hostname_fault(out, len, 1);
    if (why)
        return why;
    if (!strchr(out, '.'))
        return "a domain has at least two labels";
    if (out[0] == '*' && !strchr(out + 2, '.'))
        return "a wildcard is over at least two labels: over one it would hold a whole top-level "
               "domain";
    if (all_digits_and_dots(out))
        return "an IP address is not a domain";
    return NULL;
}

/* host:port; *ret_host_len of out, lower-cased. */
static const char *split_address(const char *value, char *out, size_t *ret_host_len, long *ret_port)
{
    const char *colon = strrchr(value, ':');
    char *end;

    if (strstr(value, "://"))
        return "must be host:port, without a scheme";
    if (!colon || colon == value)
        return "must be host:port";
    if (!isdigit((unsigned char)colon[1]) || strlen(colon + 1) > 5)
        return "must end in a port from 1 to 65535";
    *ret_port = strtol(colon + 1, &end, 10);
    if (*end || *ret_port < 1 || *ret_port > 65535)
        return "must end in a port from 1 to 65535";
    *ret_host_len = (size_t)(colon - value);
    for (size_t i = 0; value[i]; i++)
        out[i] = (char)tolower((unsigned char)value[i]);
    out[strlen(value)] = '\0';
    return NULL;
}

const char *format_hostport(const char *value, char *out, size_t size, int *outcome)
{
    const char *why;
    size_t len;
    long port;

    *outcome = ERR_HOSTPORT_FORMAT;
    why = split_address(value, out, &len, &port);
    if (why)
        return why;
    if (out[len - 1] == '.')
        len--; /* a trailing dot names the same host */
    why = format_hostname_fault(out, len, 1);
    if (why)
        return why;
    *outcome = ERR_HOSTPORT_NOT_443;
    if (port != 443)
        return "an HTTPS hostport must use port 443";
    snprintf(out + len, size - len, ":443");
    return NULL;
}

/* scheme://host or scheme://host:port, in one spelling: lower case, without the port that http
 * and https mean anyway. */
const char *format_endpoint_url(const char *value, char *out, size_t size, int *outcome)
{
    static const struct {
        const char *scheme;
        long port; /* 0: must be given */
        bool implied;
    } schemes[] = {
        {"https", 443, true}, {"http", 80, true}, {"tls", 443, false}, {"tcp", 0, false}};
    static const char form[] = "must be scheme://host or scheme://host:port";
    const char *sign = strstr(value, "://"), *why;
    char address[512];
    size_t i = 0, len;
    long port;

    (void)outcome;
    if (!sign)
        return form;
    while (i < LEN(schemes)
           && (strlen(schemes[i].scheme) != (size_t)(sign - value)
               || strncasecmp(schemes[i].scheme, value, (size_t)(sign - value))))
        i++;
    if (i == LEN(schemes))
        return "must begin with https://, http://, tls:// or tcp://";
    len = strlen(sign + 3);
    if (len && sign[2 + len] == '/')
        len--;
    if (!strchr(sign + 3, ':') && !schemes[i].port)
        return "needs a port: tcp://host:port";
    if (len + sizeof(":65535") > sizeof(address))
        return form;
    snprintf(address, sizeof(address), strchr(sign + 3, ':') ? "%.*s" : "%.*s:%ld", (int)len,
             sign + 3, schemes[i].port);
    why = split_address(address, address, &len, &port);
    if (why)
        return why;
    if (address[len - 1] == '.')
        len--; /* a trailing dot names the same host */
    why = format_hostname_fault(address, len, schemes[i].port != 0);
    if (why)
        return why;
    if (schemes[i].implied && port == schemes[i].port)
        snprintf(out, size, "%s://%.*s", schemes[i].scheme, (int)len, address);
    else
        snprintf(out, size, "%s://%.*s:%ld", schemes[i].scheme, (int)len, address, port);
    return NULL;
}

const char *format_tcp_hostport(const char *value, char *out, size_t size, int *outcome)
{
    const char *why;
    size_t len;
    long port;

    (void)size;
    *outcome = ERR_HOSTPORT_FORMAT;
    why = split_address(value, out, &len, &port);
    return why ? why : format_hostname_fault(out, len, 0);
}

/* RFC 4632, RFC 4291 2.3: a mask, no host bits, one spelling. inet_pton refuses leading zeros. */
const char *format_cidr(const char *value, char *out, size_t size, int *outcome)
{
    const char *slash = strchr(value, '/');
    unsigned char bytes[16] = {0};
    char address[64], *end;
    int family = strchr(value, ':') ? AF_INET6 : AF_INET;
    long mask, bits = family == AF_INET6 ? 128 : 32;

    (void)outcome;
    if (!slash)
        return "must have a mask, like 192.0.2.0/24";
    if ((size_t)(slash - value) >= sizeof(address))
        return "is not an IPv4 or IPv6 network";
    snprintf(address, sizeof(address), "%.*s", (int)(slash - value), value);
    if (inet_pton(family, address, bytes) != 1)
        return "is not an IPv4 or IPv6 network";
    if (!isdigit((unsigned char)slash[1]) || strlen(slash + 1) > 3 || (slash[1] == '0' && slash[2]))
        return "has a mask that is not a number of bits";
    mask = strtol(slash + 1, &end, 10);
    if (*end || mask > bits)
        return "has a mask that is not a number of bits";
    for (long i = mask; i < bits; i++)
        if (bytes[i / 8] & (0x80 >> (i % 8)))
            return "has host bits behind its mask";
    inet_ntop(family, bytes, address, sizeof(address));
    snprintf(out, size, "%s/%ld", address, mask);
    return NULL;
}

const char *format_address(const char *value, char *out, size_t size, int *outcome)
{
    unsigned char ip[16];
    const char *why;
    char host[256];
    size_t len;
    long port;

    (void)size;
    (void)outcome;
    why = split_address(value, out, &len, &port);
    if (why)
        return why;
    if (out[0] == '[') {
        if (out[len - 1] != ']' || len - 2 >= sizeof(host))
            return "an IPv6 address stands in brackets";
        snprintf(host, sizeof(host), "%.*s", (int)(len - 2), out + 1);
        return inet_pton(AF_INET6, host, ip) == 1 ? NULL : "the IPv6 address is invalid";
    }
    snprintf(host, sizeof(host), "%.*s", (int)(len < 255 ? len : 255), out);
    if (all_digits_and_dots(host))
        return inet_pton(AF_INET, host, ip) == 1 ? NULL : "the IPv4 address is invalid";
    return format_hostname_fault(out, len, 0);
}

/* A path, a host, or a host and a path. The path is normalised exactly as the edge normalises the
 * paths of requests, so what is stored is what is compared. */
const char *format_match(const char *value, char *out, size_t size, int *outcome)
{
    size_t host = strcspn(value, "/"), path_len = 0;
    const char *why;

    if (!*value) {
        *outcome = ERR_MATCH_MISSING;
        return "must not be empty";
    }
    for (size_t i = 0; i < host; i++)
        out[i] = (char)tolower((unsigned char)value[i]);
    if (host) {
        why = format_hostname_fault(out, host, 0);
        if (why)
            return why;
        if (!strchr(value, '/') && !memchr(out, '.', host))
            return "must be a path that begins with /, a host, or a host and a path";
    }
    if (!value[host]) {
        out[host] = '\0';
        return NULL;
    }
    if (strpbrk(value + host, "?#"))
        return "the path of a match has no query and no fragment";
    if (path_normalize(value + host, strlen(value + host), out + host, size - host - 1, &path_len))
        return "the path has a malformed escape, a control character, invalid UTF-8, a hidden dot "
               "segment or .. above the root";
    out[host + path_len] = '\0';
    return NULL;
}
