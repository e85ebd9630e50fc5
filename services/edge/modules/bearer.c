#include "services/edge/modules/bearer.h"

#include <ctype.h>
#include <sodium.h>
#include <string.h>
#include <strings.h>

#define MARK "postern_" /* services/identity/service_token.c */

enum {
    MARK_LEN = sizeof(MARK) - 1,
    KSUID_CHARACTERS = 27,
    SHARED_BYTES = 8 /* at the end of a hash: sessions.c finds its generation by them */
};

/* The mark, a KSUID, '_' and the secret: services/identity/token.h. */
static bool has_shape(const char *token, size_t len)
{
    if (len != BEARER_TOKEN_LEN || token[MARK_LEN + KSUID_CHARACTERS] != '_')
        return false;
    for (size_t i = MARK_LEN; i < len; i++)
        if (i != MARK_LEN + KSUID_CHARACTERS
            && !((token[i] >= '0' && token[i] <= '9') || (token[i] >= 'A' && token[i] <= 'Z')
                 || (token[i] >= 'a' && token[i] <= 'z')))
            return false;
    return true;
}

/* RFC 9110, 5.6.2 */
static bool is_token_byte(char c)
{
    return isalnum((unsigned char)c) || (c && strchr("!#$%&'*+-.^_`|~", c));
}

/* What stands behind the scheme, without spaces around it; at NULL: it is another scheme. Behind
 * the scheme are spaces alone (RFC 9110, 11.4); strange: where they are not, whoever splits at
 * other bytes may find a token where we find none. */
static bearer_text_t credentials_of(const char *value, size_t len, bool *strange)
{
    static const char scheme[] = "Bearer";
    size_t at = sizeof(scheme) - 1;

    *strange = false;
    if (len < at || strncasecmp(value, scheme, at) != 0 || (len > at && is_token_byte(value[at])))
        return (bearer_text_t){NULL, 0};
    *strange = len > at && value[at] != ' ';
    while (at < len && value[at] == ' ')
        at++;
    *strange |= at < len && !is_token_byte(value[at]);
    while (len > at && value[len - 1] == ' ')
        len--;
    return (bearer_text_t){value + at, len - at};
}

bearer_text_t bearer_token(const char *value, size_t len)
{
    bool strange;
    bearer_text_t text = credentials_of(value, len, &strange);

    if (strange)
        return (bearer_text_t){text.at, 0};
    if (!text.at || text.len < MARK_LEN || memcmp(text.at, MARK, MARK_LEN) != 0)
        return (bearer_text_t){NULL, 0};
    return (bearer_text_t){text.at, has_shape(text.at, text.len) ? text.len : 0};
}

static bool is_base64url(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '-'
           || c == '_';
}

bearer_text_t bearer_jwt(const char *value, size_t len)
{
    bool strange;
    bearer_text_t text = credentials_of(value, len, &strange), none = {text.at, 0};
    size_t dots = 0;

    if (!text.at || strange || text.len > BEARER_JWT_MAX)
        return none;
    for (size_t i = 0; i < text.len; i++) {
        if (is_base64url(text.at[i]))
            continue;
        if (text.at[i] != '.' || ++dots > 2 || i == 0 || text.at[i - 1] == '.')
            return none;
    }
    return dots == 2 && text.at[text.len - 1] != '.' ? text : none;
}

void bearer_key(const unsigned char *hash, const unsigned char *bound,
                unsigned char out[SESSION_HASH_BYTES])
{
    crypto_hash_sha256_state state;

    crypto_hash_sha256_init(&state);
    crypto_hash_sha256_update(&state, hash, SESSION_HASH_BYTES);
    crypto_hash_sha256_update(&state, bound, SESSION_BOUND_BYTES);
    crypto_hash_sha256_final(&state, out);
    memcpy(out + SESSION_HASH_BYTES - SHARED_BYTES, hash + SESSION_HASH_BYTES - SHARED_BYTES,
           SHARED_BYTES);
}

/* ---- what was refused ---- */

static size_t place_of(const unsigned char *key)
{
    return (key[0] << 8 | key[1]) % BEARER_REFUSED;
}

void bearer_refuse(bearer_refused_t *self, const unsigned char *key, uint32_t generation, int code,
                   int64_t until_ms)
{
    size_t place = place_of(key);

    memcpy(self->each[place].key, key, SESSION_HASH_BYTES);
    self->each[place].generation = generation;
    self->each[place].code = code;
    self->each[place].until_ms = until_ms;
}

int bearer_refusal(const bearer_refused_t *self, const unsigned char *key, uint32_t generation,
                   int64_t now_ms)
{
    size_t place = place_of(key);

    return now_ms < self->each[place].until_ms && self->each[place].generation == generation
                   && memcmp(self->each[place].key, key, SESSION_HASH_BYTES) == 0
               ? self->each[place].code
               : 0;
}
