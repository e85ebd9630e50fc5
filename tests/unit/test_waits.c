/* Requests whose verb waits without a worker: bounded, in turn, and nothing of them stays behind. */
#include "common/resource/waits.h"
#include "common/base/cleanup.h"
#include "common/resource/crud.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static int freed;

static void free_state(void **state_p)
{
    free(*state_p);
    *state_p = NULL;
    freed++;
}

static wait_t *a_post(const char *owner, const char *url)
{
    wait_t *wait = wait_new();
    const char *const headers[] = {"Accept: application/json", NULL};
    const outbound_request_t request = {
        .owner = owner, .url = url, .headers = headers, .body = "code=1", .body_bytes = 6};

    cr_assert_eq(wait_fetch(wait, &request), 0);
    return wait;
}

static wait_t *a_wait(const char *owner)
{
    return a_post(owner, "https://issuer.test/token");
}

static wait_t *a_get(const char *owner, const char *url, const char *header, unsigned timeout_ms)
{
    wait_t *wait = wait_new();
    const char *const headers[] = {header, NULL};

    wait->request.deadline_ms = 100000;
    cr_assert_eq(wait_fetch(wait, &(outbound_request_t){.owner = owner,
                                                        .url = url,
                                                        .headers = headers,
                                                        .timeout_ms = timeout_ms,
                                                        .max_bytes = 1000}),
                 0);
    return wait;
}

static wait_t *a_question(const char *owner, const char *verb)
{
    wait_t *wait = wait_new();

    cr_assert_eq(wait_ask(wait, owner, verb, json_object(), 1), 0);
    return wait;
}

/* Admit and queue it. */
static wait_t *put(waits_t *waits, wait_t *wait)
{
    cr_assert_eq(waits_admit(waits, wait), 0);
    waits_queue(waits, wait);
    return wait;
}

/* Admit and queue one of the owner. */
static wait_t *queued(waits_t *waits, const char *owner)
{
    return put(waits, a_wait(owner));
}

Test(waits, a_request_is_copied)
{
    char owner[] = "ac_1", url[] = "https://one.test/", header[] = "A: b", body[] = "x=y";
    const char *const headers[] = {header, NULL};
    wait_t *wait = wait_new();

    cr_assert_eq(wait_fetch(wait, &(outbound_request_t){.owner = owner,
                                                        .method = "POST",
                                                        .url = url,
                                                        .headers = headers,
                                                        .body = body,
                                                        .body_bytes = 3}),
                 0);
    owner[0] = url[0] = header[0] = body[0] = '!';
    cr_assert_str_eq(wait->fetch.owner, "ac_1");
    cr_assert_str_eq(wait->fetch.url, "https://one.test/");
    cr_assert_str_eq(wait->fetch.headers[0], "A: b");
    cr_assert_null(wait->fetch.headers[1]);
    cr_assert_eq(memcmp(wait->fetch.body, "x=y", 3), 0);
    wait_free(&wait);
    cr_assert_null(wait);
}

Test(waits, whose_request_it_is_must_be_known)
{
    wait_t *wait = wait_new();
    char longer[WAIT_OWNER_SIZE + 1];

    memset(longer, 'a', WAIT_OWNER_SIZE);
    longer[WAIT_OWNER_SIZE] = '\0';
    cr_assert_eq(wait_fetch(wait, &(outbound_request_t){.url = "https://one.test/"}), -EINVAL);
    cr_assert_eq(wait_fetch(wait, &(outbound_request_t){.owner = "", .url = "https://one.test/"}),
                 -EINVAL);
    cr_assert_eq(
        wait_fetch(wait, &(outbound_request_t){.owner = longer, .url = "https://one.test/"}),
        -EINVAL);
    cr_assert_eq(wait_fetch(wait, &(outbound_request_t){.owner = "ac_1"}), -EINVAL);
    cr_assert_eq(wait_pause(wait, "", 1), -EINVAL);
    wait_free(&wait);
}

Test(waits, owners_take_turns_and_one_never_has_all_calls)
{
    waits_t *waits = waits_new(3, 2);
    wait_t *busy[5], *other, *next[3];

    for (int i = 0; i < 5; i++)
        busy[i] = queued(waits, "ac_busy");
    other = queued(waits, "ac_other");
    for (int i = 0; i < 3; i++)
        next[i] = waits_next(waits);
    cr_assert_eq(next[0], busy[0]);
    cr_assert_eq(next[1], other, "it has its turn");
    cr_assert_eq(next[2], busy[1]);
    cr_assert_null(waits_next(waits), "three are under way");
    waits_fetched(waits, other);
    cr_assert_null(waits_next(waits), "two of one owner");
    waits_fetched(waits, busy[0]);
    cr_assert_eq(waits_next(waits), busy[2]);
    waits_destroy(&waits);
}

Test(waits, whoever_has_requests_at_many_urls_delays_another_by_one_of_each_account)
{
    enum { ACCOUNTS = 4, URLS = 60, CALLS = 8 };
    waits_t *waits = waits_new(CALLS, CALLS / ACCOUNTS);
    wait_t *flying[CALLS], *other, *next = NULL;
    char owner[16], url[64];
    int before = 0;

    for (int i = 0; i < ACCOUNTS * URLS; i++) {
        snprintf(owner, sizeof(owner), "ac_%d", i % ACCOUNTS);
        snprintf(url, sizeof(url), "https://issuer-%d.test/%d/token", i % 8 / ACCOUNTS, i);
        put(waits, a_post(owner, url));
    }
    for (int i = 0; i < CALLS; i++)
        cr_assert_not_null(flying[i] = waits_next(waits));
    other = queued(waits, "ac_other");
    for (int i = 0;; i = (i + 1) % CALLS) { /* the oldest ends, and another one is made */
        waits_fetched(waits, flying[i]);
        waits_forget(waits, &flying[i]);
        cr_assert_not_null(next = waits_next(waits));
        if (next == other)
            break;
        flying[i] = next;
        before++;
    }
    cr_assert_leq(before, ACCOUNTS);
    waits_destroy(&waits);
}

Test(waits, an_owner_s_share_is_bounded_and_so_is_everybody_s)
{
    waits_t *waits = waits_new(1, 1);
    wait_t *wait;
    char owner[32];

    for (int i = 0; i < WAITS_PLACE; i++)
        cr_assert_eq(waits_admit(waits, a_wait("ac_busy")), 0);
    wait = a_wait("ac_busy");
    cr_assert_eq(waits_admit(waits, wait), -EDQUOT, "at one server");
    wait_free(&wait);
    for (int i = WAITS_PLACE; i < WAITS_OWN; i++)
        cr_assert_eq(waits_admit(waits, a_post("ac_busy", "https://other.test/")), 0);
    wait = a_post("ac_busy", "https://third.test/");
    cr_assert_eq(waits_admit(waits, wait), -EDQUOT);
    wait_free(&wait);
    for (int i = WAITS_OWN; i < WAITS_ALL; i++) {
        snprintf(owner, sizeof(owner), "ac_%d", i % 8);
        cr_assert_eq(waits_admit(waits, a_wait(owner)), 0, "%d", i);
    }
    wait = a_wait("ac_new");
    cr_assert_eq(waits_admit(waits, wait), -EAGAIN);
    wait_free(&wait);
    cr_assert_eq(waits_count(waits), WAITS_ALL);
    wait = waits_first(waits);
    cr_assert_eq(waits_admit(waits, wait), 0, "one that waits again");
    waits_forget(waits, &wait);
    cr_assert_eq(waits_admit(waits, a_wait("ac_new")), 0, "there is room again");
    waits_destroy(&waits);
}

Test(waits, bytes_are_bounded_too)
{
    waits_t *waits = waits_new(1, 1);
    wait_t *wait = a_wait("ac_1"), *more = a_wait("ac_1"), *others[5];

    wait->bytes = WAITS_PLACE_BYTES - 64;
    more->bytes = 1;
    cr_assert_eq(waits_admit(waits, wait), 0);
    cr_assert_eq(waits_admit(waits, more), -EDQUOT);
    wait_free(&more);
    for (int i = 0; i < 5; i++) {
        others[i] = a_wait(i == 0   ? "ac_2"
                           : i == 1 ? "ac_3"
                           : i == 2 ? "ac_4"
                           : i == 3 ? "ac_5"
                                    : "ac_6");
        others[i]->bytes = WAITS_PLACE_BYTES - 64;
        cr_assert_eq(waits_admit(waits, others[i]), i < 4 ? 0 : -EAGAIN);
    }
    wait_free(&others[4]);
    waits_destroy(&waits);
}

Test(waits, what_a_verb_leaves_counts_and_one_that_grows_needs_room)
{
    waits_t *waits = waits_new(1, 1);
    wait_t *wait = a_wait("ac_1"), *other = a_wait("ac_1");

    wait->state_bytes = WAITS_LEAST_BYTES / 2;
    cr_assert_eq(waits_admit(waits, wait), 0);
    other->state_bytes = WAITS_PLACE_BYTES - WAITS_LEAST_BYTES + 1;
    cr_assert_eq(waits_admit(waits, other), -EDQUOT, "each counts for the least at least");
    other->state_bytes--;
    other->fetch.body_bytes = 0;
    cr_assert_eq(waits_admit(waits, other), -EDQUOT, "its URL counts, too");
    other->state_bytes -= strlen(other->fetch.url);
    cr_assert_eq(waits_admit(waits, other), 0);
    cr_assert_eq(waits_admit(waits, wait), 0, "again, with no more than it came with");
    wait->state_bytes = WAITS_LEAST_BYTES + 1;
    cr_assert_eq(waits_admit(waits, wait), -EDQUOT, "it has grown");
    other->state_bytes = 0;
    cr_assert_eq(waits_admit(waits, other), 0);
    waits_forget(waits, &other);
    cr_assert_eq(waits_admit(waits, wait), 0, "there is room now");
    waits_destroy(&waits);
}

Test(waits, no_request_is_made_while_answers_that_nobody_has_taken_are_too_many_bytes)
{
    waits_t *waits = waits_new(8, 8);
    wait_t *wait = queued(waits, "ac_1"), *other = queued(waits, "ac_2");

    cr_assert_eq(waits_next(waits), wait);
    waits_fetched(waits, wait);
    wait->answer.body_bytes = WAITS_ANSWERS_BYTES;
    waits_answered(waits, wait);
    cr_assert_null(waits_next(waits));
    wait->answer.body_bytes = 0;
    cr_assert_eq(waits_admit(waits, wait), 0, "a worker has read it, and the verb waits again");
    cr_assert_eq(waits_next(waits), other);
    waits_fetched(waits, other);
    other->answer.body_bytes = WAITS_ANSWERS_BYTES;
    waits_answered(waits, other);
    other->answer.body_bytes = 0;
    waits_forget(waits, &other);
    waits_queue(waits, wait);
    cr_assert_eq(waits_next(waits), wait);
    waits_destroy(&waits);
}

/* ---- bulkheads ---- */

Test(waits, a_server_that_hangs_costs_neither_questions_nor_another_server_of_its_account)
{
    waits_t *waits = waits_new(64, 16);
    wait_t *question, *other, *stranger;
    int hanging = 0;

    for (int i = 0; i < 100; i++) {
        char url[48];

        snprintf(url, sizeof(url), "https://issuer.test/token/%d", i);
        put(waits, a_post("ac_1", url));
    }
    while (waits_next(waits))
        hanging++;
    cr_assert_eq(hanging, 12, "three quarters of what an account has");
    other = put(waits, a_post("ac_1", "https://healthy.test/token"));
    cr_assert_eq(waits_next(waits), other);
    question = put(waits, a_question("ac_1", "saml.verify"));
    cr_assert_eq(waits_next(waits), question);
    stranger = queued(waits, "ac_2");
    cr_assert_eq(waits_next(waits), stranger, "another account's, at the same server");
    cr_assert_null(waits_next(waits));
    waits_destroy(&waits);
}

Test(waits, a_url_that_hangs_leaves_requests_for_the_others_of_its_server)
{
    waits_t *waits = waits_new(64, 16);
    wait_t *two, *three, *hangs, *ended = NULL;
    int hanging = 0;
    char url[64];

    for (int i = 0; i < 100; i++) { /* what stands behind ? makes it no other one */
        snprintf(url, sizeof(url), "https://issuer.test/one/token?n=%d", i);
        put(waits, a_post("ac_1", url));
    }
    while ((hangs = waits_next(waits))) {
        ended = hangs;
        hanging++;
    }
    cr_assert_eq(hanging, 7, "a portion of the server's 12");
    two = put(waits, a_post("ac_1", "https://issuer.test/two/token"));
    cr_assert_eq(waits_next(waits), two);
    three = put(waits, a_get("ac_1", "https://issuer.test/three/metadata", "A: b", 1000));
    cr_assert_eq(waits_next(waits), three);
    waits_fetched(waits, two);
    waits_fetched(waits, three);
    cr_assert_null(waits_next(waits), "what others give back is not for this one");
    waits_fetched(waits, ended);
    cr_assert_not_null(waits_next(waits), "but its own is");
    cr_assert_null(waits_next(waits));
    waits_destroy(&waits);
}

Test(waits, questions_are_asked_while_every_call_hangs)
{
    waits_t *waits = waits_new(64, 16);
    wait_t *question;
    char owner[16];
    int hanging = 0;

    for (int i = 0; i < 200; i++) {
        snprintf(owner, sizeof(owner), "ac_%d", i % 10);
        queued(waits, owner);
    }
    while (waits_next(waits))
        hanging++;
    cr_assert_eq(hanging, 64);
    question = put(waits, a_question("ac_0", "saml.verify"));
    cr_assert_eq(waits_next(waits), question);
    waits_fetched(waits, question);
    waits_queue(waits, question);
    cr_assert_eq(waits_next(waits), question, "its place was given back");
    waits_destroy(&waits);
}

Test(waits, a_question_finds_room_where_an_account_has_no_more_for_requests)
{
    waits_t *waits = waits_new(1, 1);
    wait_t *wait;

    for (int i = 0; i < WAITS_OWN; i++)
        cr_assert_eq(
            waits_admit(waits, a_post("ac_1", i % 2 ? "https://a.test/" : "https://b.test")), 0);
    for (int i = 0; i < WAITS_ASKED_PLACE; i++)
        cr_assert_eq(waits_admit(waits, a_question("ac_1", "saml.verify")), 0);
    wait = a_question("ac_1", "saml.verify");
    cr_assert_eq(waits_admit(waits, wait), -EDQUOT, "they have a bound, too");
    wait_free(&wait);
    cr_assert_eq(waits_admit(waits, a_question("ac_1", "saml.metadata")), 0);
    cr_assert_eq(waits_count(waits), WAITS_OWN + WAITS_ASKED_PLACE + 1);
    waits_destroy(&waits);
}

Test(waits, what_waits_for_something_else_now_counts_as_that)
{
    waits_t *waits = waits_new(1, 1);
    wait_t *wait = a_wait("ac_1"), *other;

    cr_assert_eq(waits_admit(waits, wait), 0);
    for (int i = 1; i < WAITS_PLACE; i++)
        cr_assert_eq(waits_admit(waits, a_wait("ac_1")), 0);
    cr_assert_eq(wait_ask(wait, "ac_1", "saml.verify", json_object(), 1), 0);
    cr_assert_eq(waits_admit(waits, wait), 0);
    cr_assert_eq(waits_admit(waits, a_wait("ac_1")), 0, "there is room for one more");
    other = a_wait("ac_1");
    cr_assert_eq(waits_admit(waits, other), -EDQUOT);
    wait_free(&other);
    waits_forget(waits, &wait);
    cr_assert_eq(waits_count(waits), WAITS_PLACE);
    waits_destroy(&waits);
}

/* ---- one request for several ---- */

#define KEYS "https://issuer.test/keys"

static bool follows(waits_t *waits, wait_t *wait)
{
    put(waits, wait);
    cr_assert_eq(waits_next(waits), wait);
    return waits_follow(waits, wait);
}

Test(waits, the_same_request_is_made_once_for_all_who_wait_for_it)
{
    waits_t *waits = waits_new(2, 2);
    wait_t *leader = a_get("ac_1", KEYS, "Accept: a", 9000);
    wait_t *same = a_get("ac_1", KEYS, "Accept: a", 9000);
    bool shares = false;

    cr_assert_not(follows(waits, leader));
    cr_assert(follows(waits, same));
    cr_assert_not(follows(waits, a_get("ac_1", KEYS, "Accept: b", 9000)), "other headers");
    cr_assert_null(waits_next(waits));
    cr_assert_eq(waits_follower(waits, leader, &(outbound_answer_t){.body_bytes = 5}, &shares),
                 same);
    cr_assert(shares);
    cr_assert_null(waits_follower(waits, leader, &(outbound_answer_t){.body_bytes = 5}, &shares));
    waits_destroy(&waits);
}

Test(waits, no_two_accounts_and_no_posts_share_a_request)
{
    waits_t *waits = waits_new(8, 8);

    cr_assert_not(follows(waits, a_get("ac_1", KEYS, "Accept: a", 9000)));
    cr_assert_not(follows(waits, a_get("ac_2", KEYS, "Accept: a", 9000)));
    cr_assert_not(follows(waits, a_get("ac_1", KEYS "?a", "Accept: a", 9000)));
    cr_assert_not(follows(waits, a_wait("ac_1")));
    cr_assert_not(follows(waits, a_wait("ac_1")));
    waits_destroy(&waits);
}

Test(waits, who_had_more_time_than_the_one_that_asked_asks_itself)
{
    waits_t *waits = waits_new(2, 2);
    wait_t *leader = a_get("ac_1", KEYS, "Accept: a", 500);
    wait_t *longer = a_get("ac_1", KEYS, "Accept: a", 9000);
    const outbound_answer_t late = {.end = OUTBOUND_TIMEOUT};
    bool shares = true;

    cr_assert_not(follows(waits, leader));
    cr_assert(follows(waits, longer));
    cr_assert_eq(waits_follower(waits, leader, &late, &shares), longer);
    cr_assert_not(shares);
    waits_queue(waits, longer);
    waits_fetched(waits, leader);
    cr_assert_eq(waits_next(waits), longer);
    waits_destroy(&waits);
}

Test(waits, answers_for_several_are_bounded_as_others_are)
{
    waits_t *waits = waits_new(2, 2);
    wait_t *leader = a_get("ac_1", KEYS, "Accept: a", 500);
    wait_t *other = a_get("ac_1", KEYS, "Accept: a", 9000);
    bool shares = true;

    cr_assert_not(follows(waits, leader));
    cr_assert(follows(waits, other));
    cr_assert_eq(waits_follower(waits, leader,
                                &(outbound_answer_t){.body_bytes = WAITS_ANSWERS_BYTES + 1},
                                &shares),
                 other);
    cr_assert_not(shares);
    waits_destroy(&waits);
}

Test(waits, nobody_waits_for_another_s_answer_longer_than_it_can)
{
    waits_t *waits = waits_new(2, 2);
    wait_t *other = a_get("ac_1", KEYS, "Accept: a", 9000);

    cr_assert_not(follows(waits, a_get("ac_1", KEYS, "Accept: a", 9000)));
    cr_assert(follows(waits, other));
    cr_assert_null(waits_late_follower(waits, 100000 - WAIT_ANSWER_MS - 1));
    cr_assert_eq(waits_late_follower(waits, 100000 - WAIT_ANSWER_MS), other);
    cr_assert_null(waits_late_follower(waits, 100000));
    waits_destroy(&waits);
}

/* ---- servers that do not answer ---- */

static const outbound_end_t timed_out = OUTBOUND_TIMEOUT, answered = OUTBOUND_ANSWERED;

Test(waits, a_server_that_did_not_answer_is_not_asked_for_a_moment)
{
    waits_t *waits = waits_new(8, 8);
    wait_t *dead = put(waits, a_get("ac_1", KEYS, "Accept: a", 9000));
    wait_t *other = put(waits, a_get("ac_1", "https://healthy.test/keys", "Accept: a", 9000));
    wait_t *stranger = put(waits, a_get("ac_2", KEYS, "Accept: a", 9000));

    cr_assert_not(waits_is_silent(waits, dead, 1000));
    waits_note_end(waits, dead, &timed_out, 1000);
    cr_assert(waits_is_silent(waits, dead, 1000 + SILENCE_MS - 1));
    cr_assert_not(waits_is_silent(waits, other, 1001), "another server");
    cr_assert_not(waits_is_silent(waits, stranger, 1001), "another account");
    cr_assert_not(waits_is_silent(waits, dead, 1000 + SILENCE_MS), "one finds out");
    cr_assert(waits_is_silent(waits, dead, 1000 + SILENCE_MS + 1), "and no other meanwhile");
    waits_note_end(waits, dead, &answered, 5000);
    cr_assert_not(waits_is_silent(waits, dead, 5001));
    waits_destroy(&waits);
}

#define REALM "https://issuer.test/realms/two/keys"

/* Its request is under way, over a connection. */
static wait_t *asking(waits_t *waits, wait_t *wait)
{
    put(waits, wait);
    cr_assert_eq(waits_next(waits), wait);
    *wait->fetch.reached = true;
    return wait;
}

static void end_asking(waits_t *waits, wait_t *wait, const outbound_end_t *end, int64_t now_ms)
{
    waits_fetched(waits, wait);
    waits_note_end(waits, wait, end, now_ms);
}

Test(waits, a_provider_that_is_connected_to_and_hangs_silences_no_other_one_of_its_server)
{
    waits_t *waits = waits_new(8, 8);
    wait_t *dead = asking(waits, a_get("ac_1", KEYS, "Accept: a", 9000));
    wait_t *post = asking(waits, a_post("ac_1", "https://issuer.test/token"));
    wait_t *healthy = put(waits, a_get("ac_1", REALM, "Accept: a", 9000));
    wait_t *again = put(waits, a_get("ac_1", KEYS, "Accept: a", 9000));

    post->fetch.timeout_ms = 9000;
    end_asking(waits, dead, &timed_out, 1000);
    end_asking(waits, post, &timed_out, 1000);
    cr_assert_not(waits_is_silent(waits, healthy, 1001), "another provider at the same server");
    cr_assert(waits_is_silent(waits, again, 1001));
    cr_assert(waits_is_silent(waits, post, 1001));
    cr_assert_not(waits_is_silent(waits, again, 1000 + SILENCE_MS), "one finds out");
    cr_assert(waits_is_silent(waits, again, 1001 + SILENCE_MS), "and no other of that URL");
    cr_assert_not(waits_is_silent(waits, healthy, 1001 + SILENCE_MS), "and holds up no other URL");
    cr_assert_not(waits_is_silent(waits, post, 1001 + SILENCE_MS), "which are found out apart");
    cr_assert_eq(waits_next(waits), healthy);
    end_asking(waits, healthy, &answered, 4000);
    cr_assert(waits_is_silent(waits, again, 4001), "the other one's answer says nothing of it");
    waits_destroy(&waits);
}

Test(waits, a_server_that_can_be_connected_to_again_is_asked_before_the_one_who_finds_out_ends)
{
    waits_t *waits = waits_new(8, 8);
    wait_t *lost = put(waits, a_get("ac_1", KEYS, "Accept: a", 9000)), *probe;
    wait_t *other = put(waits, a_get("ac_1", REALM, "Accept: a", 9000));

    cr_assert_eq(waits_next(waits), lost);
    end_asking(waits, lost, &timed_out, 1000);
    cr_assert(waits_is_silent(waits, other, 1001), "nobody can be connected to there");
    cr_assert_eq(waits_next(waits), other);
    waits_fetched(waits, other);
    probe = put(waits, a_get("ac_1", KEYS, "Accept: a", 9000));
    cr_assert_eq(waits_next(waits), probe);
    cr_assert_not(waits_is_silent(waits, probe, 1000 + SILENCE_MS));
    cr_assert(waits_is_silent(waits, other, 1001 + SILENCE_MS), "it is not connected yet");
    *probe->fetch.reached = true;
    cr_assert_not(waits_is_silent(waits, other, 1002 + SILENCE_MS));
    end_asking(waits, probe, &timed_out, 13000);
    cr_assert_not(waits_is_silent(waits, other, 13001));
    cr_assert(waits_is_silent(waits, lost, 13001), "only the URL was not answered");
    waits_destroy(&waits);
}

Test(waits, who_may_not_ask_its_url_is_not_the_one_who_finds_out_about_its_server)
{
    waits_t *waits = waits_new(8, 8);
    wait_t *dead = asking(waits, a_get("ac_1", KEYS, "Accept: a", 9000));
    wait_t *lost = put(waits, a_get("ac_1", REALM, "Accept: a", 9000));

    waits_note_end(waits, lost, &timed_out, 1000);
    waits_fetched(waits, dead);
    cr_assert(waits_is_silent(waits, lost, 1001));
    waits_note_end(waits, dead, &timed_out, 1500);
    waits_note_end(waits, lost, &timed_out, 1500);
    cr_assert_not(waits_is_silent(waits, dead, 1500 + SILENCE_MS), "it finds out about both");
    waits_note_end(waits, dead, &timed_out, 4000);
    waits_note_end(waits, lost, &timed_out, 3900);
    cr_assert(waits_is_silent(waits, dead, 5950), "not its URL, yet");
    cr_assert_not(waits_is_silent(waits, lost, 5950), "the server is left to the next");
    waits_destroy(&waits);
}

Test(waits, who_signs_out_and_does_not_wait_long_keeps_nobody_from_signing_in)
{
    waits_t *waits = waits_new(8, 8);
    wait_t *leaves = asking(waits, a_get("ac_1", KEYS, "Accept: a", 3000));
    wait_t *comes = put(waits, a_get("ac_1", KEYS, "Accept: a", 10000));

    end_asking(waits, leaves, &timed_out, 1000);
    cr_assert_not(waits_is_silent(waits, comes, 1001));
    waits_destroy(&waits);
}

Test(waits, a_request_begins_without_a_connection_each_time)
{
    wait_t *wait = a_get("ac_1", KEYS, "Accept: a", 9000);

    *wait->fetch.reached = true;
    cr_assert(wait->reached);
    cr_assert_eq(wait_fetch(wait, &(outbound_request_t){.owner = "ac_1", .url = REALM}), 0);
    cr_assert_not(wait->reached);
    cr_assert_eq(wait->fetch.reached, &wait->reached);
    wait_free(&wait);
}

Test(waits, whoever_was_to_find_out_and_did_not_ask_leaves_that_to_the_next)
{
    waits_t *waits = waits_new(8, 8);
    wait_t *dead = put(waits, a_get("ac_1", KEYS, "Accept: a", 9000));

    waits_note_end(waits, dead, &timed_out, 1000);
    cr_assert_not(waits_is_silent(waits, dead, 1000 + SILENCE_MS));
    waits_note_end(waits, dead, NULL, 3100);
    cr_assert_not(waits_is_silent(waits, dead, 3100));
    waits_destroy(&waits);
}

Test(waits, too_little_time_says_nothing_about_a_server)
{
    waits_t *waits = waits_new(8, 8);
    wait_t *hasty = put(waits, a_get("ac_1", KEYS, "Accept: a", SILENCE_LEAST_MS - 1));

    waits_note_end(waits, hasty, &timed_out, 1000);
    cr_assert_not(waits_is_silent(waits, hasty, 1001));
    waits_destroy(&waits);
}

Test(waits, what_is_remembered_of_servers_is_forgotten_and_bounded)
{
    silences_t *silences = calloc(1, sizeof(*silences));
    char place[SILENCE_PLACE_SIZE];

    silences_note(silences, "ac_old https://x", 0, 9000);
    cr_assert_not(silences_has(silences, "ac_old https://x", SILENCE_MS + SILENCE_FORGET_MS, 9000));
    cr_assert_not(silences_has(silences, "ac_old https://x", SILENCE_MS + SILENCE_FORGET_MS, 9000),
                  "none is the one who finds out");
    silences_note(silences, "ac_kept https://x", 0, 9000);
    for (int i = 0; i < 1000; i++) {
        snprintf(place, sizeof(place), "ac_many https://%d", i);
        silences_note(silences, place, 1 + i / 100, 9000);
    }
    cr_assert(silences_has(silences, place, 11, 9000));
    cr_assert(silences_has(silences, "ac_kept https://x", 11, 9000), "an account has its own room");
    for (int i = 0; i < 1000; i++) {
        snprintf(place, sizeof(place), "ac_%d https://x", i);
        silences_note(silences, place, 1 + i / 100, 9000);
    }
    cr_assert(silences_has(silences, place, 11, 9000));
    cr_assert_not(silences_has(silences, "ac_kept https://x", 11, 9000));
    free(silences);
}

Test(waits, a_pause_ends_when_it_is_over_and_once)
{
    waits_t *waits = waits_new(1, 1);
    wait_t *wait = wait_new();

    cr_assert_eq(wait_pause(wait, "ac_1", 500), 0);
    cr_assert_eq(waits_admit(waits, wait), 0);
    cr_assert_null(waits_due(waits, 499));
    cr_assert_eq(waits_due(waits, 500), wait);
    cr_assert_null(waits_due(waits, 501), "a worker has it");
    waits_destroy(&waits);
}

Test(waits, work_that_is_begun_goes_on_where_there_is_no_room_for_more)
{
    waits_t *waits = waits_new(1, 1);
    wait_t *begun = wait_new(), *other = wait_new();

    for (int i = 0; i < WAITS_OWN; i++)
        cr_assert_eq(
            waits_admit(waits, a_post("ac_1", i % 2 ? "https://a.test/" : "https://b.test")), 0);
    cr_assert_eq(wait_pause(other, "ac_1", 500), 0);
    cr_assert_eq(waits_admit(waits, other), -EDQUOT);
    wait_free(&other);
    cr_assert_eq(wait_go_on(begun, "ac_1", 500), 0);
    cr_assert_eq(waits_admit(waits, begun), 0);
    cr_assert_eq(waits_count(waits), WAITS_OWN + 1, "it counts");
    cr_assert_eq(waits_due(waits, 500), begun);
    cr_assert_eq(wait_go_on(begun, "ac_1", 600), 0);
    begun->state_bytes = WAITS_ALL_BYTES;
    cr_assert_eq(waits_admit(waits, begun), 0, "nor for bytes");
    cr_assert_eq(waits_due(waits, 600), begun);
    begun->state_bytes++;
    cr_assert_eq(wait_pause(begun, "ac_1", 700), 0);
    begun->state_bytes += WAITS_LEAST_BYTES;
    cr_assert_eq(waits_admit(waits, begun), -EAGAIN, "as soon as it waits for something else");
    waits_destroy(&waits);
}

Test(waits, what_is_never_resumed_is_freed)
{
    waits_t *waits = waits_new(1, 1);
    wait_t *wait = queued(waits, "ac_1"), *other = queued(waits, "ac_2");

    wait->state = strdup("of a verb");
    wait->free_state = free_state;
    other->state = strdup("of another");
    other->free_state = free_state;
    cr_assert_eq(waits_next(waits), wait);
    waits_fetched(waits, wait);
    waits_forget(waits, &wait);
    cr_assert_eq(freed, 1, "its deadline passed");
    waits_destroy(&waits);
    cr_assert_eq(freed, 2, "the service stops");
}

static const char *header(const outbound_answer_t *answer, const char *name)
{
    (void)answer;
    return strcmp(name, "link") ? NULL : "<https://one.test/?page=2>; rel=next";
}

/* ---- what handlers see ---- */

static crud_t crud_of(wait_t *wait, request_t *request, int left_ms)
{
    request->deadline_ms = bus_mono_ms() + left_ms;
    return (crud_t){.wait = wait, .request = request};
}

Test(waits, a_handler_is_given_answer_and_state_in_each_try_until_it_waits_again)
{
    const outbound_request_t ask = {.owner = "ac_1", .url = "https://one.test/", .timeout_ms = 99};
    request_t request = {0};
    wait_t *wait = wait_new();
    crud_t crud = crud_of(wait, &request, 60000);
    const wait_answer_t *answer;
    void *state = strdup("mine");

    cr_assert_null(crud_resumed(&crud, &answer));
    cr_assert_null(answer);
    cr_assert_eq(crud_fetch(&crud, &ask, 0, &state, free_state), VERB_WAITS);
    cr_assert_null(state, "taken over");
    cr_assert_eq(wait->fetch.timeout_ms, 99);
    wait_take_answer(
        wait,
        &(outbound_answer_t){.status = 200, .body = "{}...", .body_bytes = 2, .headers = &state},
        header);
    cr_assert_str_eq(crud_resumed(&crud, &answer), "mine");
    cr_assert_eq(answer->status, 200);
    cr_assert_str_eq(answer->body, "{}");
    cr_assert_str_eq(answer->headers[WAIT_LINK], "<https://one.test/?page=2>; rel=next");
    cr_assert_null(answer->headers[WAIT_RETRY_AFTER]);
    cr_assert_str_eq(crud_resumed(&crud, &answer), "mine");
    cr_assert_str_eq(answer->body, "{}", "the database was away, and the verb is tried again");
    state = wait->state;
    cr_assert_eq(crud_pause(&crud, "ac_1", 5, &state, free_state), VERB_WAITS);
    cr_assert_str_eq(crud_resumed(&crud, &answer), "mine");
    cr_assert_null(answer, "it was used, and the verb has waited since");
    wait_free(&wait);
    cr_assert_eq(freed, 1);
}

Test(waits, the_answer_comes_before_the_request_s_deadline)
{
    const outbound_request_t ask = {
        .owner = "ac_1", .url = "https://one.test/", .timeout_ms = 10000};
    request_t request = {0};
    wait_t *wait = wait_new();
    crud_t crud = crud_of(wait, &request, 2000);
    int64_t deadline = request.deadline_ms;
    void *state = strdup("mine");

    wait->request.deadline_ms = deadline;
    cr_assert_eq(crud_fetch(&crud, &ask, 0, &state, free_state), VERB_WAITS);
    cr_assert(wait_shorten(wait, deadline - 2000),
              "as it is made, not as it is put into the queue");
    cr_assert_eq(wait->fetch.timeout_ms, 2000 - WAIT_ANSWER_MS);
    cr_assert(wait_shorten(wait, deadline - WAIT_ANSWER_MS - 1));
    cr_assert_eq(wait->fetch.timeout_ms, 1);
    cr_assert_not(wait_shorten(wait, deadline - WAIT_ANSWER_MS));
    state = wait->state;
    cr_assert_eq(crud_fetch(&crud, &ask, 1000, &state, free_state), VERB_WAITS);
    cr_assert_eq(freed, 0, "the same state goes on");
    cr_assert(wait_shorten(wait, deadline - WAIT_ANSWER_MS - 1000));
    cr_assert_not(wait_shorten(wait, deadline - WAIT_ANSWER_MS - 999), "it is worth more time");
    wait_free(&wait);
}

Test(waits, what_a_handler_may_not_ask_leaves_it_its_state)
{
    request_t request = {0};
    wait_t *wait = wait_new();
    crud_t crud = crud_of(wait, &request, 2000);
    void *state = strdup("mine");

    cr_assert_eq(
        crud_fetch(&crud, &(outbound_request_t){.url = "https://one.test/"}, 0, &state, free_state),
        -EINVAL);
    cr_assert_str_eq(state, "mine");
    free(state);
    wait_free(&wait);
}

Test(waits, a_question_is_asked_in_turn_and_its_answer_is_given_once)
{
    wait_t *wait = wait_new();

    cr_assert_eq(wait_ask(wait, "", "saml.verify", json_object(), 1), -EINVAL, "of nobody");
    cr_assert_eq(wait_ask(wait, "a", "", json_object(), 1), -EINVAL, "nothing is asked");
    cr_assert_eq(wait_ask(wait, "a", "saml.verify", NULL, 1), -EINVAL);
    cr_assert_eq(wait_ask(wait, "a", "saml.verify", json_object(), 1), 0);
    cr_assert_str_eq(wait->verb, "saml.verify");
    cr_assert_not_null(wait->question);
    wait_take_said(wait, 241, "it is forged", NULL);
    cr_assert(wait->answered);
    cr_assert_eq(wait->answer.code, 241);
    cr_assert_str_eq(wait->answer.why, "it is forged");
    wait_take_said(wait, 0, NULL, json_pack("{s:s}", "name_id", "x"));
    cr_assert_eq(wait->answer.code, 0);
    cr_assert_str_eq(wait->answer.why, "");
    cr_assert_eq(wait_pause(wait, "a", 5), 0, "what waited for an answer waits for a while");
    cr_assert_str_eq(wait->verb, "");
    cr_assert_null(wait->question);
    cr_assert_null(wait->answer.said);
    wait_free(&wait);
}
