#include "services/edge/control/liveness.h"

#include <stdio.h>
#include <string.h>

void liveness_heard(liveness_t *self)
{
    *self = (liveness_t){.beat_ms = self->beat_ms};
}

bool liveness_needs_sight(const liveness_t *self)
{
    return self->unheard > 0;
}

static bool is_stopped(const liveness_sight_t *sight)
{
    return sight->state && strchr("TZX", sight->state);
}

/* It neither ran since the beat before, nor does it wait for a processor or a disk now. */
static bool is_idle(const liveness_t *self, const liveness_sight_t *sight)
{
    return sight->state && !strchr("RD", sight->state) && self->has_ran && self->ran == sight->ran;
}

liveness_verdict_t liveness_beat(liveness_t *self, int64_t now_ms, const liveness_sight_t *sight)
{
    bool late = self->beat_ms && now_ms - self->beat_ms > LIVENESS_LATE_MS;

    self->beat_ms = now_ms;
    self->unheard++;
    if (!late) {
        self->timely++;
        self->idle = is_idle(self, sight) ? self->idle + 1 : 0;
    }
    self->ran = sight->ran;
    self->has_ran = sight->state != '\0';
    if ((self->unheard > LIVENESS_STOPPED_BEATS && is_stopped(sight))
        || self->idle >= LIVENESS_IDLE_BEATS || self->timely > LIVENESS_HUNG_BEATS)
        return LIVENESS_DEAD;
    return self->unheard > LIVENESS_ABSENT_BEATS ? LIVENESS_ABSENT : LIVENESS_THERE;
}

liveness_sight_t liveness_sight_read(const char *stat)
{
    const char *behind = strrchr(stat, ')'); /* a name may have anything in it */
    unsigned long long user, system;
    char state;

    if (!behind
        || sscanf(behind + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &state,
                  &user, &system)
               != 3)
        return (liveness_sight_t){0};
    return (liveness_sight_t){.state = state, .ran = user + system};
}
