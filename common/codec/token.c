#include "common/codec/token.h"
#include "common/base/invariant.h"
#include "common/codec/pack.h"

#include <errno.h>
#include <string.h>

static int get_uint(token_reader_t *in, int bytes, uint64_t *ret_value)
{
    uint64_t value = 0;

    INVARIANT(in->at <= in->end && bytes <= 8);
    if (in->end - in->at < bytes)
        return -EBADMSG;
    for (int i = 0; i < bytes; i++)
        value = value << 8 | *in->at++;
    *ret_value = value;
    return 0;
}

static int read_sized(token_reader_t *in, token_t *token, token_kind_t kind, int length_bytes)
{
    uint64_t len = token->len;
    int r = length_bytes ? get_uint(in, length_bytes, &len) : 0;

    if (r)
        return r;
    /* More items than bytes are left: an item takes at least one byte, a pair two. */
    if (len > (uint64_t)(in->end - in->at) / (kind == TOKEN_MAP ? 2 : 1))
        return -EBADMSG;
    token->kind = kind;
    token->len = (size_t)len;
    if (kind == TOKEN_STRING || kind == TOKEN_BINARY) {
        token->bytes = (const char *)in->at;
        in->at += len;
        INVARIANT(in->at <= in->end);
    }
    return 0;
}

static int get_number(token_reader_t *in, token_t *token, unsigned char head)
{
    uint64_t value = 0;
    int bytes = 1 << (head & 3), r;

    if (head == 0xca || head == 0xcb) {
        r = get_uint(in, head == 0xca ? 4 : 8, &value);
        token->kind = TOKEN_REAL;
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
    token->kind = TOKEN_INTEGER;
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

int token_next(token_reader_t *in, token_t *token)
{
    unsigned char head;

    if (in->at == in->end)
        return -EBADMSG;
    if (++in->items > PACK_ITEMS_MAX)
        return -EMSGSIZE;
    head = *in->at++;
    memset(token, 0, sizeof(*token));
    if (head <= 0x7f || head >= 0xe0) {
        token->kind = TOKEN_INTEGER;
        token->integer = (signed char)head;
        return 0;
    }
    if (head <= 0x8f || (head >= 0x90 && head <= 0x9f)) {
        token->len = head & 0x0f;
        return read_sized(in, token, head <= 0x8f ? TOKEN_MAP : TOKEN_ARRAY, 0);
    }
    if (head <= 0xbf) {
        token->len = head & 0x1f;
        return read_sized(in, token, TOKEN_STRING, 0);
    }
    if (head == 0xc0)
        return 0;
    if (head == 0xc2 || head == 0xc3) {
        token->kind = TOKEN_BOOLEAN;
        token->integer = head & 1;
        return 0;
    }
    if (head >= 0xc4 && head <= 0xc6)
        return in->binary ? read_sized(in, token, TOKEN_BINARY, 1 << (head - 0xc4)) : -EBADMSG;
    if (head >= 0xca && head <= 0xd3)
        return get_number(in, token, head);
    if (head >= 0xd9 && head <= 0xdb)
        return read_sized(in, token, TOKEN_STRING, 1 << (head - 0xd9));
    if (head == 0xdc || head == 0xdd)
        return read_sized(in, token, TOKEN_ARRAY, head == 0xdc ? 2 : 4);
    if (head == 0xde || head == 0xdf)
        return read_sized(in, token, TOKEN_MAP, head == 0xde ? 2 : 4);
    return -EBADMSG; /* the reserved byte and extensions */
}
