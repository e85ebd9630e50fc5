/* A record of the state file as bytes: 4 bytes of length, a nonce, a secretbox of [type][log id, 64
 * bytes][previous, 8 bytes][revision, 8 bytes][body]. No nginx in here. */
#pragma once

#include "common/codec/pack.h"

#include <sodium.h>
#include <stddef.h>
#include <stdint.h>

enum {
    RECORD_LENGTH = 4,
    RECORD_LOG_BYTES = 64,
    RECORD_HEAD = 1 + RECORD_LOG_BYTES + 8 + 8,
    RECORD_OVERHEAD = crypto_secretbox_NONCEBYTES + crypto_secretbox_MACBYTES,
    RECORD_MIN = RECORD_OVERHEAD + RECORD_HEAD,
    RECORD_MAX = PACK_BYTES_MAX + 4096
};

typedef struct record {
    int type;
    char log_id[RECORD_LOG_BYTES];
    int64_t previous, revision;
    const unsigned char *body;
    size_t body_len;
} record_t;

/* The number of bytes that follow this length field. 0: it is no length of a record. */
size_t record_length(const unsigned char head[RECORD_LENGTH]);

/* Decrypt a record, len bytes after its length, into plain, which has room for len -
 * RECORD_OVERHEAD bytes; ret_record->body lies in plain. 0 | -EBADMSG: it is torn, or sealed
 * with another key. */
int record_open(const unsigned char *sealed, size_t len, const unsigned char *key,
                unsigned char *plain, record_t *ret_record);

/* Encrypt a record, with its length in front. The caller frees the result. NULL: no memory. */
unsigned char *record_seal(const record_t *record, const unsigned char *key, size_t *ret_len);
