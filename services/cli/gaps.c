#include "services/cli/gaps.h"

#include <stdio.h>
#include <string.h>

/* The index of the type, added when it is new. -1: there are too many types. */
static int find_type(gaps_t *self, const char *name, int64_t next, bool *ret_new)
{
    int i = 0;

    while (i < self->type_count && strcmp(self->types[i].name, name))
        i++;
    *ret_new = i == self->type_count;
    if (!*ret_new)
        return i;
    if (i == GAP_TYPES_MAX || strlen(name) > GAP_TYPE_MAX)
        return -1;
    snprintf(self->types[i].name, sizeof(self->types[i].name), "%s", name);
    self->types[i].next = next;
    self->type_count++;
    return i;
}

static bool is_number(int64_t number)
{
    return number >= 0 && number <= GAP_NUMBER_MAX;
}

static void remove_gap(gaps_t *self, int i)
{
    memmove(&self->open[i], &self->open[i + 1],
            sizeof(self->open[0]) * (size_t)(self->count - i - 1));
    self->count--;
}

/* Make room for a gap by forgetting the oldest that was told. False: none was. */
static bool has_room(gaps_t *self)
{
    for (int i = 0; self->count == GAPS_MAX && i < self->count; i++)
        if (self->open[i].told)
            remove_gap(self, i);
    return self->count < GAPS_MAX;
}

static void open_gap(gaps_t *self, gap_t gap)
{
    if (gap.first > gap.last)
        return;
    if (has_room(self))
        self->open[self->count++] = gap;
    else
        self->overflowed += gap.last - gap.first + 1;
}

static void advance_newest(gaps_t *self, int type, int64_t until, int64_t now_ms)
{
    open_gap(self, (gap_t){.type = type,
                           .first = self->types[type].next,
                           .last = until - 1,
                           .due_ms = now_ms + GAP_GRACE_MS});
}

bool gaps_seen(gaps_t *self, const char *type, int64_t number, int64_t now_ms)
{
    bool is_new;
    int t = is_number(number) ? find_type(self, type, self->begun ? 1 : number, &is_new) : -1;

    if (t < 0)
        return true;
    if (number > self->types[t].newest)
        self->types[t].newest = number;
    self->types[t].newest_ms = now_ms;
    if (number >= self->types[t].next) {
        advance_newest(self, t, number, now_ms);
        self->types[t].next = number + 1;
        return true;
    }
    for (int i = 0; i < self->count; i++) {
        gap_t gap = self->open[i];

        if (gap.type != t || number < gap.first || number > gap.last)
            continue;
        if (gap.told)
            return !gap.fetched || now_ms > gap.due_ms + GAP_MEMORY_MS;
        remove_gap(self, i);
        open_gap(self, (gap_t){t, gap.first, number - 1, gap.due_ms, false, false});
        open_gap(self, (gap_t){t, number + 1, gap.last, gap.due_ms, false, false});
        return true;
    }
    return true;
}

void gaps_head(gaps_t *self, const char *type, int64_t head, bool first, int64_t now_ms)
{
    bool is_new;
    int t = is_number(head) ? find_type(self, type, first ? head + 1 : 1, &is_new) : -1;

    if (t < 0 || head < self->types[t].next)
        return;
    advance_newest(self, t, head + 1, now_ms);
    self->types[t].next = head + 1;
}

/* May events of the gap still be in the queue? After a pause a subscriber learns the newest numbers
 * before it has read the events that wait for it. */
static bool may_come(const gaps_t *self, const gap_t *gap, int64_t now_ms)
{
    return gap->first > self->types[gap->type].newest
           && now_ms < self->types[gap->type].newest_ms + GAP_GRACE_MS;
}

gap_t *gaps_due(gaps_t *self, int64_t now_ms)
{
    for (int i = 0; i < self->count; i++) {
        gap_t *gap = &self->open[i];

        if (!gap->told && now_ms >= gap->due_ms && !may_come(self, gap, now_ms))
            return gap;
    }
    return NULL;
}

void gaps_told(gap_t *gap, bool fetched)
{
    gap->told = true;
    gap->fetched = fetched;
}
