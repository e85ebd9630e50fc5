/* One worker at the config log: every event in every state. */
#include "common/resource/subscriber.h"
#include "common/base/cleanup.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>

enum {
    NOW = 1000000,
    HEAD = 100,  /* of the log */
    HAS = 80,    /* what a worker says that it has */
    ACKED = 90,  /* what one of those below acknowledged */
    HEARD = NOW, /* when */
};

static void hello_with(subscriber_t *self, const char *log_id, int64_t has)
{
    greeting_t greeting = {.has = has, .mark = "1"};

    strcpy(greeting.log_id, log_id);
    subscriber_hello(self, &greeting);
}

/* One that followed up to HEAD, acknowledged ACKED, and came into that state then. */
static subscriber_t a_subscriber(subscriber_state_t state)
{
    subscriber_t self = {0};

    subscriber_hear(&self, HEARD);
    hello_with(&self, "log", HAS);
    subscriber_answer(&self, "log", HEAD, NOW);
    subscriber_told(&self, HEAD);
    cr_assert(subscriber_ack(&self, ACKED));
    if (state == SUBSCRIBER_AWAY)
        subscriber_leave(&self);
    if (state == SUBSCRIBER_GREETED)
        hello_with(&self, "log", HAS);
    if (state == SUBSCRIBER_SNAPSHOT)
        subscriber_begin_snapshot(&self, HEAD, NOW);
    if (state == SUBSCRIBER_LOST)
        cr_assert(subscriber_lose(&self, NOW));
    cr_assert_eq(self.state, state);
    return self;
}

/* ---- events ---- */

static void on_hello(subscriber_t *self)
{
    hello_with(self, "log", HAS);
}

static void on_hello_newer(subscriber_t *self)
{
    hello_with(self, "log", HEAD + 1);
}

static void on_bye(subscriber_t *self)
{
    subscriber_leave(self);
}

static void on_lost(subscriber_t *self)
{
    subscriber_lose(self, NOW + 1);
}

static void on_ack(subscriber_t *self)
{
    subscriber_ack(self, HEAD);
}

static void on_ack_again(subscriber_t *self)
{
    subscriber_ack(self, ACKED - 1);
}

static void on_ack_beyond(subscriber_t *self)
{
    subscriber_ack(self, HEAD + 1);
}

static void on_ack_of_another_log(subscriber_t *self)
{
    subscriber_ack(self, 0);
}

static void on_log_put_back(subscriber_t *self)
{
    subscriber_begin_again(self, HEAD, HEAD - 10, NOW);
}

static void on_log_put_back_and_gone_on(subscriber_t *self)
{
    subscriber_begin_again(self, HEAD, HEAD + 10, NOW);
}

static void on_silence(subscriber_t *self)
{
    if (subscriber_is_silent(self, HEARD + SUBSCRIBER_DEAD_MS + 1))
        subscriber_leave(self);
}

static void on_standstill(subscriber_t *self)
{
    subscriber_spare(self, HEARD + 5000);
    if (subscriber_is_silent(self, HEARD + 5000))
        subscriber_leave(self);
}

/* What each event makes of a worker in each state: the state, what it was sent, what it
 * acknowledged. */
typedef struct outcome {
    subscriber_state_t state;
    int64_t sent, acked;
} outcome_t;

#define A(s, a)                                                                                    \
    {                                                                                              \
        SUBSCRIBER_AWAY, s, a                                                                      \
    }
#define G                                                                                          \
    {                                                                                              \
        SUBSCRIBER_GREETED, 0, 0                                                                   \
    }
#define F(s, a)                                                                                    \
    {                                                                                              \
        SUBSCRIBER_FOLLOWING, s, a                                                                 \
    }
#define S(a)                                                                                       \
    {                                                                                              \
        SUBSCRIBER_SNAPSHOT, 0, a                                                                  \
    }
#define L(s, a)                                                                                    \
    {                                                                                              \
        SUBSCRIBER_LOST, s, a                                                                      \
    }

typedef struct event_case {
    const char *name;
    void (*happens)(subscriber_t *);
    outcome_t want[5]; /* in the order of the states */
} event_case_t;

/* clang-format off */
static const event_case_t cases[] = {
    /* happens                         in AWAY     GREETED  FOLLOWING    SNAPSHOT  LOST */
    {"hello", on_hello,
                                      {G,          G,       G,           G,        G}},
    {"hello with a newer one", on_hello_newer,
                                      {G,          G,       G,           G,        G}},
    {"bye", on_bye,
                                      {A(100, 90), A(0, 0), A(100, 90),  A(0, 90), A(100, 90)}},
    {"its connection ends", on_lost,
                                      {A(100, 90), L(0, 0), L(100, 90),  L(0, 90), L(100, 90)}},
    {"ack", on_ack,
                                      {A(100, 90), G,       F(100, 100), S(90),    L(100, 100)}},
    {"ack of less than before", on_ack_again,
                                      {A(100, 90), G,       F(100, 90),  S(90),    L(100, 90)}},
    {"ack of what it was not sent", on_ack_beyond,
                                      {A(100, 90), G,       F(100, 90),  S(90),    L(100, 90)}},
    {"ack of another log", on_ack_of_another_log,
                                      {A(100, 90), G,       F(100, 90),  S(90),    L(100, 90)}},
    {"silence", on_silence,
                                      {A(100, 90), A(0, 0), A(100, 90),  A(0, 90), A(100, 90)}},
    {"we stood still", on_standstill,
                                      {A(100, 90), G,       F(100, 90),  S(90),    L(100, 90)}},
    {"the log is put back", on_log_put_back,
                                      {A(0, 0),    G,       L(0, 0),     L(0, 0),  L(0, 0)}},
    {"and has gone on", on_log_put_back_and_gone_on,
                                      {A(0, 0),    G,       S(0),        S(0),     L(0, 0)}},
};
/* clang-format on */

Test(subscriber, every_event_in_every_state)
{
    for (size_t i = 0; i < LEN(cases); i++)
        for (int state = SUBSCRIBER_AWAY; state <= SUBSCRIBER_LOST; state++) {
            const outcome_t *want = &cases[i].want[state];
            subscriber_t self = a_subscriber((subscriber_state_t)state);

            cases[i].happens(&self);
            cr_assert_eq(self.state, want->state, "%s in %d: %d", cases[i].name, state, self.state);
            cr_assert_eq(self.sent, want->sent, "%s in %d", cases[i].name, state);
            cr_assert_eq(self.acked, want->acked, "%s in %d", cases[i].name, state);
        }
}

Test(subscriber, each_state_says_what_may_be_done)
{
    static const struct {
        bool is_live, is_reached, takes_news, hello_is_due, is_behind, can_go_on;
    } want[] = {
        [SUBSCRIBER_AWAY] = {false, false, false, false, false, false},
        [SUBSCRIBER_GREETED] = {true, true, false, true, false, false},
        [SUBSCRIBER_FOLLOWING] = {true, true, true, false, true, true},
        [SUBSCRIBER_SNAPSHOT] = {true, true, true, false, true, true},
        [SUBSCRIBER_LOST] = {true, false, false, false, false, false},
    };

    for (int state = SUBSCRIBER_AWAY; state <= SUBSCRIBER_LOST; state++) {
        subscriber_t self = a_subscriber((subscriber_state_t)state);
        int64_t head = HEAD + 1;

        cr_assert_eq(subscriber_is_live(&self), want[state].is_live, "%d", state);
        cr_assert_eq(subscriber_is_reached(&self), want[state].is_reached, "%d", state);
        cr_assert_eq(subscriber_takes_news(&self), want[state].takes_news, "%d", state);
        cr_assert_eq(subscriber_hello_is_due(&self, NOW), want[state].hello_is_due, "%d", state);
        cr_assert_eq(subscriber_is_behind(&self, head), want[state].is_behind, "%d", state);
        cr_assert_eq(subscriber_can_go_on(&self, head, true, NOW), want[state].can_go_on, "%d",
                     state);
        cr_assert_not(subscriber_can_go_on(&self, head, false, NOW), "without room: %d", state);
    }
}

/* ---- hellos ---- */

typedef struct hello_case {
    const char *log_id;
    int64_t has;
    subscriber_state_t want;
    int64_t sent;
} hello_case_t;

static const hello_case_t hellos[] = {
    {"log", HEAD, SUBSCRIBER_FOLLOWING, HEAD},
    {"log", HEAD - 1, SUBSCRIBER_FOLLOWING, HEAD - 1},
    {"log", 1, SUBSCRIBER_FOLLOWING, 1},
    {"log", HEAD + 1, SUBSCRIBER_SNAPSHOT, 0}, /* of what another history had */
    {"log", 0, SUBSCRIBER_SNAPSHOT, 0},
    {"log", -1, SUBSCRIBER_SNAPSHOT, 0},
    {"older", HEAD, SUBSCRIBER_SNAPSHOT, 0},
    {"-", 0, SUBSCRIBER_SNAPSHOT, 0},
    {"", HEAD, SUBSCRIBER_SNAPSHOT, 0},
};

Test(subscriber, a_hello_is_answered_with_news_of_what_it_has_or_with_everything)
{
    for (size_t i = 0; i < LEN(hellos); i++) {
        subscriber_t self = a_subscriber(SUBSCRIBER_FOLLOWING);

        hello_with(&self, hellos[i].log_id, hellos[i].has);
        cr_assert_eq(subscriber_answer(&self, "log", HEAD, NOW),
                     hellos[i].want == SUBSCRIBER_FOLLOWING);
        cr_assert_eq(self.state, hellos[i].want, "%zu", i);
        cr_assert_eq(self.sent, hellos[i].sent, "%zu", i);
        cr_assert_eq(self.acked, 0, "a hello acknowledges nothing");
        cr_assert_not(subscriber_ack(&self, HEAD + 1));
    }
}

Test(subscriber, the_last_of_several_hellos_counts_and_has_its_turn_once_in_a_while)
{
    subscriber_t self = a_subscriber(SUBSCRIBER_FOLLOWING);

    hello_with(&self, "log", 10);
    hello_with(&self, "log", 20);
    cr_assert(subscriber_answer(&self, "log", HEAD, NOW));
    subscriber_try(&self, NOW);
    cr_assert_eq(self.sent, 20);
    hello_with(&self, "log", 30);
    cr_assert_not(subscriber_hello_is_due(&self, NOW + SUBSCRIBER_GREET_MS - 1));
    cr_assert(subscriber_hello_is_due(&self, NOW + SUBSCRIBER_GREET_MS));
}

/* ---- silence ---- */

Test(subscriber, is_silent_when_nothing_came_for_a_second_and_after_a_loss_for_a_second_more)
{
    subscriber_t self = a_subscriber(SUBSCRIBER_FOLLOWING);

    cr_assert_not(subscriber_is_silent(&self, HEARD + SUBSCRIBER_DEAD_MS));
    cr_assert(subscriber_is_silent(&self, HEARD + SUBSCRIBER_DEAD_MS + 1));
    subscriber_hear(&self, HEARD + 500);
    cr_assert_not(subscriber_is_silent(&self, HEARD + 500 + SUBSCRIBER_DEAD_MS));
    cr_assert(subscriber_lose(&self, HEARD + 1400));
    cr_assert_not(subscriber_lose(&self, HEARD + 1500), "it is lost once");
    cr_assert_not(subscriber_is_silent(&self, HEARD + 1400 + SUBSCRIBER_DEAD_MS));
    cr_assert(subscriber_is_silent(&self, HEARD + 1400 + SUBSCRIBER_DEAD_MS + 1));
}

/* ---- snapshots ---- */

Test(subscriber, a_snapshot_goes_on_where_it_was_and_ends_at_the_revision_that_it_began_with)
{
    subscriber_t self = a_subscriber(SUBSCRIBER_SNAPSHOT);

    cr_assert_str_eq(self.snapshot_kind, "");
    subscriber_chunk_sent(&self, "https_edge", "edghts_1");
    cr_assert_str_eq(self.snapshot_kind, "https_edge");
    cr_assert_str_eq(self.snapshot_id, "edghts_1");
    cr_assert_not(subscriber_ack(&self, HEAD), "before the end nothing is in force");
    subscriber_end_snapshot(&self);
    cr_assert_eq(self.state, SUBSCRIBER_FOLLOWING);
    cr_assert_eq(self.sent, HEAD);
    cr_assert(subscriber_is_behind(&self, HEAD + 5), "of what changed meanwhile");
    cr_assert(subscriber_ack(&self, HEAD));
    subscriber_begin_snapshot(&self, HEAD + 5, NOW);
    cr_assert_str_eq(self.snapshot_kind, "", "another one begins at its beginning");
    cr_assert_str_eq(self.snapshot_id, "");
}

Test(subscriber, one_that_never_lets_a_snapshot_end_waits_for_the_next)
{
    subscriber_t self = a_subscriber(SUBSCRIBER_FOLLOWING);
    int64_t from = 0;

    for (int i = 0; i < SUBSCRIBER_SNAPSHOTS_AT_ONCE; i++) {
        hello_with(&self, "-", 0);
        subscriber_answer(&self, "log", HEAD, NOW);
        cr_assert(subscriber_can_go_on(&self, HEAD, true, NOW), "%d", i);
    }
    for (int i = 0; i < 3; i++) { /* asking again does not put it off */
        hello_with(&self, "-", 0);
        subscriber_answer(&self, "log", HEAD, NOW + 10 * i);
        cr_assert_not(subscriber_can_go_on(&self, HEAD, true, NOW + 10 * i));
        cr_assert_eq(self.snapshot_from_ms, NOW + SUBSCRIBER_SNAPSHOT_AGAIN_MS);
    }
    from = self.snapshot_from_ms;
    cr_assert(subscriber_can_go_on(&self, HEAD, true, from));
    subscriber_end_snapshot(&self);
    hello_with(&self, "-", 0);
    subscriber_answer(&self, "log", HEAD, from + 1);
    cr_assert(subscriber_can_go_on(&self, HEAD, true, from + 1), "one ended: it begins at once");
}

/* ---- what would be our own mistake ---- */

Test(subscriber, a_chunk_of_no_snapshot_is_our_own_mistake, .signal = SIGABRT)
{
    subscriber_t self = a_subscriber(SUBSCRIBER_FOLLOWING);

    subscriber_chunk_sent(&self, "https_edge", "edghts_1");
}

Test(subscriber, news_for_one_that_is_lost_are_our_own_mistake, .signal = SIGABRT)
{
    subscriber_t self = a_subscriber(SUBSCRIBER_LOST);

    subscriber_told(&self, HEAD + 1);
}

Test(subscriber, a_snapshot_for_one_that_is_away_is_our_own_mistake, .signal = SIGABRT)
{
    subscriber_t self = a_subscriber(SUBSCRIBER_AWAY);

    subscriber_begin_snapshot(&self, HEAD, NOW);
}
