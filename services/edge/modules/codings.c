#include "services/edge/modules/codings.h"

#include <string.h>
#include <strings.h>

const char *const coding_names[CODING_COUNT] = {
#define CODING_NAME(id, name, any) [CODING_##id] = name,
    CODINGS(CODING_NAME)
#undef CODING_NAME
};

static const bool any_means[CODING_COUNT] = {
#define CODING_ANY(id, name, any) [CODING_##id] = any,
    CODINGS(CODING_ANY)
#undef CODING_ANY
};

/* A part of a header's value. */
typedef struct {
    const char *text;
    size_t len;
} span_t;

static bool span_is(span_t span, const char *text)
{
    return span.len == strlen(text) && strncasecmp(span.text, text, span.len) == 0;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

static span_t trim(span_t span)
{
    while (span.len && is_space(span.text[0])) {
        span.text++;
        span.len--;
    }
    while (span.len && is_space(span.text[span.len - 1]))
        span.len--;
    return span;
}

/* Cuts what stands before the first separator off *rest, and the separator with it. */
static span_t cut_span(span_t *rest, char separator)
{
    const char *at = rest->len ? memchr(rest->text, separator, rest->len) : NULL;
    span_t first = {rest->text, at ? (size_t)(at - rest->text) : rest->len};
    size_t gone = first.len + (at ? 1 : 0);

    rest->text += gone;
    rest->len -= gone;
    return trim(first);
}

/* ---- Accept-Encoding ---- */

/* qvalue = ( "0" [ "." 0*3DIGIT ] ) / ( "1" [ "." 0*3("0") ] ), in thousandths; -1: it is none. */
static int parse_qvalue(span_t text)
{
    int value;

    if (text.len < 1 || text.len > 5 || (text.text[0] != '0' && text.text[0] != '1'))
        return -1;
    value = (text.text[0] - '0') * 1000;
    if (text.len > 1 && text.text[1] != '.')
        return -1;
    for (size_t i = 2, unit = 100; i < text.len; i++, unit /= 10) {
        if (text.text[i] < '0' || text.text[i] > '9')
            return -1;
        value += (text.text[i] - '0') * (int)unit;
    }
    return value <= 1000 ? value : -1;
}

/* The weight behind a coding's name: parameters is what follows the name's semicolon. */
static int16_t parse_weight(span_t parameters)
{
    int value = -1;

    parameters = trim(parameters);
    if (parameters.len >= 2 && (parameters.text[0] | 0x20) == 'q' && parameters.text[1] == '=')
        value = parse_qvalue((span_t){parameters.text + 2, parameters.len - 2});
    return (int16_t)(value < 0 ? 0 : value);
}

static int16_t *weight_of(accepted_t *self, span_t name)
{
    if (span_is(name, "*"))
        return &self->any;
    if (span_is(name, "identity"))
        return &self->identity;
    if (span_is(name, "x-gzip")) /* RFC 9110 8.4.1.3 */
        return &self->weight[CODING_GZIP];
    for (unsigned i = 0; i < CODING_COUNT; i++)
        if (span_is(name, coding_names[i]))
            return &self->weight[i];
    return NULL;
}

void accepted_init(accepted_t *self)
{
    memset(self, -1, sizeof(*self));
}

void accepted_add(accepted_t *self, const char *line, size_t len)
{
    span_t rest = {line, len};

    while (rest.len) {
        span_t parameters = cut_span(&rest, ',');
        bool weighted = parameters.len && memchr(parameters.text, ';', parameters.len);
        int16_t *weight = weight_of(self, cut_span(&parameters, ';'));
        int16_t said = weighted ? parse_weight(parameters) : 1000;

        if (weight && (*weight < 0 || said < *weight))
            *weight = said;
    }
}

coding_t accepted_best(const accepted_t *self)
{
    coding_t best = CODING_NONE;
    int most = 0;

    for (unsigned i = 0; i < CODING_COUNT; i++) {
        int weight = self->weight[i] >= 0 || !any_means[i] ? self->weight[i] : self->any;

        if (weight > most) {
            most = weight;
            best = (coding_t)i;
        }
    }
    return self->identity > most ? CODING_NONE : best;
}

/* ---- other fields ---- */

bool coding_list_has(const char *list, size_t len, const char *member)
{
    span_t rest = {list, len};

    while (rest.len)
        if (span_is(cut_span(&rest, ','), member))
            return true;
    return false;
}

bool coding_is_varied(const char *vary, size_t len)
{
    return coding_list_has(vary, len, "Accept-Encoding") || coding_list_has(vary, len, "*");
}

static bool ends_with(span_t text, const char *end)
{
    size_t len = strlen(end);

    return text.len > len && strncasecmp(text.text + text.len - len, end, len) == 0;
}

static bool begins_with(span_t text, const char *begin)
{
    size_t len = strlen(begin);

    return text.len > len && strncasecmp(text.text, begin, len) == 0;
}

/* Types other than text and what is made of JSON, XML or YAML, which have little redundancy only
 * where they are encoded already. */
static const char *const worth[] = {
    "application/cbor",
    "application/dns-json",
    "application/ecmascript",
    "application/eot",
    "application/graphql",
    "application/javascript",
    "application/json",
    "application/json-seq",
    "application/json5",
    "application/jsonl",
    "application/msgpack",
    "application/ndjson",
    "application/opentype",
    "application/rtf",
    "application/sql",
    "application/toml",
    "application/truetype",
    "application/vnd.ms-fontobject",
    "application/wasm",
    "application/x-font-opentype",
    "application/x-font-truetype",
    "application/x-font-ttf",
    "application/x-javascript",
    "application/x-ndjson",
    "application/x-protobuf",
    "application/x-sh",
    "application/x-www-form-urlencoded",
    "application/x-yaml",
    "application/xml",
    "application/xml-dtd",
    "application/yaml",
    "font/collection",
    "font/otf",
    "font/ttf",
    "image/bmp",
    "image/vnd.microsoft.icon",
    "image/x-icon",
};

bool coding_is_worth(const char *type, size_t len)
{
    span_t rest = {type, len}, name = cut_span(&rest, ';');

    /* each of its messages says whether it is compressed, and clients of it know no coding around
       all of them */
    if (begins_with(name, "application/grpc"))
        return false;
    if (begins_with(name, "text/") || ends_with(name, "+json") || ends_with(name, "+xml")
        || ends_with(name, "+text") || ends_with(name, "+yaml"))
        return true;
    for (size_t i = 0; i < sizeof(worth) / sizeof(*worth); i++)
        if (span_is(name, worth[i]))
            return true;
    return false;
}

/* The next entity tag of the list, without commas and spaces before it; it may have no quotes. */
static span_t cut_tag(span_t *rest)
{
    const char *at = rest->text, *end = at + rest->len, *begin, *close;

    while (at < end && (*at == ',' || *at == ' ' || *at == '\t'))
        at++;
    begin = at;
    if (end - at >= 2 && at[0] == 'W' && at[1] == '/')
        at += 2;
    if (at < end && *at == '"' && (close = memchr(at + 1, '"', (size_t)(end - at - 1))))
        at = close + 1;
    else
        while (at < end && *at != ',' && *at != ' ' && *at != '\t')
            at++;
    *rest = (span_t){at, (size_t)(end - at)};
    return (span_t){begin, (size_t)(at - begin)};
}

/* Each byte of the list is looked at once or twice: both the list and the tag come from outside. */
bool coding_has_weak(const char *line, size_t len, const char *tag, size_t tag_len)
{
    span_t rest = {line, len}, one;

    do {
        one = cut_tag(&rest);
        if (tag_len && one.len == tag_len + 2 && !memcmp(one.text, "W/", 2)
            && !memcmp(one.text + 2, tag, tag_len))
            return true;
    } while (one.len);
    return false;
}

coding_field_t coding_field(const char *name, size_t len)
{
    static const struct {
        const char *name;
        coding_field_t field;
    } fields[] = {
        {"Accept-Ranges", FIELD_ACCEPT_RANGES},
        {"Cache-Control", FIELD_CACHE_CONTROL},
        {"Content-Digest", FIELD_DIGEST},
        {"Content-Encoding", FIELD_CONTENT_ENCODING},
        {"Content-MD5", FIELD_DIGEST},
        {"Content-Range", FIELD_CONTENT_RANGE},
        {"Digest", FIELD_DIGEST},
        {"ETag", FIELD_ETAG},
        {"Repr-Digest", FIELD_DIGEST},
        {"Set-Cookie", FIELD_SET_COOKIE},
        {"Vary", FIELD_VARY},
    };

    for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++)
        if (span_is((span_t){name, len}, fields[i].name))
            return fields[i].field;
    return FIELD_OTHER;
}
