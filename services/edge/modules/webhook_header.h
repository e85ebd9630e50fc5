/* Headers of webhooks: signatures, items of lists, times. All of it is written by strangers. */
#pragma once

#include "services/edge/modules/webhook.h"

bool webhook_text_is(webhook_text_t text, const char *other);
bool webhook_text_begins(webhook_text_t text, const char *mark);

/* Appends what stands behind mark in the items that begin with it. False: there would be more than
 * WEBHOOK_SIGNATURES_MAX. separator 0: the value is one item. */
bool webhook_header_marked(webhook_text_t value, char separator, const char *mark,
                           webhook_text_t *out, size_t *count);
/* The one item of a list that begins with name; none, or more than one: false. */
bool webhook_header_item(webhook_text_t value, char separator, const char *name,
                         webhook_text_t *out);
/* The one value of a request's header; none, or more than one: false. */
bool webhook_header_only(const webhook_request_t *request, webhook_text_t name,
                         webhook_text_t *out);

/* A time since 1970, from 1 to 14 digits without a zero before them, or RFC 3339, whose zone may
 * be without a colon, and of ISO_UTC is not there. Its text is signed beside others: no two
 * texts of different lengths are to mean the same. */
bool webhook_time_parse(webhook_text_t text, webhook_unit_t unit, int64_t *ret_ms);
