#include "services/edge/control/record.h"

#include "common/base/invariant.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { LOG = 1, PREVIOUS = LOG + RECORD_LOG_BYTES, REVISION = PREVIOUS + 8 };

size_t record_length(const unsigned char head[RECORD_LENGTH])
{
    size_t len = (size_t)head[0] << 24 | (size_t)head[1] << 16 | (size_t)head[2] << 8 | head[3];

    return len < RECORD_MIN || len > RECORD_MAX ? 0 : len;
}

int record_open(const unsigned char *sealed, size_t len, const unsigned char *key,
                unsigned char *plain, record_t *ret_record)
{
    if (len < RECORD_MIN
        || crypto_secretbox_open_easy(plain, sealed + crypto_secretbox_NONCEBYTES,
                                      len - crypto_secretbox_NONCEBYTES, sealed, key))
        return -EBADMSG;
    ret_record->type = plain[0];
    memcpy(ret_record->log_id, plain + LOG, RECORD_LOG_BYTES);
    ret_record->log_id[RECORD_LOG_BYTES - 1] = '\0';
    memcpy(&ret_record->previous, plain + PREVIOUS, sizeof(int64_t));
    memcpy(&ret_record->revision, plain + REVISION, sizeof(int64_t));
    ret_record->body = plain + RECORD_HEAD;
    ret_record->body_len = len - RECORD_OVERHEAD - RECORD_HEAD;
    return 0;
}

static void put_plain(unsigned char *plain, const record_t *record)
{
    plain[0] = (unsigned char)record->type;
    memcpy(plain + LOG, record->log_id, RECORD_LOG_BYTES);
    memcpy(plain + PREVIOUS, &record->previous, sizeof(int64_t));
    memcpy(plain + REVISION, &record->revision, sizeof(int64_t));
    if (record->body_len)
        memcpy(plain + RECORD_HEAD, record->body, record->body_len);
}

unsigned char *record_seal(const record_t *record, const unsigned char *key, size_t *ret_len)
{
    size_t plain_len = RECORD_HEAD + record->body_len, len = RECORD_OVERHEAD + plain_len;
    unsigned char *plain, *out, *nonce;

    INVARIANT(len <= RECORD_MAX); /* a longer one would hide all records behind it */
    plain = malloc(plain_len);
    out = malloc(RECORD_LENGTH + len);
    if (!plain || !out) {
        free(plain);
        free(out);
        return NULL;
    }
    put_plain(plain, record);
    out[0] = (unsigned char)(len >> 24);
    out[1] = (unsigned char)(len >> 16);
    out[2] = (unsigned char)(len >> 8);
    out[3] = (unsigned char)len;
    nonce = out + RECORD_LENGTH;
    randombytes_buf(nonce, crypto_secretbox_NONCEBYTES);
    crypto_secretbox_easy(nonce + crypto_secretbox_NONCEBYTES, plain, plain_len, nonce, key);
    sodium_memzero(plain, plain_len);
    free(plain);
    *ret_len = RECORD_LENGTH + len;
    return out;
}
