/* Token buckets: as many requests a minute as a limit says, with bursts of as many. No clock in
 * here: now_ms is monotonic. */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct rates rates_t;

/* NULL: no memory. */
rates_t *rates_new(void);
void rates_destroy(rates_t **self_p);

/* Take a token of this bucket, whose name is copied; limit tokens a minute, 0 or less: without end.
 * 0: go on, else seconds until there is one. */
int rates_take(rates_t *self, const char *bucket, long limit, int64_t now_ms);

/* Drop buckets that are full again, which equal new ones; call it from time to time. */
void rates_forget_full(rates_t *self, int64_t now_ms);

/* Buckets that are kept. */
size_t rates_count(const rates_t *self);
