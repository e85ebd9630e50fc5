#include "services/edge/modules/webhook_members.h"
#include "common/base/utf8.h"

#include <string.h>

enum { DECODED_BLOCK = 4096, CHARACTER_MAX = 4 };

static void skip_blanks(webhook_text_t *text)
{
    while (text->len
           && (*text->at == ' ' || *text->at == '\t' || *text->at == '\r' || *text->at == '\n')) {
        text->at++;
        text->len--;
    }
}

static void take_bytes(webhook_text_t *text, size_t n)
{
    text->at += n;
    text->len -= n;
}

static bool take_one(webhook_text_t *text, char c)
{
    skip_blanks(text);
    if (!text->len || *text->at != c)
        return false;
    take_bytes(text, 1);
    return true;
}

static int hex_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The four digits of \uXXXX; -1: there are others. */
static int unit_at(webhook_text_t text)
{
    int unit = 0;

    if (text.len < 6 || text.at[0] != '\\' || text.at[1] != 'u')
        return -1;
    for (int i = 2; i < 6; i++) {
        int digit = hex_of(text.at[i]);

        if (digit < 0)
            return -1;
        unit = unit * 16 + digit;
    }
    return unit;
}

/* Bytes of the escape that begins here; 0: it is none. */
static size_t escape_length(webhook_text_t text)
{
    if (text.len < 2)
        return 0;
    if (text.at[1] == 'u')
        return unit_at(text) < 0 ? 0 : 6;
    return text.at[1] && strchr("\"\\/bfnrt", text.at[1]) ? 2 : 0;
}

/* The string that begins here; out is what stands between its quotes. */
static bool take_string(webhook_text_t *text, webhook_text_t *out)
{
    if (!take_one(text, '"'))
        return false;
    *out = (webhook_text_t){text->at, 0};
    while (text->len && *text->at != '"') {
        const unsigned char *at = (const unsigned char *)text->at;
        size_t n = *at == '\\'  ? escape_length(*text)
                   : *at < 0x20 ? 0
                                : utf8_character(at, at + text->len);

        if (!n)
            return false;
        take_bytes(text, n);
    }
    out->len = (size_t)(text->at - out->at);
    return take_one(text, '"');
}

static size_t count_digits(webhook_text_t text)
{
    size_t n = 0;

    while (n < text.len && text.at[n] >= '0' && text.at[n] <= '9')
        n++;
    return n;
}

static bool take_digits(webhook_text_t *text)
{
    size_t n = count_digits(*text);

    take_bytes(text, n);
    return n > 0;
}

/* RFC 8259, 6. */
static bool take_number(webhook_text_t *text)
{
    if (text->len && *text->at == '-')
        take_bytes(text, 1);
    if (text->len && *text->at == '0')
        take_bytes(text, 1);
    else if (!take_digits(text))
        return false;
    if (text->len && *text->at == '.') {
        take_bytes(text, 1);
        if (!take_digits(text))
            return false;
    }
    if (text->len && (*text->at == 'e' || *text->at == 'E')) {
        take_bytes(text, 1);
        if (text->len && (*text->at == '+' || *text->at == '-'))
            take_bytes(text, 1);
        return take_digits(text);
    }
    return true;
}

static bool take_word(webhook_text_t *text, const char *word)
{
    size_t len = strlen(word);

    if (text->len < len || memcmp(text->at, word, len) != 0)
        return false;
    take_bytes(text, len);
    return true;
}

static bool take_value(webhook_text_t *text, unsigned depth);

static bool take_array(webhook_text_t *text, unsigned depth)
{
    if (take_one(text, ']'))
        return true;
    do {
        if (!take_value(text, depth))
            return false;
    } while (take_one(text, ','));
    return take_one(text, ']');
}

static bool take_object(webhook_text_t *text, unsigned depth, webhook_member_fn on_member,
                        void *arg)
{
    webhook_text_t name, value;

    if (take_one(text, '}'))
        return true;
    do {
        if (!take_string(text, &name) || !take_one(text, ':'))
            return false;
        skip_blanks(text);
        value.at = text->at;
        if (!take_value(text, depth))
            return false;
        value.len = (size_t)(text->at - value.at);
        if (on_member && !on_member(arg, name, value))
            return false;
    } while (take_one(text, ','));
    return take_one(text, '}');
}

static bool take_value(webhook_text_t *text, unsigned depth)
{
    webhook_text_t string;

    skip_blanks(text);
    if (!text->len)
        return false;
    switch (*text->at) {
    case '"':
        return take_string(text, &string);
    case '{':
        take_bytes(text, 1);
        return depth < WEBHOOK_JSON_DEPTH_MAX && take_object(text, depth + 1, NULL, NULL);
    case '[':
        take_bytes(text, 1);
        return depth < WEBHOOK_JSON_DEPTH_MAX && take_array(text, depth + 1);
    case 't':
        return take_word(text, "true");
    case 'f':
        return take_word(text, "false");
    case 'n':
        return take_word(text, "null");
    default:
        return take_number(text);
    }
}

bool webhook_members_read(webhook_text_t json, webhook_member_fn on_member, void *arg)
{
    if (!take_one(&json, '{') || !take_object(&json, 1, on_member, arg))
        return false;
    skip_blanks(&json);
    return !json.len;
}

/* ---- what a string stands for ---- */

static size_t write_utf8(unsigned code, char *out)
{
    static const unsigned char firsts[] = {0, 0, 0xc0, 0xe0, 0xf0};
    size_t n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;

    if (n == 1) {
        *out = (char)code;
        return 1;
    }
    for (size_t i = n - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (code & 0x3f));
        code >>= 6;
    }
    out[0] = (char)(firsts[n] | code);
    return n;
}

/* Takes an escape off string and writes its character; 0: a surrogate stands alone. */
static size_t decode_escape(webhook_text_t *string, char *out)
{
    static const char escaped[] = "\"\\/bfnrt", plain[] = "\"\\/\b\f\n\r\t";
    int unit = unit_at(*string), second;

    if (unit < 0) {
        *out = plain[strchr(escaped, string->at[1]) - escaped];
        take_bytes(string, 2);
        return 1;
    }
    take_bytes(string, 6);
    if (unit < 0xd800 || unit > 0xdfff)
        return write_utf8((unsigned)unit, out);
    second = unit_at(*string);
    if (unit > 0xdbff || second < 0xdc00 || second > 0xdfff)
        return 0;
    take_bytes(string, 6);
    return write_utf8(0x10000 + (((unsigned)unit - 0xd800) << 10) + ((unsigned)second - 0xdc00),
                      out);
}

bool webhook_string_decode(webhook_text_t string,
                           void (*add)(void *arg, const void *bytes, size_t len), void *arg)
{
    char block[DECODED_BLOCK];
    size_t n = 0;

    while (string.len) {
        size_t len = 1;

        if (sizeof(block) - n < CHARACTER_MAX) {
            add(arg, block, n);
            n = 0;
        }
        if (*string.at == '\\') {
            len = decode_escape(&string, block + n);
            if (!len)
                return false;
        } else {
            block[n] = *string.at;
            take_bytes(&string, 1);
        }
        n += len;
    }
    add(arg, block, n);
    return true;
}
