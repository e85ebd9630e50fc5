#include "common/resource/subscriber.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* ---- questions ---- */

bool subscriber_is_live(const subscriber_t *self)
{
    return self->state != SUBSCRIBER_AWAY;
}

bool subscriber_is_reached(const subscriber_t *self)
{
    return self->state != SUBSCRIBER_AWAY && self->state != SUBSCRIBER_LOST;
}

bool subscriber_takes_news(const subscriber_t *self)
{
    return self->state == SUBSCRIBER_FOLLOWING || self->state == SUBSCRIBER_SNAPSHOT;
}

bool subscriber_hello_is_due(const subscriber_t *self, int64_t now_ms)
{
    return self->state == SUBSCRIBER_GREETED && now_ms - self->tried_ms >= SUBSCRIBER_GREET_MS;
}

bool subscriber_is_behind(const subscriber_t *self, int64_t head)
{
    return self->state == SUBSCRIBER_SNAPSHOT
           || (self->state == SUBSCRIBER_FOLLOWING && self->sent < head);
}

bool subscriber_can_go_on(const subscriber_t *self, int64_t head, bool has_room, int64_t now_ms)
{
    return has_room && subscriber_is_behind(self, head)
           && (self->state != SUBSCRIBER_SNAPSHOT || now_ms >= self->snapshot_from_ms);
}

bool subscriber_is_silent(const subscriber_t *self, int64_t now_ms)
{
    return subscriber_is_live(self) && now_ms - self->heard_ms > SUBSCRIBER_DEAD_MS;
}

/* ---- messages from the worker ---- */

void subscriber_hear(subscriber_t *self, int64_t now_ms)
{
    self->heard_ms = now_ms;
}

void subscriber_hello(subscriber_t *self, const greeting_t *greeting)
{
    self->greeting = *greeting;
    self->sent = self->acked = 0;
    self->state = SUBSCRIBER_GREETED;
}

bool subscriber_ack(subscriber_t *self, int64_t revision)
{
    if (!subscriber_is_live(self) || revision <= self->acked || revision > self->sent)
        return false;
    self->acked = revision;
    return true;
}

/* ---- its connection ---- */

void subscriber_leave(subscriber_t *self)
{
    self->state = SUBSCRIBER_AWAY;
}

bool subscriber_lose(subscriber_t *self, int64_t now_ms)
{
    if (!subscriber_is_reached(self))
        return false;
    self->state = SUBSCRIBER_LOST;
    self->heard_ms = now_ms;
    return true;
}

void subscriber_spare(subscriber_t *self, int64_t now_ms)
{
    self->heard_ms = now_ms;
}

/* ---- messages to the worker ---- */

void subscriber_try(subscriber_t *self, int64_t now_ms)
{
    self->tried_ms = now_ms;
}

bool subscriber_answer(subscriber_t *self, const char *log_id, int64_t head, int64_t now_ms)
{
    const greeting_t *greeting = &self->greeting;

    assert(self->state == SUBSCRIBER_GREETED);
    if (strcmp(greeting->log_id, log_id) || greeting->has <= 0 || greeting->has > head) {
        subscriber_begin_snapshot(self, head, now_ms);
        return false;
    }
    self->state = SUBSCRIBER_FOLLOWING;
    self->sent = greeting->has; /* not acknowledged: perhaps in force there, but not on its disk */
    return true;
}

void subscriber_told(subscriber_t *self, int64_t revision)
{
    assert(self->state == SUBSCRIBER_FOLLOWING);
    self->sent = revision;
}

static int64_t snapshot_from(const subscriber_t *self, int64_t now_ms)
{
    int64_t next = self->snapshot_from_ms + SUBSCRIBER_SNAPSHOT_AGAIN_MS;

    if (self->snapshots_begun < SUBSCRIBER_SNAPSHOTS_AT_ONCE || next < now_ms)
        return now_ms;
    return self->snapshot_from_ms > now_ms ? self->snapshot_from_ms : next;
}

void subscriber_begin_snapshot(subscriber_t *self, int64_t head, int64_t now_ms)
{
    assert(subscriber_is_reached(self));
    self->snapshot_from_ms = snapshot_from(self, now_ms);
    self->snapshots_begun++;
    self->state = SUBSCRIBER_SNAPSHOT;
    self->sent = 0; /* no acknowledgement counts before the end of the snapshot */
    self->snapshot_head = head;
    self->snapshot_kind[0] = self->snapshot_id[0] = '\0';
}

void subscriber_chunk_sent(subscriber_t *self, const char *kind, const char *id)
{
    assert(self->state == SUBSCRIBER_SNAPSHOT);
    snprintf(self->snapshot_kind, sizeof(self->snapshot_kind), "%s", kind);
    snprintf(self->snapshot_id, sizeof(self->snapshot_id), "%s", id);
}

void subscriber_end_snapshot(subscriber_t *self)
{
    assert(self->state == SUBSCRIBER_SNAPSHOT);
    self->state = SUBSCRIBER_FOLLOWING;
    self->snapshots_begun = 0;
    self->sent = self->snapshot_head;
}

void subscriber_begin_again(subscriber_t *self, int64_t old_head, int64_t head, int64_t now_ms)
{
    self->acked = self->sent = 0; /* acknowledgements still to come are of the old log */
    if (!subscriber_takes_news(self))
        return;
    if (head > old_head)
        subscriber_begin_snapshot(self, head, now_ms);
    else
        self->state = SUBSCRIBER_LOST;
}
