/* What services seal under a master key for a purpose (secret_seal_for of common/base/secret.h):
 * seal KEYFILE PURPOSE < data > base64url. */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    static unsigned char data[1 << 20], box[(1 << 20) + 64];
    static char text[(1 << 21)];
    static const char sealing[] = "key for sealing";
    unsigned char key[32], subkey[32];
    crypto_auth_hmacsha256_state state;
    size_t len;
    FILE *file = argc == 3 ? fopen(argv[1], "rb") : NULL;

    if (sodium_init() < 0 || !file || fread(key, 1, sizeof(key), file) != sizeof(key))
        return 1;
    fclose(file);
    crypto_auth_hmacsha256(subkey, (const unsigned char *)sealing, sizeof(sealing) - 1, key);
    crypto_auth_hmacsha256_init(&state, subkey, sizeof(subkey));
    crypto_auth_hmacsha256_update(&state, (const unsigned char *)argv[2], strlen(argv[2]));
    crypto_auth_hmacsha256_final(&state, key);
    len = fread(data, 1, sizeof(data), stdin);
    randombytes_buf(box, crypto_secretbox_NONCEBYTES);
    crypto_secretbox_easy(box + crypto_secretbox_NONCEBYTES, data, len, box, key);
    puts(sodium_bin2base64(text, sizeof(text), box,
                           crypto_secretbox_NONCEBYTES + crypto_secretbox_MACBYTES + len,
                           sodium_base64_VARIANT_URLSAFE_NO_PADDING));
    return 0;
}
