#include "common/codec/webhook.h"

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define LIST(c)                 .separator = (c)
#define TIME(where, u, seconds) .time = (where), .unit = WEBHOOK_##u, .tolerance_s = (seconds)
#define ID(where)               .id = (where)
#define NEEDS(list)             .needs = (list)
#define KEY(form)               .key = WEBHOOK_KEY_##form
#define SHAKES(h)               .hand = WEBHOOK_HAND_##h
#define PROVIDER(id, how, where, begins, form, what, ...)                                          \
    {.name = (id),                                                                                 \
     .scheme = WEBHOOK_##how,                                                                      \
     .headers = (where),                                                                           \
     .mark = (begins),                                                                             \
     .encoding = WEBHOOK_##form,                                                                   \
     .content = (what),                                                                            \
     __VA_ARGS__},

static const webhook_provider_t rows[] = {
#include "proto/webhook_providers.def"
};

enum { ROWS = sizeof(rows) / sizeof(rows[0]), PUBLIC_KEY_MAX = 512 };

const webhook_provider_t *webhook_provider_find(const char *name)
{
    for (size_t i = 0; i < ROWS; i++)
        if (!strcasecmp(rows[i].name, name))
            return &rows[i];
    return NULL;
}

const webhook_provider_t *webhook_provider_next(const webhook_provider_t *row)
{
    const webhook_provider_t *next = row + 1;

    return next < rows + ROWS && !strcmp(next->name, row->name) ? next : NULL;
}

const char *webhook_provider_refusal(const webhook_provider_t *row)
{
    switch (row->scheme) {
    case WEBHOOK_UNKNOWN:
        return "cannot be verified by this server: how the sender signs is not documented";
    default:
        return NULL;
    }
}

static bool base64_decode(const char *text, unsigned char *out, size_t *ret_len)
{
    size_t len = strlen(text);

    return sodium_base642bin(out, len, text, len, NULL, ret_len, NULL,
                             sodium_base64_VARIANT_ORIGINAL)
               == 0
           && *ret_len > 0;
}

/* The credentials of user::password, as a client of RFC 7617 sends them. */
static bool pair_encode(const char *secret, unsigned char *out, size_t *ret_len)
{
    const char *colons = strstr(secret, "::");
    size_t len = strlen(secret) - 1, user_len;
    char *pair;

    if (!colons || colons == secret || memchr(secret, ':', (size_t)(colons - secret)))
        return false;
    user_len = (size_t)(colons - secret);
    pair = malloc(len);
    if (!pair)
        return false;
    memcpy(pair, secret, user_len + 1);
    memcpy(pair + user_len + 1, colons + 2, len - user_len - 1);
    sodium_bin2base64((char *)out, sodium_base64_encoded_len(len, sodium_base64_VARIANT_ORIGINAL),
                      (unsigned char *)pair, len, sodium_base64_VARIANT_ORIGINAL);
    *ret_len = strlen((char *)out);
    sodium_memzero(pair, len);
    free(pair);
    return true;
}

static bool is_p256(const unsigned char *der, size_t len)
{
    const unsigned char *at = der;
    EVP_PKEY *key = len <= PUBLIC_KEY_MAX ? d2i_PUBKEY(NULL, &at, (long)len) : NULL;
    char group[32] = "";
    size_t group_len;
    bool is = key && at == der + len && EVP_PKEY_is_a(key, "EC")
              && EVP_PKEY_get_group_name(key, group, sizeof(group), &group_len) == 1
              && !strcmp(group, SN_X9_62_prime256v1);

    EVP_PKEY_free(key);
    return is;
}

size_t webhook_key_room(const char *secret)
{
    return sodium_base64_encoded_len(strlen(secret), sodium_base64_VARIANT_ORIGINAL);
}

bool webhook_key_make(const webhook_provider_t *row, const char *secret, unsigned char *out,
                      size_t *ret_len)
{
    static const char prefix[] = "whsec_";

    *ret_len = strlen(secret);
    switch (row->key) {
    case WEBHOOK_KEY_NONE:
        return !*secret;
    case WEBHOOK_KEY_TEXT:
        memcpy(out, secret, *ret_len);
        return *ret_len > 0;
    case WEBHOOK_KEY_BASE64:
        return base64_decode(secret, out, ret_len);
    case WEBHOOK_KEY_WHSEC:
        if (!strncmp(secret, prefix, sizeof(prefix) - 1))
            secret += sizeof(prefix) - 1;
        return base64_decode(secret, out, ret_len);
    case WEBHOOK_KEY_PUBLIC:
        return base64_decode(secret, out, ret_len) && is_p256(out, *ret_len);
    case WEBHOOK_KEY_PAIR:
        return pair_encode(secret, out, ret_len);
    }
    return false;
}

const char *webhook_secret_fault(const webhook_provider_t *row, const char *secret)
{
    static const char *const faults[] = {
        [WEBHOOK_KEY_NONE] = "must be absent for this provider",
        [WEBHOOK_KEY_TEXT] = "is required for this provider",
        [WEBHOOK_KEY_BASE64] = "must be base64 for this provider",
        [WEBHOOK_KEY_WHSEC] = "must be base64 for this provider, with or without whsec_ before it",
        [WEBHOOK_KEY_PUBLIC] = "must be base64 of the provider's public key (DER, P-256)",
        [WEBHOOK_KEY_PAIR] = "must be user::password for this provider",
    };
    size_t room = webhook_key_room(secret), len;
    unsigned char *key;
    bool made;

    if (row->key == WEBHOOK_KEY_NONE)
        return *secret ? faults[WEBHOOK_KEY_NONE] : NULL;
    if (!*secret)
        return faults[WEBHOOK_KEY_TEXT];
    key = malloc(room);
    if (!key)
        return "cannot be checked: out of memory";
    made = webhook_key_make(row, secret, key, &len);
    sodium_memzero(key, room);
    free(key);
    return made ? NULL : faults[row->key];
}
