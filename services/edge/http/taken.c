#include "services/edge/http/taken.h"

void taken_begin(taken_t *self, int64_t written)
{
    *self = (taken_t){.written = written};
}

static int64_t growth(int64_t before, int64_t now)
{
    return now > before ? now - before : 0;
}

void taken_measure(taken_t *self, int64_t sent, int64_t written, int64_t held)
{
    int64_t own = self->own + growth(self->sent, sent);
    int64_t all = self->held + growth(self->written, written);

    if (held <= 0)
        own = 0;
    else if (held < all)
        own = (int64_t)((double)own * (double)held / (double)all);
    self->own = own;
    self->sent += growth(self->sent, sent);
    self->written += growth(self->written, written);
    self->held = held;
}

int64_t taken_bytes(const taken_t *self)
{
    return self->sent - self->own;
}

int64_t taken_of_connection(const taken_t *self)
{
    return self->written - self->held;
}
