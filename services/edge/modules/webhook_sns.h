/* Messages of Amazon SNS: JSON that has its own signature, and the URL of the certificate whose key
 * made it ("Verifying the signatures of Amazon SNS messages"). */
#pragma once

#include "services/edge/modules/webhook.h"

#include <openssl/evp.h>

/* In the order in which they are signed; the others after them. */
typedef enum webhook_sns_field {
    WEBHOOK_SNS_MESSAGE,
    WEBHOOK_SNS_MESSAGE_ID,
    WEBHOOK_SNS_SUBJECT,
    WEBHOOK_SNS_SUBSCRIBE_URL,
    WEBHOOK_SNS_TIMESTAMP,
    WEBHOOK_SNS_TOKEN,
    WEBHOOK_SNS_TOPIC_ARN,
    WEBHOOK_SNS_TYPE,
    WEBHOOK_SNS_SIGNED,
    WEBHOOK_SNS_SIGNATURE = WEBHOOK_SNS_SIGNED,
    WEBHOOK_SNS_SIGNATURE_VERSION,
    WEBHOOK_SNS_SIGNING_CERT_URL,
    WEBHOOK_SNS_UNSUBSCRIBE_URL,
    WEBHOOK_SNS_FIELDS
} webhook_sns_field_t;

typedef struct webhook_sns {
    webhook_text_t fields[WEBHOOK_SNS_FIELDS]; /* of the strings' characters; at NULL: not there */
} webhook_sns_t;

/* Reads a message. False: it is none that is signed. It is JSON (webhook_members.h) with the fields
 * of its type, each once and a string; names that only differ in case from one that is signed are
 * refused, because there are decoders to which they are the same. */
bool webhook_sns_read(webhook_text_t body, webhook_sns_t *out);

/* Writes the bytes that are signed. False: they cannot be, because a surrogate stands alone. */
bool webhook_sns_content(const webhook_sns_t *self,
                         void (*add)(void *arg, const void *bytes, size_t len), void *arg);

/* Is the signature of this content, by this key? */
bool webhook_sns_signed(const webhook_sns_t *self, EVP_PKEY *key);

/* What a request is: judged with its body. */
webhook_verdict_t webhook_sns_judge(const webhook_provider_t *row,
                                    const webhook_request_t *request);
