/* The rules of webhook_verification: is a request signed by the sender that its route names? By the
 * rows of common/codec/webhook.h. No nginx in here, and no clock. */
#pragma once

#include "common/codec/webhook.h"

#include <msgpack.h>
#include <openssl/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    WEBHOOK_BODY_MAX = 1024 * 1024, /* bytes; a request with a larger body is denied */
    WEBHOOK_SIGNATURES_MAX = 16,    /* of one request; with more it is denied */
    WEBHOOK_ANSWER_MAX = 1024
};

/* Bytes of somebody else's, not ended by a NUL. */
typedef struct webhook_text {
    const char *at;
    size_t len;
} webhook_text_t;

typedef enum webhook_verdict {
    WEBHOOK_VERIFIED,
    WEBHOOK_ANSWERED,   /* the sender wants to know who is here: the answer is for it alone */
    WEBHOOK_NEEDS_BODY, /* nothing is wrong so far: ask again, with the body */
    WEBHOOK_NEEDS_KEY,  /* nothing is wrong so far: ask again, when the signer's key is there */
    WEBHOOK_UNSIGNED,   /* no header with a signature, or no message with one */
    WEBHOOK_MALFORMED,  /* a signature or what belongs to it is not of the sender's form */
    WEBHOOK_STALE,      /* signed too long ago, or too far in the future */
    WEBHOOK_MISMATCHED,
    WEBHOOK_UNTRUSTED, /* what the message names as its signer's certificate is not good */
    WEBHOOK_UNREACHED  /* the signer's certificate cannot be had at the moment */
} webhook_verdict_t;

typedef struct webhook_request {
    webhook_text_t method;
    webhook_text_t authority; /* the client's Host, in lower case */
    webhook_text_t target;    /* path and query as they were sent */
    webhook_text_t type;      /* Content-Type */
    const char *body;         /* NULL: not read yet */
    size_t body_len;
    int64_t now_ms; /* since 1970, when the request came */
    /* The values of a header, in any case: how many there are, of which at most max are in out. */
    size_t (*headers)(void *arg, webhook_text_t name, webhook_text_t *out, size_t max);
    /* The key of a certificate's URL (common/codec/signer.h), of schemes whose key is fetched:
     * VERIFIED, with a key that is borrowed, NEEDS_KEY, UNTRUSTED or UNREACHED. */
    webhook_verdict_t (*key)(void *arg, const char *url, EVP_PKEY **ret_key);
    void *arg;
} webhook_request_t;

/* Status 200. */
typedef struct webhook_answer {
    const char *type; /* NULL: without a body */
    size_t len;
    char body[WEBHOOK_ANSWER_MAX];
} webhook_answer_t;

typedef struct webhook webhook_t;

/* What module.h calls parse, free and beyond: {provider, secret}. Beyond are senders that no edge
 * can verify, and a secret that is missing or is not of the sender's form. */
void *webhook_parse(const msgpack_object *document, bool *bad);
void webhook_free(void *config);
bool webhook_beyond(const void *config);

/* Do two configurations verify the same? In constant time. */
bool webhook_same(const webhook_t *one, const webhook_t *other);

/* The row of its sender. */
const webhook_provider_t *webhook_provider(const webhook_t *self);

/* Not for a configuration that is beyond. answer is written where the verdict is
 * WEBHOOK_ANSWERED. */
webhook_verdict_t webhook_judge(const webhook_t *self, const webhook_request_t *request,
                                webhook_answer_t *answer);
