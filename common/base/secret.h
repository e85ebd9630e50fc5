/* Secrets at rest: libsodium's secretbox under the master key file. */
#pragma once

#include <jansson.h>
#include <stddef.h>

typedef struct secret_key secret_key_t;

/* Load a key file of 32 bytes; it is made with mode 0600 when it does not exist. 0 | fault
 * (fault_text names the file and what to do). */
int secret_key_load(secret_key_t **ret_key, const char *path);

/* Wipe the key and free it. */
void secret_key_destroy(secret_key_t **self_p);

/* Seal data: base64 of nonce and box; the caller frees it. NULL when out of memory. */
char *secret_seal(const secret_key_t *self, const void *data, size_t len);

/* Open what secret_seal made, into a NUL-ended buffer of *ret_len bytes; free it with secret_free.
 * 0 | -EBADMSG (not sealed by us, or with another master key) | -ENOMEM. */
int secret_open(const secret_key_t *self, const char *sealed, char **ret_data, size_t *ret_len);

/* The same under a key for this purpose only, derived from the master key: what was sealed for one
 * purpose opens for no other. base64url without padding, so that it may stand in a URL or a cookie
 * as it is; SECRET_SEALED_LEN(len) characters. Results as above. */
#define SECRET_SEALED_LEN(len) (((len) + 24 + 16) * 4 / 3 + 1) /* at most */
char *secret_seal_for(const secret_key_t *self, const char *purpose, const void *data, size_t len);
int secret_open_for(const secret_key_t *self, const char *purpose, const char *sealed,
                    char **ret_data, size_t *ret_len);

/* Wipe and free; NULL is fine. */
void secret_free(char **data_p, size_t len);

/* Wipe all texts of a value that nobody else holds, before it is freed; NULL is fine. */
void secret_wipe_json(json_t *value);

/* HMAC-SHA256 of text under a key derived for this purpose; 32 bytes. */
void secret_derive(const secret_key_t *self, const char *purpose, const char *text,
                   unsigned char out[32]);
