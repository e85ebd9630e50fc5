/* Until when a request is worth working on, whatever clocks its sender's machine has. */
#include "common/bus/bus.h"
#include "common/bus/deadline.h"
#include "common/codec/pack.h"

#include <criterion/criterion.h>

enum { LEFT = 10000, HOUR = 3600000 };

static const request_t asked = {.left_ms = LEFT, .clock_ms = 50000};

static int64_t deadline(const clock_gap_t *gap, int64_t at, request_t request)
{
    arrival_t arrival = arrival_now(gap, at);

    return arrival_deadline(&arrival, &request);
}

static void add_packed(zmsg_t *msg, json_t *value)
{
    msgpack_sbuffer buffer;

    msgpack_sbuffer_init(&buffer);
    cr_assert_eq(pack_json(&buffer, value), 0);
    zmsg_addmem(msg, buffer.data, buffer.size);
    msgpack_sbuffer_destroy(&buffer);
    json_decref(value);
}

/* A request whose header says these, as it is read here. */
static request_t decoded(json_t *times)
{
    json_t *header = json_pack("{s:i, s:s, s:s, s:s}", "v", BUS_VERSION, "id", "op_1", "key", "k",
                               "account", "ac_1");
    zmsg_t *msg = zmsg_new();
    request_t request;

    json_object_update(header, times);
    json_decref(times);
    zmsg_addstr(msg, "kind.get");
    add_packed(msg, header);
    add_packed(msg, json_object());
    cr_assert_eq(request_decode(msg, &request), 0);
    zmsg_destroy(&msg);
    request_done(&(request_t){.actor = request.actor, .body = request.body});
    return request;
}

Test(deadline, is_the_same_whatever_the_senders_wall_clock_says)
{
    for (int64_t off = -HOUR; off <= HOUR; off += HOUR) {
        json_t *times =
            json_pack("{s:i, s:I}", "left", LEFT, "deadline", (json_int_t)(bus_now_ms() + off));

        cr_assert_eq(deadline(NULL, 7000, decoded(times)), 7000 + LEFT, "%d", (int)off);
    }
}

Test(deadline, of_one_that_does_not_say_how_long_is_by_its_wall_clock)
{
    json_t *times = json_pack("{s:I}", "deadline", (json_int_t)(bus_now_ms() + LEFT));
    int64_t ms = deadline(NULL, 7000, decoded(times));

    cr_assert(ms > 7000 + LEFT / 2 && ms <= 7000 + LEFT, "%d", (int)ms);
    cr_assert_eq(deadline(NULL, 7000, decoded(json_object())), 7000, "none: it is over");
}

Test(deadline, is_what_was_left_when_it_was_sent)
{
    zmsg_t *msg = request_encode("kind.get", "op_1", NULL, "ac_1", LEFT, NULL, json_object());
    int64_t now = bus_mono_ms();
    request_t request;

    cr_assert_eq(request_decode(msg, &request), 0);
    cr_assert_eq(request.left_ms, LEFT);
    cr_assert(request.clock_ms <= now && request.clock_ms > now - 5000);
    request_done(&request);
    zmsg_destroy(&msg);
}

Test(deadline, counts_the_time_that_a_message_lay_in_a_queue)
{
    clock_gap_t gap = {0};

    for (int i = 0; i < 100;
         i++) /* their clock is 30 s behind ours, and messages take 1 to 10 ms */
        clock_gap_take(&gap, 40000 + 100 * i, 70000 + 100 * i + 1 + i % 10);
    cr_assert_eq(deadline(&gap, 80001, asked), 80001 + LEFT, "as quick as the quickest");
    cr_assert_eq(deadline(&gap, 80000, asked), 80000 + LEFT, "quicker: not from before it came");
    cr_assert_eq(deadline(&gap, 140001, asked), 80001 + LEFT,
                 "this process stood still for a minute");
    clock_gap_take(&gap, 50250, 140001); /* what else waited says nothing else */
    cr_assert_eq(deadline(&gap, 140001, asked), 80001 + LEFT);
}

Test(deadline, follows_clocks_that_drift_apart_or_stood_still)
{
    clock_gap_t gap = {0};
    int64_t theirs = 0, ours = 0;

    for (int i = 0; i < 4 * 86400; i++) { /* a day, 200 ppm: 17 s in the end */
        theirs += 250;
        ours += 250 + (i % 20 == 0);
        clock_gap_take(&gap, theirs, ours);
    }
    cr_assert(deadline(&gap, ours, (request_t){.left_ms = LEFT, .clock_ms = theirs})
              > ours + LEFT - 50);
    ours += 5000; /* theirs did not count that */
    for (int i = 0; i < 4 * 61; i++)
        clock_gap_take(&gap, theirs += 250, ours += 250);
    cr_assert_eq(deadline(&gap, ours, (request_t){.left_ms = LEFT, .clock_ms = theirs}),
                 ours + LEFT);
}

Test(deadline, takes_no_number_that_is_out_of_range)
{
    static const int64_t wild[] = {INT64_MIN, INT64_MIN + 1, -1, INT64_MAX};
    clock_gap_t gap = {0};

    for (size_t i = 0; i < sizeof(wild) / sizeof(wild[0]); i++) {
        clock_gap_take(&gap, wild[i], 7000);
        cr_assert_eq(gap.since_ms, 0);
    }
    clock_gap_take(&gap, 50000, 7000);
    for (size_t i = 0; i < sizeof(wild) / sizeof(wild[0]); i++) {
        int64_t left = wild[i] > 0 ? DEADLINE_LEFT_MAX_MS : 0;

        cr_assert_eq(deadline(&gap, 7000, (request_t){.left_ms = wild[i], .clock_ms = wild[i]}),
                     7000 + left);
    }
}
