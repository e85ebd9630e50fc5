#include "services/edge/modules/token_hash.h"

#include <endian.h>
#include <string.h>

/* What is deprecated is SHA-256 without a provider to look up and memory to allocate, which for one
 * block takes several times as long as the sum: each request with a session has one. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/crypto.h>
#include <openssl/sha.h>

enum {
    LENGTH_BYTES = 8, /* at the end of the last block */
    ONE_BLOCK_MAX = SHA256_CBLOCK - LENGTH_BYTES - 1
};

/* Of what has room in one block with its end, as a cookie's value has (FIPS 180-4, 5.1.1): the
 * buffer that a sum keeps for more is neither filled nor wiped. */
static bool hash_block(const void *token, size_t len, unsigned char *out)
{
    SHA256_CTX sum;
    unsigned char block[SHA256_CBLOCK] = {0};
    const uint64_t bits = htobe64((uint64_t)len * 8);

    memcpy(block, token, len);
    block[len] = 0x80;
    memcpy(block + SHA256_CBLOCK - LENGTH_BYTES, &bits, LENGTH_BYTES);
    if (!SHA256_Init(&sum))
        return false;
    SHA256_Transform(&sum, block);
    explicit_bzero(block, sizeof(block));
    for (size_t i = 0; i < SESSION_HASH_BYTES / sizeof(uint32_t); i++) {
        uint32_t word = htobe32(sum.h[i]);

        memcpy(out + i * sizeof(word), &word, sizeof(word));
    }
    return true;
}

bool token_hash(const void *token, size_t len, unsigned char out[SESSION_HASH_BYTES])
{
    SHA256_CTX sum;
    bool done;

    if (len <= ONE_BLOCK_MAX)
        return hash_block(token, len, out);
    done = SHA256_Init(&sum) && SHA256_Update(&sum, token, len) && SHA256_Final(out, &sum);
    OPENSSL_cleanse(&sum, sizeof(sum));
    return done;
}
