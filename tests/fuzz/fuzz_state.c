/* The state file, and that of the keys of session tickets: whatever their bytes are, nothing but
 * whole records of ours is read; what was sealed is read as it was; and what has one bit that is
 * another one is none. */
#include "services/edge/control/record.h"
#include "services/edge/tls/tickets.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const unsigned char key[crypto_secretbox_KEYBYTES] = "a key for fuzzing and nothing..";

static bool is_record(const unsigned char *bytes, size_t len, record_t *ret_record,
                      unsigned char **ret_plain)
{
    size_t sealed = len >= RECORD_LENGTH ? record_length(bytes) : 0;

    *ret_plain = NULL;
    if (!sealed || sealed > len - RECORD_LENGTH)
        return false;
    *ret_plain = malloc(sealed - RECORD_OVERHEAD);
    return *ret_plain && !record_open(bytes + RECORD_LENGTH, sealed, key, *ret_plain, ret_record);
}

/* As a file: nobody has the key. */
static void try_bytes(const uint8_t *data, size_t size)
{
    unsigned char *plain;
    record_t record;

    if (is_record(data, size, &record, &plain))
        abort();
    free(plain);
}

/* As what a record holds: it comes back as it was, but for a log id without an end. */
static void try_contents(const uint8_t *data, size_t size)
{
    record_t in = {0}, out;
    unsigned char *sealed, *plain;
    size_t len, flip;

    in.type = data[0];
    memcpy(in.log_id, data + 1, RECORD_LOG_BYTES);
    memcpy(&in.previous, data + 1 + RECORD_LOG_BYTES, 8);
    memcpy(&in.revision, data + 1 + RECORD_LOG_BYTES + 8, 8);
    in.body = data + RECORD_HEAD;
    in.body_len = size - RECORD_HEAD;
    sealed = record_seal(&in, key, &len);
    if (!sealed || !is_record(sealed, len, &out, &plain))
        abort();
    in.log_id[RECORD_LOG_BYTES - 1] = '\0';
    if (out.type != in.type || memcmp(out.log_id, in.log_id, RECORD_LOG_BYTES)
        || out.previous != in.previous || out.revision != in.revision || out.body_len != in.body_len
        || memcmp(out.body, in.body, in.body_len))
        abort();
    free(plain);
    if (is_record(sealed, len - 1, &out, &plain)) /* torn */
        abort();
    free(plain);
    flip = ((size_t)data[0] * 131 + (size_t)data[1] * 7 + size) % len;
    sealed[flip] ^= (unsigned char)(1 << data[1] % 8);
    if (is_record(sealed, len, &out, &plain))
        abort();
    free(plain);
    free(sealed);
}

static void try_tickets(const uint8_t *data, size_t size)
{
    unsigned char sealed[TICKETS_BYTES];
    tickets_t in = {0}, out;

    if (!tickets_open(data, size, key, &out))
        abort();
    memcpy(&in, data, size < sizeof(in) ? size : sizeof(in));
    tickets_seal(&in, key, sealed);
    if (tickets_open(sealed, sizeof(sealed), key, &out) || memcmp(&in, &out, sizeof(in)))
        abort();
    sealed[size % sizeof(sealed)] ^= (unsigned char)(1 << (size ? data[0] : 0) % 8);
    if (!tickets_open(sealed, sizeof(sealed), key, &out))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool ready;

    if (!ready && sodium_init() < 0)
        abort();
    ready = true;
    try_bytes(data, size);
    try_tickets(data, size);
    if (size >= RECORD_HEAD)
        try_contents(data, size);
    return 0;
}
