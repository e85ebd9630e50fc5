/* Names and addresses: when a name is asked for, what an answer changes, and who waits for it. */
#include "services/edge/control/resolve.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SENT_MAX = 20000 };

static struct {
    uint64_t number;
    char host[32];
} sent[SENT_MAX];
static size_t sent_count, reports, reports_with_address;
static bool helper_is_there = true;
static int64_t now = 1000;

static bool send_query(void *context, uint64_t number, const char *host)
{
    (void)context;
    if (!helper_is_there)
        return false;
    cr_assert_lt(sent_count, SENT_MAX);
    sent[sent_count].number = number;
    snprintf(sent[sent_count++].host, sizeof(sent[0].host), "%s", host);
    return true;
}

static void unresolved(void *context, const char *account_id, const char *host, bool has_address)
{
    (void)context;
    (void)account_id;
    (void)host;
    reports++;
    reports_with_address += has_address;
}

static resolve_t *a_resolver(void)
{
    static const resolve_ports_t ports = {send_query, unresolved};
    resolve_t *self = resolve_new(&ports, NULL);

    resolve_start(self, now);
    return self;
}

static resolve_name_t *hold(resolve_t *self, const char *account, const char *host)
{
    return resolve_hold(self, account, host, NULL, now);
}

static struct sockaddr_in ipv4(const char *text)
{
    struct sockaddr_in address = {.sin_family = AF_INET};

    inet_pton(AF_INET, text, &address.sin_addr);
    return address;
}

static void answer_bytes(resolve_t *self, uint64_t number, const void *address, size_t len)
{
    char text[24];
    int digits = snprintf(text, sizeof(text), "%llu", (unsigned long long)number);

    resolve_answer(self, text, (size_t)digits, address, len, now);
    resolve_ask(self, now);
}

/* Answer the query that was sent as number i, counted from 0. NULL: it has no address. */
static void answer(resolve_t *self, size_t i, const char *text)
{
    struct sockaddr_in address = ipv4(text ? text : "0.0.0.0");

    answer_bytes(self, sent[i].number, &address, text ? sizeof(address) : 0);
}

static const char *address_of(const resolve_name_t *name)
{
    static char text[INET_ADDRSTRLEN];
    const struct sockaddr_storage *address;

    if (resolve_address(name, &address) == 0)
        return "none";
    inet_ntop(AF_INET, &((const struct sockaddr_in *)address)->sin_addr, text, sizeof(text));
    return text;
}

static size_t count_sent(const char *prefix)
{
    size_t n = 0;

    for (size_t i = 0; i < sent_count; i++)
        n += strncmp(sent[i].host, prefix, strlen(prefix)) == 0;
    return n;
}

/* ---- names ---- */

Test(resolve, asks_for_a_name_when_it_comes_and_gives_it_the_answer)
{
    resolve_t *self = a_resolver();
    resolve_name_t *name = hold(self, "ac_1", "a.example");

    cr_assert_eq(sent_count, 1);
    cr_assert_str_eq(sent[0].host, "a.example");
    cr_assert_str_eq(address_of(name), "none");
    cr_assert_eq(resolve_untried(self), 1);
    answer(self, 0, "192.0.2.1");
    cr_assert_str_eq(address_of(name), "192.0.2.1");
    cr_assert_eq(resolve_untried(self), 0);
    resolve_destroy(&self);
    cr_assert_null(self);
    resolve_destroy(&self);
}

Test(resolve, asks_for_nothing_before_the_start_and_after_the_stop)
{
    static const resolve_ports_t ports = {send_query, unresolved};
    resolve_t *self = resolve_new(&ports, NULL);

    hold(self, "ac_1", "a.example");
    cr_assert_eq(sent_count, 0);
    resolve_start(self, now);
    cr_assert_eq(sent_count, 1);
    resolve_stop(self);
    hold(self, "ac_1", "b.example");
    cr_assert_eq(sent_count, 1);
    resolve_destroy(&self);
}

Test(resolve, backends_of_one_account_share_a_name_and_its_query)
{
    resolve_t *self = a_resolver();
    resolve_name_t *one = hold(self, "ac_1", "a.example"), *two = hold(self, "ac_1", "a.example");

    cr_assert_eq(one, two);
    cr_assert_eq(sent_count, 1);
    answer(self, 0, "192.0.2.1");
    resolve_release(self, one, now);
    cr_assert_str_eq(address_of(two), "192.0.2.1");
    resolve_release(self, two, now);
    cr_assert_eq(resolve_accounts(self), 0);
    resolve_destroy(&self);
}

Test(resolve, accounts_share_nothing)
{
    resolve_t *self = a_resolver();
    resolve_name_t *one = hold(self, "ac_1", "a.example"), *two = hold(self, "ac_2", "a.example");

    cr_assert_neq(one, two);
    answer(self, 0, "192.0.2.1");
    cr_assert_str_eq(address_of(two), "none");
    answer(self, 1, "192.0.2.2");
    cr_assert_str_eq(address_of(one), "192.0.2.1");
    resolve_destroy(&self);
}

Test(resolve, a_name_without_users_goes_when_its_answer_comes)
{
    resolve_t *self = a_resolver();

    resolve_release(self, hold(self, "ac_1", "a.example"), now);
    cr_assert_eq(resolve_accounts(self), 1);
    answer(self, 0, "192.0.2.1");
    cr_assert_eq(resolve_accounts(self), 0);
    cr_assert_eq(resolve_untried(self), 0);
    resolve_destroy(&self);
}

Test(resolve, a_name_that_comes_back_while_it_is_asked_for_keeps_the_answer)
{
    resolve_t *self = a_resolver();
    resolve_name_t *name;

    resolve_release(self, hold(self, "ac_1", "a.example"), now);
    name = hold(self, "ac_1", "a.example");
    cr_assert_eq(sent_count, 1);
    answer(self, 0, "192.0.2.1");
    cr_assert_str_eq(address_of(name), "192.0.2.1");
    resolve_destroy(&self);
}

/* ---- answers ---- */

Test(resolve, a_failure_keeps_the_last_good_answer_and_is_reported_once)
{
    resolve_t *self = a_resolver();
    resolve_name_t *name = hold(self, "ac_1", "a.example");

    answer(self, 0, "192.0.2.1");
    for (size_t i = 1; i <= 3; i++) {
        now += RESOLVE_REFRESH_MS;
        resolve_tick(self, now);
        cr_assert_eq(sent_count, i + 1);
        answer(self, i, NULL);
        cr_assert_str_eq(address_of(name), "192.0.2.1");
    }
    cr_assert_eq(reports, 1);
    cr_assert_eq(reports_with_address, 1);
    now += RESOLVE_REFRESH_MS;
    resolve_tick(self, now);
    answer(self, 4, "192.0.2.2");
    cr_assert_str_eq(address_of(name), "192.0.2.2");
    now += RESOLVE_REFRESH_MS;
    resolve_tick(self, now);
    answer(self, 5, NULL);
    cr_assert_eq(reports, 2);
    resolve_destroy(&self);
}

Test(resolve, what_is_no_socket_address_is_no_answer)
{
    static const size_t lengths[] = {1, 2, 15, 17, 28, 128, 129, 4096};
    static unsigned char bytes[4096];
    struct sockaddr_in address = ipv4("192.0.2.9");
    resolve_t *self = a_resolver();
    resolve_name_t *name = hold(self, "ac_1", "a.example");

    memcpy(bytes, &address, sizeof(address));
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        answer_bytes(self, sent[i].number, bytes, lengths[i]);
        cr_assert_str_eq(address_of(name), "none", "%zu bytes", lengths[i]);
        now += RESOLVE_REFRESH_MS;
        resolve_tick(self, now);
    }
    address.sin_family = AF_UNIX;
    answer_bytes(self, sent[sent_count - 1].number, &address, sizeof(address));
    cr_assert_str_eq(address_of(name), "none");
    resolve_destroy(&self);
}

Test(resolve, takes_ipv6_addresses)
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
    const struct sockaddr_storage *got;
    resolve_t *self = a_resolver();
    resolve_name_t *name = hold(self, "", "a.example");

    answer_bytes(self, sent[0].number, &address, sizeof(address));
    cr_assert_eq(resolve_address(name, &got), sizeof(address));
    cr_assert_eq(memcmp(got, &address, sizeof(address)), 0);
    resolve_destroy(&self);
}

Test(resolve, ignores_answers_to_what_was_not_asked)
{
    static const char *const numbers[] = {
        "", "2", "0", "-1", "1x", " 1", "99999999999999999999", "18446744073709551617"};
    struct sockaddr_in address = ipv4("192.0.2.9");
    resolve_t *self = a_resolver();
    resolve_name_t *name = hold(self, "ac_1", "a.example");

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        resolve_answer(self, numbers[i], strlen(numbers[i]), &address, sizeof(address), now);
    cr_assert_str_eq(address_of(name), "none");
    answer(self, 0, "192.0.2.1");
    answer(self, 0, "192.0.2.2"); /* twice */
    cr_assert_str_eq(address_of(name), "192.0.2.1");
    resolve_destroy(&self);
}

/* ---- time ---- */

Test(resolve, asks_again_after_the_refresh_time_and_not_before)
{
    resolve_t *self = a_resolver();

    hold(self, "ac_1", "a.example");
    answer(self, 0, "192.0.2.1");
    now += RESOLVE_REFRESH_MS - 1;
    resolve_tick(self, now);
    cr_assert_eq(sent_count, 1);
    now += 1;
    resolve_tick(self, now);
    cr_assert_eq(sent_count, 2);
    now += RESOLVE_REFRESH_MS; /* no answer: not asked twice at once */
    resolve_tick(self, now);
    cr_assert_eq(sent_count, 2);
    resolve_destroy(&self);
}

Test(resolve, a_query_that_was_not_sent_is_sent_by_the_next_tick)
{
    resolve_t *self = a_resolver();

    helper_is_there = false;
    hold(self, "ac_1", "a.example");
    resolve_tick(self, now);
    cr_assert_eq(sent_count, 0);
    helper_is_there = true;
    resolve_tick(self, now);
    cr_assert_eq(sent_count, 1);
    resolve_tick(self, now);
    cr_assert_eq(sent_count, 1);
    resolve_destroy(&self);
}

Test(resolve, a_new_helper_is_asked_for_what_the_old_one_took_along)
{
    resolve_t *self = a_resolver();
    resolve_name_t *name = hold(self, "ac_1", "a.example");

    hold(self, "ac_1", "b.example");
    answer(self, 0, "192.0.2.1");
    resolve_resend(self, now);
    cr_assert_eq(sent_count, 3);
    cr_assert_str_eq(sent[2].host, "b.example");
    cr_assert_eq(sent[2].number, sent[1].number);
    cr_assert_str_eq(address_of(name), "192.0.2.1");
    resolve_destroy(&self);
}

/* ---- limits ---- */

static void hold_many(resolve_t *self, const char *account, const char *prefix, size_t n)
{
    char host[32];

    for (size_t i = 0; i < n; i++) {
        snprintf(host, sizeof(host), "%s%zu", prefix, i);
        hold(self, account, host);
    }
}

Test(resolve, an_account_has_a_few_queries_at_once)
{
    resolve_t *self = a_resolver();

    hold_many(self, "ac_1", "one", 100);
    cr_assert_eq(sent_count, RESOLVE_ACCOUNT_MAX);
    hold_many(self, "ac_2", "two", 100);
    cr_assert_eq(count_sent("two"), RESOLVE_ACCOUNT_MAX);
    answer(self, 0, "192.0.2.1");
    cr_assert_eq(count_sent("one"), RESOLVE_ACCOUNT_MAX + 1);
    resolve_destroy(&self);
}

Test(resolve, refreshes_leave_room_for_names_never_tried)
{
    resolve_t *self = a_resolver();

    hold_many(self, "ac_1", "old", 10);
    for (size_t i = 0; i < 10; i++)
        answer(self, i, "192.0.2.1");
    now += RESOLVE_REFRESH_MS;
    resolve_tick(self, now);
    cr_assert_eq(count_sent("old"), 10 + RESOLVE_ACCOUNT_AGAIN_MAX);
    hold_many(self, "ac_1", "new", 10);
    cr_assert_eq(count_sent("new"), RESOLVE_ACCOUNT_MAX - RESOLVE_ACCOUNT_AGAIN_MAX);
    resolve_destroy(&self);
}

Test(resolve, in_a_crowd_each_account_has_one_query_and_nothing_is_refreshed)
{
    resolve_t *self = a_resolver();
    char account[16];

    hold(self, "ac_old", "old");
    answer(self, 0, "192.0.2.1");
    for (size_t i = 0; i < 100; i++) {
        snprintf(account, sizeof(account), "ac_%zu", i);
        hold_many(self, account, "dead", 10);
    }
    cr_assert_eq(count_sent("dead"), RESOLVE_QUERIES_MAX);
    now += RESOLVE_REFRESH_MS;
    resolve_tick(self, now);
    cr_assert_eq(count_sent("old"), 1);
    resolve_destroy(&self);
}

Test(resolve, accounts_ask_in_turn)
{
    resolve_t *self = a_resolver();
    size_t before;

    hold_many(self, "ac_1", "one", 1000);
    hold_many(self, "ac_2", "two", 1000);
    for (size_t i = 0; i < 400; i++)
        answer(self, i, "192.0.2.1");
    before = count_sent("one");
    cr_assert(before >= 196 && before <= 208, "%zu", before);
    resolve_destroy(&self);
}

/* ---- waits ---- */

Test(resolve, an_acknowledgement_waits_for_the_first_answer_of_each_name)
{
    resolve_t *self = a_resolver();
    resolve_wait_t *wait = resolve_wait_new();

    resolve_hold(self, "ac_1", "a.example", wait, now);
    resolve_hold(self, "ac_1", "b.example", wait, now);
    cr_assert_eq(resolve_wait_pending(wait), 2);
    answer(self, 0, "192.0.2.1");
    cr_assert_eq(resolve_wait_pending(wait), 1);
    answer(self, 1, NULL);
    cr_assert_eq(resolve_wait_pending(wait), 0);
    resolve_hold(self, "ac_1", "a.example", wait, now); /* known */
    cr_assert_eq(resolve_wait_pending(wait), 0);
    cr_assert_eq(resolve_wait_pending(NULL), 0);
    resolve_wait_drop(wait);
    resolve_wait_drop(NULL);
    resolve_destroy(&self);
}

Test(resolve, a_name_that_goes_is_waited_for_no_more)
{
    resolve_t *self = a_resolver();
    resolve_wait_t *wait = resolve_wait_new();
    resolve_name_t *name;

    hold_many(self, "ac_1", "busy", RESOLVE_ACCOUNT_MAX);
    name = resolve_hold(self, "ac_1", "queued", wait, now);
    cr_assert_eq(resolve_wait_pending(wait), 1);
    resolve_release(self, name, now);
    cr_assert_eq(resolve_wait_pending(wait), 0);
    resolve_wait_drop(wait);
    resolve_destroy(&self);
}

Test(resolve, a_wait_may_be_dropped_before_its_names_are_answered_for)
{
    resolve_t *self = a_resolver();
    resolve_wait_t *wait = resolve_wait_new();

    resolve_hold(self, "ac_1", "a.example", wait, now);
    resolve_wait_drop(wait);
    answer(self, 0, "192.0.2.1");
    resolve_destroy(&self);
}

Test(resolve, an_account_with_a_slow_query_delays_no_change)
{
    resolve_t *self = a_resolver();
    resolve_wait_t *wait = resolve_wait_new();

    hold(self, "ac_1", "slow");
    now += RESOLVE_STUCK_MS + 1;
    resolve_hold(self, "ac_1", "next", wait, now);
    cr_assert_eq(resolve_wait_pending(wait), 0);
    resolve_hold(self, "ac_2", "other", wait, now);
    cr_assert_eq(resolve_wait_pending(wait), 1);
    resolve_wait_drop(wait);
    resolve_destroy(&self);
}

Test(resolve, who_held_up_others_for_long_is_waited_for_no_more)
{
    resolve_t *self = a_resolver();
    resolve_wait_t *wait = resolve_wait_new();

    resolve_hold(self, "ac_1", "slow", wait, now);
    now += RESOLVE_CREDIT_MS + RESOLVE_CREDIT_QUICK_MS - 1;
    resolve_release_spent(self, now);
    cr_assert_eq(resolve_wait_pending(wait), 1);
    now += 1;
    resolve_release_spent(self, now);
    cr_assert_eq(resolve_wait_pending(wait), 0);
    resolve_hold(self, "ac_1", "another", wait, now);
    cr_assert_eq(resolve_wait_pending(wait), 0);
    answer(self, 0, "192.0.2.1");
    resolve_wait_drop(wait);
    resolve_destroy(&self);
}

Test(resolve, an_account_that_comes_back_has_the_credit_that_it_had)
{
    resolve_t *self = a_resolver();
    resolve_wait_t *wait = resolve_wait_new();
    resolve_name_t *name = resolve_hold(self, "ac_1", "slow", wait, now);

    now += RESOLVE_CREDIT_MS + RESOLVE_CREDIT_QUICK_MS;
    resolve_release_spent(self, now);
    resolve_release(self, name, now);
    answer(self, 0, NULL);
    cr_assert_eq(resolve_accounts(self), 1);
    resolve_tick(self, now);
    name = resolve_hold(self, "ac_1", "slow too", wait, now);
    cr_assert_eq(resolve_wait_pending(wait), 0);
    resolve_release(self, name, now);
    answer(self, 1, NULL);
    now += (int64_t)RESOLVE_CREDIT_MS * RESOLVE_CREDIT_BACK_MS;
    resolve_tick(self, now);
    cr_assert_eq(resolve_accounts(self), 0);
    resolve_hold(self, "ac_1", "slow", wait, now);
    cr_assert_eq(resolve_wait_pending(wait), 1);
    resolve_wait_drop(wait);
    resolve_destroy(&self);
}

Test(resolve, credit_counts_overlapping_names_once_and_quick_answers_not)
{
    resolve_credit_t credit;

    resolve_credit_init(&credit, 0);
    resolve_credit_begin(&credit, 0);
    resolve_credit_end(&credit, RESOLVE_CREDIT_QUICK_MS);
    cr_assert_eq(resolve_credit_spent(&credit, RESOLVE_CREDIT_QUICK_MS), 0);
    resolve_credit_begin(&credit, 1000);
    resolve_credit_begin(&credit, 1100);
    resolve_credit_end(&credit, 1200);
    cr_assert_eq(resolve_credit_spent(&credit, 1200), 200 - RESOLVE_CREDIT_QUICK_MS);
    resolve_credit_end(&credit, 1249);
    cr_assert_eq(resolve_credit_spent(&credit, 1249), 249 - RESOLVE_CREDIT_QUICK_MS);
    cr_assert_eq(resolve_credit_spent(&credit, 1250), 248 - RESOLVE_CREDIT_QUICK_MS);
    cr_assert_eq(resolve_credit_spent(&credit, 100000), 0);
}

/* ---- all of it ---- */

enum { ACCOUNTS = 40, HOSTS = 8, HELD = 200 };

/* Whatever comes in whatever order: each name that is held has had a query when enough time went
 * by, no account passes its limits, and nothing is left in the end. The invariants watch, too. */
static void run_history(unsigned seed)
{
    resolve_t *self = a_resolver();
    resolve_name_t *held[HELD] = {NULL};
    resolve_wait_t *wait = NULL;
    size_t answered = 0;
    char account[16], host[16];

    srand(seed);
    sent_count = 0;
    for (int step = 0; step < 3000; step++) {
        size_t i = (size_t)rand() % HELD;

        now += rand() % 40;
        switch (rand() % 8) {
        case 0:
        case 1:
        case 2:
            if (held[i]) {
                resolve_release(self, held[i], now);
                held[i] = NULL;
                break;
            }
            snprintf(account, sizeof(account), "ac_%d", rand() % ACCOUNTS);
            snprintf(host, sizeof(host), "h%d", rand() % HOSTS);
            held[i] = resolve_hold(self, account, host, wait, now);
            break;
        case 3:
            resolve_wait_drop(wait);
            wait = rand() % 2 ? resolve_wait_new() : NULL;
            break;
        case 4:
            resolve_tick(self, now);
            break;
        case 5:
            resolve_release_spent(self, now);
            break;
        default:
            if (answered < sent_count)
                answer(self, answered++, rand() % 3 ? "192.0.2.1" : NULL);
        }
    }
    for (size_t i = 0; i < HELD; i++)
        if (held[i])
            resolve_release(self, held[i], now);
    while (answered < sent_count)
        answer(self, answered++, NULL);
    cr_assert_eq(resolve_untried(self), 0, "seed %u", seed);
    cr_assert_eq(resolve_wait_pending(wait), 0, "seed %u", seed);
    now += (int64_t)100 * RESOLVE_CREDIT_MS * RESOLVE_CREDIT_BACK_MS;
    resolve_tick(self, now);
    cr_assert_eq(resolve_accounts(self), 0, "seed %u", seed);
    resolve_wait_drop(wait);
    resolve_destroy(&self);
}

Test(resolve, nothing_is_left_behind_by_any_history)
{
    for (unsigned seed = 1; seed <= 200; seed++)
        run_history(seed);
}
