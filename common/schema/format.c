#include "common/schema/format.h"
#include "common/base/cleanup.h"
#include "common/base/id.h"
#include "common/schema/event_types.h"
#include "common/schema/policy.h"
#include "common/codec/regex.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <sodium.h>

#include "common/codec/path.h"

typedef const char *(*check_fn)(const char *value, char *out, size_t size, int *outcome);

/* RFC 9110 5.6.2 token, at most 256 bytes. */
const char *format_header_name(const char *name)
{
    size_t len = strlen(name);

    if (!len)
        return "a header name must not be empty";
    if (len > 256)
        return "a header name is at most 256 bytes long";
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)name[i]) && !strchr("!#$%&'*+-.^_`|~", name[i]))
            return "has a character that a header name cannot have";
    return NULL;
}

const char *format_header_value(const char *value)
{
    size_t len = strlen(value);

    if (len > 4096)
        return "a header value is at most 4096 bytes long";
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)value[i] < 0x20 ? value[i] != '\t' : value[i] == 0x7f)
            return "has a control character";
    return NULL;
}

const char *format_label(const char *text, int is_key)
{
    size_t len = strlen(text);

    if (is_key && !len)
        return "a label's key must not be empty";
    if (len > 255)
        return "keys and values of labels are at most 255 bytes long";
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            return "has a control character";
    return NULL;
}

/* RFC 1123 2.1 host name, lower case; a leading "*." only where wildcard. */
static const char *hostname_fault(const char *name, size_t len, int wildcard)
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

static const char *check_domain(const char *value, char *out, size_t size, int *outcome)
{
    size_t len = strlen(value);
    const char *why;

    (void)size;
    (void)outcome;
    for (size_t i = 0; i <= len; i++)
        out[i] = (char)tolower((unsigned char)value[i]);
    if (len && out[len - 1] == '.')
        out[--len] = '\0';
    why = hostname_fault(out, len, 1);
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

static const char *check_hostport(const char *value, char *out, size_t size, int *outcome)
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
    why = hostname_fault(out, len, 1);
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
static const char *check_endpoint_url(const char *value, char *out, size_t size, int *outcome)
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
    why = hostname_fault(address, len, schemes[i].port != 0);
    if (why)
        return why;
    if (schemes[i].implied && port == schemes[i].port)
        snprintf(out, size, "%s://%.*s", schemes[i].scheme, (int)len, address);
    else
        snprintf(out, size, "%s://%.*s:%ld", schemes[i].scheme, (int)len, address, port);
    return NULL;
}

/* host:port of a reserved TCP address; postern-routes checks that it is reserved. */
static const char *check_tcp_hostport(const char *value, char *out, size_t size, int *outcome)
{
    const char *why;
    size_t len;
    long port;

    (void)size;
    *outcome = ERR_HOSTPORT_FORMAT;
    why = split_address(value, out, &len, &port);
    return why ? why : hostname_fault(out, len, 0);
}

/* RFC 4632, RFC 4291 2.3: a mask, no host bits, one spelling. inet_pton refuses leading zeros. */
static const char *check_cidr(const char *value, char *out, size_t size, int *outcome)
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

static const char *check_address(const char *value, char *out, size_t size, int *outcome)
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
    return hostname_fault(out, len, 0);
}

/* A path, a host, or a host and a path. The path is normalised exactly as the edge normalises the
 * paths of requests, so what is stored is what is compared. */
static const char *check_match(const char *value, char *out, size_t size, int *outcome)
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
        why = hostname_fault(out, host, 0);
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

static const char *check_header(const char *value, char *out, size_t size, int *outcome)
{
    (void)outcome;
    snprintf(out, size, "%s", value);
    return format_header_name(value);
}

static const char *check_webhook_provider(const char *value, char *out, size_t size, int *outcome)
{
    static const char *const providers[] = {
#define PROVIDER(name, ...) name,
#include "proto/webhook_providers.def"
        NULL,
    };

    (void)outcome;
    snprintf(out, size, "%s", value); /* the case is kept as sent */
    for (int i = 0; providers[i]; i++)
        if (!strcasecmp(providers[i], value))
            return NULL;
    return "is not a supported webhook provider";
}

static const char *check_cookie_prefix(const char *value, char *out, size_t size, int *outcome)
{
    (void)outcome;
    snprintf(out, size, "%s", value);
    for (; *value; value++)
        if (!isalnum((unsigned char)*value) && *value != '.')
            return "takes letters, digits and dots only";
    return NULL;
}

/* StringOrURI of RFC 7519 2, as far as it is printed: whoever compares it does so byte by byte. */
static const char *check_audience(const char *value, char *out, size_t size, int *outcome)
{
    (void)outcome;
    snprintf(out, size, "%s", value);
    if (!*value || strlen(value) > 255)
        return "must be an audience of 1 to 255 bytes";
    for (const char *c = value; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return "must not have control characters";
    return NULL;
}

/* RFC 6749 3.3: a space divides two scopes. */
static const char *check_scope(const char *value, char *out, size_t size, int *outcome)
{
    (void)outcome;
    snprintf(out, size, "%s", value);
    for (const char *c = value; *c; c++)
        if (*c < 0x21 || *c > 0x7e || *c == '"' || *c == '\\')
            return *c == ' ' ? "must be one scope, without spaces: several are several elements"
                             : "must be one scope: printable ASCII without quotes and backslashes";
    return *value ? NULL : "must not be empty";
}

static const char *check_email(const char *value, char *out, size_t size, int *outcome)
{
    const char *at = strchr(value, '@');

    (void)outcome;
    snprintf(out, size, "%s", value);
    if (!at || at == value || strchr(at + 1, '@') || strlen(value) > 254)
        return "must be one e-mail address";
    for (const char *c = value; *c; c++)
        if (isupper((unsigned char)*c) || isspace((unsigned char)*c) || (unsigned char)*c < 0x21)
            return "must be lower case without spaces";
    return hostname_fault(at + 1, strlen(at + 1), 0);
}

static const char *check_email_domain(const char *value, char *out, size_t size, int *outcome)
{
    (void)outcome;
    snprintf(out, size, "%s", value);
    return hostname_fault(value, strlen(value), 0);
}

static int slug(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)text[i]) && !strchr("-_.", text[i]))
            return 0;
    return len > 0;
}

static const char *check_slug(const char *value, char *out, size_t size, int *outcome)
{
    (void)outcome;
    snprintf(out, size, "%s", value);
    return slug(value, strlen(value)) ? NULL : "must be the slug of an organization";
}

static const char *check_team(const char *value, char *out, size_t size, int *outcome)
{
    const char *slash = strchr(value, '/');

    (void)outcome;
    snprintf(out, size, "%s", value);
    if (*value && value[strspn(value, "0123456789")] == '\0')
        return NULL;
    if (slash && slug(value, (size_t)(slash - value)) && slug(slash + 1, strlen(slash + 1)))
        return NULL;
    return "must be org/team or a numeric id";
}

/* The authority must be a host and port alone: with a user part the URL would lead to another host
 * than it seems to. */
static const char *check_https_url(const char *value, char *out, size_t size, int *outcome)
{
    const char *host = value + strlen("https://");
    size_t len;

    (void)outcome;
    snprintf(out, size, "%s", value);
    if (strncmp(value, "https://", strlen("https://")))
        return "must be an https:// URL";
    len = strcspn(host, "/");
    if (!len || strpbrk(value, "@?# \t\\"))
        return "must be an https:// URL without user, query and fragment";
    for (const char *c = value; *c; c++)
        if ((unsigned char)*c <= 0x20 || (unsigned char)*c >= 0x7f)
            return "must be ASCII without spaces";
    return NULL;
}

static const char *check_regex(const char *value, char *out, size_t size, int *outcome)
{
    static _Thread_local char why[200];
    regex_t *regex = NULL;

    (void)outcome;
    snprintf(out, size, "%s", value);
    if (regex_new(&regex, value, why, sizeof(why)))
        return why;
    regex_destroy(&regex);
    return NULL;
}

/* Only the outer form is checked: XML is parsed in the sandboxed SAML service. */
static const char *check_saml_metadata(const char *value, char *out, size_t size, int *outcome)
{
    static const char end[] = "EntityDescriptor>"; /* whatever its namespace prefix */
    size_t n = strlen(value);

    (void)outcome;
    snprintf(out, size, "%s", value);
    while (isspace((unsigned char)*value))
        value++;
    while (n > 0 && isspace((unsigned char)out[n - 1]))
        n--;
    if (*value != '<' || !strstr(value, "EntityDescriptor") || n < sizeof(end)
        || (strncmp(out + n - strlen(end), end, strlen(end)) && strncmp(out + n - 2, "/>", 2)))
        return "must be an XML EntityDescriptor, complete with its closing tag";
    if (strstr(value, "<!DOCTYPE") || strstr(value, "<!ENTITY"))
        return "must not have a document type or entities";
    return NULL;
}

static const char *check_traffic_policy(const char *value, char *out, size_t size, int *outcome)
{
    (void)outcome;
    snprintf(out, size, "%s", value);
    return policy_fault(value);
}

static const char *check_acl(const char *value, char *out, size_t size, int *outcome)
{
    (void)outcome;
    if (strcmp(value, "*") && (strncmp(value, "bind:", 5) || !value[5]))
        return "must be * or begin with bind:";
    if (strlen(value) > 255)
        return "is longer than 255 bytes";
    snprintf(out, size, "%s", value);
    return NULL;
}

/* RFC 4253 6.6, RFC 5656 3.1, RFC 8709 4: the key inside must be of the type before it. */
static const char *check_ssh_public_key(const char *value, char *out, size_t size, int *outcome)
{
    static const char *const types[] = {"ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256",
                                        "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521"};
    unsigned char blob[8192];
    char type[32];
    size_t len, name, rest;
    const char *base64, *end;

    (void)outcome;
    name = strcspn(value, " \t");
    if (name >= sizeof(type))
        return "is not an OpenSSH public key";
    snprintf(type, sizeof(type), "%.*s", (int)name, value);
    for (size_t i = 0; i <= sizeof(types) / sizeof(types[0]); i++) {
        if (i == sizeof(types) / sizeof(types[0]))
            return "is not an OpenSSH public key of type RSA, ECDSA or Ed25519";
        if (!strcmp(types[i], type))
            break;
    }
    base64 = value + name + strspn(value + name, " \t");
    rest = strcspn(base64, " \t\r\n");
    if (sodium_base642bin(blob, sizeof(blob), base64, rest, NULL, &len, &end,
                          sodium_base64_VARIANT_ORIGINAL)
        || end != base64 + rest || len < name + 8)
        return "is not an OpenSSH public key";
    if (blob[0] || blob[1] || blob[2] || blob[3] != name || memcmp(blob + 4, type, name))
        return "holds a key of another type than it says";
    if (!strcmp(type, "ssh-ed25519") ? len != name + 4 + 4 + 32 : 0)
        return "is cut short";
    if (!strcmp(type, "ssh-rsa") && len < 256)
        return "is an RSA key of less than 2048 bits";
    snprintf(out, size, "%s", value);
    return NULL;
}

/* That many digits, no sign and no space. */
static bool take_number(const char **at, int digits, int *ret)
{
    *ret = 0;
    for (int i = 0; i < digits; i++, ++*at) {
        if (**at < '0' || **at > '9')
            return false;
        *ret = 10 * *ret + (**at - '0');
    }
    return true;
}

static bool take_one_of(const char **at, const char *characters)
{
    if (!**at || !strchr(characters, **at))
        return false;
    ++*at;
    return true;
}

/* Parse RFC 3339 5.6 up to the end of the text; a fraction must be well-formed and is ignored. */
static bool read_rfc3339(const char *at, struct tm *tm, int *ret_offset)
{
    int year, month, hours = 0, minutes = 0;

    if (!take_number(&at, 4, &year) || !take_one_of(&at, "-") || !take_number(&at, 2, &month)
        || !take_one_of(&at, "-") || !take_number(&at, 2, &tm->tm_mday) || !take_one_of(&at, "Tt")
        || !take_number(&at, 2, &tm->tm_hour) || !take_one_of(&at, ":")
        || !take_number(&at, 2, &tm->tm_min) || !take_one_of(&at, ":")
        || !take_number(&at, 2, &tm->tm_sec))
        return false;
    tm->tm_year = year - 1900;
    tm->tm_mon = month - 1;
    if (take_one_of(&at, ".")) {
        size_t digits = strspn(at, "0123456789");

        if (!digits)
            return false;
        at += digits;
    }
    if (!take_one_of(&at, "Zz")) {
        bool west = *at == '-';

        if (!take_one_of(&at, "+-") || !take_number(&at, 2, &hours) || !take_one_of(&at, ":")
            || !take_number(&at, 2, &minutes))
            return false;
        *ret_offset = (west ? -1 : 1) * (hours * 3600 + minutes * 60);
    }
    return !*at && month >= 1 && month <= 12 && tm->tm_mday >= 1 && tm->tm_mday <= 31
           && tm->tm_hour <= 23 && tm->tm_min <= 59 && tm->tm_sec <= 59 && hours <= 23
           && minutes <= 59;
}

/* To UTC and whole seconds. */
static const char *check_rfc3339(const char *value, char *out, size_t size, int *outcome)
{
    struct tm tm = {0};
    int day, offset = 0;
    time_t t;

    (void)outcome;
    if (!read_rfc3339(value, &tm, &offset))
        return "is not an RFC 3339 time, like 2026-01-31T12:00:00Z";
    day = tm.tm_mday;
    t = timegm(&tm);
    if (tm.tm_mday != day)
        return "is a day that does not exist";
    t -= offset;
    gmtime_r(&t, &tm);
    if (t < 0 || tm.tm_year + 1900 > 9999)
        return "must be from 1970 to 9999";
    strftime(out, size, "%Y-%m-%dT%H:%M:%SZ", &tm);
    return NULL;
}

static const char *check_label(const char *value, char *out, size_t size, int *outcome)
{
    (void)outcome;
    snprintf(out, size, "%s", value);
    return format_label(value, 1);
}

static const char *check_secret_name(const char *value, char *out, size_t size, int *outcome)
{
    (void)outcome;
    snprintf(out, size, "%s", value);
    for (const char *c = value; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("_-/.", *c))
            return "takes letters, digits and _ - / . only";
    return *value ? NULL : "is required";
}

/* The only format, in either case. */
static const char *check_event_format(const char *value, char *out, size_t size, int *outcome)
{
    (void)outcome;
    snprintf(out, size, "json");
    return strcasecmp(value, "json") ? "must be json" : NULL;
}

static const char *check_event_type(const char *value, char *out, size_t size, int *outcome)
{
    bool traffic;

    (void)outcome;
    snprintf(out, size, "%s", value);
    return event_type_known(value, &traffic) ? NULL : "is not the name of an event type";
}

/* arn:partition:service:region:account:resource */
static bool is_arn(const char *value, const char *service)
{
    const char *at = value;
    size_t part[6];

    for (int i = 0; i < 6; i++) {
        part[i] = i < 5 ? strcspn(at, ":") : strlen(at);
        if (i == 2 && (part[i] != strlen(service) || strncmp(at, service, part[i])))
            return false;
        if ((i == 1 || i == 5) && !part[i])
            return false;
        if (i == 0 && (part[i] != 3 || strncmp(at, "arn", 3)))
            return false;
        at += part[i];
        if (i < 5 && *at++ != ':')
            return false;
    }
    return true;
}

#define ARN(service)                                                                               \
    static const char *check_arn_##service(const char *value, char *out, size_t size,              \
                                           int *outcome)                                           \
    {                                                                                              \
        (void)outcome;                                                                             \
        snprintf(out, size, "%s", value);                                                          \
        return is_arn(value, #service) ? NULL : "is not an ARN of " #service;                      \
    }
ARN(iam)
ARN(firehose)
ARN(kinesis)
ARN(logs)

#define ID_OF(noun, prefix)                                                                        \
    static const char *check_##noun##_id(const char *value, char *out, size_t size, int *outcome)  \
    {                                                                                              \
        (void)outcome;                                                                             \
        snprintf(out, size, "%s", value);                                                          \
        return id_check(prefix, value) ? NULL : "is not the id of a " #noun;                       \
    }
ID_OF(route, "edghtsrt")
ID_OF(edge, "edghts")

static const struct {
    const char *name;
    check_fn check;
} formats[] = {
    {"route_id", check_route_id},
    {"edge_id", check_edge_id},
    {"secret_name", check_secret_name},
    {"event_format", check_event_format},
    {"event_type", check_event_type},
    {"arn_iam", check_arn_iam},
    {"arn_firehose", check_arn_firehose},
    {"arn_kinesis", check_arn_kinesis},
    {"arn_logs", check_arn_logs},
    {"rfc3339", check_rfc3339},
    {"label", check_label},
    {"acl", check_acl},
    {"ssh_public_key", check_ssh_public_key},
    {"domain", check_domain},
    {"hostport", check_hostport},
    {"tcp_hostport", check_tcp_hostport},
    {"cidr", check_cidr},
    {"address", check_address},
    {"match", check_match},
    {"header", check_header},
    {"webhook_provider", check_webhook_provider},
    {"cookie_prefix", check_cookie_prefix},
    {"audience", check_audience},
    {"scope", check_scope},
    {"email", check_email},
    {"email_domain", check_email_domain},
    {"slug", check_slug},
    {"team", check_team},
    {"https_url", check_https_url},
    {"endpoint_url", check_endpoint_url},
    {"regex", check_regex},
    {"saml_metadata", check_saml_metadata},
    {"traffic_policy", check_traffic_policy},
};

int format_check(const char *format, int outcome, const char *value, char *out, size_t size,
                 const char **ret_text)
{
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
        if (!strcmp(formats[i].name, format)) {
            *ret_text = formats[i].check(value, out, size, &outcome);
            return *ret_text ? outcome : 0;
        }
    return -EINVAL;
}
