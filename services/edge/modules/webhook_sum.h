/* What is made of the signed content: a MAC under the sender's key, or a digest. */
#pragma once

#include "services/edge/modules/webhook.h"

enum { WEBHOOK_SUM_MAX = 64 };

typedef struct webhook_sum webhook_sum_t;

/* key of len bytes; the scheme says what for. NULL: no memory. Ended by webhook_sum_end. */
webhook_sum_t *webhook_sum_begin(webhook_scheme_t scheme, const unsigned char *key, size_t len);
void webhook_sum_add(webhook_sum_t *self, const void *bytes, size_t len);
/* Writes the sum and frees self, also where something failed: 0 then, else its length. */
size_t webhook_sum_end(webhook_sum_t *self, unsigned char out[WEBHOOK_SUM_MAX]);
