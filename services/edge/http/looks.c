#include "services/edge/http/looks.h"

#include "common/base/invariant.h"

#include <stddef.h>

void looks_init(looks_t *self, int64_t period_ms)
{
    INVARIANT(period_ms > 0); /* else a pass would not end */
    self->ends = (look_t){.previous = &self->ends, .next = &self->ends};
    self->period_ms = period_ms;
}

bool look_is_watched(const look_t *look)
{
    return look->next != NULL;
}

void looks_watch(looks_t *self, look_t *look, int64_t now_ms)
{
    INVARIANT(!look_is_watched(look));
    look->at_ms = now_ms + self->period_ms;
    look->previous = self->ends.previous;
    look->next = &self->ends;
    look->previous->next = look->next->previous = look;
}

void looks_forget(look_t *look)
{
    if (!look_is_watched(look))
        return;
    INVARIANT(look->previous->next == look && look->next->previous == look);
    look->previous->next = look->next;
    look->next->previous = look->previous;
    look->previous = look->next = NULL;
}

look_t *looks_due(looks_t *self, int64_t now_ms)
{
    look_t *first = self->ends.next;

    if (first == &self->ends || first->at_ms > now_ms)
        return NULL;
    looks_forget(first);
    looks_watch(self, first, now_ms);
    return first;
}

int64_t looks_wait_ms(const looks_t *self, int64_t now_ms)
{
    look_t *first = self->ends.next;
    int64_t pause_ms = self->period_ms < LOOKS_PAUSE_MS ? self->period_ms : LOOKS_PAUSE_MS;

    if (first == &self->ends)
        return 0;
    return first->at_ms - now_ms > pause_ms ? first->at_ms - now_ms : pause_ms;
}
