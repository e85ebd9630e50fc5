#include "common/resource/ended.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Upper bound of a number that a worker reports, so that sums cannot overflow. */
#define STREAMS_MAX ((int64_t)1 << 40)

static void add_change(ended_t *self, const ended_change_t *change)
{
    int i = self->count;

    while (i > 0 && self->list[i - 1].revision > change->revision)
        i--;
    if (i > 0 && self->list[i - 1].revision == change->revision) {
        self->list[i - 1].streams += change->streams;
        return;
    }
    if (self->count == ENDED_MAX) {
        if (i == 0)
            return; /* older than all that are kept */
        memmove(self->list, self->list + 1, (size_t)--i * sizeof(*self->list));
    } else {
        memmove(self->list + i + 1, self->list + i,
                (size_t)(self->count++ - i) * sizeof(*self->list));
    }
    self->list[i] = *change;
}

/* Digits alone, and what follows them. */
static bool read_number(const char **text, int64_t max, int64_t *ret_number)
{
    char *end;
    unsigned long long number;

    if (**text < '0' || **text > '9')
        return false;
    number = strtoull(*text, &end, 10);
    if (number > (unsigned long long)max)
        return false;
    *ret_number = (int64_t)number;
    *text = end + (*end == ' ');
    return *end == ' ' || !*end;
}

bool ended_read(ended_t *self, const char *text)
{
    *self = (ended_t){0};
    for (int n = 0; text && *text; n++) {
        ended_change_t change;

        if (n == ENDED_MAX || !read_number(&text, INT64_MAX, &change.revision)
            || !read_number(&text, STREAMS_MAX, &change.streams)) {
            *self = (ended_t){0};
            return false;
        }
        add_change(self, &change);
    }
    return true;
}

void ended_write(const ended_t *self, char out[ENDED_BYTES])
{
    size_t at = 0;

    *out = '\0';
    for (int i = 0; i < self->count; i++)
        at += (size_t)snprintf(out + at, ENDED_BYTES - at, "%s%" PRId64 " %" PRId64, i ? " " : "",
                               self->list[i].revision, self->list[i].streams);
}

void ended_add(ended_t *self, const ended_t *other)
{
    for (int i = 0; i < other->count; i++)
        add_change(self, &other->list[i]);
}

int64_t ended_at(const ended_t *self, int64_t revision)
{
    for (int i = 0; i < self->count; i++)
        if (self->list[i].revision == revision)
            return self->list[i].streams;
    return 0;
}

int64_t ended_more(const ended_t *self, const ended_t *before)
{
    int64_t more = 0;

    for (int i = 0; i < self->count; i++) {
        int64_t now = self->list[i].streams, then = ended_at(before, self->list[i].revision);

        more += now > then ? now - then : 0;
    }
    return more;
}
