#include "services/edge/control/edge_ack.h"
#include "services/edge/control/edge_life.h"
#include "services/edge/worker/edge_vitals.h"
#include "services/edge/worker/edge_worker.h"
#include "common/base/invariant.h"

enum {
    HOLD_MS = 1500,   /* a change with names to resolve is acknowledged after this anyway */
    HOLDS_MAX = 64,
    ENDED_MAX = 8,
    ENDED_BYTES = ENDED_MAX * 42
};

/* Revisions in force that are not acknowledged yet, because names that came with them are being
 * resolved, or open streams are being judged by them. */
static struct {
    int64_t       revision;
    ngx_msec_t    deadline;
    edge_wait_t  *names;    /* NULL: none */
    uint64_t      judged;   /* the number that is to be judged */
} holds[HOLDS_MAX];
static ngx_uint_t  hold_count;
static int64_t     acked;
static ngx_uint_t  unkept;          /* what comes is not on disk */
static int64_t     kept_revision;   /* then: the last that is, of the log in force */

/* Numbers of changes (streams/sweeps.h): the last that asked for streams, and up to which all of
 * those have been judged. */
static uint64_t  judging, judged;

/* Open streams that were ended, for the last revisions that ended any, the newest last. */
static struct {
    int64_t   revision;
    uint64_t  streams;
} ended[ENDED_MAX];
static ngx_uint_t  ended_count;


/* NULL: none. */
static const char *
write_ended(char *text)
{
    size_t      at = 0;
    ngx_uint_t  i;

    for (i = 0; i < ended_count; i++) {
        at += snprintf(text + at, ENDED_BYTES - at, "%s%lld %llu", i ? " " : "",
                       (long long) ended[i].revision,
                       (unsigned long long) ended[i].streams);
    }
    return ended_count ? text : NULL;
}


/* What would not survive a restart is in force, but not acknowledged. */
static void
acknowledge(int64_t revision)
{
    char  text[24], streams[ENDED_BYTES];

    INVARIANT(revision <= edge_worker_at()->revision);
    if (unkept && revision > kept_revision) {
        revision = kept_revision;
    }
    acked = revision;
    snprintf(text, sizeof(text), "%lld", (long long) revision);
    edge_life_say(LINK_CONFIG,
                  (const char *[]) { "ack", text, edge_worker_at()->log_id,
                                     write_ended(streams), NULL });
}


void
edge_ack_repeat(void)
{
    acknowledge(hold_count ? acked : edge_worker_at()->revision);
}


static ngx_uint_t
is_due(ngx_uint_t n)
{
    if ((ngx_msec_int_t) (ngx_current_msec - holds[n].deadline) >= 0) {
        return 1;
    }
    return edge_resolve_wait_pending(holds[n].names) == 0
           && judged >= holds[n].judged;
}


void
edge_ack_release(void)
{
    ngx_uint_t  n = 0;
    int64_t     revision;

    while (n < hold_count && is_due(n)) {
        edge_resolve_wait_drop(holds[n].names);
        n++;
    }
    if (n) {
        revision = holds[n - 1].revision;
        hold_count -= n;
        ngx_memmove(holds, holds + n, hold_count * sizeof(holds[0]));
        acknowledge(revision);
    }
}


/* In their order: a later revision does not overtake one that waits. */
static void
hold_revision(int64_t revision, ngx_msec_t deadline, edge_wait_t *names)
{
    if (hold_count == HOLDS_MAX) {
        edge_resolve_wait_drop(holds[--hold_count].names);   /* the last two go together */
    }
    INVARIANT(hold_count == 0 || holds[hold_count - 1].revision <= revision);
    holds[hold_count].revision = revision;
    holds[hold_count].names = names;
    holds[hold_count].judged = judging;
    holds[hold_count++].deadline = deadline;
}


void
edge_ack_take(int64_t revision, edge_wait_t *names)
{
    if (edge_resolve_wait_pending(names) || judged < judging) {
        hold_revision(revision, ngx_current_msec + HOLD_MS, names);
        return;
    }
    edge_resolve_wait_drop(names);
    if (hold_count) {
        hold_revision(revision, holds[hold_count - 1].deadline, NULL);
    } else {
        acknowledge(revision);
    }
}


void
edge_ack_reset(void)
{
    while (hold_count) {
        edge_resolve_wait_drop(holds[--hold_count].names);
    }
    acked = kept_revision = 0;
    ended_count = 0;
}


void
edge_ack_expect_judged(uint64_t number)
{
    INVARIANT(number > judging);
    judging = number;
}


void
edge_ack_set_judged(uint64_t number)
{
    INVARIANT(number >= judged && number <= judging);
    judged = number;
    edge_ack_release();
}


void
edge_ack_count_ended(int64_t revision)
{
    ngx_uint_t  last = ended_count - 1;

    if (ended_count && ended[last].revision == revision) {
        ended[last].streams++;
        return;
    }
    if (ended_count == ENDED_MAX) {
        ngx_memmove(ended, ended + 1, --ended_count * sizeof(ended[0]));
    }
    ended[ended_count].revision = revision;
    ended[ended_count++].streams = 1;
}


ngx_uint_t
edge_ack_is_waiting(void)
{
    return hold_count > 0;
}


void
edge_ack_set_kept(ngx_uint_t kept)
{
    if (!kept && !unkept) {
        kept_revision = edge_worker_at()->revision;
    }
    unkept = !kept;
    edge_vitals(ngx_worker)->state_behind = unkept;
}


ngx_uint_t
edge_ack_is_kept(void)
{
    return !unkept;
}
