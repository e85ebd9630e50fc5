#include "services/gateway/framing.h"
#include "common/base/err.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { METHOD_MAX = 15, OVERHEAD_MAX = 8192 };

static int refuse_head(int code, const char **ret_why, const char *why)
{
    *ret_why = why;
    return code;
}

static int refuse_malformed(const char **ret_why, const char *why)
{
    return refuse_head(ERR_MALFORMED, ret_why, why);
}

/* ---- characters ---- */

static bool is_alnum(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* RFC 9110 5.6.2 */
static bool is_token(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!is_alnum((unsigned char)text[i]) && (!text[i] || !strchr("!#$%&'*+-.^_`|~", text[i])))
            return false;
    return len > 0;
}

static bool is_control(unsigned char c)
{
    return (c < 0x20 && c != '\t') || c == 0x7f;
}

bool framing_is_authority(const char *text, size_t len)
{
    const char *end = text + len, *at = text;

    if (len && *at == '[') {
        for (at++; at < end && (is_alnum((unsigned char)*at) || strchr(":.", *at)); at++)
            ;
        if (at == text + 1 || at == end || *at++ != ']')
            return false;
    } else {
        for (; at < end && (is_alnum((unsigned char)*at) || (*at && strchr("-._~", *at))); at++)
            ;
        if (at == text)
            return false;
    }
    if (at == end)
        return true;
    if (*at++ != ':' || end - at > 5)
        return false;
    for (; at < end; at++)
        if (*at < '0' || *at > '9')
            return false;
    return true;
}

/* ---- the request line ---- */

typedef struct line {
    size_t method_len, target_len;
    int minor;
} line_t;

static bool is_served_method(const char *text, size_t len)
{
    static const char *const methods[] = {"GET",   "HEAD",   "POST",   "PUT",
                                          "PATCH", "DELETE", "OPTIONS"};

    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
        if (strlen(methods[i]) == len && !memcmp(methods[i], text, len))
            return true;
    return false;
}

/* Split "method SP target SP version", which comes without the line's end. 0 | ERR_MALFORMED. */
static int split_line(const char *text, size_t len, line_t *ret_line, const char **ret_why)
{
    const char *target = memchr(text, ' ', len), *version;
    size_t version_len;

    if (!target || !is_token(text, (size_t)(target - text)))
        return refuse_malformed(ret_why, "The request line has no method.");
    ret_line->method_len = (size_t)(target++ - text);
    version = memchr(target, ' ', len - ret_line->method_len - 1);
    if (!version)
        return refuse_malformed(ret_why,
                                "The request line has no version: HTTP/0.9 is not served.");
    ret_line->target_len = (size_t)(version++ - target);
    version_len = len - (size_t)(version - text);
    if (version_len != 8 || memcmp(version, "HTTP/", 5) || version[5] < '0' || version[5] > '9'
        || version[6] != '.' || version[7] < '0' || version[7] > '9')
        return refuse_malformed(ret_why,
                                "The request line does not end with a version like HTTP/1.1.");
    if (version[5] != '1' || version[7] > '1')
        return refuse_head(ERR_HTTP_VERSION, ret_why, NULL);
    ret_line->minor = version[7] - '0';
    if (!ret_line->target_len)
        return refuse_malformed(ret_why, "The request line has no target.");
    for (size_t i = 0; i < ret_line->target_len; i++)
        if ((unsigned char)target[i] <= 0x20 || (unsigned char)target[i] >= 0x7f
            || target[i] == '#')
            return refuse_malformed(ret_why,
                                    "The target has a character that must be percent-encoded.");
    return is_served_method(text, ret_line->method_len)
               ? 0
               : refuse_head(ERR_METHOD_UNKNOWN, ret_why, NULL);
}

int framing_scan(const char *data, size_t len, size_t *at, size_t *ret_len, const char **ret_why)
{
    line_t line;
    int r;

    *ret_len = 0;
    *ret_why = NULL;
    for (; *at < len; (*at)++) {
        char c = data[*at];
        bool after_cr = *at && data[*at - 1] == '\r';

        if (*at >= HEAD_MAX)
            return refuse_head(ERR_HEAD_TOO_LARGE, ret_why, NULL);
        if (c == '\n' ? !after_cr : after_cr)
            return refuse_malformed(ret_why, "A line must end with CR LF.");
        if (c != '\n') {
            if (c != '\r' && is_control((unsigned char)c))
                return refuse_malformed(ret_why, "The head has a control character.");
            continue;
        }
        if (memchr(data, '\n', *at) == NULL) {
            r = split_line(data, *at - 1, &line, ret_why);
            if (r)
                return r;
        } else if (data[*at - 2] == '\n') {
            *ret_len = ++*at;
            return 0;
        }
    }
    return 0;
}

/* ---- headers ---- */

/* Split at the colon, without white space around the value. The line ends with CR, which becomes
 * NUL. */
static int add_header(head_t *head, char *line, char *end, const char **ret_why)
{
    char *colon = memchr(line, ':', (size_t)(end - line)), *value;

    if (*line == ' ' || *line == '\t')
        return refuse_malformed(ret_why, "A header must not go on in another line.");
    if (!colon || !is_token(line, (size_t)(colon - line)))
        return refuse_malformed(ret_why, "A header has no valid name.");
    if (head->header_count == HEADERS_MAX)
        return refuse_head(ERR_HEAD_TOO_LARGE, ret_why, "The request has more than 100 headers.");
    *colon = '\0';
    for (value = colon + 1; value < end && (*value == ' ' || *value == '\t'); value++)
        ;
    for (; end > value && (end[-1] == ' ' || end[-1] == '\t'); end--)
        ;
    *end = '\0';
    head->headers[head->header_count].name = line;
    head->headers[head->header_count++].value = value;
    return 0;
}

const char *framing_get(const head_t *self, const char *name)
{
    for (size_t i = 0; i < self->header_count; i++)
        if (!strcasecmp(self->headers[i].name, name))
            return self->headers[i].value;
    return NULL;
}

bool framing_client(const head_t *self, char out[INET6_ADDRSTRLEN])
{
    const char *client = framing_get(self, "X-Forwarded-For");
    struct in6_addr v6;
    struct in_addr v4;
    size_t clients = 0;

    for (size_t i = 0; i < self->header_count; i++)
        clients += !strcasecmp(self->headers[i].name, "X-Forwarded-For");
    if (clients != 1)
        return false;
    if (inet_pton(AF_INET, client, &v4) == 1)
        return inet_ntop(AF_INET, &v4, out, INET6_ADDRSTRLEN);
    if (inet_pton(AF_INET6, client, &v6) != 1)
        return false;
    if (IN6_IS_ADDR_V4MAPPED(&v6))
        return inet_ntop(AF_INET, &v6.s6_addr[12], out, INET6_ADDRSTRLEN);
    return inet_ntop(AF_INET6, &v6, out, INET6_ADDRSTRLEN);
}

static size_t count_headers(const head_t *self, const char *name)
{
    size_t n = 0;

    for (size_t i = 0; i < self->header_count; i++)
        n += !strcasecmp(self->headers[i].name, name);
    return n;
}

/* Does a header of this name list the word? (comma-separated, in any case) */
static bool header_lists(const head_t *self, const char *name, const char *word)
{
    for (size_t i = 0; i < self->header_count; i++) {
        if (strcasecmp(self->headers[i].name, name))
            continue;
        for (const char *at = self->headers[i].value; *at; at += strcspn(at, ",")) {
            size_t len;

            at += strspn(at, ", \t");
            len = strcspn(at, ", \t");
            if (len == strlen(word) && !strncasecmp(at, word, len))
                return true;
        }
    }
    return false;
}

/* RFC 9112 3.2: exactly one with HTTP/1.1, and a valid one. */
static int check_host(const head_t *head, const char **ret_why)
{
    size_t hosts = count_headers(head, "Host");
    const char *host = framing_get(head, "Host");

    if (hosts > 1 || (!hosts && head->minor))
        return refuse_malformed(ret_why, "The request must have exactly one Host header.");
    return !host || framing_is_authority(host, strlen(host))
               ? 0
               : refuse_malformed(ret_why, "The Host header is not a host or host:port.");
}

/* The body's length by RFC 9112 6.3, refusing also what the RFC lets a server repair. */
static int check_length(head_t *head, const char **ret_why)
{
    size_t lengths = count_headers(head, "Content-Length"),
           codings = count_headers(head, "Transfer-Encoding");
    const char *length = framing_get(head, "Content-Length");

    if (lengths > 1)
        return refuse_malformed(ret_why, "The request has more than one Content-Length header.");
    if (lengths && codings)
        return refuse_malformed(
            ret_why, "The request has both a Content-Length and a Transfer-Encoding header.");
    if (codings) {
        if (codings > 1 || !head->minor
            || strcasecmp(framing_get(head, "Transfer-Encoding"), "chunked"))
            return refuse_malformed(ret_why,
                                    "The only Transfer-Encoding is chunked, with HTTP/1.1.");
        head->chunked = true;
    }
    if (length) {
        size_t len = strlen(length);

        if (!len || len > 18 || strspn(length, "0123456789") != len)
            return refuse_malformed(ret_why, "The Content-Length is not a number.");
        head->content_length = strtoull(length, NULL, 10);
    }
    return 0;
}

/* Headers with a single value must not be repeated. */
static int check_single(const head_t *head, const char **ret_why)
{
    static const char *const names[] = {"Authorization",   "Content-Type",    "Idempotency-Key",
                                        "Service-Version", "Postern-Version", "Ngrok-Version",
                                        "Expect"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (count_headers(head, names[i]) > 1)
            return refuse_malformed(ret_why, "A header that has one value was sent twice.");
    return 0;
}

/* RFC 9112 3.2.2: a target with scheme and authority is served by its path; its authority takes the
 * place of Host. */
static int to_origin_form(head_t *head, const char **ret_why)
{
    char *target = head->target, *path;
    size_t scheme = !strncasecmp(target, "http://", 7)    ? 7
                    : !strncasecmp(target, "https://", 8) ? 8
                                                          : 0;

    if (*target == '/' || (!strcmp(target, "*") && !strcmp(head->method, "OPTIONS")))
        return 0;
    path = target + scheme + strcspn(target + scheme, "/?");
    if (!scheme || !framing_is_authority(target + scheme, (size_t)(path - target) - scheme))
        return refuse_malformed(ret_why, "The target is neither a path nor an http or https URL.");
    if (*path == '/') {
        head->target = path;
    } else if (!*path && !strcmp(head->method, "OPTIONS")) {
        head->target = (char *)memcpy(target, "*", 2);
    } else { /* no path: it becomes "/", before the query */
        *--path = '/';
        head->target = path;
    }
    return 0;
}

int framing_parse(char *data, size_t len, head_t *ret_head, const char **ret_why)
{
    char *end = data + len - 2, *at = memchr(data, '\n', len); /* the end of the last header */
    const char *expect;
    line_t line;
    int r;

    *ret_why = NULL;
    memset(ret_head, 0, sizeof(*ret_head));
    r = split_line(data, (size_t)(at - data) - 1, &line, ret_why);
    if (r)
        return r;
    ret_head->method = data;
    data[line.method_len] = '\0';
    ret_head->target = data + line.method_len + 1;
    ret_head->target[line.target_len] = '\0';
    ret_head->minor = line.minor;
    for (at++; !r && at < end; at++) {
        char *next = memchr(at, '\n', (size_t)(end - at));

        r = add_header(ret_head, at, next - 1, ret_why);
        at = next;
    }
    if (!r)
        r = check_host(ret_head, ret_why);
    if (!r)
        r = check_length(ret_head, ret_why);
    if (!r)
        r = check_single(ret_head, ret_why);
    if (!r)
        r = to_origin_form(ret_head, ret_why);
    if (r)
        return r;
    ret_head->closes = ret_head->minor ? header_lists(ret_head, "Connection", "close")
                                       : !header_lists(ret_head, "Connection", "keep-alive");
    expect = framing_get(ret_head, "Expect");
    if (expect && strcasecmp(expect, "100-continue"))
        return refuse_head(ERR_EXPECTATION, ret_why, NULL);
    ret_head->expects_continue = expect && ret_head->minor;
    return 0;
}

/* ---- chunks ---- */

enum {
    SIZE,
    EXTENSION,
    SIZE_LF,
    DATA,
    DATA_CR,
    DATA_LF,
    TRAILER,
    TRAILER_LINE,
    TRAILER_LF,
    END_LF
};

static int digit_of(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Take one byte of a chunked body that is not content. Returns the next state, or -1: malformed. */
static int chunk_step(chunks_t *self, char c)
{
    int digit = digit_of(c);

    switch (self->state) {
    case SIZE:
        if (digit >= 0 && self->digits < 8) {
            self->left = self->left * 16 + (unsigned)digit;
            self->digits++;
            return SIZE;
        }
        return !self->digits ? -1 : c == '\r' ? SIZE_LF : c == ';' ? EXTENSION : -1;
    case EXTENSION:
        return c == '\r' ? SIZE_LF : is_control((unsigned char)c) ? -1 : EXTENSION;
    case SIZE_LF:
        self->digits = 0;
        return c != '\n' ? -1 : self->left ? DATA : TRAILER;
    case DATA_CR:
        return c == '\r' ? DATA_LF : -1;
    case DATA_LF:
        return c == '\n' ? SIZE : -1;
    case TRAILER:
        return c == '\r' ? END_LF : is_control((unsigned char)c) ? -1 : TRAILER_LINE;
    case TRAILER_LINE:
        return c == '\r' ? TRAILER_LF : is_control((unsigned char)c) ? -1 : TRAILER_LINE;
    case TRAILER_LF:
        return c == '\n' ? TRAILER : -1;
    default: /* END_LF: the body has ended, and no byte is asked for after it */
        return c == '\n' ? END_LF : -1;
    }
}

int chunks_take(chunks_t *self, char *data, size_t len, size_t *ret_used, size_t *ret_body,
                bool *ret_done, const char **ret_why)
{
    size_t in = 0, out = 0;

    *ret_done = false;
    while (in < len && !*ret_done) {
        if (self->state == DATA) {
            size_t n = self->left < len - in ? (size_t)self->left : len - in;

            memmove(data + out, data + in, n);
            in += n;
            out += n;
            self->left -= n;
            if (!self->left)
                self->state = DATA_CR;
            continue;
        }
        if (self->state == EXTENSION || self->state == TRAILER_LINE)
            self->overhead++;
        *ret_done = self->state == END_LF && data[in] == '\n';
        self->state = chunk_step(self, data[in++]);
        if (self->state < 0 || self->overhead > OVERHEAD_MAX)
            return refuse_malformed(ret_why, "The chunked body breaks its framing.");
    }
    *ret_used = in;
    *ret_body = out;
    return 0;
}
