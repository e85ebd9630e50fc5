#include "common/schema/format_internal.h"
#include "common/base/cleanup.h"
#include "common/base/id.h"
#include "common/schema/event_types.h"
#include "common/schema/policy.h"
#include "common/codec/regex.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <sodium.h>

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
    return format_hostname_fault(at + 1, strlen(at + 1), 0);
}

static const char *check_email_domain(const char *value, char *out, size_t size, int *outcome)
{
    (void)outcome;
    snprintf(out, size, "%s", value);
    return format_hostname_fault(value, strlen(value), 0);
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
    format_fn check;
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
    {"domain", format_domain},
    {"hostport", format_hostport},
    {"tcp_hostport", format_tcp_hostport},
    {"cidr", format_cidr},
    {"address", format_address},
    {"match", format_match},
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
    {"endpoint_url", format_endpoint_url},
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
