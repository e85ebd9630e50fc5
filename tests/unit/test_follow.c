#include "services/edge/worker/follow.h"

#include <criterion/criterion.h>
#include <string.h>

/* In force, unless it is nothing: revision 5 of log L; what arrives is revision 9 of log M. */
static const follow_t nothing = {0};
static const follow_t idle = {.log_id = "L", .revision = 5};
static const follow_t arriving = {
    .log_id = "L", .revision = 5, .arriving = true, .arriving_log_id = "M", .arriving_revision = 9};
static const follow_t first = {.arriving = true, .arriving_log_id = "M", .arriving_revision = 9};

typedef struct want {
    follow_step_t step;
    const char *log_id; /* in force behind it */
    int64_t revision;
    bool arriving;
} want_t;

#define STAYS(step, arrives)                                                                       \
    {                                                                                              \
        step, "L", 5, arrives                                                                      \
    }
#define EMPTY(step, arrives)                                                                       \
    {                                                                                              \
        step, "", 0, arrives                                                                       \
    }
#define ASKS STAYS(FOLLOW_ASK, false)

/* Each message in each state: nothing in force, idle, a snapshot arrives, the first snapshot
 * arrives. */
static const struct {
    const char *what;
    const char *word; /* NULL: what no word means */
    const char *log_id;
    int64_t previous, revision;
    const char *between;
    want_t nothing, idle, arriving, first;
} rows[] = {
    {"a snapshot begins anew", "snapshot", "M", 0, 9, NULL, EMPTY(FOLLOW_BEGIN, true),
     STAYS(FOLLOW_BEGIN, true), STAYS(FOLLOW_BEGIN, true), EMPTY(FOLLOW_BEGIN, true)},
    {"a snapshot of an older revision, too", "snapshot", "L", 0, 3, NULL, EMPTY(FOLLOW_BEGIN, true),
     STAYS(FOLLOW_BEGIN, true), STAYS(FOLLOW_BEGIN, true), EMPTY(FOLLOW_BEGIN, true)},
    {"more of it", "more", "M", 0, 9, NULL, EMPTY(FOLLOW_NOTHING, false),
     STAYS(FOLLOW_NOTHING, false), STAYS(FOLLOW_ADD, true), EMPTY(FOLLOW_ADD, true)},
    {"more of another log", "more", "L", 0, 9, NULL, EMPTY(FOLLOW_NOTHING, false),
     STAYS(FOLLOW_NOTHING, false), ASKS, EMPTY(FOLLOW_ASK, false)},
    {"more of another revision", "more", "M", 0, 8, NULL, EMPTY(FOLLOW_NOTHING, false),
     STAYS(FOLLOW_NOTHING, false), ASKS, EMPTY(FOLLOW_ASK, false)},
    {"its end",
     "end",
     "M",
     0,
     9,
     NULL,
     EMPTY(FOLLOW_NOTHING, false),
     STAYS(FOLLOW_NOTHING, false),
     {FOLLOW_END, "M", 9, false},
     {FOLLOW_END, "M", 9, false}},
    {"the end of another log", "end", "L", 0, 9, NULL, EMPTY(FOLLOW_NOTHING, false),
     STAYS(FOLLOW_NOTHING, false), ASKS, EMPTY(FOLLOW_ASK, false)},
    {"the end of another revision", "end", "M", 0, 5, NULL, EMPTY(FOLLOW_NOTHING, false),
     STAYS(FOLLOW_NOTHING, false), ASKS, EMPTY(FOLLOW_ASK, false)},
    {"the next change",
     "delta",
     "L",
     5,
     7,
     NULL,
     EMPTY(FOLLOW_ASK, false),
     {FOLLOW_CHANGE, "L", 7, false},
     {FOLLOW_CHANGE, "L", 7, false},
     EMPTY(FOLLOW_ASK, false)},
    {"nothing new", "delta", "L", 5, 5, NULL, EMPTY(FOLLOW_ASK, false), STAYS(FOLLOW_CHANGE, false),
     STAYS(FOLLOW_CHANGE, false), EMPTY(FOLLOW_ASK, false)},
    {"a change that was told", "delta", "L", 4, 5, NULL, EMPTY(FOLLOW_ASK, false),
     STAYS(FOLLOW_NOTHING, false), STAYS(FOLLOW_NOTHING, false), EMPTY(FOLLOW_ASK, false)},
    {"one before that", "delta", "L", 2, 4, NULL, EMPTY(FOLLOW_ASK, false),
     STAYS(FOLLOW_NOTHING, false), STAYS(FOLLOW_NOTHING, false), EMPTY(FOLLOW_ASK, false)},
    {"a change behind a gap", "delta", "L", 6, 7, NULL, EMPTY(FOLLOW_ASK, false), ASKS, ASKS,
     EMPTY(FOLLOW_ASK, false)},
    {"a change that does not know this revision", "delta", "L", 4, 7, NULL,
     EMPTY(FOLLOW_ASK, false), ASKS, ASKS, EMPTY(FOLLOW_ASK, false)},
    {"a change that knows others", "delta", "L", 3, 7, "4,6,15,50", EMPTY(FOLLOW_ASK, false), ASKS,
     ASKS, EMPTY(FOLLOW_ASK, false)},
    {"a change that knows it",
     "delta",
     "L",
     3,
     7,
     "4,5,6",
     EMPTY(FOLLOW_ASK, false),
     {FOLLOW_CHANGE, "L", 7, false},
     {FOLLOW_CHANGE, "L", 7, false},
     EMPTY(FOLLOW_ASK, false)},
    {"a change of another log", "delta", "M", 5, 7, "5", EMPTY(FOLLOW_ASK, false), ASKS, ASKS,
     EMPTY(FOLLOW_ASK, false)},
    {"a change backward", "delta", "L", 5, 4, NULL, EMPTY(FOLLOW_ASK, false), ASKS, ASKS,
     EMPTY(FOLLOW_ASK, false)},
    {"a beat", "beat", "L", 0, 5, NULL, EMPTY(FOLLOW_ASK, false), STAYS(FOLLOW_CURRENT, false),
     ASKS, EMPTY(FOLLOW_ASK, false)},
    {"a beat of another revision", "beat", "L", 0, 6, NULL, EMPTY(FOLLOW_ASK, false), ASKS, ASKS,
     EMPTY(FOLLOW_ASK, false)},
    {"a beat of another log", "beat", "M", 0, 5, NULL, EMPTY(FOLLOW_ASK, false), ASKS, ASKS,
     EMPTY(FOLLOW_ASK, false)},
    {"another word", "gossip", "L", 0, 5, NULL, EMPTY(FOLLOW_NOTHING, false),
     STAYS(FOLLOW_NOTHING, false), STAYS(FOLLOW_NOTHING, true), EMPTY(FOLLOW_NOTHING, true)},
};

static void check(const char *what, follow_t self, const follow_message_t *message,
                  const want_t *want)
{
    follow_step_t step = follow_take(&self, message);

    cr_expect_eq(step, want->step, "%s: %d, not %d", what, step, want->step);
    cr_expect_str_eq(self.log_id, want->log_id, "%s", what);
    cr_expect_eq(self.revision, want->revision, "%s", what);
    cr_expect_eq(self.arriving, want->arriving, "%s", what);
}

Test(follow, every_message_in_every_state)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        follow_message_t message = {.kind = follow_kind(rows[i].word),
                                    .log_id = rows[i].log_id,
                                    .previous = rows[i].previous,
                                    .revision = rows[i].revision,
                                    .between = rows[i].between,
                                    .between_len = rows[i].between ? strlen(rows[i].between) : 0};

        check(rows[i].what, nothing, &message, &rows[i].nothing);
        check(rows[i].what, idle, &message, &rows[i].idle);
        check(rows[i].what, arriving, &message, &rows[i].arriving);
        check(rows[i].what, first, &message, &rows[i].first);
    }
}

/* As a record of the state file: who wrote it knew what it stands on. A file ends where one does
 * not follow the one before it. */
static const struct {
    const char *what;
    int kind;
    const char *log_id;
    int64_t previous, revision;
    want_t idle, arriving;
} records[] = {
    {"a change may begin before",
     FOLLOW_DELTA,
     "L",
     3,
     7,
     {FOLLOW_CHANGE, "L", 7, false},
     {FOLLOW_CHANGE, "L", 7, false}},
    {"a change that is there", FOLLOW_DELTA, "L", 3, 5, STAYS(FOLLOW_NOTHING, false),
     STAYS(FOLLOW_NOTHING, false)},
    {"a change behind a gap", FOLLOW_DELTA, "L", 6, 7, ASKS, ASKS},
    {"a change of another log", FOLLOW_DELTA, "M", 3, 7, ASKS, ASKS},
    {"a snapshot", FOLLOW_SNAPSHOT, "M", 0, 9, STAYS(FOLLOW_BEGIN, true),
     STAYS(FOLLOW_BEGIN, true)},
    {"more of it", FOLLOW_MORE, "M", 0, 9, STAYS(FOLLOW_NOTHING, false), STAYS(FOLLOW_ADD, true)},
    {"more of another", FOLLOW_MORE, "M", 0, 8, STAYS(FOLLOW_NOTHING, false), ASKS},
    {"its end",
     FOLLOW_SNAPSHOT_END,
     "M",
     0,
     9,
     STAYS(FOLLOW_NOTHING, false),
     {FOLLOW_END, "M", 9, false}},
    {"the end of another", FOLLOW_SNAPSHOT_END, "L", 0, 9, STAYS(FOLLOW_NOTHING, false), ASKS},
    {"a beat", FOLLOW_BEAT, "L", 0, 5, ASKS, ASKS},
    {"anything else", 'Z', "L", 5, 6, ASKS, ASKS},
    {"nothing", FOLLOW_OTHER, "L", 5, 6, ASKS, ASKS},
};

Test(follow, every_record_in_every_state)
{
    for (size_t i = 0; i < sizeof(records) / sizeof(records[0]); i++) {
        follow_message_t record = {.kind = records[i].kind,
                                   .log_id = records[i].log_id,
                                   .previous = records[i].previous,
                                   .revision = records[i].revision,
                                   .kept = true};

        check(records[i].what, idle, &record, &records[i].idle);
        check(records[i].what, arriving, &record, &records[i].arriving);
    }
}

Test(follow, a_body_that_cannot_be_read_leaves_what_is_in_force_and_asks_for_everything)
{
    follow_t self = idle;
    follow_message_t delta = {.kind = FOLLOW_DELTA, .log_id = "L", .previous = 5, .revision = 7};
    follow_message_t snapshot = {.kind = FOLLOW_SNAPSHOT, .log_id = "M", .revision = 9};

    cr_expect_eq(follow_take(&self, &delta), FOLLOW_CHANGE);
    follow_failed(&self, &delta);
    cr_expect_eq(self.revision, 5);
    cr_expect_eq(follow_named(&self), 0);
    cr_expect_eq(follow_take(&self, &snapshot), FOLLOW_BEGIN);
    cr_expect_eq(follow_named(&self), 5, "it comes");
    follow_failed(&self, &snapshot);
    cr_expect(!self.arriving && self.revision == 5 && follow_named(&self) == 0);
}

Test(follow, a_record_that_cannot_be_read_asks_for_nothing)
{
    follow_t self = idle;
    follow_message_t delta = {
        .kind = FOLLOW_DELTA, .log_id = "L", .previous = 5, .revision = 7, .kept = true};

    cr_expect_eq(follow_take(&self, &delta), FOLLOW_CHANGE);
    follow_failed(&self, &delta);
    cr_expect_eq(follow_named(&self), 5);
}

Test(follow, a_hello_voids_what_arrives)
{
    follow_t self = arriving;
    follow_message_t more = {.kind = FOLLOW_MORE, .log_id = "M", .revision = 9};

    follow_drop(&self);
    cr_expect_eq(follow_take(&self, &more), FOLLOW_NOTHING);
    cr_expect_eq(self.revision, 5);
}
