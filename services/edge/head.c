#include "head.h"

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

/* RFC 9110 5.6.2 */
static bool is_token(char c)
{
    static const bool tokens[256] = {
        ['!'] = true,         ['#' ... '\''] = true, ['*'] = true, ['+'] = true,
        ['-'] = true,         ['.'] = true,          ['|'] = true, ['~'] = true,
        ['0' ... '9'] = true, ['A' ... 'Z'] = true,  ['^'] = true, ['_'] = true,
        ['`'] = true,         ['a' ... 'z'] = true,
    };

    return tokens[(unsigned char)c];
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

/* RFC 9110 5.5: a value is of HTAB, SP, VCHAR and obs-text; so is a reason (RFC 9112 4). */
static bool has_control(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (((unsigned char)text[i] < ' ' && text[i] != '\t') || text[i] == 0x7f)
            return true;
    return false;
}

static bool is_word(const char *text, size_t len, const char *word)
{
    return len == strlen(word) && strncasecmp(text, word, len) == 0;
}

bool head_field_is(const head_field_t *field, const char *name)
{
    return is_word(field->name, field->name_len, name);
}

/* ---- lines ---- */

/* Of the line that begins at *at, without its end; then *at is behind it. False: its end is not there yet. A line feed alone
 * ends a line, too (RFC 9112 2.2). */
static bool next_line(const char *data, size_t len, size_t *at, size_t seen, const char **ret_line,
                      size_t *ret_len)
{
    const char *end = seen < len ? memchr(data + seen, '\n', len - seen) : NULL;

    if (!end)
        return false;
    *ret_line = data + *at;
    *ret_len = (size_t)(end - *ret_line);
    *at += *ret_len + 1;
    if (*ret_len && end[-1] == '\r')
        --*ret_len;
    return true;
}

/* As far as it has come, is this the beginning of "HTTP/1.x nnn"? An answer without a status line is known by its first byte. */
static bool begins_status_line(const char *text, size_t len)
{
    static const char form[] = "HTTP/1.0 000";

    for (size_t i = 0; i < len && i < sizeof(form) - 1; i++)
        if (form[i] == '0' ? !is_digit(text[i]) : text[i] != form[i])
            return false;
    return true;
}

/* RFC 9112 4; a reason may be absent with its space. */
static const char *read_status(head_t *self, const char *line, size_t len)
{
    if (len < sizeof("HTTP/1.0 000") - 1 || !begins_status_line(line, len))
        return "no status line of HTTP/1";
    if (len > 12 && line[12] != ' ')
        return "a status that is not three digits";
    if (has_control(line, len))
        return "a control character in the status line";
    self->status = (unsigned)(100 * (line[9] - '0') + 10 * (line[10] - '0') + (line[11] - '0'));
    return self->status < 100 || self->status > 599 ? "a status that is not from 100 to 599" : NULL;
}

/* A name, a colon, a value without control characters in it, and spaces around. */
static const char *read_field(const char *line, size_t len, head_field_t *ret_field)
{
    const char *at = line, *end = line + len;

    if (is_space(*line))
        return "a folded field";
    while (at < end && is_token(*at))
        at++;
    if (at == line || at == end || *at != ':')
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
    return has_control(at, ret_field->value_len) ? "a control character in a field" : NULL;
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
        return "two Content-Length"; /* also equal ones: later versions of nginx take none, and one behaviour is promised */
    self->length = length;
    return NULL;
}

/* chunked, once, and nothing else: no other coding was asked for, and what it would hide is a body's end. */
static const char *read_coding(head_t *self, const head_field_t *field)
{
    if (self->chunked)
        return "two Transfer-Encoding";
    if (!is_word(field->value, field->value_len, "chunked"))
        return "a Transfer-Encoding that is not chunked";
    self->chunked = true;
    return NULL;
}

/* ---- what is of the connection ---- */

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

/* They frame the body, and steer who reads the head: to name them in Connection takes nothing away. */
static bool is_of_framing(const char *name, size_t len)
{
    return is_word(name, len, "Connection") || is_word(name, len, "Content-Length")
           || is_word(name, len, "Transfer-Encoding");
}

static bool is_of_hop(const head_t *self, const head_field_t *field)
{
    static const char *const names[] = {"Keep-Alive", "Proxy-Connection", "TE", "Trailer"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (head_field_is(field, names[i]))
            return true;
    return self->status != 101 && head_field_is(field, "Upgrade");
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

/* What a 101 goes over to: one protocol, and there is one that the edge lets a client ask for (RFC 9110 7.8). */
static void read_upgrade(head_t *self, const head_field_t *field)
{
    self->websocket = ++self->upgrades == 1 && is_word(field->value, field->value_len, "websocket");
}

static const char *take_field(head_t *self, const char *line, size_t len)
{
    head_field_t field;
    const char *why = read_field(line, len, &field);

    if (why)
        return why;
    if (++self->fields > HEAD_FIELDS_MAX)
        return "too many fields";
    if (head_is_interim(self))
        return NULL; /* it ends with the empty line, whatever it says (RFC 9112 6.3) */
    if (head_field_is(&field, "Content-Length"))
        why = read_length(self, &field);
    else if (head_field_is(&field, "Transfer-Encoding"))
        why = read_coding(self, &field);
    else if (head_field_is(&field, "Connection"))
        why = read_options(self, &field);
    else if (is_of_hop(self, &field))
        self->hop = true;
    else if (head_field_is(&field, "Upgrade"))
        read_upgrade(self, &field);
    if (!why && self->chunked && self->length >= 0)
        why = "Content-Length and Transfer-Encoding";
    return why;
}

head_verdict_t head_scan(head_t *self, const char *data, size_t len, const char **ret_why)
{
    const char *line;
    size_t line_len;

    if (!self->status && !begins_status_line(data, len)) {
        *ret_why = "no status line of HTTP/1";
        return HEAD_BAD;
    }
    while (next_line(data, len, &self->len, self->seen, &line, &line_len)) {
        self->seen = self->len;
        if (self->status && line_len == 0)
            return HEAD_WHOLE;
        *ret_why =
            self->status ? take_field(self, line, line_len) : read_status(self, line, line_len);
        if (*ret_why)
            return HEAD_BAD;
    }
    self->seen = len;
    return HEAD_MORE;
}

/* ---- fields of a whole head ---- */

bool head_next(const char *data, size_t len, size_t *at, head_field_t *ret_field)
{
    const char *line;
    size_t line_len;

    if (*at == 0 && !next_line(data, len, at, 0, &line, &line_len))
        return false;
    return next_line(data, len, at, *at, &line, &line_len) && line_len
           && !read_field(line, line_len, ret_field);
}

bool head_field_passes(const head_field_t *field)
{
    static const char *const own[] = {"Keep-Alive", "Proxy-Connection", "TE",
                                      "Trailer",    "Upgrade",          "Transfer-Encoding",
                                      "Date",       "Server",           "Content-Length"};
    static const char accel[] = "X-Accel-";

    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        if (head_field_is(field, own[i]))
            return false;
    return field->name_len < sizeof(accel) - 1
           || strncasecmp(field->name, accel, sizeof(accel) - 1) != 0;
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
    if (is_of_framing(field->name, field->name_len))
        return false;
    if (is_of_hop(self, field))
        return true;
    if (self->status == 101 && head_field_is(field, "Upgrade"))
        return false;
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
    /* Names in Connection are looked at until the last field is known: fields are only marked, by what no name begins with. */
    for (size_t at = 0; head_next(data, self->len, &at, &field);)
        if (ends_here(self, &field, options, count))
            data[field.name - data] = '\0';
    for (size_t at = 0; from = at, next_line(data, self->len, &at, at, &line, &len);) {
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
