/* A URL or a form for a provider, that grows: it may have secrets, and is wiped. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { PROVIDER_TEXT_MAX = 60 << 10 /* bytes */ };

/* All zero: none has begun. What does not fit sets is_full. */
typedef struct provider_text {
    char *bytes; /* NUL-ended */
    size_t len, size;
    bool is_full;
} provider_text_t;

/* Begin with a copy of text: "" for a body, or a URL. */
void provider_text_begin(provider_text_t *self, const char *text);
/* Wipe and free. */
void provider_text_end(provider_text_t *self);
/* It grows no more: give back what it does not need. */
void provider_text_fit(provider_text_t *self);
/* Add text as it is. */
void provider_text_add(provider_text_t *self, const char *text);
void provider_text_add_bytes(provider_text_t *self, const char *bytes, size_t len);
/* Add text percent-encoded, as RFC 3986 2.3 has it: a space is %20, which readers of queries and of
 * forms both take. */
void provider_text_add_encoded(provider_text_t *self, const char *text);
/* Add name=value, with the value percent-encoded, behind the separator that belongs there. */
void provider_text_pair(provider_text_t *self, const char *name, const char *value);
