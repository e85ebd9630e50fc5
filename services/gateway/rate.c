#include "services/gateway/rate.h"
#include "common/base/memory.h"

#include <czmq.h>
#include <math.h>

enum { MINUTE_MS = 60000 };

struct rates {
    zhashx_t *buckets;
};

typedef struct bucket {
    double tokens;
    int64_t at_ms;
} bucket_t;

static void destroy_bucket(void **item)
{
    free(*item);
    *item = NULL;
}

rates_t *rates_new(void)
{
    rates_t *self = memory_new(sizeof(*self), "rates");

    self->buckets = memory_need(zhashx_new(), "rates");
    zhashx_set_destructor(self->buckets, destroy_bucket);
    return self;
}

void rates_destroy(rates_t **self_p)
{
    rates_t *self = *self_p;

    *self_p = NULL;
    if (!self)
        return;
    zhashx_destroy(&self->buckets);
    free(self);
}

int rates_take(rates_t *self, const char *name, long limit, int64_t now_ms)
{
    double most = (double)limit;
    bucket_t *bucket;

    if (limit <= 0)
        return 0;
    bucket = zhashx_lookup(self->buckets, name);
    if (!bucket) {
        bucket = memory_new(sizeof(*bucket), "the rate of a key");
        *bucket = (bucket_t){most, now_ms};
        zhashx_insert(self->buckets, name, bucket);
    }
    bucket->tokens =
        fmin(most, bucket->tokens + (double)(now_ms - bucket->at_ms) * most / MINUTE_MS);
    bucket->at_ms = now_ms;
    if (bucket->tokens < 1)
        return (int)ceil((1 - bucket->tokens) * MINUTE_MS / most / 1000);
    bucket->tokens -= 1;
    return 0;
}

/* After a minute without a request a bucket is full, whatever its limit. */
void rates_forget_full(rates_t *self, int64_t now_ms)
{
    zlistx_t *names = zhashx_keys(self->buckets);

    for (const char *name = names ? zlistx_first(names) : NULL; name; name = zlistx_next(names)) {
        const bucket_t *bucket = zhashx_lookup(self->buckets, name);

        if (bucket && now_ms - bucket->at_ms >= MINUTE_MS)
            zhashx_delete(self->buckets, name);
    }
    zlistx_destroy(&names);
}

size_t rates_count(const rates_t *self)
{
    return zhashx_size(self->buckets);
}
