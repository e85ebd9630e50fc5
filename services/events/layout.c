#include "services/events/layout.h"
#include "common/base/memory.h"
#include "common/base/cleanup.h"
#include "common/codec/token.h"
#include "common/base/utf8.h"
#include "services/events/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    TEXT_MAX = 32768,
    /* bytes of a default: each event that does not have the field has it in its envelope */
    DEFAULT_MAX = 64,
    /* bytes of an envelope that do not come from the event: names and defaults */
    NOTHING_MAX = 2048,
    FIELDS_MAX = 128, /* a field's number is one byte */
    TOPIC_MAX = 96,
    NAME_MAX_BYTES = 96,
    PAIRS_MAX = 256,  /* headers of one event */
    NUMBERS_MAX = 64, /* names of one map of numbers */
    PAIR_ITEMS = 2
};

/* Numbers of the three fields that every envelope begins with. */
enum { EVENT_ID, EVENT_TIMESTAMP, ACCOUNT_ID, ENVELOPE_FIELDS };

/* Append a field's value, or its default. */
typedef int (*put_value_t)(layout_t *self, token_reader_t *in, const token_t *value);

typedef struct field {
    const char *name;
    size_t name_len;
    put_value_t put;
    const char *fallback;
    size_t fallback_len;
    /* in the layout's keys: what stands between the previous value and this one */
    size_t keys, keys_len;
} field_t;

struct layout {
    char *text; /* owned; the fields point into it */
    size_t text_len, topic_len;
    field_t fields[FIELDS_MAX];
    size_t n;
    msgpack_sbuffer keys;
    msgpack_sbuffer scratch; /* cleaned strings of the current value */
    msgpack_packer out;      /* appends by put_raw */
    msgpack_sbuffer *to;     /* what put_raw appends to */
    bool failed;             /* put_raw ran out of memory */
    time_t second;           /* the second whose text is cached */
    char second_text[sizeof("0000-00-00T00:00:00.")];
};

static int put_raw(void *context, const char *bytes, size_t len)
{
    layout_t *self = context;
    int r = msgpack_sbuffer_write(self->to, bytes, len);

    self->failed |= r != 0;
    return r;
}

static void put_to(layout_t *self, msgpack_sbuffer *to)
{
    self->to = to;
    self->failed = false;
    msgpack_packer_init(&self->out, self, put_raw);
}

static void put_bytes(layout_t *self, const void *bytes, size_t len)
{
    msgpack_pack_str(&self->out, len);
    if (len)
        msgpack_pack_str_body(&self->out, bytes, len);
}

/* ---- values ---- */

/* Replace NUL and what is not UTF-8 by '?': every string of an event is text. In place; it never
 * grows. */
static void clean_text(unsigned char *data, size_t len)
{
    unsigned char *end = data + len;

    while (data < end) {
        size_t n = *data ? utf8_character(data, end) : 0;

        if (n == 0)
            *data = '?';
        data += n ? n : 1;
    }
}

/* Changes letters; out and data may be the same. */
typedef bool (*letters_t)(unsigned char *out, const unsigned char *data, size_t len);

static bool as_is(unsigned char *out, const unsigned char *data, size_t len)
{
    (void)out; /* out and data are the same */
    return text_is_ascii(data, len);
}

/* Append these bytes to scratch as clean text. 0 | -ENOMEM. */
static int clean_into(layout_t *self, const token_t *bytes, letters_t letters)
{
    size_t start = self->scratch.size;
    unsigned char *at;

    if (!bytes->len)
        return 0;
    if (msgpack_sbuffer_write(&self->scratch, bytes->bytes, bytes->len))
        return -ENOMEM;
    at = (unsigned char *)self->scratch.data + start;
    if (!letters(at, at, bytes->len) || memchr(at, '\0', bytes->len))
        clean_text(at, bytes->len);
    return 0;
}

static int put_string(layout_t *self, const token_t *value, letters_t letters)
{
    int r;

    if (value->kind != TOKEN_STRING)
        return -EBADMSG;
    self->scratch.size = 0;
    r = clean_into(self, value, letters);
    if (!r)
        put_bytes(self, self->scratch.data, value->len);
    return r;
}

static int put_str(layout_t *self, token_reader_t *in, const token_t *value)
{
    (void)in;
    return put_string(self, value, as_is);
}

static int put_bool(layout_t *self, token_reader_t *in, const token_t *value)
{
    (void)in;
    if (value->kind != TOKEN_BOOLEAN)
        return -EBADMSG;
    return value->integer ? msgpack_pack_true(&self->out) : msgpack_pack_false(&self->out);
}

static int put_int(layout_t *self, token_reader_t *in, const token_t *value)
{
    (void)in;
    return value->kind == TOKEN_INTEGER ? msgpack_pack_int64(&self->out, value->integer) : -EBADMSG;
}

/* Append a time, which comes in ms since 1970, as RFC 3339 with milliseconds. */
static int put_time(layout_t *self, token_reader_t *in, const token_t *value)
{
    char text[sizeof(self->second_text) + 8];
    time_t second = (time_t)(value->integer / 1000);
    struct tm tm;

    (void)in;
    if (value->kind != TOKEN_INTEGER || value->integer < 0
        || value->integer / 1000 > 253402300799) /* year 9999 */
        return -EBADMSG;
    if (second != self->second) {
        gmtime_r(&second, &tm);
        strftime(self->second_text, sizeof(self->second_text), "%Y-%m-%dT%H:%M:%S.", &tm);
        self->second = second;
    }
    put_bytes(self, text,
              (size_t)snprintf(text, sizeof(text), "%s%03dZ", self->second_text,
                               (int)(value->integer % 1000)));
    return 0;
}

static int put_strings(layout_t *self, token_reader_t *in, const token_t *value)
{
    token_t item;
    int r = value->kind == TOKEN_ARRAY ? msgpack_pack_array(&self->out, value->len) : -EBADMSG;

    for (size_t i = 0; !r && i < value->len; i++) {
        r = token_next(in, &item);
        if (!r)
            r = put_string(self, &item, as_is);
    }
    return r;
}

typedef struct pair {
    size_t name, value; /* offsets into scratch */
    size_t name_len, value_len;
    size_t first; /* index of the first pair with the same name */
    size_t count; /* at the first pair: how many have the name */
} pair_t;

static int read_pairs(layout_t *self, token_reader_t *in, pair_t *pairs, size_t n)
{
    token_t name, value;
    int r;

    self->scratch.size = 0;
    for (size_t i = 0; i < n; i++) {
        r = token_next(in, &name);
        if (!r)
            r = token_next(in, &value);
        if (r || name.kind != TOKEN_STRING || value.kind != TOKEN_STRING)
            return -EBADMSG;
        pairs[i] = (pair_t){.name = self->scratch.size, .name_len = name.len, .first = i};
        r = clean_into(self, &name, text_capitalize);
        pairs[i].value = self->scratch.size;
        pairs[i].value_len = value.len;
        if (!r)
            r = clean_into(self, &value, text_lower);
        if (r)
            return r;
    }
    return 0;
}

/* Find pairs with the same name; returns how many names there are. */
static size_t group_pairs(const layout_t *self, pair_t *pairs, size_t n)
{
    const char *bytes = self->scratch.data;
    size_t names = 0;

    for (size_t i = 0; i < n; i++) {
        size_t k = 0;

        while (pairs[k].name_len != pairs[i].name_len
               || (pairs[i].name_len
                   && memcmp(bytes + pairs[k].name, bytes + pairs[i].name, pairs[i].name_len) != 0))
            k++;
        pairs[i].first = k;
        pairs[k].count++;
        names += k == i;
    }
    return names;
}

/* Append a list name, value, name, value, ... as a map from name to a list of values; names
 * capitalised, values in lower case. */
static int put_headers(layout_t *self, token_reader_t *in, const token_t *value)
{
    pair_t pairs[PAIRS_MAX];
    size_t n = value->len / PAIR_ITEMS;
    int r;

    if (value->kind != TOKEN_ARRAY || value->len % PAIR_ITEMS || n > PAIRS_MAX)
        return -EBADMSG;
    r = read_pairs(self, in, pairs, n);
    if (r)
        return r;
    msgpack_pack_map(&self->out, group_pairs(self, pairs, n));
    for (size_t i = 0; i < n; i++) {
        if (pairs[i].first != i)
            continue;
        put_bytes(self, self->scratch.data + pairs[i].name, pairs[i].name_len);
        msgpack_pack_array(&self->out, pairs[i].count);
        for (size_t k = i; k < n; k++)
            if (pairs[k].first == i)
                put_bytes(self, self->scratch.data + pairs[k].value, pairs[k].value_len);
    }
    return 0;
}

/* Is it a name of the same bytes as one of n others? Keys of a map differ. */
static bool is_among(const token_t *names, size_t n, const token_t *name)
{
    for (size_t i = 0; i < n; i++)
        if (names[i].len == name->len
            && (!name->len || !memcmp(names[i].bytes, name->bytes, name->len)))
            return true;
    return false;
}

/* Append a list name, number, name, number, ... as a map. */
static int put_numbers(layout_t *self, token_reader_t *in, const token_t *value)
{
    size_t n = value->len / PAIR_ITEMS;
    token_t names[NUMBERS_MAX], number;
    int r;

    if (value->kind != TOKEN_ARRAY || value->len % PAIR_ITEMS || n > NUMBERS_MAX)
        return -EBADMSG;
    r = msgpack_pack_map(&self->out, n);
    for (size_t i = 0; !r && i < n; i++) {
        r = token_next(in, &names[i]);
        if (!r
            && (!text_is_ascii((const unsigned char *)names[i].bytes, names[i].len)
                || is_among(names, i, &names[i])))
            r = -EBADMSG;
        if (!r)
            r = put_string(self, &names[i], as_is);
        if (!r)
            r = token_next(in, &number);
        if (!r)
            r = put_int(self, in, &number);
    }
    return r;
}

/* The types of proto/events.def, and the value of a field that the event does not have. */
static const struct {
    const char *name;
    put_value_t put;
    token_t nothing;
} types[] = {
    {"STR", put_str, {.kind = TOKEN_STRING}},       {"BOOL", put_bool, {.kind = TOKEN_BOOLEAN}},
    {"I32", put_int, {.kind = TOKEN_INTEGER}},      {"I64", put_int, {.kind = TOKEN_INTEGER}},
    {"TIME", put_time, {.kind = TOKEN_INTEGER}},    {"STRINGS", put_strings, {.kind = TOKEN_ARRAY}},
    {"STRMAP", put_headers, {.kind = TOKEN_ARRAY}}, {"NUMMAP", put_numbers, {.kind = TOKEN_ARRAY}},
};

static int put_nothing(layout_t *self, const field_t *field)
{
    size_t i = 0;
    token_t nothing;

    while (types[i].put != field->put)
        i++;
    nothing = types[i].nothing;
    if (nothing.kind == TOKEN_STRING) {
        nothing.bytes = field->fallback;
        nothing.len = field->fallback_len;
    }
    return field->put(self, NULL, &nothing);
}

/* ---- the envelope ---- */

typedef struct values {
    /* where the value of each field begins; at NULL: the event does not have it */
    token_reader_t at[FIELDS_MAX];
} values_t;

static int skip_value(token_reader_t *in)
{
    token_t token, item;
    int r = token_next(in, &token);

    if (!r && token.kind == TOKEN_MAP)
        return -EBADMSG;
    for (size_t i = 0; !r && token.kind == TOKEN_ARRAY && i < token.len; i++) {
        r = token_next(in, &item);
        if (!r && item.kind != TOKEN_STRING && item.kind != TOKEN_INTEGER)
            r = -EBADMSG;
    }
    return r;
}

static int find_values(const layout_t *self, const void *data, size_t len, values_t *ret_values)
{
    token_reader_t in = {data, (const unsigned char *)data + len, 0, false};
    int r = 0;

    for (size_t i = 0; i < FIELDS_MAX; i++)
        ret_values->at[i].at = NULL;
    while (!r && in.at < in.end) {
        unsigned number = *in.at++;

        if (number >= self->n || ret_values->at[number].at)
            return -EBADMSG;
        ret_values->at[number] = in;
        r = skip_value(&in);
    }
    return r;
}

static int put_field(layout_t *self, size_t number, values_t *values)
{
    const field_t *field = &self->fields[number];
    token_reader_t *in = &values->at[number];
    token_t value;

    put_raw(self, self->keys.data + field->keys, field->keys_len);
    if (!in->at)
        return put_nothing(self, field);
    return token_next(in, &value) ? -EBADMSG : field->put(self, in, &value);
}

int layout_envelope(layout_t *self, const void *values, size_t len, msgpack_sbuffer *out)
{
    values_t all;
    int r = find_values(self, values, len, &all);

    for (size_t i = 0; i < ENVELOPE_FIELDS; i++)
        if (r || !all.at[i].at)
            return -EBADMSG;
    put_to(self, out);
    for (size_t i = 0; !r && i < self->n; i++)
        r = put_field(self, i, &all);
    return r || self->failed ? -EBADMSG : 0;
}

/* ---- the layout itself: a line with the topic, then "name type default" for each field ---- */

static size_t line_end(const char *text, size_t at, size_t len)
{
    const char *end = memchr(text + at, '\n', len - at);

    return end ? (size_t)(end - text) : len;
}

static bool name_ok(const char *name, size_t len)
{
    bool start = true;

    if (len == 0 || len > NAME_MAX_BYTES)
        return false;
    for (size_t i = 0; i < len; i++) {
        bool dot = name[i] == '.';

        if (!(dot && !start) && name[i] != '_' && (name[i] < 'a' || name[i] > 'z')
            && (name[i] < '0' || name[i] > '9'))
            return false;
        start = dot;
    }
    return !start;
}

/* Parse "name type default" into a field. Defaults only exist for text. */
static int parse_field(field_t *field, const char *line, size_t len)
{
    const char *type = memchr(line, ' ', len), *rest = NULL;
    size_t i = 0;

    if (type)
        rest = memchr(type + 1, ' ', len - (size_t)(type + 1 - line));
    if (!rest)
        return -EBADMSG;
    while (i < LEN(types)
           && (strlen(types[i].name) != (size_t)(rest - type - 1)
               || memcmp(types[i].name, type + 1, strlen(types[i].name)) != 0))
        i++;
    if (len - (size_t)(rest + 1 - line) > DEFAULT_MAX)
        return -EBADMSG;
    *field = (field_t){.name = line,
                       .name_len = (size_t)(type - line),
                       .put = i < LEN(types) ? types[i].put : NULL,
                       .fallback = rest + 1,
                       .fallback_len = len - (size_t)(rest + 1 - line)};
    return field->put && name_ok(field->name, field->name_len)
                   && text_is_ascii((const unsigned char *)field->fallback, field->fallback_len)
               ? 0
               : -EBADMSG;
}

/* How many bytes of two names belong to objects that both are in. */
static size_t shared_bytes(const field_t *a, const field_t *b)
{
    size_t same = 0;

    for (size_t i = 0; i < a->name_len && i < b->name_len && a->name[i] == b->name[i]; i++)
        if (a->name[i] == '.')
            same = i + 1;
    return same;
}

/* Names must rise, so that the fields of an object follow each other, and no name may be both a
 * value and an object. */
static bool field_follows(const field_t *before, const field_t *field)
{
    size_t n = before->name_len < field->name_len ? before->name_len : field->name_len;
    int order = memcmp(before->name, field->name, n);

    return order < 0 || (order == 0 && before->name_len < field->name_len && field->name[n] != '.');
}

/* How many different keys stand right below the first `at` bytes of field i's name; field i is the
 * first of that object. */
static size_t count_children(const layout_t *self, size_t i, size_t at)
{
    const field_t *first = &self->fields[i];
    size_t n = 1;

    for (size_t k = i + 1; k < self->n; k++) {
        const field_t *field = &self->fields[k];

        if (field->name_len <= at || memcmp(field->name, first->name, at) != 0)
            break;
        n += shared_bytes(field - 1, field) <= at;
    }
    return n;
}

/* Append the heads of the objects that begin with field i, and the field's own key. */
static void put_path(layout_t *self, size_t i)
{
    const field_t *field = &self->fields[i];
    size_t at = i == ENVELOPE_FIELDS ? 0 : shared_bytes(field - 1, field);

    if (i == ENVELOPE_FIELDS)
        msgpack_pack_map(&self->out, count_children(self, i, 0));
    for (;;) {
        const char *dot = memchr(field->name + at, '.', field->name_len - at);
        size_t end = dot ? (size_t)(dot - field->name) : field->name_len;

        put_bytes(self, field->name + at, end - at);
        if (!dot)
            return;
        at = end + 1;
        msgpack_pack_map(&self->out, count_children(self, i, at));
    }
}

static void put_keys(layout_t *self)
{
    put_to(self, &self->keys);
    for (size_t i = 0; i < self->n; i++) {
        field_t *field = &self->fields[i];

        field->keys = self->keys.size;
        if (i == EVENT_ID) {
            msgpack_pack_map(&self->out, 6);
            put_bytes(self, "event_id", 8);
        } else if (i == EVENT_TIMESTAMP) {
            put_bytes(self, "event_type", 10);
            put_bytes(self, self->text, self->topic_len);
            put_bytes(self, "event_timestamp", 15);
        } else if (i == ACCOUNT_ID) {
            put_bytes(self, "account_id", 10);
        } else {
            if (i == ENVELOPE_FIELDS) {
                put_bytes(self, "principal", 9);
                msgpack_pack_nil(&self->out);
                put_bytes(self, "object", 6);
            }
            put_path(self, i);
        }
        field->keys_len = self->keys.size - field->keys;
    }
}

/* Check how much an envelope has that does not come from the event. One layout serves thousands of
 * events, so what it adds to each is bounded: a few bytes must not become megabytes. 0 | -EBADMSG |
 * -ENOMEM. */
static int check_nothing(layout_t *self)
{
    msgpack_sbuffer nothing;
    size_t size;
    int r = 0;

    msgpack_sbuffer_init(&nothing);
    put_to(self, &nothing);
    for (size_t i = ENVELOPE_FIELDS; !r && i < self->n; i++)
        r = put_nothing(self, &self->fields[i]);
    size = self->keys.size + nothing.size;
    msgpack_sbuffer_destroy(&nothing);
    if (r || self->failed)
        return -ENOMEM;
    return size > NOTHING_MAX ? -EBADMSG : 0;
}

static int parse_layout(layout_t *self)
{
    size_t at = line_end(self->text, 0, self->text_len), end;
    field_t *field;

    self->topic_len = at;
    if (!name_ok(self->text, at) || at > TOPIC_MAX)
        return -EBADMSG;
    self->fields[EVENT_ID].put = self->fields[ACCOUNT_ID].put = put_str;
    self->fields[EVENT_TIMESTAMP].put = put_time;
    self->n = ENVELOPE_FIELDS;
    while (at + 1 < self->text_len) {
        end = line_end(self->text, ++at, self->text_len);
        field = &self->fields[self->n];
        if (self->n == FIELDS_MAX || parse_field(field, self->text + at, end - at)
            || (self->n > ENVELOPE_FIELDS && !field_follows(field - 1, field)))
            return -EBADMSG;
        self->n++;
        at = end;
    }
    if (self->n == ENVELOPE_FIELDS)
        return -EBADMSG;
    put_keys(self);
    return self->failed ? -ENOMEM : check_nothing(self);
}

int layout_new(layout_t **ret_layout, const void *text, size_t len)
{
    _cleanup_(layout_destroy) layout_t *self = NULL;
    int r;

    if (len == 0 || len > TEXT_MAX)
        return -EBADMSG;
    self = memory_new(sizeof(*self), "a layout");
    self->second = -1;
    msgpack_sbuffer_init(&self->keys);
    msgpack_sbuffer_init(&self->scratch);
    self->text = malloc(len);
    if (!self->text)
        return -ENOMEM;
    memcpy(self->text, text, len);
    self->text_len = len;
    r = parse_layout(self);
    if (!r)
        *ret_layout = take(self);
    return r;
}

void layout_destroy(layout_t **layout)
{
    layout_t *self = *layout;

    if (!self)
        return;
    msgpack_sbuffer_destroy(&self->keys);
    msgpack_sbuffer_destroy(&self->scratch);
    free(self->text);
    free(self);
    *layout = NULL;
}

bool layout_is(const layout_t *self, const void *text, size_t len)
{
    return self && self->text_len == len && memcmp(self->text, text, len) == 0;
}

const char *layout_topic(const layout_t *self, size_t *ret_len)
{
    *ret_len = self->topic_len;
    return self->text;
}
