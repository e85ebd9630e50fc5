#include "services/edge/modules/bearer.h"

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

bearer_text_t bearer_token(const char *value, size_t len)
{
    static const char scheme[] = "Bearer ";
    size_t at = sizeof(scheme) - 1;

    if (len < at || strncasecmp(value, scheme, at) != 0)
        return (bearer_text_t){NULL, 0};
    while (at < len && value[at] == ' ')
        at++;
    if (len - at < MARK_LEN || memcmp(value + at, MARK, MARK_LEN) != 0)
        return (bearer_text_t){NULL, 0};
    while (len > at && value[len - 1] == ' ')
        len--;
    return (bearer_text_t){value + at, has_shape(value + at, len - at) ? len - at : 0};
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

void bearer_refuse(bearer_refused_t *self, const unsigned char *key, uint32_t generation,
                   int64_t until_ms)
{
    size_t place = place_of(key);

    memcpy(self->each[place].key, key, SESSION_HASH_BYTES);
    self->each[place].generation = generation;
    self->each[place].until_ms = until_ms;
}

bool bearer_is_refused(const bearer_refused_t *self, const unsigned char *key, uint32_t generation,
                       int64_t now_ms)
{
    size_t place = place_of(key);

    return now_ms < self->each[place].until_ms && self->each[place].generation == generation
           && memcmp(self->each[place].key, key, SESSION_HASH_BYTES) == 0;
}
