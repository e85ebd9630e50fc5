#include "services/gateway/gateway.h"

#include <errno.h>
#include <math.h>

enum { MINUTE_MS = 60000, FORGET_MS = 1000 };

typedef struct rate {
    double tokens;
    int64_t at_ms;
} rate_t;

static void destroy(void **item)
{
    free(*item);
    *item = NULL;
}

int rate_take(gateway_t *self, const char *setting, const char *bucket)
{
    double limit = (double)config_int(self->config, setting);
    int64_t now = bus_mono_ms();
    rate_t *rate;

    if (limit <= 0)
        return 0;
    rate = zhashx_lookup(self->rates, bucket);
    if (!rate) {
        rate = calloc(1, sizeof(*rate));
        if (!rate)
            return 1;
        *rate = (rate_t){limit, now};
        zhashx_insert(self->rates, bucket, rate);
    }
    rate->tokens = fmin(limit, rate->tokens + (double)(now - rate->at_ms) * limit / MINUTE_MS);
    rate->at_ms = now;
    if (rate->tokens < 1)
        return (int)ceil((1 - rate->tokens) * MINUTE_MS / limit / 1000);
    rate->tokens -= 1;
    return 0;
}

/* Those that are full again. */
static int on_forget(zloop_t *loop, int timer, void *context)
{
    gateway_t *self = context;
    int64_t now = bus_mono_ms();
    zlistx_t *keys = zhashx_keys(self->rates);

    (void)loop;
    (void)timer;
    for (const char *key = keys ? zlistx_first(keys) : NULL; key; key = zlistx_next(keys)) {
        const rate_t *rate = zhashx_lookup(self->rates, key);

        if (rate && now - rate->at_ms > MINUTE_MS)
            zhashx_delete(self->rates, key);
    }
    zlistx_destroy(&keys);
    return 0;
}

int rate_start(gateway_t *self)
{
    self->rates = zhashx_new();
    if (!self->rates)
        return fault(-ENOMEM, "make the table of rates");
    zhashx_set_destructor(self->rates, destroy);
    zloop_timer(self->loop, FORGET_MS, 0, on_forget, self);
    return 0;
}

void rate_stop(gateway_t *self)
{
    zhashx_destroy(&self->rates);
}
