/* Certificates of webhook signers that an edge has fetched (sns): which URLs may name one, and what
 * an edge's worker and the program that fetches (services/fetch) say to each other. Both are
 * programs of one build on one machine, so what they say are structures, one a packet. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SIGNER_FORM = 1, /* of the structures: rises when one of them changes */
    SIGNER_URL_MAX = 255,
    SIGNER_REGION_MAX = 32,
    SIGNER_KEY_MAX = 1100, /* bytes; an RSA key of 8192 bits has 1062 */
    SIGNER_WHY_MAX = 200
};

/* Where a certificate may lie: https://sns.<region>.amazonaws.com[.cn]/<name>.pem, and in no other
 * spelling: no port, user, query, fragment, escape, upper case in the host or second segment of the
 * path. */
typedef struct signer_url {
    char region[SIGNER_REGION_MAX + 1];
    bool china; /* amazonaws.com.cn */
} signer_url_t;

/* False: it is none. */
bool signer_url_read(const char *text, size_t len, signer_url_t *out);

/* The name number n of those of which a certificate at this URL has to have one: false when there
 * are no more. AWS names the signer after the service, or after the region. */
bool signer_url_name(const signer_url_t *self, unsigned n, char *out, size_t size);

/* Fetch the certificate at url for the account. */
typedef struct signer_ask {
    uint32_t form;
    uint64_t number; /* comes back with the answer; above 0 */
    char account[64];
    char url[SIGNER_URL_MAX + 1];
} signer_ask_t;

typedef enum signer_outcome {
    SIGNER_KEY,     /* the certificate is good: its key is here */
    SIGNER_REFUSED, /* what lies there is no certificate that may sign */
    SIGNER_LATER    /* it could not be fetched: perhaps another time */
} signer_outcome_t;

typedef struct signer_told {
    uint32_t form;
    uint32_t outcome; /* signer_outcome_t */
    uint64_t number;  /* 0: of all that are under way */
    int64_t until_s;  /* of a key: the certificate's last second, since 1970 */
    uint32_t key_len;
    char why[SIGNER_WHY_MAX];          /* of the others: one line for operators, printable */
    unsigned char key[SIGNER_KEY_MAX]; /* DER of a SubjectPublicKeyInfo */
} signer_told_t;

/* A question for a URL that signer_url_read takes. */
void signer_ask_init(signer_ask_t *self, uint64_t number, const char *account, const char *url);
/* An answer without a key. */
void signer_told_init(signer_told_t *self, uint64_t number, signer_outcome_t outcome,
                      const char *why);

/* Copy what came in a packet. False: it is not of this form, or one of its texts has no end. */
bool signer_ask_read(signer_ask_t *out, const void *packet, size_t len);
bool signer_told_read(signer_told_t *out, const void *packet, size_t len);
