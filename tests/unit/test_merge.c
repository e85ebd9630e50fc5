#include "services/edge/control/merge.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* What was said, as text: "A<hello L 5 e/0 1;" is a hello to copy A, ">beat L 0 5;" what passed to
 * the worker. */
static char said[65536];
static bool there[MERGE_COPIES_MAX];

static void note(const char *who, const merge_frame_t *frames, size_t n)
{
    size_t at = strlen(said);

    at += (size_t)sprintf(said + at, "%s", who);
    for (size_t i = 0; i < n; i++)
        at +=
            (size_t)sprintf(said + at, "%s%.*s", i ? " " : "", (int)frames[i].len, frames[i].data);
    sprintf(said + at, ";");
}

static bool is_there(void *context, int copy)
{
    (void)context;
    return there[copy];
}

static bool to_copy(void *context, int copy, const merge_frame_t *frames, size_t n)
{
    char who[3] = {(char)('A' + copy), '<', '\0'};

    (void)context;
    if (there[copy])
        note(who, frames, n);
    return there[copy];
}

static void to_worker(void *context, const merge_frame_t *frames, size_t n)
{
    (void)context;
    note(">", frames, n);
}

static const merge_ports_t ports = {is_there, to_copy, to_worker};
static int64_t now = 1000;

/* Words with a space between are the frames. */
static size_t split(char *text, merge_frame_t *frames)
{
    size_t n = 0;

    for (char *word = strtok(text, " "); word; word = strtok(NULL, " "))
        frames[n++] = (merge_frame_t){word, strlen(word)};
    return n;
}

static const char *worker(merge_t *merge, const char *text)
{
    merge_frame_t frames[MERGE_FRAMES_MAX];
    char copy[512];

    said[0] = '\0';
    snprintf(copy, sizeof(copy), "%s", text);
    merge_from_worker(merge, frames, split(copy, frames), now);
    return said;
}

static const char *copy_says(merge_t *merge, char from, const char *text)
{
    merge_frame_t frames[MERGE_FRAMES_MAX];
    char copy[512];

    said[0] = '\0';
    snprintf(copy, sizeof(copy), "%s", text);
    merge_from_copy(merge, from - 'A', frames, split(copy, frames), now);
    return said;
}

#define SAYS(got, want) cr_expect_str_eq(got, want)

static void begin(merge_t *merge, int count)
{
    for (int i = 0; i < MERGE_COPIES_MAX; i++)
        there[i] = true;
    merge_init(merge, count, &ports, NULL);
}

/* Both copies and the worker are at revision 5. */
static void at_five(merge_t *merge)
{
    begin(merge, 2);
    SAYS(worker(merge, "hello L 5 e/0 1"), "A<hello L 5 e/0 1;B<hello L 5 e/0 1;");
    SAYS(copy_says(merge, 'A', "heard L 0 1"), ">heard L 0 1;");
    SAYS(copy_says(merge, 'A', "delta L 5 5 x"), ">delta L 5 5 x;");
    SAYS(copy_says(merge, 'B', "heard L 0 1"), ">heard L 0 1;");
    SAYS(copy_says(merge, 'B', "delta L 5 5 x"), ">delta L 5 5 x;");
    SAYS(worker(merge, "ack 5 L"), "A<ack 5 L;B<ack 5 L;");
}

Test(merge, passes_each_change_once_and_acknowledges_it_to_all)
{
    merge_t merge;

    at_five(&merge);
    SAYS(copy_says(&merge, 'B', "delta L 5 6 x"), ">delta L 5 6 x;");
    SAYS(copy_says(&merge, 'A', "delta L 5 6 x"), "");
    SAYS(worker(&merge, "ack 6 L"), "A<ack 6 L;B<ack 6 L;");
    SAYS(copy_says(&merge, 'A', "delta L 6 7 x"), ">delta L 6 7 x;");
    SAYS(worker(&merge, "ack 7 L"), "A<ack 7 L;B<ack 7 L;");
    SAYS(copy_says(&merge, 'B', "delta L 6 7 x"), "B<ack 7 L;");
    SAYS(copy_says(&merge, 'A', "beat L 0 7"), ">beat L 0 7;");
    SAYS(worker(&merge, "bye"), "A<bye;B<bye;");
}

/* A told of 8, and the database lost it; B had not heard of that when 9 was made. */
Test(merge, a_delta_that_does_not_know_what_passed_is_not_put_on_top_of_it)
{
    merge_t merge;

    at_five(&merge);
    SAYS(copy_says(&merge, 'A', "delta L 5 8 x 6"), ">delta L 5 8 x 6;");
    SAYS(copy_says(&merge, 'B', "delta L 5 9 x 6"), "B<hello L 5 e/0 1;");
    SAYS(worker(&merge, "ack 8 L"), "A<ack 8 L;B<ack 8 L;");
    SAYS(copy_says(&merge, 'B', "delta L 5 9 x"), "B<hello L 8 e/0 1;");
    SAYS(copy_says(&merge, 'B', "delta L 5 9 x 18,88,80,6"), "B<hello L 8 e/0 1;");
    SAYS(copy_says(&merge, 'B', "snapshot L 0 9 x"), ">snapshot L 0 9 x;");
    SAYS(copy_says(&merge, 'B', "end L 0 9"), ">end L 0 9;");
}

Test(merge, a_delta_may_begin_before_what_passed_but_not_behind_it)
{
    merge_t merge;

    at_five(&merge);
    SAYS(copy_says(&merge, 'A', "delta L 5 6 x"), ">delta L 5 6 x;");
    SAYS(copy_says(&merge, 'B', "delta L 5 8 x 6,7"), ">delta L 6 8 x 6,7;");
    SAYS(copy_says(&merge, 'A', "delta L 9 10 x"), "A<hello L 5 e/0 1;");
    SAYS(copy_says(&merge, 'A', "delta L 5 10 x 6,7,8,9"), ">delta L 8 10 x 6,7,8,9;");
}

Test(merge, a_hello_to_a_copy_names_what_is_acknowledged)
{
    merge_t merge;

    at_five(&merge);
    SAYS(copy_says(&merge, 'A', "delta L 5 6 x"), ">delta L 5 6 x;");
    SAYS(copy_says(&merge, 'B', "who"), "B<hello L 5 e/0 1;");
    SAYS(worker(&merge, "ack 6 L"), "A<ack 6 L;B<ack 6 L;");
    SAYS(copy_says(&merge, 'B', "who"), "B<hello L 6 e/0 1;");
    SAYS(worker(&merge, "ack 0 "), "A<ack 0;B<ack 0;");
    SAYS(copy_says(&merge, 'B', "who"), "B<hello L 6 e/0 1;");
}

/* What it names is in force, perhaps on no disk, or without its names. */
Test(merge, a_hello_acknowledges_nothing)
{
    merge_t merge;

    begin(&merge, 2);
    worker(&merge, "hello L 6 e/0 1");
    copy_says(&merge, 'A', "heard L 0 1");
    copy_says(&merge, 'B', "heard L 0 1");
    SAYS(copy_says(&merge, 'A', "delta L 5 6 x"), "");
    SAYS(worker(&merge, "ack 5 L"), "A<ack 5 L;B<ack 5 L;");
    SAYS(copy_says(&merge, 'B', "who"), "B<hello L 6 e/0 1;");
    SAYS(copy_says(&merge, 'B', "delta L 5 6 x"), "");
    SAYS(worker(&merge, "ack 6 L"), "A<ack 6 L;B<ack 6 L;");
    SAYS(copy_says(&merge, 'B', "delta L 5 6 x"), "B<ack 6 L;");
}

Test(merge, what_was_said_before_a_hello_was_heard_does_not_count)
{
    merge_t merge;

    at_five(&merge);
    now += 900;
    SAYS(worker(&merge, "hello L 5 e/0 7"), "A<hello L 5 e/0 7;B<hello L 5 e/0 7;");
    SAYS(copy_says(&merge, 'A', "beat L 0 5"), "");
    SAYS(copy_says(&merge, 'B', "heard L 0 6"), "");
    SAYS(copy_says(&merge, 'B', "beat L 0 5"), "");
    SAYS(copy_says(&merge, 'B', "heard L 0 7"), ">heard L 0 7;");
    SAYS(copy_says(&merge, 'B', "delta L 5 9 x"), ">delta L 5 9 x;");
    SAYS(copy_says(&merge, 'A', "delta L 5 6 x"), "");
}

Test(merge, the_answer_to_the_first_of_several_hellos_will_do)
{
    merge_t merge;

    begin(&merge, 2);
    worker(&merge, "hello L 5 e/0 1");
    now += 100;
    worker(&merge, "hello L 5 e/0 2");
    SAYS(copy_says(&merge, 'A', "heard L 0 1"), ">heard L 0 1;");
    SAYS(copy_says(&merge, 'A', "delta L 5 6 x"), ">delta L 5 6 x;");
}

Test(merge, a_snapshot_comes_from_one_copy_and_nothing_from_others_meanwhile)
{
    merge_t merge;

    begin(&merge, 2);
    SAYS(copy_says(&merge, 'A', "who"), "");
    SAYS(worker(&merge, "hello - 0 e/0 1"), "A<hello - 0 e/0 1;");
    SAYS(copy_says(&merge, 'B', "who"), "");
    SAYS(copy_says(&merge, 'A', "heard L 0 1"), ">heard L 0 1;");
    SAYS(copy_says(&merge, 'A', "snapshot L 0 5 x"), ">snapshot L 0 5 x;");
    SAYS(copy_says(&merge, 'B', "delta L 5 6 x"), "");
    SAYS(copy_says(&merge, 'A', "more L 0 5 x"), ">more L 0 5 x;");
    SAYS(worker(&merge, "ack 0 "), "A<ack 0;B<ack 0;");
    SAYS(copy_says(&merge, 'A', "end L 0 5"), ">end L 0 5;");
    SAYS(worker(&merge, "ack 5 L"), "A<ack 5 L;B<hello L 5 e/0 1;");
    SAYS(copy_says(&merge, 'B', "heard L 0 1"), ">heard L 0 1;");
    SAYS(copy_says(&merge, 'B', "delta L 5 6 x"), ">delta L 5 6 x;");
}

Test(merge, a_copy_that_does_not_send_everything_is_not_asked_twice_in_a_row)
{
    merge_t merge;

    begin(&merge, 3);
    there[1] = false;
    SAYS(worker(&merge, "hello - 0 e/0 1"), "A<hello - 0 e/0 1;");
    now += 100;
    SAYS(worker(&merge, "hello - 0 e/0 2"), "C<hello - 0 e/0 2;");
    now += 100;
    SAYS(worker(&merge, "hello - 0 e/0 3"), "A<hello - 0 e/0 3;");
    SAYS(copy_says(&merge, 'C', "heard L 0 2"), ">heard L 0 2;");
    SAYS(copy_says(&merge, 'C', "snapshot L 0 5 x"), "");
    SAYS(copy_says(&merge, 'A', "heard L 0 1"), ">heard L 0 1;");
    SAYS(copy_says(&merge, 'A', "snapshot L 0 5 x"), ">snapshot L 0 5 x;");
}

/* As from a backup: what the worker has is of no log any more. */
Test(merge, takes_a_snapshot_that_goes_back)
{
    merge_t merge;

    at_five(&merge);
    SAYS(copy_says(&merge, 'A', "who"), "A<hello L 5 e/0 1;");
    SAYS(copy_says(&merge, 'A', "snapshot L 0 3 x"), ">snapshot L 0 3 x;");
    SAYS(copy_says(&merge, 'B', "beat L 0 5"), "");
    SAYS(copy_says(&merge, 'A', "end L 0 3"), ">end L 0 3;");
    SAYS(worker(&merge, "ack 5 L"), "A<ack 5 L;B<ack 5 L;"); /* said before it came to the end */
    SAYS(worker(&merge, "ack 3 L"), "A<ack 3 L;B<hello L 3 e/0 1;");
}

Test(merge, takes_no_snapshot_that_it_is_beyond)
{
    merge_t merge;

    at_five(&merge);
    SAYS(copy_says(&merge, 'A', "delta L 5 9 x"), ">delta L 5 9 x;");
    SAYS(copy_says(&merge, 'B', "snapshot L 0 8 x"), "");
    SAYS(copy_says(&merge, 'B', "more L 0 8 x"), "");
    SAYS(copy_says(&merge, 'B', "end L 0 8"), "");
    SAYS(copy_says(&merge, 'B', "snapshot L 0 10 x"), ">snapshot L 0 10 x;");
}

Test(merge, greets_a_copy_whose_beats_stay_behind_and_one_that_is_ahead_at_once)
{
    merge_t merge;

    at_five(&merge);
    copy_says(&merge, 'A', "delta L 5 6 x");
    worker(&merge, "ack 6 L");
    for (int i = 0; i < 3; i++)
        SAYS(copy_says(&merge, 'B', "beat L 0 5"), "");
    SAYS(copy_says(&merge, 'B', "beat L 0 5"), "B<hello L 6 e/0 1;");
    SAYS(copy_says(&merge, 'B', "beat L 0 7"), "B<hello L 6 e/0 1;");
    SAYS(copy_says(&merge, 'B', "beat M 0 6"), "B<hello L 6 e/0 1;");
}

Test(merge, greets_again_what_did_not_hear)
{
    merge_t merge;

    begin(&merge, 2);
    there[1] = false;
    SAYS(worker(&merge, "hello L 5 e/0 1"), "A<hello L 5 e/0 1;");
    copy_says(&merge, 'A', "heard L 0 1");
    SAYS(worker(&merge, "ack 5 L"), "A<ack 5 L;");
    there[1] = true;
    SAYS(worker(&merge, "ack 5 L"), "A<ack 5 L;B<hello L 5 e/0 1;");
    now += 700;
    SAYS(worker(&merge, "ack 5 L"), "A<ack 5 L;B<ack 5 L;");
    now += 100;
    SAYS(worker(&merge, "ack 5 L"), "A<ack 5 L;B<hello L 5 e/0 1;");
}

Test(merge, with_one_copy_says_what_the_worker_and_the_copy_say)
{
    merge_t merge;

    begin(&merge, 1);
    SAYS(worker(&merge, "hello L 5 e/0 1"), "A<hello L 5 e/0 1;");
    SAYS(copy_says(&merge, 'A', "heard L 0 1"), ">heard L 0 1;");
    SAYS(copy_says(&merge, 'A', "delta L 5 6 x"), ">delta L 5 6 x;");
    SAYS(worker(&merge, "ack 6 L"), "A<ack 6 L;");
    SAYS(copy_says(&merge, 'A', "beat L 0 6"), ">beat L 0 6;");
    SAYS(copy_says(&merge, 'A', "beat L 0 3"), "A<hello L 6 e/0 1;");
    SAYS(copy_says(&merge, 'A', "refused 256 e/0"), ">refused 256 e/0;");
}

/* The worker's place in the log, whatever copies, connections and the worker do: it never takes a
 * change without those before it, and what is named to a copy is in force. */
Test(merge, never_leaves_anything_out)
{
    enum { COPIES = 3, STEPS = 200000 };
    unsigned seed = 1;
    merge_t merge;
    int64_t has = 0, passed = 0;
    bool building = false;

    begin(&merge, COPIES);
    for (int step = 0; step < STEPS; step++) {
        char text[128];
        int c;

        seed = seed * 1103515245 + 12345;
        c = (int)(seed >> 16) % COPIES;
        now += (seed >> 20) % 50;
        switch ((seed >> 24) % 12) {
        case 0:
            snprintf(text, sizeof(text), "hello %s %lld e/0 %d", has ? "L" : "-", (long long)has,
                     step + 1);
            building = false;
            worker(&merge, text);
            break;
        case 1:
        case 2:
            snprintf(text, sizeof(text), "ack %lld L", (long long)has);
            worker(&merge, text);
            break;
        case 3:
            there[c] = !there[c];
            break;
        case 4:
            copy_says(&merge, (char)('A' + c), "who");
            break;
        case 5:
            snprintf(text, sizeof(text), "heard L 0 %d", step + 1);
            copy_says(&merge, (char)('A' + c), text);
            break;
        case 6:
            snprintf(text, sizeof(text), "beat L 0 %u", (seed >> 8) % 20 + (unsigned)has);
            copy_says(&merge, (char)('A' + c), text);
            break;
        case 7:
            snprintf(text, sizeof(text), "snapshot L 0 %u x", 1 + (seed >> 8) % 40);
            copy_says(&merge, (char)('A' + c), text);
            break;
        case 8:
            snprintf(text, sizeof(text), "end L 0 %u", 1 + (seed >> 8) % 40);
            copy_says(&merge, (char)('A' + c), text);
            break;
        default:
            snprintf(text, sizeof(text), "delta L %lld %lld x %lld,%lld",
                     (long long)has + (int)((seed >> 4) % 5) - 3,
                     (long long)has + (int)((seed >> 7) % 5) - 1, (long long)has - 1,
                     (long long)has);
            copy_says(&merge, (char)('A' + c), text);
        }
        for (const char *at = said; (at = strchr(at, '>')); at++) {
            long long previous, revision;

            if (sscanf(at, ">delta L %lld %lld", &previous, &revision) == 2) {
                cr_assert_not(building, "step %d", step);
                cr_assert_eq(previous, has, "step %d: %s", step, said);
                cr_assert_geq(revision, has);
                has = revision;
                passed++;
            } else if (!strncmp(at, ">snapshot", 9)) {
                building = true;
            } else if (sscanf(at, ">end L 0 %lld", &revision) == 1) {
                cr_assert(building);
                building = false;
                has = revision;
            }
        }
        for (const char *at = said; (at = strstr(at, "<hello L ")); at++) {
            long long named;

            cr_assert_eq(sscanf(at, "<hello L %lld", &named), 1);
            cr_assert_leq(named, has, "step %d", step);
        }
        said[0] = '\0';
    }
    cr_assert_gt(passed, 1000);
}

/* It did not stand still, so what was said behind the answer to the first hello is right; another
 * mark says that it may have. */
Test(merge, a_hello_that_is_said_again_voids_nothing_of_what_comes)
{
    static const struct {
        const char *hello, *delta;
    } rows[] = {
        {"hello L 5 e/0 1", ">delta L 5 6 x;"},
        {"hello L 5 e/0 2", ""},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        merge_t merge;

        at_five(&merge);
        worker(&merge, rows[i].hello);
        SAYS(copy_says(&merge, 'A', "delta L 5 6 x"), rows[i].delta);
    }
}

/* Said twice before anything came: the answer to the first is the answer to both. */
Test(merge, a_hello_that_is_said_again_before_it_was_answered_waits_for_that_answer)
{
    merge_t merge;

    begin(&merge, 1);
    worker(&merge, "hello L 5 e/0 1");
    now += 3000;
    worker(&merge, "hello L 5 e/0 1");
    SAYS(copy_says(&merge, 'A', "delta L 5 6 x"), "");
    SAYS(copy_says(&merge, 'A', "heard L 0 1"), ">heard L 0 1;");
    SAYS(copy_says(&merge, 'A', "delta L 5 6 x"), ">delta L 5 6 x;");
}
