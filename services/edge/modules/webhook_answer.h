/* How senders make sure that the receiver of their webhooks is there, and what the edge answers in
 * its place. What it echoes or signs is of few characters: nothing that a browser would run, and
 * nothing that could be passed off as a webhook which the sender signed. */
#pragma once

#include "services/edge/modules/webhook_sum.h"

/* Is it a request that has no signature, and is answered by the edge? */
bool webhook_answer_unsigned(const webhook_provider_t *row, const unsigned char *key, size_t len,
                             const webhook_request_t *request, webhook_answer_t *answer);
/* Is it a request whose signature is right that is answered by the edge? */
bool webhook_answer_signed(const webhook_provider_t *row, const unsigned char *key, size_t len,
                           const webhook_request_t *request, webhook_answer_t *answer);
/* May the body be one of the sender's webhooks? Not if it might be what an answer has signed. */
bool webhook_answer_apart(const webhook_provider_t *row, const webhook_request_t *request);
