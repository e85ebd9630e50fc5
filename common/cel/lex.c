/* Tokens (langdef.md, "Syntax"). Literals are converted here, so the parser sees no escapes. */
#include "common/cel/internal.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static size_t bytes_left(const cel_t *self)
{
    return (size_t)(self->end - self->at);
}

static bool looking_at(const cel_t *self, const char *text)
{
    size_t n = strlen(text);

    return bytes_left(self) >= n && !memcmp(self->at, text, n);
}

static size_t source_offset(const cel_t *self)
{
    return (size_t)(self->at - self->source);
}

static void skip_space(cel_t *self)
{
    while (self->at < self->end) {
        if (strchr(" \t\r\n\f", *self->at) && *self->at)
            self->at++;
        else if (looking_at(self, "//"))
            while (self->at < self->end && *self->at != '\n')
                self->at++;
        else
            break;
    }
}

/* ---- numbers ---- */

static const char *digits_end(const char *at, const char *end, bool hex)
{
    while (at < end && (hex ? isxdigit((unsigned char)*at) : isdigit((unsigned char)*at)))
        at++;
    return at;
}

static int lex_integer(cel_t *self, const char *begin, const char *end, bool hex)
{
    bool natural = end < self->end && (*end == 'u' || *end == 'U');
    char text[64];
    unsigned long long value;

    if ((size_t)(end - begin) >= sizeof(text) || end == begin + (hex ? 2 : 0))
        return cel_fail(self, source_offset(self), "this is not a number");
    memcpy(text, begin, (size_t)(end - begin));
    text[end - begin] = '\0';
    errno = 0;
    value = strtoull(text + (hex ? 2 : 0), NULL, hex ? 16 : 10);
    /* 2^63 is allowed: behind a minus sign it is in range, which the parser checks */
    if (errno || (!natural && value > (unsigned long long)INT64_MAX + 1))
        return cel_fail(self, source_offset(self), "the number does not fit in 64 bits");
    self->token.type = natural ? TOKEN_UINT : TOKEN_INT;
    self->token.value.natural = value;
    self->at = end + natural;
    return 0;
}

static int lex_double(cel_t *self, const char *begin, const char *end)
{
    char text[64];

    if ((size_t)(end - begin) >= sizeof(text))
        return cel_fail(self, source_offset(self), "the number has too many digits");
    memcpy(text, begin, (size_t)(end - begin));
    text[end - begin] = '\0';
    self->token.type = TOKEN_DOUBLE;
    self->token.value.real = strtod(text, NULL);
    if (!isfinite(self->token.value.real))
        return cel_fail(self, source_offset(self), "the number is too large");
    self->at = end;
    return 0;
}

static int lex_number(cel_t *self)
{
    const char *begin = self->at, *at, *exponent;
    bool real = false;

    if (looking_at(self, "0x") || looking_at(self, "0X"))
        return lex_integer(self, begin, digits_end(begin + 2, self->end, true), true);
    at = digits_end(begin, self->end, false);
    if (at + 1 < self->end && *at == '.' && isdigit((unsigned char)at[1])) {
        real = true;
        at = digits_end(at + 1, self->end, false);
    }
    if (at < self->end && (*at == 'e' || *at == 'E')) {
        exponent = at + 1;
        if (exponent < self->end && (*exponent == '+' || *exponent == '-'))
            exponent++;
        if (exponent < self->end && isdigit((unsigned char)*exponent)) {
            real = true;
            at = digits_end(exponent, self->end, false);
        }
    }
    return real ? lex_double(self, begin, at) : lex_integer(self, begin, at, false);
}

/* ---- strings ---- */

static size_t put_utf8(char *out, uint32_t c)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (char)(0x80 | (c >> 6 & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

/* Read a code of n digits in this base at self->at. */
static int lex_code(cel_t *self, int n, int base, uint32_t *ret_code)
{
    uint32_t code = 0;

    for (int i = 0; i < n; i++) {
        int c = self->at < self->end ? (unsigned char)*self->at : 0;
        int digit = isdigit(c) ? c - '0' : isxdigit(c) ? tolower(c) - 'a' + 10 : 99;

        if (digit >= base)
            return cel_fail(self, source_offset(self), "an escape needs %d digits", n);
        code = code * (uint32_t)base + (uint32_t)digit;
        self->at++;
    }
    *ret_code = code;
    return 0;
}

/* Read an escape behind its backslash. */
static int lex_escape(cel_t *self, bool bytes, char *out, size_t *len)
{
    static const char names[] = "abfnrtv\\?\"'`", values[] = "\a\b\f\n\r\t\v\\?\"'`";
    size_t where = source_offset(self);
    int c = self->at < self->end ? (unsigned char)*self->at : 0;
    const char *simple = c ? strchr(names, c) : NULL;
    uint32_t code = 0;
    bool octet = c == 'x' || c == 'X' || (c >= '0' && c <= '3');
    int r;

    if (simple) {
        self->at++;
        out[(*len)++] = values[simple - names];
        return 0;
    }
    if (c >= '0' && c <= '3') {
        r = lex_code(self, 3, 8, &code);
    } else if (octet || (!bytes && (c == 'u' || c == 'U'))) {
        self->at++;
        r = lex_code(self, octet ? 2 : c == 'u' ? 4 : 8, 16, &code);
    } else {
        return cel_fail(self, where, "there is no such escape");
    }
    if (r)
        return r;
    if (bytes) {
        out[(*len)++] = (char)code;
        return 0;
    }
    if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff) || code == 0)
        return cel_fail(self, where, "the escape is not a character");
    *len += put_utf8(out + *len, code);
    return 0;
}

/* Read a string; self->at is at the opening quote. */
static int lex_string(cel_t *self, bool raw, bool bytes)
{
    char quote[4] = {*self->at, '\0', '\0', '\0'};
    size_t where = source_offset(self), len = 0, used = self->arena_used;
    char *out;

    if (bytes_left(self) >= 3 && self->at[1] == quote[0] && self->at[2] == quote[0])
        memset(quote, quote[0], 3);
    self->at += strlen(quote);
    /* what an escape stands for is never longer than the escape */
    out = cel_alloc(self, bytes_left(self) + 1);
    if (!out)
        return 1;
    while (!looking_at(self, quote)) {
        char c;

        if (self->at == self->end || (!quote[1] && (*self->at == '\n' || *self->at == '\r')))
            return cel_fail(self, where, "the string has no end");
        c = *self->at++;
        if (c == '\\' && !raw) {
            if (lex_escape(self, bytes, out, &len))
                return 1;
        } else {
            out[len++] = c;
        }
    }
    self->at += strlen(quote);
    out[len] = '\0';
    self->arena_used = used; /* give the unused bytes back */
    cel_alloc(self, len + 1);
    self->token.type = bytes ? TOKEN_BYTES : TOKEN_STRING;
    self->token.text = out;
    self->token.len = len;
    return 0;
}

/* Is there a string's prefix: r, R, b and B in any order, then a quote? */
static bool string_prefix(const cel_t *self, size_t *ret_len, bool *ret_raw, bool *ret_bytes)
{
    size_t n = 0;

    *ret_raw = *ret_bytes = false;
    while (n < 2 && n < bytes_left(self)) {
        int c = tolower((unsigned char)self->at[n]);

        if (c == 'r' && !*ret_raw)
            *ret_raw = true;
        else if (c == 'b' && !*ret_bytes)
            *ret_bytes = true;
        else
            break;
        n++;
    }
    *ret_len = n;
    return n < bytes_left(self) && (self->at[n] == '"' || self->at[n] == '\'');
}

/* ---- the rest ---- */

static int keep_text(cel_t *self, const char *text, size_t len)
{
    char *copy = cel_alloc(self, len + 1);

    if (!copy)
        return 1;
    memcpy(copy, text, len);
    copy[len] = '\0';
    self->token.text = copy;
    self->token.len = len;
    return 0;
}

static int lex_ident(cel_t *self)
{
    const char *begin = self->at;

    while (self->at < self->end && (isalnum((unsigned char)*self->at) || *self->at == '_'))
        self->at++;
    self->token.type = TOKEN_IDENT;
    if (self->at - begin == 2 && !memcmp(begin, "in", 2))
        self->token.type = TOKEN_SIGN;
    return keep_text(self, begin, (size_t)(self->at - begin));
}

static int lex_quoted_ident(cel_t *self)
{
    const char *begin = ++self->at;

    while (self->at < self->end
           && (isalnum((unsigned char)*self->at) || (*self->at && strchr("_.-/ ", *self->at))))
        self->at++;
    if (self->at == self->end || *self->at != '`' || self->at == begin)
        return cel_fail(self, source_offset(self),
                        "a quoted field name has letters, digits and _.-/ only");
    self->token.type = TOKEN_QUOTED_IDENT;
    if (keep_text(self, begin, (size_t)(self->at - begin)))
        return 1;
    self->at++;
    return 0;
}

static int lex_sign(cel_t *self)
{
    static const char *const signs[] = {"==", "!=", "<=", ">=", "&&", "||", "<", ">",
                                        "!",  "-",  "+",  "*",  "/",  "%",  "(", ")",
                                        "[",  "]",  "{",  "}",  ".",  ",",  "?", ":"};

    for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++)
        if (looking_at(self, signs[i])) {
            self->at += strlen(signs[i]);
            self->token.type = TOKEN_SIGN;
            self->token.text = signs[i];
            self->token.len = strlen(signs[i]);
            return 0;
        }
    return cel_fail(self, source_offset(self), "this character has no place here");
}

int cel_lex(cel_t *self)
{
    bool raw, bytes;
    size_t prefix;
    int c;

    skip_space(self);
    memset(&self->token, 0, sizeof(self->token));
    self->token.at = source_offset(self);
    self->token.text = "";
    if (self->at == self->end)
        return 0;
    c = (unsigned char)*self->at;
    if (string_prefix(self, &prefix, &raw, &bytes)) {
        self->at += prefix;
        return lex_string(self, raw, bytes);
    }
    if (isdigit(c) || (c == '.' && bytes_left(self) > 1 && isdigit((unsigned char)self->at[1])))
        return lex_number(self);
    if (isalpha(c) || c == '_')
        return lex_ident(self);
    return c == '`' ? lex_quoted_ident(self) : lex_sign(self);
}
