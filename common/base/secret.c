#include "common/base/secret.h"
#include "common/base/cleanup.h"
#include "common/base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct secret_key {
    unsigned char bytes[crypto_secretbox_KEYBYTES];
};

/* O_EXCL: of two services that start together one makes the key, and both read it. */
static int make_key(const char *path)
{
    unsigned char bytes[crypto_secretbox_KEYBYTES];
    char temp[4096];
    int fd, r = 0;

    snprintf(temp, sizeof(temp), "%s.%d", path, (int)getpid());
    fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    randombytes_buf(bytes, sizeof(bytes));
    if (write(fd, bytes, sizeof(bytes)) != sizeof(bytes) || fsync(fd))
        r = -EIO;
    close(fd);
    sodium_memzero(bytes, sizeof(bytes));
    if (!r && link(temp, path) && errno != EEXIST)
        r = -errno;
    unlink(temp);
    return r;
}

int secret_key_load(secret_key_t **ret_key, const char *path)
{
    _cleanup_(secret_key_destroy) secret_key_t *key = NULL;
    _cleanup_(fd_close) int fd = -1;
    struct stat st;
    char text[512];
    int r;

    if (sodium_init() < 0)
        return fault(-EIO, "start libsodium");
    key = sodium_malloc(sizeof(*key));
    if (!key)
        return fault(-ENOMEM, "memory for the master key");
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        r = make_key(path);
        if (r) {
            snprintf(text, sizeof(text), "make master key %s (is its directory writable?)", path);
            return fault(r, text);
        }
        fd = open(path, O_RDONLY | O_CLOEXEC);
    }
    if (fd < 0 || fstat(fd, &st)) {
        snprintf(text, sizeof(text), "open master key %s", path);
        return fault(-errno, text);
    }
    if (st.st_mode & (S_IRWXO | S_IWGRP)) {
        snprintf(text, sizeof(text), "master key %s is open to others: chmod 600 it", path);
        return fault(-EPERM, text);
    }
    if (read(fd, key->bytes, sizeof(key->bytes)) != sizeof(key->bytes)) {
        snprintf(text, sizeof(text), "master key %s must hold 32 bytes", path);
        return fault(-EBADMSG, text);
    }
    *ret_key = take(key);
    return 0;
}

void secret_key_destroy(secret_key_t **self_p)
{
    sodium_free(*self_p); /* wipes the key; NULL is fine */
    *self_p = NULL;
}

static char *seal_with(const unsigned char *key, int variant, const void *data, size_t len)
{
    size_t box_len = crypto_secretbox_NONCEBYTES + crypto_secretbox_MACBYTES + len;
    size_t text_len = sodium_base64_encoded_len(box_len, variant);
    _cleanup_(free_mem) unsigned char *box = malloc(box_len);
    char *text = malloc(text_len);

    if (!box || !text) {
        free(text);
        return NULL;
    }
    randombytes_buf(box, crypto_secretbox_NONCEBYTES);
    crypto_secretbox_easy(box + crypto_secretbox_NONCEBYTES, data, len, box, key);
    sodium_bin2base64(text, text_len, box, box_len, variant);
    return text;
}

static int open_with(const unsigned char *key, int variant, const char *sealed, char **ret_data,
                     size_t *ret_len)
{
    size_t max = strlen(sealed) / 4 * 3 + 3, box_len = 0, len;
    _cleanup_(free_mem) unsigned char *box = malloc(max);
    char *data;

    if (!box)
        return -ENOMEM;
    if (sodium_base642bin(box, max, sealed, strlen(sealed), NULL, &box_len, NULL, variant)
        || box_len < crypto_secretbox_NONCEBYTES + crypto_secretbox_MACBYTES)
        return -EBADMSG;
    len = box_len - crypto_secretbox_NONCEBYTES - crypto_secretbox_MACBYTES;
    data = malloc(len + 1);
    if (!data)
        return -ENOMEM;
    if (crypto_secretbox_open_easy((unsigned char *)data, box + crypto_secretbox_NONCEBYTES,
                                   box_len - crypto_secretbox_NONCEBYTES, box, key)) {
        free(data);
        return -EBADMSG;
    }
    data[len] = '\0';
    *ret_data = data;
    *ret_len = len;
    return 0;
}

char *secret_seal(const secret_key_t *self, const void *data, size_t len)
{
    return seal_with(self->bytes, sodium_base64_VARIANT_ORIGINAL, data, len);
}

int secret_open(const secret_key_t *self, const char *sealed, char **ret_data, size_t *ret_len)
{
    return open_with(self->bytes, sodium_base64_VARIANT_ORIGINAL, sealed, ret_data, ret_len);
}

/* No purpose of secret_derive begins with these words, so no key is used in two ways. */
static void derive_sealing_key(const secret_key_t *self, const char *purpose,
                               unsigned char out[crypto_secretbox_KEYBYTES])
{
    secret_derive(self, "key for sealing", purpose, out);
}

char *secret_seal_for(const secret_key_t *self, const char *purpose, const void *data, size_t len)
{
    unsigned char key[crypto_secretbox_KEYBYTES];
    char *sealed;

    derive_sealing_key(self, purpose, key);
    sealed = seal_with(key, sodium_base64_VARIANT_URLSAFE_NO_PADDING, data, len);
    sodium_memzero(key, sizeof(key));
    return sealed;
}

int secret_open_for(const secret_key_t *self, const char *purpose, const char *sealed,
                    char **ret_data, size_t *ret_len)
{
    unsigned char key[crypto_secretbox_KEYBYTES];
    int r;

    derive_sealing_key(self, purpose, key);
    r = open_with(key, sodium_base64_VARIANT_URLSAFE_NO_PADDING, sealed, ret_data, ret_len);
    sodium_memzero(key, sizeof(key));
    return r;
}

void secret_free(char **data_p, size_t len)
{
    if (*data_p)
        sodium_memzero(*data_p, len);
    free(*data_p);
    *data_p = NULL;
}

void secret_wipe_json(json_t *value)
{
    const char *name;
    json_t *item;
    size_t i;

    if (json_is_string(value))
        sodium_memzero((char *)json_string_value(value), json_string_length(value));
    json_object_foreach(value, name, item)
    {
        secret_wipe_json(item);
    }
    json_array_foreach(value, i, item)
    {
        secret_wipe_json(item);
    }
}

void secret_derive(const secret_key_t *self, const char *purpose, const char *text,
                   unsigned char out[32])
{
    unsigned char subkey[crypto_auth_hmacsha256_KEYBYTES];
    crypto_auth_hmacsha256_state state;

    crypto_auth_hmacsha256(subkey, (const unsigned char *)purpose, strlen(purpose), self->bytes);
    crypto_auth_hmacsha256_init(&state, subkey, sizeof(subkey));
    crypto_auth_hmacsha256_update(&state, (const unsigned char *)text, strlen(text));
    crypto_auth_hmacsha256_final(&state, out);
    sodium_memzero(subkey, sizeof(subkey));
}
