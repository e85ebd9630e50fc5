/* Requests whose verb waits without a worker: bounded, in turn, and nothing of them stays behind. */
#include "common/resource/waits.h"
#include "common/base/cleanup.h"
#include "common/resource/crud.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

static int freed;

static void free_state(void **state_p)
{
    free(*state_p);
    *state_p = NULL;
    freed++;
}

static wait_t *a_wait(const char *owner)
{
    wait_t *wait = wait_new();
    const char *const headers[] = {"Accept: application/json", NULL};
    const outbound_request_t request = {.owner = owner,
                                        .url = "https://issuer.test/token",
                                        .headers = headers,
                                        .body = "code=1",
                                        .body_bytes = 6};

    cr_assert_eq(wait_fetch(wait, &request), 0);
    return wait;
}

/* Admit and queue one of the owner. */
static wait_t *queued(waits_t *waits, const char *owner)
{
    wait_t *wait = a_wait(owner);

    cr_assert_eq(waits_admit(waits, wait), 0);
    waits_queue(waits, wait);
    return wait;
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

Test(waits, an_owner_s_share_is_bounded_and_so_is_everybody_s)
{
    waits_t *waits = waits_new(1, 1);
    wait_t *wait;
    char owner[32];

    for (int i = 0; i < WAITS_OWN; i++)
        cr_assert_eq(waits_admit(waits, a_wait("ac_busy")), 0);
    wait = a_wait("ac_busy");
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
    wait_t *wait = a_wait("ac_1"), *more = a_wait("ac_1"), *others[4];

    wait->bytes = WAITS_OWN_BYTES - 64;
    more->bytes = 1;
    cr_assert_eq(waits_admit(waits, wait), 0);
    cr_assert_eq(waits_admit(waits, more), -EDQUOT);
    wait_free(&more);
    for (int i = 0; i < 4; i++) {
        others[i] = a_wait(i == 0 ? "ac_2" : i == 1 ? "ac_3" : i == 2 ? "ac_4" : "ac_5");
        others[i]->bytes = WAITS_OWN_BYTES - 64;
        cr_assert_eq(waits_admit(waits, others[i]), i < 3 ? 0 : -EAGAIN);
    }
    wait_free(&others[3]);
    waits_destroy(&waits);
}

Test(waits, what_a_verb_leaves_counts_and_one_that_grows_needs_room)
{
    waits_t *waits = waits_new(1, 1);
    wait_t *wait = a_wait("ac_1"), *other = a_wait("ac_1");

    wait->state_bytes = WAITS_LEAST_BYTES / 2;
    cr_assert_eq(waits_admit(waits, wait), 0);
    other->state_bytes = WAITS_OWN_BYTES - WAITS_LEAST_BYTES + 1;
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
