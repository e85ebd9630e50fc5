/* Senders of webhooks: the rows of proto/webhook_providers.def, and what a sender's secret must be.
 * The API refuses by it what an edge cannot verify; the edge verifies by it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef enum webhook_scheme {
    WEBHOOK_HMAC_SHA1,
    WEBHOOK_HMAC_SHA256,
    WEBHOOK_HMAC_SHA512,
    WEBHOOK_ECDSA_P256,
    WEBHOOK_TOKEN,
    WEBHOOK_BASIC,
    WEBHOOK_FETCHED_KEY,
    WEBHOOK_UNKNOWN
} webhook_scheme_t;

typedef enum webhook_encoding { WEBHOOK_HEX, WEBHOOK_BASE64, WEBHOOK_EITHER } webhook_encoding_t;

typedef enum webhook_unit { WEBHOOK_S, WEBHOOK_MS, WEBHOOK_ISO, WEBHOOK_ISO_UTC } webhook_unit_t;

typedef enum webhook_key {
    WEBHOOK_KEY_TEXT,
    WEBHOOK_KEY_BASE64,
    WEBHOOK_KEY_WHSEC,
    WEBHOOK_KEY_PUBLIC,
    WEBHOOK_KEY_PAIR,
    WEBHOOK_KEY_NONE
} webhook_key_t;

typedef enum webhook_hand {
    WEBHOOK_HAND_NONE,
    WEBHOOK_HAND_HEAD,        /* HEAD is answered with 200 */
    WEBHOOK_HAND_CHALLENGE,   /* GET ?challenge=x: x */
    WEBHOOK_HAND_ECHO_HEADER, /* GET with a header: its value */
    WEBHOOK_HAND_CRC,         /* GET ?crc_token=x: its HMAC, as JSON */
    WEBHOOK_HAND_INTENT,      /* a signed request without events: 200, and 401 where it is wrong */
    WEBHOOK_HAND_ENCRYPT      /* a signed request with a token: its HMAC, as JSON */
} webhook_hand_t;

/* A row; proto/webhook_providers.def says what the columns mean. Texts are never NULL but time, id
 * and needs, which are where the row does not have them. */
typedef struct webhook_provider {
    const char *name;
    webhook_scheme_t scheme;
    const char *headers;
    const char *mark;
    webhook_encoding_t encoding;
    const char *content;
    char separator; /* 0: the header is one item */
    const char *time;
    webhook_unit_t unit;
    unsigned tolerance_s;
    const char *id;
    const char *needs;
    webhook_key_t key;
    webhook_hand_t hand;
} webhook_provider_t;

/* The first row of a name, in any case; NULL: no such sender. */
const webhook_provider_t *webhook_provider_find(const char *name);
/* The next row of the same name; NULL: there is none. */
const webhook_provider_t *webhook_provider_next(const webhook_provider_t *row);

/* Why no edge can verify what this sender sends; NULL: it can. */
const char *webhook_provider_refusal(const webhook_provider_t *row);

/* Makes the key of a secret: the bytes that a MAC takes or that a token is compared with (of
 * PAIR: the credentials of RFC 7617), or the DER of a public key; of NONE nothing. out has room for
 * as many bytes as webhook_key_room says. False: the secret is not of the sender's form. */
bool webhook_key_make(const webhook_provider_t *row, const char *secret, unsigned char *out,
                      size_t *ret_len);
size_t webhook_key_room(const char *secret);

/* What the sender's secret must be, for who gave another; NULL: this one will do. */
const char *webhook_secret_fault(const webhook_provider_t *row, const char *secret);
