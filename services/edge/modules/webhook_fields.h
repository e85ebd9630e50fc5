/* Fields of queries and forms (application/x-www-form-urlencoded). */
#pragma once

#include "services/edge/modules/webhook.h"

enum { WEBHOOK_FIELDS_MAX = 1000 };

typedef struct webhook_field {
    webhook_text_t name, value;
} webhook_field_t;

typedef struct webhook_fields {
    size_t count;
    char *text; /* decoded */
    webhook_field_t *each;
} webhook_fields_t;

/* Decodes text; sorted: by name, then by value. False: a malformed escape, more than
 * WEBHOOK_FIELDS_MAX fields, or no memory. In any case the caller frees it. */
bool webhook_fields_read(webhook_fields_t *out, webhook_text_t text, bool sorted);
void webhook_fields_free(webhook_fields_t *self);

/* Do these stand for the same bytes? */
bool webhook_text_same(webhook_text_t one, webhook_text_t other);

/* The one field of the target's query with this name; its value is copied. False: there is none,
 * or several, or it does not fit. */
bool webhook_query_field(webhook_text_t target, const char *name, char *out, size_t size);
/* What stands behind the first question mark of a target; NULL: it has none. */
webhook_text_t webhook_query(webhook_text_t target);
