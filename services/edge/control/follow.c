#include "services/edge/control/follow.h"

#include <string.h>

/* Chunks and the end of a snapshot name what it named: a writer whose database was replaced meanwhile goes on with another. */
static bool is_of_snapshot(const follow_t *self, const char *log_id, int64_t revision)
{
    return !strcmp(log_id, self->arriving) && revision == self->arriving_revision;
}

static bool is_in_force(const follow_t *self, const char *log_id, int64_t revision)
{
    return revision == self->revision && !strcmp(log_id, self->log_id);
}

static follow_step_t part(const follow_t *self, const char *log_id, int64_t revision,
                          follow_step_t step)
{
    if (!self->building)
        return FOLLOW_NOTHING;
    return is_of_snapshot(self, log_id, revision) ? step : FOLLOW_ASK;
}

follow_step_t follow_message(const follow_t *self, const char *word, const char *log_id,
                             int64_t previous, int64_t revision)
{
    if (!strcmp(word, "snapshot"))
        return FOLLOW_BEGIN;
    if (!strcmp(word, "more"))
        return part(self, log_id, revision, FOLLOW_ADD);
    if (!strcmp(word, "end"))
        return part(self, log_id, revision, FOLLOW_END);
    if (!strcmp(word, "delta"))
        return is_in_force(self, log_id, previous) && revision >= previous ? FOLLOW_CHANGE
                                                                           : FOLLOW_ASK;
    if (!strcmp(word, "beat")) /* none comes while a snapshot does */
        return !self->building && is_in_force(self, log_id, revision) ? FOLLOW_CURRENT : FOLLOW_ASK;
    return FOLLOW_NOTHING;
}

follow_step_t follow_record(const follow_t *self, int type, const char *log_id, int64_t previous,
                            int64_t revision)
{
    switch (type) {
    case FOLLOW_SNAPSHOT:
        return FOLLOW_BEGIN;
    case FOLLOW_MORE:
        return part(self, log_id, revision, FOLLOW_ADD);
    case FOLLOW_SNAPSHOT_END:
        return part(self, log_id, revision, FOLLOW_END);
    case FOLLOW_DELTA:
        if (strcmp(log_id, self->log_id) != 0 || previous > self->revision)
            return FOLLOW_ASK;
        return revision <= self->revision ? FOLLOW_NOTHING : FOLLOW_CHANGE;
    default:
        return FOLLOW_ASK;
    }
}
