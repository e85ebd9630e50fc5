/* What services seal under a master key: seal KEYFILE < data > base64. */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    static unsigned char data[1 << 20], box[(1 << 20) + 64];
    static char text[(1 << 21)];
    unsigned char key[32];
    size_t len;
    FILE *file = argc == 2 ? fopen(argv[1], "rb") : NULL;

    if (sodium_init() < 0 || !file || fread(key, 1, sizeof(key), file) != sizeof(key))
        return 1;
    fclose(file);
    len = fread(data, 1, sizeof(data), stdin);
    randombytes_buf(box, crypto_secretbox_NONCEBYTES);
    crypto_secretbox_easy(box + crypto_secretbox_NONCEBYTES, data, len, box, key);
    puts(sodium_bin2base64(text, sizeof(text), box,
                           crypto_secretbox_NONCEBYTES + crypto_secretbox_MACBYTES + len,
                           sodium_base64_VARIANT_ORIGINAL));
    return 0;
}
