/* Fetches one signer's certificate through the way out, and its issuer's where nobody here knows
 * it; then says what came of it. */
#pragma once

#include "common/codec/signer.h"
#include "common/out/outbound.h"

#include <openssl/x509.h>

enum {
    TASK_TIMEOUT_MS = 4000, /* of each of its requests */
    TASK_ISSUERS_MAX = 2    /* certificates of issuers that are fetched for one signer */
};

typedef struct task_world {
    outbound_t *outbound;
    X509_STORE *authorities;
    void (*tell)(void *context, const signer_told_t *told); /* once for each task */
    void *context;
} task_world_t;

/* Begin; world must live until tell was called, which may be before this returns. */
void task_start(const task_world_t *world, const signer_ask_t *ask);
