#include "common/resource/held.h"

#include <stdlib.h>

struct held {
    held_rules_t rules;
    held_reply_t replies[HELD_MAX];
    int count;
    uint64_t late;
};

held_t *held_new(const held_rules_t *rules)
{
    held_t *self = calloc(1, sizeof(*self));

    if (self)
        self->rules = *rules;
    return self;
}

void held_destroy(held_t **self_p)
{
    held_t *self = *self_p;

    if (!self)
        return;
    for (int i = 0; i < self->count; i++)
        self->rules.send(self->rules.context, &self->replies[i]);
    free(self);
    *self_p = NULL;
}

static bool is_in_force(const held_t *self, const held_reply_t *reply, int64_t now_ms)
{
    return self->rules.is_in_force(self->rules.context, reply->revision, reply->epoch, now_ms);
}

void held_add(held_t *self, zmsg_t *reply, const char *key, int64_t revision, int64_t epoch,
              int64_t now_ms)
{
    held_reply_t one = {
        .reply = reply, .revision = revision, .epoch = epoch, .deadline_ms = now_ms + HELD_MS};

    snprintf(one.key, sizeof(one.key), "%s", key);
    if (self->count < HELD_MAX && !is_in_force(self, &one, now_ms))
        self->replies[self->count++] = one;
    else
        self->rules.send(self->rules.context, &one);
}

void held_release(held_t *self, int64_t now_ms)
{
    int kept = 0;

    for (int i = 0; i < self->count; i++) {
        held_reply_t *one = &self->replies[i];
        bool all = is_in_force(self, one, now_ms);

        if (all || now_ms >= one->deadline_ms) {
            self->late += !all;
            self->rules.send(self->rules.context, one);
        } else {
            self->replies[kept++] = *one;
        }
    }
    self->count = kept;
}

int held_count(const held_t *self)
{
    return self->count;
}

uint64_t held_late(const held_t *self)
{
    return self->late;
}
