#include "common/codec/pack.h"
#include "common/base/invariant.h"
#include "common/base/cleanup.h"
#include "common/base/memory.h"
#include "common/codec/token.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* 0; anything else: no memory. */
static int put_string(msgpack_packer *packer, const char *bytes, size_t len)
{
    return msgpack_pack_str(packer, len) || msgpack_pack_str_body(packer, bytes, len);
}

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
        r = msgpack_pack_map(packer, json_object_size(value));
        json_object_foreach((json_t *)value, key, item)
        {
            if (r || put_string(packer, key, strlen(key)))
                return -ENOMEM;
            r = pack_at(packer, item, depth + 1);
            if (r)
                return r;
        }
        break;
    case JSON_ARRAY:
        if (msgpack_pack_array(packer, json_array_size(value)))
            return -ENOMEM;
        json_array_foreach(value, i, item)
        {
            r = pack_at(packer, item, depth + 1);
            if (r)
                return r;
        }
        break;
    case JSON_STRING:
        r = put_string(packer, json_string_value(value), json_string_length(value));
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

    INVARIANT(out->size >= TEXT_HEADER && (unsigned char)out->data[0] == 0xc6);
    for (int i = TEXT_HEADER - 1; i > 0; i--, len >>= 8)
        out->data[i] = (char)len;
}

static int get_value(token_reader_t *in, int depth, json_t **ret_value);

/* Decode a key and its value into the object. */
static int get_pair(token_reader_t *in, int depth, json_t *object)
{
    _cleanup_(free_mem) char *key = NULL;
    token_t name;
    json_t *item;
    int r = token_next(in, &name);

    if (r)
        return r;
    if (name.kind != TOKEN_STRING || memchr(name.bytes, '\0', name.len))
        return -EBADMSG;
    key = strndup(name.bytes, name.len);
    if (!key)
        return -ENOMEM;
    if (json_object_get(object, key))
        return -EBADMSG;
    r = get_value(in, depth, &item);
    if (r)
        return r;
    return json_object_set_new(object, key, item) ? -EBADMSG : 0; /* the key is not UTF-8 */
}

static int get_value(token_reader_t *in, int depth, json_t **ret_value)
{
    _cleanup_(json_clear_ref) json_t *value = NULL;
    token_t token;
    int r;

    if (depth > PACK_DEPTH_MAX)
        return -EMSGSIZE;
    r = token_next(in, &token);
    if (r)
        return r;
    switch (token.kind) {
    case TOKEN_NIL:
        value = json_null();
        break;
    case TOKEN_BOOLEAN:
        value = json_boolean(token.integer);
        break;
    case TOKEN_INTEGER:
        value = json_integer(token.integer);
        break;
    case TOKEN_REAL:
        value = json_real(token.real); /* NULL for NaN and infinity */
        break;
    case TOKEN_STRING:
        value = json_stringn(token.bytes, token.len); /* NULL when it is not UTF-8 */
        break;
    case TOKEN_BINARY:
        return -EBADMSG;
    case TOKEN_ARRAY:
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
    case TOKEN_MAP:
        value = json_object();
        for (size_t i = 0; i < token.len; i++) {
            r = value ? get_pair(in, depth + 1, value) : -ENOMEM;
            if (r)
                return r;
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
    token_reader_t in = {data, (const unsigned char *)data + len, 0, false};
    int r, lacked;

    if (len > PACK_BYTES_MAX)
        return -EMSGSIZE;
    memory_json_begin_outside(PACK_DECODED_MAX);
    r = get_value(&in, 0, &value);
    lacked = memory_json_end_outside();
    if (lacked || r)
        return lacked ? lacked : r;
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

/* Make room for n more bytes and a NUL. 0 | -ENOMEM. */
static int text_reserve(text_t *self, size_t n)
{
    size_t size = self->size;
    char *grown;

    INVARIANT(self->len < self->size);
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
    if (text_reserve(self, n))
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
    value = json_stringn(bytes, len); /* NULL when it is not UTF-8 */
    json_decref(value);
    return value;
}

/* Append a JSON string: quotes, backslashes and control characters are escaped (RFC 8259 7). */
static int put_quoted(text_t *self, const char *bytes, size_t len)
{
    static const char shorts[] = "\bb\ff\nn\rr\tt\"\"\\\\";
    char *out;

    if (!is_utf8(bytes, len))
        return -EBADMSG;
    if (text_reserve(self, 6 * len + 2))
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
    INVARIANT(self->len < self->size);
    return 0;
}

static int put_scalar(text_t *self, const token_t *token)
{
    char number[48];

    switch (token->kind) {
    case TOKEN_BOOLEAN:
        return put_plain(self, token->integer ? "true" : "false", token->integer ? 4 : 5);
    case TOKEN_INTEGER:
        return put_plain(
            self, number,
            (size_t)snprintf(number, sizeof(number), "%lld", (long long)token->integer));
    case TOKEN_REAL: {
        json_t *value = json_real(token->real); /* NULL for NaN and infinity */
        size_t n = value ? json_dumpb(value, number, sizeof(number), JSON_ENCODE_ANY) : 0;

        json_decref(value);
        return n && n <= sizeof(number) ? put_plain(self, number, n) : -EBADMSG;
    }
    case TOKEN_STRING:
        return put_quoted(self, token->bytes, token->len);
    case TOKEN_NIL:
        return put_plain(self, "null", 4);
    default:
        return -EBADMSG;
    }
}

static int put_value(token_reader_t *in, int depth, text_t *out)
{
    token_t token;
    int r = depth > PACK_DEPTH_MAX ? -EMSGSIZE : token_next(in, &token);

    if (r)
        return r;
    if (token.kind != TOKEN_ARRAY && token.kind != TOKEN_MAP)
        return put_scalar(out, &token);
    r = put_plain(out, token.kind == TOKEN_MAP ? "{" : "[", 1);
    for (size_t i = 0; !r && i < token.len; i++) {
        token_t name;

        if (i)
            r = put_plain(out, ",", 1);
        if (!r && token.kind == TOKEN_MAP) {
            r = token_next(in, &name);
            if (!r && (name.kind != TOKEN_STRING || memchr(name.bytes, '\0', name.len)))
                r = -EBADMSG;
            if (!r)
                r = put_quoted(out, name.bytes, name.len);
            if (!r)
                r = put_plain(out, ":", 1);
        }
        if (!r)
            r = put_value(in, depth + 1, out);
    }
    return r ? r : put_plain(out, token.kind == TOKEN_MAP ? "}" : "]", 1);
}

/* Is the body JSON text already: one binary and nothing else? */
static bool is_ready_text(const void *data, size_t len, token_t *ret_token)
{
    token_reader_t in = {data, (const unsigned char *)data + len, 0, true};

    return !token_next(&in, ret_token) && ret_token->kind == TOKEN_BINARY && in.at == in.end;
}

static int put_all(text_t *self, const void *data, size_t len)
{
    token_reader_t in = {data, (const unsigned char *)data + len, 0, false};
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
    int r, lacked;

    if (len > PACK_BYTES_MAX)
        return -EMSGSIZE;
    if (!out.bytes)
        return -ENOMEM;
    memory_json_begin_outside(SIZE_MAX); /* jansson copies each text only to check its UTF-8 */
    r = put_all(&out, data, len);
    lacked = memory_json_end_outside();
    if (lacked || r)
        return lacked ? lacked : r;
    INVARIANT(out.len < out.size); /* text_reserve leaves room for the NUL */
    out.bytes[out.len] = '\0';
    *ret_text = take(out.bytes);
    return 0;
}
