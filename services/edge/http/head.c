#include "services/edge/http/head.h"

#include <endian.h>
#include <string.h>
#include <strings.h>

void head_begin(head_t *self)
{
    *self = (head_t){.length = -1};
}

bool head_is_interim(const head_t *self)
{
    return self->status < 200 && self->status != 101;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Characters of a token (RFC 9110 5.6.2), mapped to lower case; 0: not a token character. */
static const unsigned char tokens[256] = {
#define SAME(c)  [c] = c
#define LOWER(c) [c] = c, [c - 32] = c
    SAME('!'),  SAME('#'),  SAME('$'),  SAME('%'),  SAME('&'),  SAME('\''), SAME('*'),  SAME('+'),
    SAME('-'),  SAME('.'),  SAME('^'),  SAME('_'),  SAME('`'),  SAME('|'),  SAME('~'),  SAME('0'),
    SAME('1'),  SAME('2'),  SAME('3'),  SAME('4'),  SAME('5'),  SAME('6'),  SAME('7'),  SAME('8'),
    SAME('9'),  LOWER('a'), LOWER('b'), LOWER('c'), LOWER('d'), LOWER('e'), LOWER('f'), LOWER('g'),
    LOWER('h'), LOWER('i'), LOWER('j'), LOWER('k'), LOWER('l'), LOWER('m'), LOWER('n'), LOWER('o'),
    LOWER('p'), LOWER('q'), LOWER('r'), LOWER('s'), LOWER('t'), LOWER('u'), LOWER('v'), LOWER('w'),
    LOWER('x'), LOWER('y'), LOWER('z'),
#undef SAME
#undef LOWER
};

static bool is_token(char c)
{
    return tokens[(unsigned char)c];
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

static uint64_t load(const char *text)
{
    uint64_t word;

    memcpy(&word, text, sizeof(word));
    return word;
}

/* Compare without regard to case, eight bytes at once. Words are letters and '-'. Ignoring bit 0x20
 * also equates them with control characters and the like, which a checked line does not contain. */
static inline bool is_word(const char *text, size_t len, const char *word)
{
    const uint64_t lower = 0x2020202020202020;
    size_t at = 0;

    if (len != strlen(word))
        return false;
    if (len < sizeof(lower)) {
        while (at < len && ((text[at] ^ word[at]) & ~0x20) == 0)
            at++;
        return at == len;
    }
    while (at < len - sizeof(lower) && ((load(text + at) ^ load(word + at)) & ~lower) == 0)
        at += sizeof(lower);
    return at >= len - sizeof(lower)
           && ((load(text + len - sizeof(lower)) ^ load(word + len - sizeof(lower))) & ~lower) == 0;
}

bool head_field_is(const head_field_t *field, const char *name)
{
    return is_word(field->name, field->name_len, name);
}

/* ---- lines ---- */

/* Not allowed in a field's value (RFC 9110 5.5: HTAB, SP, VCHAR, obs-text) nor in a reason (RFC
 * 9112 4). */
static bool is_control(char c)
{
    return ((unsigned char)c < ' ' && c != '\t') || c == 0x7f;
}

/* The first control character other than a tab; end: there is none. Works on eight bytes at once:
 * the subtraction marks bytes below ' ', the addition marks DEL, in the top bit of each byte. A
 * carry may mark later bytes wrongly, so only the lowest marked byte is used. */
static const char *find_control(const char *at, const char *end)
{
    const uint64_t each = 0x0101010101010101;
    uint64_t word, found;

    while (end - at >= (ptrdiff_t)sizeof(word)) {
        word = le64toh(load(at));
        found = ((word - ' ' * each) | ((word & 0x7f * each) + each)) & ~word & 0x80 * each;
        if (!found) {
            at += sizeof(word);
            continue;
        }
        at += __builtin_ctzll(found) / 8;
        if (*at != '\t')
            return at;
        at++;
    }
    while (at < end && !is_control(*at))
        at++;
    return at;
}

bool head_is_token(const char *name, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!is_token(name[i]))
            return false;
    return len > 0;
}

bool head_has_control(const char *value, size_t len)
{
    return find_control(value, value + len) != value + len;
}

/* Return the line that begins at self->len, without its end, and move self->len behind it. False:
 * the line's end has not arrived. A line feed alone ends a line, too (RFC 9112 2.2); any other
 * control character sets self->stray. */
static bool take_line(head_t *self, const char *data, size_t len, const char **ret_line,
                      size_t *ret_len)
{
    const char *line = data + self->len, *end = data + len, *at;

    for (at = data + self->seen;; at++) {
        at = find_control(at, end);
        if (at == end || (at + 1 == end && *at == '\r')) {
            self->seen = (size_t)(at - data); /* a CR at the end: the next byte decides */
            return false;
        }
        if (*at == '\n' || (*at == '\r' && at[1] == '\n'))
            break;
        self->stray = true;
    }
    *ret_line = line;
    *ret_len = (size_t)(at - line);
    self->len = self->seen = (size_t)(at - data) + (*at == '\r') + 1;
    return true;
}

/* The next line of a complete head: *at is where it begins, and is moved behind it. */
static bool next_line(const char *data, size_t len, size_t *at, const char **ret_line,
                      size_t *ret_len)
{
    const char *end = *at < len ? memchr(data + *at, '\n', len - *at) : NULL;

    if (!end)
        return false;
    *ret_line = data + *at;
    *ret_len = (size_t)(end - *ret_line);
    *at += *ret_len + 1;
    if (*ret_len && end[-1] == '\r')
        --*ret_len;
    return true;
}

/* Could these bytes begin "HTTP/1.x nnn"? Checked before the line is complete, so that a response
 * without a status line is refused at its first byte. */
static bool begins_status_line(const char *text, size_t len)
{
    static const char form[] = "HTTP/1.0 000";
    enum { SAME = sizeof("HTTP/1.") - 1 };

    if (memcmp(text, form, len < SAME ? len : SAME) != 0)
        return false;
    for (size_t i = SAME; i < len && i < sizeof(form) - 1; i++)
        if (form[i] == '0' ? !is_digit(text[i]) : text[i] != form[i])
            return false;
    return true;
}

/* Parse the status line (RFC 9112 4); the reason may be absent, and then also the space before
 * it. */
static const char *read_status(head_t *self, const char *line, size_t len)
{
    if (len < sizeof("HTTP/1.0 000") - 1 || !begins_status_line(line, len))
        return "no status line of HTTP/1";
    if (len > 12 && line[12] != ' ')
        return "a status that is not three digits";
    if (self->stray)
        return "a control character in the status line";
    self->status_line = len;
    self->status = (unsigned)(100 * (line[9] - '0') + 10 * (line[10] - '0') + (line[11] - '0'));
    return self->status < 100 || self->status > 599 ? "a status that is not from 100 to 599" : NULL;
}

/* Parse "name: value", with optional white space around the value. NULL, or why it is malformed. */
static const char *read_field(const char *line, size_t len, head_field_t *ret_field)
{
    const char *at = line, *end = line + len;

    if (is_space(*line))
        return "a folded field";
    while (is_token(*at))
        at++; /* ends at the latest at the line's end, which is no token character */
    if (at == line || *at != ':')
        return "a field whose name is no token";
    ret_field->name = line;
    ret_field->name_len = (size_t)(at - line);
    do
        at++;
    while (at < end && is_space(*at));
    while (end > at && is_space(end[-1]))
        end--;
    ret_field->value = at;
    ret_field->value_len = (size_t)(end - at);
    return NULL;
}

/* ---- where the body ends ---- */

static const char *read_length(head_t *self, const head_field_t *field)
{
    int64_t length = 0;

    if (!field->value_len)
        return "a Content-Length that is no number";
    for (size_t i = 0; i < field->value_len; i++)
        if (!is_digit(field->value[i]) || __builtin_mul_overflow(length, 10, &length)
            || __builtin_add_overflow(length, field->value[i] - '0', &length))
            return "a Content-Length that is no number";
    if (self->length >= 0)
        return "two Content-Length"; /* also equal ones: later versions of nginx take none, and one
                                        behaviour is promised */
    self->length = length;
    return NULL;
}

/* Only "chunked", and only once: the edge asks for no other coding, and with one it could not tell
 * where the body ends. */
static const char *read_coding(head_t *self, const head_field_t *field)
{
    if (self->chunked)
        return "two Transfer-Encoding";
    if (!is_word(field->value, field->value_len, "chunked"))
        return "a Transfer-Encoding that is not chunked";
    self->chunked = true;
    return NULL;
}

/* ---- hop-by-hop fields ---- */

bool head_next_option(const char *list, size_t len, size_t *at, head_option_t *ret_option)
{
    const char *start, *end;

    while (*at < len && (is_space(list[*at]) || list[*at] == ','))
        ++*at;
    if (*at == len)
        return false;
    start = list + *at;
    end = memchr(start, ',', len - *at);
    if (!end)
        end = list + len;
    *at = (size_t)(end - list);
    while (is_space(end[-1]))
        end--;
    *ret_option = (head_option_t){start, (size_t)(end - start)};
    return true;
}

typedef enum {
    OTHER,
    LENGTH,
    CODING,
    CONNECTION, /* these three are needed by whoever reads the head: naming them in Connection does
                   not remove them */
    HOP,
    UPGRADE,
} kind_t;

static kind_t kind_of(const head_field_t *field)
{
    switch (field->name_len) { /* for most fields the length decides */
    case sizeof("TE") - 1:
        return head_field_is(field, "TE") ? HOP : OTHER;
    case sizeof("Trailer") - 1: /* and Upgrade */
        return head_field_is(field, "Trailer")   ? HOP
               : head_field_is(field, "Upgrade") ? UPGRADE
                                                 : OTHER;
    case sizeof("Connection") - 1: /* and Keep-Alive */
        return head_field_is(field, "Connection")   ? CONNECTION
               : head_field_is(field, "Keep-Alive") ? HOP
                                                    : OTHER;
    case sizeof("Content-Length") - 1:
        return head_field_is(field, "Content-Length") ? LENGTH : OTHER;
    case sizeof("Proxy-Connection") - 1:
        return head_field_is(field, "Proxy-Connection") ? HOP : OTHER;
    case sizeof("Transfer-Encoding") - 1:
        return head_field_is(field, "Transfer-Encoding") ? CODING : OTHER;
    default:
        return OTHER;
    }
}

static bool is_of_hop(const head_t *self, kind_t kind)
{
    return kind == HOP || (kind == UPGRADE && self->status != 101);
}

bool head_option_names(const head_option_t *option)
{
    return !is_word(option->name, option->len, "close")
           && !is_word(option->name, option->len, "keep-alive");
}

static const char *read_options(head_t *self, const head_field_t *field)
{
    head_option_t option;

    for (size_t at = 0; head_next_option(field->value, field->value_len, &at, &option);) {
        if (++self->options > HEAD_OPTIONS_MAX)
            return "too many options in Connection";
        if (head_option_names(&option))
            self->hop = true;
    }
    return NULL;
}

/* The protocol that a 101 switches to (RFC 9110 7.8): exactly one, and only websocket, since the
 * edge passes no other request for an upgrade on. */
static void read_upgrade(head_t *self, const head_field_t *field)
{
    self->websocket = ++self->upgrades == 1 && is_word(field->value, field->value_len, "websocket");
}

static void count_field(head_t *self, const head_field_t *field)
{
    size_t larger = field->name_len > field->value_len ? field->name_len : field->value_len;

    self->fields++;
    self->names += field->name_len;
    if (larger > self->largest)
        self->largest = larger;
}

static const char *take_field(head_t *self, const char *line, size_t len)
{
    head_field_t field;
    const char *why = read_field(line, len, &field);
    kind_t kind;

    if (why)
        return why;
    if (self->stray)
        return "a control character in a field";
    count_field(self, &field);
    if (self->fields > HEAD_FIELDS_MAX)
        return "too many fields";
    if (head_is_interim(self))
        return NULL; /* it ends with the empty line, whatever it says (RFC 9112 6.3) */
    kind = kind_of(&field);
    if (kind == LENGTH)
        why = read_length(self, &field);
    else if (kind == CODING)
        why = read_coding(self, &field);
    else if (kind == CONNECTION)
        why = read_options(self, &field);
    else if (is_of_hop(self, kind))
        self->hop = true;
    else if (kind == UPGRADE)
        read_upgrade(self, &field);
    if (!why && self->chunked && self->length >= 0)
        why = "Content-Length and Transfer-Encoding";
    return why;
}

head_verdict_t head_scan(head_t *self, const char *data, size_t len, const char **ret_why)
{
    const char *line;
    size_t line_len;

    while (take_line(self, data, len, &line, &line_len)) {
        if (self->status && line_len == 0)
            return HEAD_WHOLE;
        *ret_why =
            self->status ? take_field(self, line, line_len) : read_status(self, line, line_len);
        if (*ret_why)
            return HEAD_BAD;
    }
    if (!self->status && !begins_status_line(data, len)) {
        *ret_why = "no status line of HTTP/1";
        return HEAD_BAD;
    }
    return HEAD_MORE;
}

/* ---- fields of a whole head ---- */

size_t head_status_len(const char *data, size_t len)
{
    const char *end = memchr(data, '\n', len);

    return end ? (size_t)(end - data) + 1 : 0;
}

bool head_next(const char *data, size_t len, size_t *at, head_field_t *ret_field)
{
    const char *line;
    size_t line_len;

    if (*at == 0)
        *at = head_status_len(data, len);
    return *at && next_line(data, len, at, &line, &line_len) && line_len
           && !read_field(line, line_len, ret_field);
}

bool head_next_folded(const char *data, size_t len, size_t *at, head_field_t *ret_field,
                      char *lower, uintptr_t *ret_hash)
{
    const char *name = data + *at, *value, *end;
    uintptr_t hash = 0;
    unsigned char c;
    size_t n;

    for (n = 0; (c = tokens[(unsigned char)name[n]]); n++) {
        lower[n] = (char)c;
        hash = 31 * hash + c;
    }
    if (n == 0)
        return false;
    value = name + n + 1;
    end = memchr(value, '\n', (size_t)(data + len - value));
    *at = (size_t)(end - data) + 1;
    while (is_space(*value))
        value++;
    while (end > value && (is_space(end[-1]) || end[-1] == '\r'))
        end--;
    *ret_field = (head_field_t){name, value, n, (size_t)(end - value)};
    *ret_hash = hash;
    return true;
}

static bool begins(const head_field_t *field, const char *prefix)
{
    size_t len = strlen(prefix);

    return field->name_len >= len && strncasecmp(field->name, prefix, len) == 0;
}

bool head_field_passes(const head_field_t *field)
{
    static const char *const own[] = {"Keep-Alive", "Proxy-Connection", "TE",
                                      "Trailer",    "Upgrade",          "Transfer-Encoding",
                                      "Date",       "Server",           "Content-Length"};

    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        if (head_field_is(field, own[i]))
            return false;
    return !begins(field, "X-Accel-") && !begins(field, "Postern-");
}

static size_t list_options(const head_t *self, const char *data,
                           head_option_t options[HEAD_OPTIONS_MAX])
{
    size_t count = 0;
    head_field_t field;

    for (size_t at = 0; head_next(data, self->len, &at, &field);)
        if (head_field_is(&field, "Connection"))
            for (size_t in = 0;
                 count < HEAD_OPTIONS_MAX
                 && head_next_option(field.value, field.value_len, &in, &options[count]);)
                count++;
    return count;
}

static bool ends_here(const head_t *self, const head_field_t *field, const head_option_t *options,
                      size_t count)
{
    kind_t kind = kind_of(field);

    if (kind != OTHER)
        return is_of_hop(self, kind);
    for (size_t i = 0; i < count; i++)
        if (options[i].len == field->name_len
            && strncasecmp(options[i].name, field->name, field->name_len) == 0)
            return true;
    return false;
}

size_t head_end_hop(head_t *self, char *data)
{
    head_option_t options[HEAD_OPTIONS_MAX];
    const char *line;
    head_field_t field;
    size_t len, from, count, kept = 0, removed;

    if (!self->hop)
        return 0;
    count = list_options(self, data, options);
    /* options points into the head, so nothing may move before all fields are compared: the first
     * loop only marks fields to remove, with a NUL, which begins no name. */
    for (size_t at = 0; head_next(data, self->len, &at, &field);)
        if (ends_here(self, &field, options, count))
            data[field.name - data] = '\0';
    for (size_t at = 0; from = at, next_line(data, self->len, &at, &line, &len);) {
        if (*line == '\0')
            continue;
        memmove(data + kept, line, at - from);
        kept += at - from;
    }
    removed = self->len - kept;
    memmove(data + removed, data, kept);
    self->len = kept;
    return removed;
}
