#include "common/resource/silences.h"

#include <stdio.h>
#include <string.h>

static size_t find(const silences_t *self, const char *place)
{
    size_t at = 0;

    while (at < SILENCES_MAX && strcmp(self->list[at].place, place) != 0)
        at++;
    return at;
}

/* Where a new one goes: a free place, or that of the oldest; of its account, where that has as many
 * as it may. */
static size_t find_place(const silences_t *self, const char *place)
{
    size_t account = strcspn(place, " "), own = 0, oldest = 0, oldest_own = 0;
    size_t empty = SILENCES_MAX;

    for (size_t at = 0; at < SILENCES_MAX; at++) {
        if (!*self->list[at].place) {
            empty = at;
            continue;
        }
        if (self->list[at].until_ms < self->list[oldest].until_ms)
            oldest = at;
        if (strcspn(self->list[at].place, " ") != account
            || memcmp(self->list[at].place, place, account) != 0)
            continue;
        if (!own++ || self->list[at].until_ms < self->list[oldest_own].until_ms)
            oldest_own = at;
    }
    if (own >= SILENCES_ACCOUNT_MAX)
        return oldest_own;
    return empty < SILENCES_MAX ? empty : oldest;
}

void silences_note(silences_t *self, const char *place, int64_t now_ms, unsigned timeout_ms)
{
    size_t at = find(self, place);

    if (timeout_ms < SILENCE_LEAST_MS) {
        silences_unasked(self, place, now_ms);
        return;
    }
    if (at == SILENCES_MAX)
        at = find_place(self, place);
    snprintf(self->list[at].place, sizeof(self->list[at].place), "%s", place);
    self->list[at].until_ms = now_ms + SILENCE_MS;
}

bool silences_has(silences_t *self, const char *place, int64_t now_ms, unsigned timeout_ms)
{
    size_t at = find(self, place);

    if (at == SILENCES_MAX)
        return false;
    if (now_ms < self->list[at].until_ms)
        return true;
    if (now_ms >= self->list[at].until_ms + SILENCE_FORGET_MS)
        self->list[at].place[0] = '\0';
    else
        self->list[at].until_ms = now_ms + timeout_ms;
    return false;
}

void silences_unasked(silences_t *self, const char *place, int64_t now_ms)
{
    size_t at = find(self, place);

    if (at < SILENCES_MAX)
        self->list[at].until_ms = now_ms;
}

void silences_clear(silences_t *self, const char *place)
{
    size_t at = find(self, place);

    if (at < SILENCES_MAX)
        self->list[at].place[0] = '\0';
}
