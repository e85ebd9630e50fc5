/* Ciphers of what is encrypted in XML (XML Encryption 1.1, 5.2). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef struct cipher {
    const char *uri, *name; /* OpenSSL's name */
    size_t key_bytes;
    bool is_cbc; /* nothing in it says that it was not changed */
} cipher_t;

/* The row of an EncryptionMethod. NULL: it is not accepted. */
const cipher_t *cipher_find(const char *uri);

/* Decrypt: of GCM 12 bytes of IV before and 16 of tag behind, of CBC 16 of IV before and XML
 * Encryption's padding at the end. The caller frees *ret_bytes, which end with NUL. False: key,
 * tag, padding or length is wrong. */
bool cipher_open(const cipher_t *self, const unsigned char *key, const unsigned char *bytes,
                 size_t len, char **ret_bytes, size_t *ret_len);

/* Once a process: use each of them. 0 | fault. */
int cipher_library_start(void);
