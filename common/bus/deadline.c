#include "common/bus/deadline.h"

enum { WINDOW_MS = 30000 };

static const int64_t CLOCK_MAX_MS = 1LL << 53;

void clock_gap_take(clock_gap_t *self, int64_t theirs_ms, int64_t now_ms)
{
    int64_t gap = now_ms - theirs_ms;

    if (theirs_ms < 0 || theirs_ms > CLOCK_MAX_MS)
        return;
    if (!self->since_ms) {
        *self = (clock_gap_t){{gap, gap}, now_ms};
    } else if (now_ms - self->since_ms >= WINDOW_MS) {
        *self = (clock_gap_t){{gap, self->least_ms[0]}, now_ms};
    } else if (gap < self->least_ms[0]) {
        self->least_ms[0] = gap;
    }
}

arrival_t arrival_now(const clock_gap_t *gap, int64_t now_ms)
{
    arrival_t self = {.at_ms = now_ms};

    if (gap && gap->since_ms) {
        self.knows_gap = true;
        self.gap_ms = gap->least_ms[0] < gap->least_ms[1] ? gap->least_ms[0] : gap->least_ms[1];
    }
    return self;
}

int64_t arrival_deadline(const arrival_t *self, const request_t *request)
{
    int64_t sent_ms = self->at_ms, left_ms = request->left_ms;

    if (self->knows_gap && request->clock_ms > 0 && request->clock_ms <= CLOCK_MAX_MS
        && request->clock_ms + self->gap_ms < sent_ms)
        sent_ms = request->clock_ms + self->gap_ms;
    left_ms = left_ms > DEADLINE_LEFT_MAX_MS ? DEADLINE_LEFT_MAX_MS : left_ms;
    return sent_ms + (left_ms > 0 ? left_ms : 0);
}
