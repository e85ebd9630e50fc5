#include "services/edge/modules/searches.h"

#include "common/base/invariant.h"

/* ---- lines in turn ---- */

static void join_turn(searches_t *self, search_line_t *line)
{
    line->before = self->last;
    line->after = NULL;
    *(self->last ? &self->last->after : &self->first) = line;
    self->last = line;
}

static void leave_turn(searches_t *self, search_line_t *line)
{
    INVARIANT(line->before ? line->before->after == line : self->first == line);
    INVARIANT(line->after ? line->after->before == line : self->last == line);
    *(line->before ? &line->before->after : &self->first) = line->after;
    *(line->after ? &line->after->before : &self->last) = line->before;
    line->before = line->after = NULL;
}

/* ---- the budget ---- */

bool searches_may(const searches_t *self)
{
    return !self->first && self->spent_us < SEARCHES_TURN_US;
}

bool searches_spend(searches_t *self, uint64_t us)
{
    bool first = self->spent_us == 0 && us > 0;

    self->spent_us += us;
    return first;
}

void searches_begin_turn(searches_t *self)
{
    self->spent_us = 0;
}

/* ---- those that wait ---- */

void searches_wait(searches_t *self, search_wait_t *wait, uint32_t account)
{
    search_line_t *line = &self->lines[account % SEARCHES_LINES];

    INVARIANT(!wait->waits);
    *wait = (search_wait_t){.before = line->last, .line = account % SEARCHES_LINES, .waits = true};
    if (!line->first)
        join_turn(self, line);
    *(line->last ? &line->last->after : &line->first) = wait;
    line->last = wait;
}

void searches_leave(searches_t *self, search_wait_t *wait)
{
    search_line_t *line = &self->lines[wait->line];

    if (!wait->waits)
        return;
    INVARIANT(wait->before ? wait->before->after == wait : line->first == wait);
    INVARIANT(wait->after ? wait->after->before == wait : line->last == wait);
    *(wait->before ? &wait->before->after : &line->first) = wait->after;
    *(wait->after ? &wait->after->before : &line->last) = wait->before;
    *wait = (search_wait_t){0};
    if (!line->first)
        leave_turn(self, line);
}

search_wait_t *searches_next(searches_t *self)
{
    search_line_t *line = self->first;
    search_wait_t *wait;

    if (!line || self->spent_us >= SEARCHES_TURN_US)
        return NULL;
    wait = line->first;
    INVARIANT(wait);
    searches_leave(self, wait);
    if (line->first) {
        leave_turn(self, line);
        join_turn(self, line);
    }
    return wait;
}

bool searches_are_awaited(const searches_t *self)
{
    return self->first != NULL;
}
