#include "common/pack.h"
#include "common/cleanup.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static int pack_at(msgpack_packer *packer, const json_t *value, int depth)
{
    const char *key;
    json_t *item;
    size_t i;
    int r = 0;

    if (depth > PACK_DEPTH_MAX)
        return -EMSGSIZE;
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        msgpack_pack_map(packer, json_object_size(value));
        json_object_foreach((json_t *)value, key, item)
        {
            msgpack_pack_str(packer, strlen(key));
            msgpack_pack_str_body(packer, key, strlen(key));
            r = pack_at(packer, item, depth + 1);
            if (r)
                return r;
        }
        break;
    case JSON_ARRAY:
        msgpack_pack_array(packer, json_array_size(value));
        json_array_foreach(value, i, item)
        {
            r = pack_at(packer, item, depth + 1);
            if (r)
                return r;
        }
        break;
    case JSON_STRING:
        msgpack_pack_str(packer, json_string_length(value));
        r = msgpack_pack_str_body(packer, json_string_value(value), json_string_length(value));
        break;
    case JSON_INTEGER:
        r = msgpack_pack_int64(packer, json_integer_value(value));
        break;
    case JSON_REAL:
        r = msgpack_pack_double(packer, json_real_value(value));
        break;
    case JSON_TRUE:
        r = msgpack_pack_true(packer);
        break;
    case JSON_FALSE:
        r = msgpack_pack_false(packer);
        break;
    case JSON_NULL:
        r = msgpack_pack_nil(packer);
        break;
    }
    return r ? -ENOMEM : 0;
}

int pack_value(msgpack_packer *packer, const json_t *value)
{
    return pack_at(packer, value, 0);
}

int pack_json(msgpack_sbuffer *out, const json_t *value)
{
    msgpack_packer packer;

    msgpack_packer_init(&packer, out, msgpack_sbuffer_write);
    return pack_at(&packer, value, 0);
}

enum { TEXT_HEADER = 5 }; /* bin 32 */

int pack_text_begin(msgpack_sbuffer *out)
{
    static const char header[TEXT_HEADER] = {(char)0xc6};

    return msgpack_sbuffer_write(out, header, sizeof(header)) ? -ENOMEM : 0;
}

void pack_text_end(msgpack_sbuffer *out)
{
    size_t len = out->size - TEXT_HEADER;

    for (int i = TEXT_HEADER - 1; i > 0; i--, len >>= 8)
        out->data[i] = (char)len;
}

/* A bounded reader of our own over the encoding (msgpack specification 2013-04-21): msgpack-c's
 * unpacker sizes arrays from the header before it has seen the items. Lengths are checked against
 * what is left, so nothing is allocated that the bytes do not pay for. */
typedef struct reader {
    const unsigned char *at, *end;
    size_t items;
    int binary; /* allowed */
} reader_t;

static int get_uint(reader_t *in, int bytes, uint64_t *ret_value)
{
    uint64_t value = 0;

    if (in->end - in->at < bytes)
        return -EBADMSG;
    for (int i = 0; i < bytes; i++)
        value = value << 8 | *in->at++;
    *ret_value = value;
    return 0;
}

typedef enum token_kind { NIL, BOOLEAN, INTEGER, REAL, STRING, BINARY, ARRAY, MAP } token_kind_t;

typedef struct token {
    token_kind_t kind;
    int64_t integer;
    double real;
    const char *bytes;
    size_t len; /* bytes, items or pairs */
} token_t;

static int sized(reader_t *in, token_t *token, token_kind_t kind, int length_bytes)
{
    uint64_t len = token->len;
    int r = length_bytes ? get_uint(in, length_bytes, &len) : 0;

    if (r)
        return r;
    /* Every item takes at least one byte, a pair two. */
    if (len > (uint64_t)(in->end - in->at) / (kind == MAP ? 2 : 1))
        return -EBADMSG;
    token->kind = kind;
    token->len = (size_t)len;
    if (kind == STRING || kind == BINARY) {
        token->bytes = (const char *)in->at;
        in->at += len;
    }
    return 0;
}

static int get_number(reader_t *in, token_t *token, unsigned char head)
{
    uint64_t value = 0;
    int bytes = 1 << (head & 3), r;

    if (head == 0xca || head == 0xcb) {
        r = get_uint(in, head == 0xca ? 4 : 8, &value);
        token->kind = REAL;
        if (head == 0xca) {
            uint32_t bits = (uint32_t)value;
            float single;

            memcpy(&single, &bits, sizeof(single));
            token->real = (double)single;
        } else {
            memcpy(&token->real, &value, sizeof(token->real));
        }
        return r;
    }
    r = get_uint(in, bytes, &value);
    if (r)
        return r;
    token->kind = INTEGER;
    if (head <= 0xcf) {
        if (value > INT64_MAX)
            return -EBADMSG;
        token->integer = (int64_t)value;
    } else {
        int shift = 64 - 8 * bytes;

        token->integer = (int64_t)(value << shift) >> shift;
    }
    return 0;
}

static int get_token(reader_t *in, token_t *token)
{
    unsigned char head;

    if (in->at == in->end)
        return -EBADMSG;
    if (++in->items > PACK_ITEMS_MAX)
        return -EMSGSIZE;
    head = *in->at++;
    memset(token, 0, sizeof(*token));
    if (head <= 0x7f || head >= 0xe0) {
        token->kind = INTEGER;
        token->integer = (signed char)head;
        return 0;
    }
    if (head <= 0x8f || (head >= 0x90 && head <= 0x9f)) {
        token->len = head & 0x0f;
        return sized(in, token, head <= 0x8f ? MAP : ARRAY, 0);
    }
    if (head <= 0xbf) {
        token->len = head & 0x1f;
        return sized(in, token, STRING, 0);
    }
    if (head == 0xc0)
        return 0;
    if (head == 0xc2 || head == 0xc3) {
        token->kind = BOOLEAN;
        token->integer = head & 1;
        return 0;
    }
    if (head >= 0xc4 && head <= 0xc6)
        return in->binary ? sized(in, token, BINARY, 1 << (head - 0xc4)) : -EBADMSG;
    if (head >= 0xca && head <= 0xd3)
        return get_number(in, token, head);
    if (head >= 0xd9 && head <= 0xdb)
        return sized(in, token, STRING, 1 << (head - 0xd9));
    if (head == 0xdc || head == 0xdd)
        return sized(in, token, ARRAY, head == 0xdc ? 2 : 4);
    if (head == 0xde || head == 0xdf)
        return sized(in, token, MAP, head == 0xde ? 2 : 4);
    return -EBADMSG; /* reserved and extensions */
}

static int get_value(reader_t *in, int depth, json_t **ret_value)
{
    _cleanup_(json_clear_ref) json_t *value = NULL;
    token_t token;
    int r;

    if (depth > PACK_DEPTH_MAX)
        return -EMSGSIZE;
    r = get_token(in, &token);
    if (r)
        return r;
    switch (token.kind) {
    case NIL:
        value = json_null();
        break;
    case BOOLEAN:
        value = json_boolean(token.integer);
        break;
    case INTEGER:
        value = json_integer(token.integer);
        break;
    case REAL:
        value = json_real(token.real); /* NULL for NaN and infinities */
        break;
    case STRING:
        value = json_stringn(token.bytes, token.len); /* NULL for invalid UTF-8 */
        break;
    case BINARY:
        return -EBADMSG;
    case ARRAY:
        value = json_array();
        for (size_t i = 0; i < token.len; i++) {
            json_t *item;

            r = get_value(in, depth + 1, &item);
            if (r)
                return r;
            if (json_array_append_new(value, item))
                return -ENOMEM;
        }
        break;
    case MAP:
        value = json_object();
        for (size_t i = 0; i < token.len; i++) {
            _cleanup_(free_mem) char *key = NULL;
            token_t name;
            json_t *item;

            r = get_token(in, &name);
            if (r)
                return r;
            if (name.kind != STRING || memchr(name.bytes, '\0', name.len))
                return -EBADMSG;
            key = strndup(name.bytes, name.len);
            if (json_object_get(value, key))
                return -EBADMSG;
            r = get_value(in, depth + 1, &item);
            if (r)
                return r;
            if (json_object_set_new(value, key, item)) /* invalid UTF-8 in the key */
                return -EBADMSG;
        }
        break;
    }
    if (!value)
        return -EBADMSG;
    *ret_value = take(value);
    return 0;
}

int unpack_json(const void *data, size_t len, json_t **ret_value)
{
    _cleanup_(json_clear_ref) json_t *value = NULL;
    reader_t in = {data, (const unsigned char *)data + len, 0, 0};
    int r;

    if (len > PACK_BYTES_MAX)
        return -EMSGSIZE;
    r = get_value(&in, 0, &value);
    if (r)
        return r;
    if (in.at != in.end)
        return -EBADMSG;
    *ret_value = take(value);
    return 0;
}

/* ---- to text ---- */

typedef struct text {
    char *bytes;
    size_t len, size;
} text_t;

static void text_done(text_t *self)
{
    free(self->bytes);
}

/* Room for n more bytes and a NUL. */
static int reserve(text_t *self, size_t n)
{
    size_t size = self->size;
    char *grown;

    if (n < size - self->len)
        return 0;
    while (size - self->len <= n)
        size *= 2;
    grown = realloc(self->bytes, size);
    if (!grown)
        return -ENOMEM;
    self->bytes = grown;
    self->size = size;
    return 0;
}

static int put_plain(text_t *self, const char *bytes, size_t n)
{
    if (reserve(self, n))
        return -ENOMEM;
    memcpy(self->bytes + self->len, bytes, n);
    self->len += n;
    return 0;
}

static bool is_utf8(const char *bytes, size_t len)
{
    json_t *value;

    while (len && (unsigned char)*bytes < 0x80)
        bytes++, len--;
    if (!len)
        return true;
    value = json_stringn(bytes, len); /* NULL when it is not */
    json_decref(value);
    return value;
}

/* RFC 8259 7: quotes, backslashes and control characters are escaped. */
static int put_quoted(text_t *self, const char *bytes, size_t len)
{
    static const char shorts[] = "\bb\ff\nn\rr\tt\"\"\\\\";
    char *out;

    if (!is_utf8(bytes, len))
        return -EBADMSG;
    if (reserve(self, 6 * len + 2))
        return -ENOMEM;
    out = self->bytes + self->len;
    *out++ = '"';
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)bytes[i];
        const char *known;

        if (c >= 0x20 && c != '"' && c != '\\') {
            *out++ = (char)c;
            continue;
        }
        for (known = shorts; *known && (unsigned char)*known != c; known += 2)
            ;
        if (*known && c)
            *out++ = '\\', *out++ = known[1];
        else
            out += sprintf(out, "\\u%04X", c);
    }
    *out++ = '"';
    self->len = (size_t)(out - self->bytes);
    return 0;
}

static int put_scalar(text_t *self, const token_t *token)
{
    char number[48];

    switch (token->kind) {
    case BOOLEAN:
        return put_plain(self, token->integer ? "true" : "false", token->integer ? 4 : 5);
    case INTEGER:
        return put_plain(
            self, number,
            (size_t)snprintf(number, sizeof(number), "%lld", (long long)token->integer));
    case REAL: {
        json_t *value = json_real(token->real); /* NULL for NaN and infinities */
        size_t n = value ? json_dumpb(value, number, sizeof(number), JSON_ENCODE_ANY) : 0;

        json_decref(value);
        return n && n <= sizeof(number) ? put_plain(self, number, n) : -EBADMSG;
    }
    case STRING:
        return put_quoted(self, token->bytes, token->len);
    case NIL:
        return put_plain(self, "null", 4);
    default:
        return -EBADMSG;
    }
}

static int put_value(reader_t *in, int depth, text_t *out)
{
    token_t token;
    int r = depth > PACK_DEPTH_MAX ? -EMSGSIZE : get_token(in, &token);

    if (r)
        return r;
    if (token.kind != ARRAY && token.kind != MAP)
        return put_scalar(out, &token);
    r = put_plain(out, token.kind == MAP ? "{" : "[", 1);
    for (size_t i = 0; !r && i < token.len; i++) {
        token_t name;

        if (i)
            r = put_plain(out, ",", 1);
        if (!r && token.kind == MAP) {
            r = get_token(in, &name);
            if (!r && (name.kind != STRING || memchr(name.bytes, '\0', name.len)))
                r = -EBADMSG;
            if (!r)
                r = put_quoted(out, name.bytes, name.len);
            if (!r)
                r = put_plain(out, ":", 1);
        }
        if (!r)
            r = put_value(in, depth + 1, out);
    }
    return r ? r : put_plain(out, token.kind == MAP ? "}" : "]", 1);
}

/* JSON text already: one binary and nothing else. */
static bool is_ready_text(const void *data, size_t len, token_t *ret_token)
{
    reader_t in = {data, (const unsigned char *)data + len, 0, 1};

    return !get_token(&in, ret_token) && ret_token->kind == BINARY && in.at == in.end;
}

static int put_all(text_t *self, const void *data, size_t len)
{
    reader_t in = {data, (const unsigned char *)data + len, 0, 0};
    token_t ready;
    int r;

    if (is_ready_text(data, len, &ready))
        return put_plain(self, ready.bytes, ready.len);
    r = put_value(&in, 0, self);
    return r || in.at == in.end ? r : -EBADMSG;
}

int unpack_text(const void *data, size_t len, char **ret_text)
{
    _cleanup_(text_done) text_t out = {malloc(2 * len + 64), 0, 2 * len + 64};
    int r;

    if (len > PACK_BYTES_MAX)
        return -EMSGSIZE;
    if (!out.bytes)
        return -ENOMEM;
    r = put_all(&out, data, len);
    if (r)
        return r;
    out.bytes[out.len] = '\0';
    *ret_text = take(out.bytes);
    return 0;
}

static int walk(reader_t *in, int depth)
{
    token_t token;
    size_t children;
    int r;

    if (depth > PACK_DEPTH_MAX)
        return -EMSGSIZE;
    r = get_token(in, &token);
    if (r)
        return r;
    children = token.kind == MAP ? 2 * token.len : token.kind == ARRAY ? token.len : 0;
    while (!r && children-- > 0)
        r = walk(in, depth + 1);
    return r;
}

int pack_check(const void *data, size_t len)
{
    reader_t in = {data, (const unsigned char *)data + len, 0, 1};
    int r;

    if (len > PACK_BYTES_MAX)
        return -EMSGSIZE;
    r = walk(&in, 0);
    if (r)
        return r;
    return in.at == in.end ? 0 : -EBADMSG;
}
