/* The content that a sender signs, put together again from the request (proto/webhook_providers.def,
 * column signed). Senders of their own ways:
 *   %U  hubspot: the URL, with the escapes decoded that its documentation lists
 *   %p  contentful: the path, with the query escaped as one component, escaped as a URI
 *   %h  contentful: the headers that x-contentful-signed-headers names, which must be in order and
 *       must have the time among them
 *   %j  graphcms: the body as a string of JSON
 *   %e  graphcms: the item env= of the signature's header, as a string of JSON
 *   %v  plivo: the URL without its query, then the query's fields and the form's, in order */
#pragma once

#include "services/edge/modules/webhook_sum.h"

/* What a request says of its signature. */
typedef struct webhook_claims {
    webhook_text_t signatures[WEBHOOK_SIGNATURES_MAX];
    size_t count;
    webhook_text_t header; /* the last that had one of them */
    webhook_text_t time, id;
} webhook_claims_t;

/* Adds the content to sum. portless: %u and %U are without the port that the client named. False:
 * the request is none that the sender could have signed. */
bool webhook_content_add(const webhook_provider_t *row, const webhook_request_t *request,
                         const webhook_claims_t *claims, bool portless, webhook_sum_t *sum);
