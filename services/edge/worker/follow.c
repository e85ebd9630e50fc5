#include "services/edge/worker/follow.h"

#include "common/base/invariant.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

follow_kind_t follow_kind(const char *word)
{
    static const struct {
        const char *word;
        follow_kind_t kind;
    } words[] = {{"snapshot", FOLLOW_SNAPSHOT},
                 {"more", FOLLOW_MORE},
                 {"end", FOLLOW_SNAPSHOT_END},
                 {"delta", FOLLOW_DELTA},
                 {"beat", FOLLOW_BEAT}};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (!strcmp(word, words[i].word))
            return words[i].kind;
    return FOLLOW_OTHER;
}

/* Does message->between, a comma-separated list, contain this revision? */
static bool names_revision(const follow_message_t *message, int64_t number)
{
    const char *at = message->between, *end = at ? at + message->between_len : NULL, *next;
    char text[24];
    size_t len = (size_t)snprintf(text, sizeof(text), "%" PRId64, number);

    for (; at && at < end; at = next + 1) {
        next = memchr(at, ',', (size_t)(end - at));
        next = next ? next : end;
        if ((size_t)(next - at) == len && !memcmp(at, text, len))
            return true;
    }
    return false;
}

follow_step_t follow_delta(const char *log_id, int64_t revision, const follow_message_t *message)
{
    if (strcmp(message->log_id, log_id) != 0 || message->previous > revision
        || message->revision < message->previous)
        return FOLLOW_ASK;
    if (message->revision < revision
        || (message->revision == revision && message->previous < revision))
        return FOLLOW_NOTHING;
    if (message->previous < revision && !message->kept && !names_revision(message, revision))
        return FOLLOW_ASK;
    return FOLLOW_CHANGE;
}

static follow_step_t drop_and_ask(follow_t *self)
{
    self->arriving = false;
    return FOLLOW_ASK;
}

static follow_step_t begin_snapshot(follow_t *self, const follow_message_t *message)
{
    self->arriving = true;
    snprintf(self->arriving_log_id, sizeof(self->arriving_log_id), "%s", message->log_id);
    self->arriving_revision = message->revision;
    self->wants_all = false;
    return FOLLOW_BEGIN;
}

/* Chunks and the end of a snapshot repeat its log id and revision: after its database was replaced,
 * a writer may go on with another snapshot. */
static bool is_of_snapshot(const follow_t *self, const follow_message_t *message)
{
    return !strcmp(message->log_id, self->arriving_log_id)
           && message->revision == self->arriving_revision;
}

static follow_step_t end_snapshot(follow_t *self)
{
    INVARIANT(self->arriving);
    memcpy(self->log_id, self->arriving_log_id, sizeof(self->log_id));
    self->revision = self->arriving_revision;
    self->arriving = false;
    return FOLLOW_END;
}

/* The writer sends no delta during a snapshot: a delta means that it gave the snapshot up. */
static follow_step_t take_delta(follow_t *self, const follow_message_t *message)
{
    follow_step_t step = follow_delta(self->log_id, self->revision, message);

    self->arriving = false;
    if (step == FOLLOW_CHANGE) {
        INVARIANT(message->revision >= self->revision);
        self->revision = message->revision;
    }
    return step;
}

static bool is_in_force(const follow_t *self, const follow_message_t *message)
{
    return message->revision == self->revision && !strcmp(message->log_id, self->log_id);
}

follow_step_t follow_take(follow_t *self, const follow_message_t *message)
{
    self->before = self->revision;
    switch (message->kind) {
    case FOLLOW_SNAPSHOT:
        return begin_snapshot(self, message);
    case FOLLOW_MORE:
    case FOLLOW_SNAPSHOT_END:
        if (!self->arriving)
            return FOLLOW_NOTHING;
        if (!is_of_snapshot(self, message))
            return drop_and_ask(self);
        return message->kind == FOLLOW_MORE ? FOLLOW_ADD : end_snapshot(self);
    case FOLLOW_DELTA:
        return take_delta(self, message);
    case FOLLOW_BEAT:
        if (!message->kept)
            return !self->arriving && is_in_force(self, message) ? FOLLOW_CURRENT
                                                                 : drop_and_ask(self);
        /* fall through */
    default:
        return message->kept ? drop_and_ask(self) : FOLLOW_NOTHING;
    }
}

void follow_failed(follow_t *self, const follow_message_t *message)
{
    self->revision = self->before;
    self->arriving = false;
    self->wants_all = self->wants_all || !message->kept;
}

void follow_drop(follow_t *self)
{
    self->arriving = false;
}

int64_t follow_named(const follow_t *self)
{
    return self->wants_all ? 0 : self->revision;
}
