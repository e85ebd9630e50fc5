#include "common/resource/edges.h"
#include "common/base/cleanup.h"

#include <stdlib.h>
#include <string.h>

static int64_t pop_number(zmsg_t *msg)
{
    _cleanup_(free_mem) char *text = zmsg_popstr(msg);

    return text ? strtoll(text, NULL, 10) : 0;
}

static void take_ended(edges_t *self, zmsg_t *msg)
{
    _cleanup_(free_mem) char *text = zmsg_popstr(msg);

    ended_read(&self->ended, text);
}

void edges_take(edges_t *self, zmsg_t *msg)
{
    _cleanup_(free_mem) char *word = zmsg_popstr(msg);

    if (!word)
        return;
    self->settling = strcmp(word, "state") != 0 || zmsg_size(msg) > 4 + EDGES_MAX;
    self->covered = pop_number(msg);
    self->copies = pop_number(msg);
    self->streams_ended = pop_number(msg);
    take_ended(self, msg);
    self->live = 0;
    while (zmsg_size(msg) && self->live < EDGES_MAX)
        self->acked[self->live++] = pop_number(msg);
}

int edges_acked(const edges_t *self, int64_t revision)
{
    int n = 0;

    for (int i = 0; i < self->live; i++)
        n += self->acked[i] >= revision;
    return n;
}

int64_t edges_ended(const edges_t *self, int64_t revision)
{
    return ended_at(&self->ended, revision);
}

bool edges_have(const edges_t *self, int64_t revision)
{
    return !self->settling && revision <= self->covered
           && edges_acked(self, revision) == self->live;
}

int64_t edges_lowest(const edges_t *self)
{
    int64_t lowest = self->live ? INT64_MAX : 0;

    for (int i = 0; i < self->live; i++)
        lowest = self->acked[i] < lowest ? self->acked[i] : lowest;
    return lowest;
}
