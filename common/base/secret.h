/* Secrets at rest: libsodium secretbox under the master key file. */
#pragma once

#include <jansson.h>
#include <stddef.h>

typedef struct secret_key secret_key_t;

/* Load a 32-byte key file, made with mode 0600 when it does not exist.
 * 0 | fault (told in fault_text: the file and what to do). */
int secret_key_load(secret_key_t **ret_key, const char *path);

/* Wipes. */
void secret_key_destroy(secret_key_t **self_p);

/* base64(nonce, box); the caller frees. NULL when out of memory. */
char *secret_seal(const secret_key_t *self, const void *data, size_t len);

/* Open what secret_seal made: a NUL-ended buffer of *ret_len bytes, freed with secret_free.
 * 0 | -EBADMSG (not ours, or another master key) | -ENOMEM. */
int secret_open(const secret_key_t *self, const char *sealed, char **ret_data, size_t *ret_len);

/* Wipe and free; NULL is fine. */
void secret_free(char **data_p, size_t len);

/* HMAC-SHA256 of text under a key derived for this purpose; 32 bytes. */
void secret_derive(const secret_key_t *self, const char *purpose, const char *text,
                   unsigned char out[32]);
