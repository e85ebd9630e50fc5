#include "services/edge/control/resolve_credit.h"

#include "common/base/invariant.h"

void resolve_credit_init(resolve_credit_t *self, int64_t now_ms)
{
    *self = (resolve_credit_t){.counted_ms = now_ms};
}

/* Of the stretch that goes on. */
static int64_t held_ms(const resolve_credit_t *self, int64_t now_ms)
{
    int64_t held = now_ms - self->since_ms;

    return self->waiting && held > RESOLVE_CREDIT_QUICK_MS ? held - RESOLVE_CREDIT_QUICK_MS : 0;
}

static void pay_back(resolve_credit_t *self, int64_t now_ms)
{
    int64_t back = (now_ms - self->counted_ms) / RESOLVE_CREDIT_BACK_MS;

    INVARIANT(self->spent_ms >= 0);
    if (back <= 0)
        return;
    self->spent_ms -= back < self->spent_ms ? back : self->spent_ms;
    self->counted_ms += back * RESOLVE_CREDIT_BACK_MS;
}

int64_t resolve_credit_spent(resolve_credit_t *self, int64_t now_ms)
{
    pay_back(self, now_ms);
    return self->spent_ms + held_ms(self, now_ms);
}

bool resolve_credit_is_used_up(resolve_credit_t *self, int64_t now_ms)
{
    return resolve_credit_spent(self, now_ms) >= RESOLVE_CREDIT_MS;
}

void resolve_credit_begin(resolve_credit_t *self, int64_t now_ms)
{
    if (self->waiting++ == 0)
        self->since_ms = now_ms;
}

void resolve_credit_end(resolve_credit_t *self, int64_t now_ms)
{
    INVARIANT(self->waiting > 0);
    pay_back(self, now_ms);
    if (self->waiting == 1)
        self->spent_ms += held_ms(self, now_ms);
    self->waiting--;
}
