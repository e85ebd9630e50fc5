#include "services/edge/http/pace.h"

static void begin_period(pace_t *self, const pace_look_t *look)
{
    self->since_ms = look->now_ms;
    self->had = look->taken;
    self->carried = look->carried;
    self->waits = true;
}

static bool is_period_over(const pace_t *self, const pace_look_t *look, const pace_rule_t *rule)
{
    return look->now_ms - self->since_ms >= rule->period_ms;
}

static bool carries_enough(const pace_t *self, const pace_look_t *look, const pace_rule_t *rule)
{
    return look->carried - self->carried >= rule->least;
}

bool pace_may_wait(pace_t *self, const pace_look_t *look, const pace_rule_t *rule)
{
    if (!self->waits || carries_enough(self, look, rule))
        begin_period(self, look);
    return !is_period_over(self, look, rule);
}

static unsigned judge_ended(pace_t *self, const pace_look_t *look, const pace_rule_t *rule)
{
    if (look->now_ms - self->ended_ms >= PACE_ENDED * rule->period_ms)
        return PACE_FORCE;
    return pace_may_wait(self, look, rule) ? PACE_GOES_ON : PACE_FORCE;
}

unsigned pace_judge(pace_t *self, const pace_look_t *look, const pace_rule_t *rule)
{
    bool carries = carries_enough(self, look, rule);

    if (self->ended)
        return judge_ended(self, look, rule);
    if (!self->waits || look->taken - self->had >= rule->least) {
        begin_period(self, look);
        self->late = 0;
        return PACE_GOES_ON;
    }
    if (!is_period_over(self, look, rule))
        return PACE_GOES_ON;
    if (look->behind && carries && self->late < PACE_LATE) {
        begin_period(self, look);
        self->late++;
        return PACE_GOES_ON;
    }
    return carries ? PACE_CUT : PACE_CUT | PACE_FORCE;
}

void pace_rest(pace_t *self)
{
    self->waits = false;
}

void pace_end(pace_t *self, const pace_look_t *look)
{
    begin_period(self, look);
    self->ended = true;
    self->ended_ms = look->now_ms;
}
