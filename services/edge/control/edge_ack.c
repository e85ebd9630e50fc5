#include "services/edge/control/edge_ack.h"
#include "services/edge/control/edge_clock.h"
#include "services/edge/control/edge_life.h"
#include "services/edge/worker/edge_vitals.h"
#include "common/base/invariant.h"

enum {
    HOLDS_MAX = 64,
    ENDED_MAX = 8,
    ENDED_BYTES = ENDED_MAX * 42
};

/* A revision in force that is not acknowledged yet, because names that came with it are being
 * resolved, or open streams are being judged by it. */
typedef struct {
    int64_t       revision;
    ngx_msec_t    deadline;
    edge_wait_t  *names;    /* NULL: none */
    uint64_t      judged;   /* the number that is to be judged */
} hold_t;

/* Open streams that were ended for a revision. */
typedef struct {
    int64_t   revision;
    uint64_t  streams;
} ended_t;

/* The acknowledgements of one log. */
typedef struct {
    hold_t      holds[HOLDS_MAX];
    ngx_uint_t  hold_count;
    int64_t     acked;
    uint64_t    judging;            /* number of the last change that asked for streams */
    ended_t     ended[ENDED_MAX];   /* for the last that ended any, the newest last */
    ngx_uint_t  ended_count;
} acks_t;

static acks_t      all[EDGE_LOGS];
static ngx_uint_t  unkept;          /* what comes of the config log is not on disk */
static int64_t     kept_revision;   /* then: the last that is, of the log in force */

/* Numbers of changes (streams/sweeps.h), over all logs: the last that asked for streams, and up
 * to which all of those have been judged. */
static uint64_t  judging, judged;


/* "": none. */
static const char *
write_ended(const acks_t *self, char *text)
{
    size_t      at = 0;
    ngx_uint_t  i;

    *text = '\0';
    for (i = 0; i < self->ended_count; i++) {
        at += snprintf(text + at, ENDED_BYTES - at, "%s%lld %llu", i ? " " : "",
                       (long long) self->ended[i].revision,
                       (unsigned long long) self->ended[i].streams);
    }
    return text;
}


/* What would not survive a restart is in force, but not acknowledged. The last frame is the time:
 * the log repeats it in its beats, so that this worker knows which sign of life was heard. */
static void
acknowledge(edge_log_t log, int64_t revision)
{
    char                   text[24], sign[24], streams[ENDED_BYTES];
    const edge_log_row_t  *row = edge_log(log);

    INVARIANT(revision <= row->at()->revision);
    if (log == EDGE_LOG_CONFIG && unkept && revision > kept_revision) {
        revision = kept_revision;
    }
    all[log].acked = revision;
    snprintf(text, sizeof(text), "%lld", (long long) revision);
    snprintf(sign, sizeof(sign), "%llu", (unsigned long long) edge_clock_boot_ms());
    edge_life_say(row->link,
                  (const char *[]) { "ack", text, row->at()->log_id,
                                     write_ended(&all[log], streams), sign, NULL });
}


void
edge_ack_repeat(edge_log_t log)
{
    acknowledge(log, all[log].hold_count ? all[log].acked
                                         : edge_log(log)->at()->revision);
}


static ngx_uint_t
is_due(const hold_t *hold, ngx_msec_t patience)
{
    if (patience && (ngx_msec_int_t) (ngx_current_msec - hold->deadline) >= 0) {
        return 1;
    }
    return edge_resolve_wait_pending(hold->names) == 0
           && judged >= hold->judged;
}


void
edge_ack_release(edge_log_t log)
{
    acks_t      *self = &all[log];
    ngx_uint_t   n = 0;
    int64_t      revision;

    while (n < self->hold_count && is_due(&self->holds[n], edge_log(log)->patience)) {
        edge_resolve_wait_drop(self->holds[n].names);
        n++;
    }
    if (n) {
        revision = self->holds[n - 1].revision;
        self->hold_count -= n;
        ngx_memmove(self->holds, self->holds + n,
                    self->hold_count * sizeof(self->holds[0]));
        acknowledge(log, revision);
    }
}


void
edge_ack_release_all(void)
{
    edge_log_t  log;

    for (log = 0; log < EDGE_LOGS; log++) {
        edge_ack_release(log);
    }
}


/* In their order: a later revision does not overtake one that waits. */
static void
hold_revision(acks_t *self, int64_t revision, ngx_msec_t deadline, edge_wait_t *names)
{
    hold_t  *hold;

    if (self->hold_count == HOLDS_MAX) {
        /* the last two go together */
        edge_resolve_wait_drop(self->holds[--self->hold_count].names);
    }
    hold = &self->holds[self->hold_count];
    INVARIANT(self->hold_count == 0 || hold[-1].revision <= revision);
    hold->revision = revision;
    hold->names = names;
    hold->judged = self->judging;
    hold->deadline = deadline;
    self->hold_count++;
}


void
edge_ack_take(edge_log_t log, int64_t revision, edge_wait_t *names)
{
    acks_t  *self = &all[log];

    if (edge_resolve_wait_pending(names) || judged < self->judging) {
        hold_revision(self, revision, ngx_current_msec + edge_log(log)->patience, names);
        return;
    }
    edge_resolve_wait_drop(names);
    if (self->hold_count) {
        hold_revision(self, revision, self->holds[self->hold_count - 1].deadline, NULL);
    } else {
        acknowledge(log, revision);
    }
}


void
edge_ack_reset(edge_log_t log)
{
    acks_t  *self = &all[log];

    while (self->hold_count) {
        edge_resolve_wait_drop(self->holds[--self->hold_count].names);
    }
    self->acked = 0;
    self->ended_count = 0;
    if (log == EDGE_LOG_CONFIG) {
        kept_revision = 0;
    }
}


void
edge_ack_expect_judged(edge_log_t log, uint64_t number)
{
    INVARIANT(number > judging);
    judging = all[log].judging = number;
}


void
edge_ack_pass_judged(uint64_t number)
{
    INVARIANT(number > judging);
    judging = number;
}


void
edge_ack_set_judged(uint64_t number)
{
    INVARIANT(number >= judged && number <= judging);
    judged = number;
    edge_ack_release_all();
}


void
edge_ack_count_ended(edge_log_t log, int64_t revision)
{
    acks_t   *self = &all[log];
    ended_t  *last = self->ended + self->ended_count - 1;

    if (self->ended_count && last->revision == revision) {
        last->streams++;
        return;
    }
    if (self->ended_count == ENDED_MAX) {
        ngx_memmove(self->ended, self->ended + 1,
                    --self->ended_count * sizeof(self->ended[0]));
    }
    self->ended[self->ended_count].revision = revision;
    self->ended[self->ended_count++].streams = 1;
}


ngx_uint_t
edge_ack_is_waiting(edge_log_t log)
{
    return all[log].hold_count > 0;
}


void
edge_ack_set_kept(ngx_uint_t kept)
{
    if (!kept && !unkept) {
        kept_revision = edge_log(EDGE_LOG_CONFIG)->at()->revision;
    }
    unkept = !kept;
    edge_vitals(ngx_worker)->state_behind = unkept;
}


ngx_uint_t
edge_ack_is_kept(void)
{
    return !unkept;
}
