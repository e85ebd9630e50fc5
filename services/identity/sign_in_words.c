#include "services/identity/sign_in_words.h"
#include "common/base/utf8.h"

#include <ctype.h>
#include <sodium.h>
#include <string.h>
#include <strings.h>

enum { TOKEN_BYTES = 32, STATE_BYTES = 16, PARAMS_MAX = 64 /* names */ };

#define BASE64URL "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

static void random_text(char *out, size_t size, size_t bytes)
{
    unsigned char data[TOKEN_BYTES];

    randombytes_buf(data, bytes);
    sodium_bin2base64(out, size, data, bytes, sodium_base64_VARIANT_URLSAFE_NO_PADDING);
    sodium_memzero(data, sizeof(data));
}

void words_token(char out[WORDS_TOKEN_LEN + 1])
{
    random_text(out, WORDS_TOKEN_LEN + 1, TOKEN_BYTES);
}

void words_state(char out[WORDS_STATE_LEN + 1])
{
    random_text(out, WORDS_STATE_LEN + 1, STATE_BYTES);
}

bool words_is_token(const char *text, size_t len)
{
    return text && strnlen(text, len + 1) == len && strspn(text, BASE64URL) == len;
}

void words_hash(const char *text, unsigned char out[WORDS_HASH_BYTES])
{
    crypto_hash_sha256(out, (const unsigned char *)text, strlen(text));
}

void words_hex(const char *text, char out[WORDS_HEX_SIZE])
{
    unsigned char hash[WORDS_HASH_BYTES];

    words_hash(text, hash);
    sodium_bin2hex(out, WORDS_HEX_SIZE, hash, sizeof(hash));
}

bool words_is_hex(const char *text)
{
    return text && strnlen(text, WORDS_HEX_SIZE) == WORDS_HEX_SIZE - 1
           && strspn(text, "0123456789abcdef") == WORDS_HEX_SIZE - 1;
}

bool words_equal(const char *one, const char *other)
{
    return one && other && strlen(one) == strlen(other) && !sodium_memcmp(one, other, strlen(one));
}

bool words_is_host(const char *text)
{
    size_t name = text ? strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-._") : 0, port;

    if (!name || strnlen(text, WORDS_HOST_MAX + 1) > WORDS_HOST_MAX || *text == '.')
        return false;
    if (!text[name])
        return true;
    port = text[name] == ':' ? strspn(text + name + 1, "0123456789") : 0;
    return port > 0 && port <= 5 && !text[name + 1 + port];
}

static int hex_of(char digit)
{
    const char *digits = "0123456789abcdef", *at = strchr(digits, tolower((unsigned char)digit));

    return digit && at ? (int)(at - digits) : -1;
}

/* The path of a target as servers read it: percent-encoded bytes are what they stand for, and
 * slashes in a row are one. False: one of them is NUL. */
static bool read_path(const char *text, char out[WORDS_TARGET_MAX + 1])
{
    size_t len = 0;

    for (const char *at = text; *at && *at != '?' && *at != '#'; at++) {
        int high = *at == '%' ? hex_of(at[1]) : -1, low = high >= 0 ? hex_of(at[2]) : -1;
        char byte = *at;

        if (low >= 0) {
            byte = (char)(high << 4 | low);
            at += 2;
        }
        if (!byte)
            return false;
        if (byte != '/' || !len || out[len - 1] != '/')
            out[len++] = byte;
    }
    out[len] = '\0';
    return true;
}

/* Is a segment of the path "." or ".."? Browsers resolve those before they ask, so none is asked
 * for; and what is left of "/.//host" when they are taken away names another host. */
static bool has_dots(const char *path)
{
    for (const char *at = path; *at; at++) {
        size_t dots = *at == '/' ? strspn(at + 1, ".") : 0;

        if ((dots == 1 || dots == 2) && (!at[1 + dots] || at[1 + dots] == '/'))
            return true;
    }
    return false;
}

const char *words_target(const char *text)
{
    char path[WORDS_TARGET_MAX + 1] = "";

    if (!text || *text != '/' || text[1] == '/'
        || strnlen(text, WORDS_TARGET_MAX + 1) > WORDS_TARGET_MAX)
        return "/";
    for (const char *at = text; *at; at++)
        if (*at <= ' ' || *at == 0x7f || *at == '\\') /* and all bytes from 0x80 */
            return "/";
    if (!read_path(text, path) || has_dots(path) || !strncasecmp(path, "/auth/", 6))
        return "/";
    return text;
}

bool words_split_state(const char *text, char route[ID_MAX], char state[WORDS_STATE_LEN + 1])
{
    const char *dot = text ? strchr(text, '.') : NULL;

    if (!dot || (size_t)(dot - text) >= ID_MAX || !words_is_token(dot + 1, WORDS_STATE_LEN))
        return false;
    memcpy(route, text, (size_t)(dot - text));
    route[dot - text] = '\0';
    memcpy(state, dot + 1, WORDS_STATE_LEN + 1);
    return id_check("edghtsrt", route);
}

bool words_are_params(const json_t *params, size_t max)
{
    size_t bytes = 0, i;
    const char *name;
    json_t *values, *value;

    if (!json_is_object(params) || json_object_size(params) > PARAMS_MAX)
        return false;
    json_object_foreach((json_t *)params, name, values)
    {
        if (!json_is_array(values))
            return false;
        bytes += strlen(name);
        json_array_foreach(values, i, value)
        {
            if (!json_is_string(value)
                || strlen(json_string_value(value)) != json_string_length(value))
                return false;
            bytes += json_string_length(value) + 1;
        }
    }
    return bytes <= max;
}

json_t *words_agent(const char *text)
{
    const unsigned char *at = (const unsigned char *)(text ? text : ""),
                        *end = at + strlen((const char *)at);
    size_t len = 0, more;

    while ((more = utf8_character(at + len, end)) && len + more <= WORDS_AGENT_MAX)
        len += more;
    return json_stringn((const char *)at, len);
}
