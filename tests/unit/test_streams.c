/* The registry of open streams, and what is judged again: against a plain list. */
#include "services/edge/streams/registry.h"
#include "services/edge/streams/sweeps.h"

#include "common/base/cleanup.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KINDS = STREAM_ALL, NAMES = 6, STREAMS = 400 };

static unsigned random_below(unsigned n)
{
    static uint64_t seed = 20261124;

    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(seed >> 33) % n;
}

/* A stream, and what a plain list would know of it: its names, one of each kind or none, and
 * which was the last change by which it was judged. */
typedef struct toy {
    stream_t stream;
    char names[KINDS][8]; /* "": no key of that kind */
    bool there;
    uint64_t judged;
    uint64_t owed; /* the last number that asked for it */
} toy_t;

static toy_t *toy_of(const stream_t *stream)
{
    return (toy_t *)((char *)stream - offsetof(toy_t, stream));
}

static unsigned keys_of(const stream_t *stream, stream_key_t *keys)
{
    const toy_t *toy = toy_of(stream);
    unsigned n = 0;

    for (int kind = 0; kind < KINDS; kind++)
        if (*toy->names[kind])
            keys[n++] =
                (stream_key_t){(stream_kind_t)kind, toy->names[kind], strlen(toy->names[kind])};
    return n;
}

static stream_key_t key(stream_kind_t kind, const char *name)
{
    return (stream_key_t){kind, name, strlen(name)};
}

static registry_t *a_registry(void)
{
    registry_t *registry = calloc(1, sizeof(*registry));

    registry_init(registry, keys_of);
    return registry;
}

static void index_all(registry_t *registry)
{
    while (registry_index_one(registry, UINT64_MAX))
        ;
}

/* ---- the registry ---- */

Test(registry, finds_those_with_the_key_and_nobody_else)
{
    static toy_t toys[3] = {{.names = {"r1", "e1", "a"}},
                            {.names = {"r2", "e1", "a"}},
                            {.names = {"e1", "r1", "a"}}}; /* the same texts, of other kinds */
    registry_t *registry = a_registry();
    stream_key_t edge = key(STREAM_EDGE, "e1"), route = key(STREAM_ROUTE, "r1"),
                 account = key(STREAM_ACCOUNT, "a"), other = key(STREAM_ENTRY, "r1");

    for (int i = 0; i < 3; i++)
        registry_add(registry, &toys[i].stream, 0);
    cr_assert_eq(registry_count(registry, &edge), 0, "not before it is indexed");
    index_all(registry);
    cr_assert_eq(registry_count(registry, &edge), 2);
    cr_assert_eq(registry_count(registry, &route), 1);
    cr_assert_eq(registry_count(registry, &account), 3);
    cr_assert_eq(registry_count(registry, &other), 0);
    cr_assert_eq(registry_turn(registry, &route), &toys[0].stream);
    cr_assert_eq(registry_turn(registry, &edge), &toys[0].stream);
    cr_assert_eq(registry_turn(registry, &edge), &toys[1].stream);
    cr_assert_eq(registry_turn(registry, &edge), &toys[0].stream);
    cr_assert_null(registry_turn(registry, &other));
    for (int i = 0; i < 3; i++)
        registry_remove(registry, &toys[i].stream);
    cr_assert(registry_is_empty(registry));
    cr_assert_eq(registry_count(registry, &account), 0);
    registry_remove(registry, &toys[0].stream);
    free(registry);
}

Test(registry, indexes_those_only_that_are_older_than_the_change)
{
    static toy_t toys[2] = {{.names = {"r"}}, {.names = {"r"}}};
    registry_t *registry = a_registry();
    stream_key_t route = key(STREAM_ROUTE, "r");

    registry_add(registry, &toys[0].stream, 4);
    registry_add(registry, &toys[1].stream, 5);
    cr_assert(registry_index_one(registry, 5));
    cr_assert_not(registry_index_one(registry, 5));
    cr_assert_eq(registry_count(registry, &route), 1);
    free(registry);
}

/* What the bench of a search is: how many nodes it comes by. With one key for most and another for
 * a few, those few are found in as many steps as there are of them. */
Test(registry, a_search_comes_by_nobody_else)
{
    toy_t *toys = calloc(20000, sizeof(*toys));
    registry_t *registry = a_registry();
    stream_key_t rare = key(STREAM_ROUTE, "rare");

    for (int i = 0; i < 20000; i++) {
        strcpy(toys[i].names[STREAM_ROUTE], i % 5000 ? "often" : "rare");
        strcpy(toys[i].names[STREAM_EDGE], "edge");
        registry_add(registry, &toys[i].stream, 0);
    }
    index_all(registry);
    cr_assert_eq(registry_count(registry, &rare), 4);
    for (int i = 0; i < 8; i++)
        cr_assert_eq(registry_turn(registry, &rare), &toys[i % 4 * 5000].stream);
    for (int i = 0; i < 20000; i++)
        registry_remove(registry, &toys[i].stream);
    for (int i = 0; i < STREAM_BUCKETS; i++)
        cr_assert_null(registry->buckets[i]);
    free(registry);
    free(toys);
}

/* ---- sweeps ---- */

Test(sweeps, judge_each_once_for_all_that_asked_meanwhile)
{
    static toy_t toys[2] = {{.names = {"r1", "e"}}, {.names = {"r2", "e"}}};
    static sweeps_t sweeps;
    registry_t *registry = a_registry();
    stream_key_t edge = key(STREAM_EDGE, "e"), one = key(STREAM_ROUTE, "r1");
    unsigned budget = 100;
    sweep_change_t change;

    sweeps_init(&sweeps, registry);
    registry_add(registry, &toys[0].stream, 0);
    registry_add(registry, &toys[1].stream, 0);
    cr_assert_eq(sweeps_ask(&sweeps, &one, (sweep_change_t){0, 70}), 1);
    cr_assert_eq(sweeps_ask(&sweeps, &edge, (sweep_change_t){1, 80}), 2);
    cr_assert_eq(sweeps_done(&sweeps), 0);
    cr_assert_eq(sweeps_next(&sweeps, &budget, &change), &toys[0].stream);
    cr_assert_eq(change.log, 0);
    cr_assert_eq(change.revision, 70);
    cr_assert_eq(sweeps_next(&sweeps, &budget, &change), &toys[1].stream);
    cr_assert_eq(change.log, 1);
    cr_assert_eq(change.revision, 80);
    cr_assert_null(sweeps_next(&sweeps, &budget, &change));
    cr_assert_eq(sweeps_done(&sweeps), 2);
    cr_assert(sweeps_are_done(&sweeps));
    free(registry);
}

Test(sweeps, what_no_log_asked_for_is_not_booked_to_one_and_takes_none_away)
{
    static toy_t toy = {.names = {"r1", "e"}};
    static sweeps_t sweeps;
    registry_t *registry = a_registry();
    stream_key_t one = key(STREAM_ROUTE, "r1"), other = key(STREAM_ROUTE, "r2");
    const sweep_change_t here = {SWEEPS_NO_LOG, 0};
    unsigned budget = 1000;
    sweep_change_t change;

    sweeps_init(&sweeps, registry);
    registry_add(registry, &toy.stream, 0);
    sweeps_ask(&sweeps, &one, here);
    cr_assert_eq(sweeps_next(&sweeps, &budget, &change), &toy.stream);
    cr_assert_eq(change.log, SWEEPS_NO_LOG);
    cr_assert_null(sweeps_next(&sweeps, &budget, &change));
    sweeps_ask(&sweeps, &one, (sweep_change_t){1, 80});
    sweeps_ask(&sweeps, &one, here);
    cr_assert_eq(sweeps_next(&sweeps, &budget, &change), &toy.stream);
    cr_assert_eq(change.revision, 80);
    cr_assert_null(sweeps_next(&sweeps, &budget, &change));
    sweeps_ask(&sweeps, &other, (sweep_change_t){1, 90});
    for (int i = 0; i < SWEEPS_MAX; i++) {
        char name[16];
        stream_key_t many;

        snprintf(name, sizeof(name), "k%d", i);
        many = key(STREAM_ENTRY, name);
        sweeps_ask(&sweeps, &many, here);
    }
    cr_assert_eq(sweeps_next(&sweeps, &budget, &change), &toy.stream, "all are one sweep");
    cr_assert_eq(change.log, 1);
    cr_assert_eq(change.revision, 90);
    free(registry);
}

Test(sweeps, look_at_no_more_than_they_may)
{
    static toy_t toys[10];
    static sweeps_t sweeps;
    registry_t *registry = a_registry();
    stream_key_t edge = key(STREAM_EDGE, "e");
    sweep_change_t change;
    unsigned judged = 0, turns = 0;

    sweeps_init(&sweeps, registry);
    for (int i = 0; i < 10; i++) {
        strcpy(toys[i].names[STREAM_EDGE], "e");
        registry_add(registry, &toys[i].stream, 0);
    }
    sweeps_ask(&sweeps, &edge, (sweep_change_t){0, 1});
    for (; !sweeps_are_done(&sweeps); turns++) {
        unsigned budget = 3;

        while (sweeps_next(&sweeps, &budget, &change))
            judged++;
        cr_assert(turns < 20);
    }
    cr_assert_eq(judged, 10);
    cr_assert_geq(turns, 6); /* each was looked at twice: to index it, and to judge it */
    free(registry);
}

Test(sweeps, a_change_is_not_put_off_by_those_that_follow)
{
    static toy_t toys[10];
    static sweeps_t sweeps;
    registry_t *registry = a_registry();
    stream_key_t edge = key(STREAM_EDGE, "e");
    sweep_change_t change;
    uint64_t first;

    sweeps_init(&sweeps, registry);
    for (int i = 0; i < 10; i++) {
        strcpy(toys[i].names[STREAM_EDGE], "e");
        registry_add(registry, &toys[i].stream, 0);
    }
    first = sweeps_ask(&sweeps, &edge, (sweep_change_t){0, 1});
    for (int i = 0; i < 20; i++) {
        unsigned budget = 2;

        while (sweeps_next(&sweeps, &budget, &change))
            ;
        sweeps_ask(&sweeps, &edge, (sweep_change_t){0, 2 + i});
    }
    cr_assert_geq(sweeps_done(&sweeps), first);
    free(registry);
}

/* ---- a model ---- */

typedef struct model {
    toy_t toys[STREAMS];
    registry_t *registry;
    sweeps_t sweeps;
    int judged;
} model_t;

static void name_it(toy_t *toy)
{
    for (int kind = 0; kind < KINDS; kind++) {
        toy->names[kind][0] = '\0';
        if (random_below(5))
            snprintf(toy->names[kind], sizeof(toy->names[kind]), "n%u", random_below(NAMES));
    }
}

static void add_or_remove(model_t *model, toy_t *toy)
{
    if (toy->there) {
        registry_remove(model->registry, &toy->stream);
        toy->there = false;
        return;
    }
    name_it(toy);
    toy->there = true;
    toy->judged = toy->owed = model->sweeps.number;
    registry_add(model->registry, &toy->stream, model->sweeps.number);
}

/* It was judged, and found to have other keys. */
static void change_keys(model_t *model, toy_t *toy)
{
    if (!toy->there)
        return;
    registry_remove(model->registry, &toy->stream);
    name_it(toy);
    registry_add(model->registry, &toy->stream, model->sweeps.number);
    toy->judged = toy->owed = model->sweeps.number;
}

static void ask(model_t *model)
{
    char name[8];
    stream_key_t asked = {STREAM_ALL, "", 0};
    uint64_t number;

    if (random_below(12)) {
        snprintf(name, sizeof(name), "n%u", random_below(NAMES + 2));
        asked = key((stream_kind_t)random_below(KINDS), name);
    }
    number = sweeps_ask(&model->sweeps, &asked, (sweep_change_t){0, (int64_t)model->sweeps.number});
    for (int i = 0; i < STREAMS; i++) {
        toy_t *toy = &model->toys[i];

        if (toy->there && (asked.kind == STREAM_ALL || !strcmp(toy->names[asked.kind], name)))
            toy->owed = number;
    }
}

/* What is judged may end, take others along, and others begin. */
static void judge_some(model_t *model)
{
    unsigned budget = random_below(60);
    sweep_change_t change;
    stream_t *stream;

    while ((stream = sweeps_next(&model->sweeps, &budget, &change))) {
        toy_t *toy = toy_of(stream);

        cr_assert(toy->there);
        cr_assert(model->sweeps.list[0].kind == STREAM_ALL || toy->judged < toy->owed,
                  "nobody asked for it");
        cr_assert(change.revision >= 0 && change.revision < (int64_t)model->sweeps.number);
        toy->judged = model->sweeps.number;
        model->judged++;
        if (random_below(3) == 0)
            add_or_remove(model, toy);
        for (unsigned n = random_below(4); n > 0; n--)
            add_or_remove(model, &model->toys[random_below(STREAMS)]);
        if (random_below(4) == 0)
            change_keys(model, &model->toys[random_below(STREAMS)]);
    }
}

/* Whoever was asked for up to what is said to be done has been judged since. */
static void check_done(const model_t *model)
{
    uint64_t done = sweeps_done(&model->sweeps);

    for (int i = 0; i < STREAMS; i++) {
        const toy_t *toy = &model->toys[i];

        if (toy->there && toy->owed <= done)
            cr_assert_geq(toy->judged, toy->owed);
    }
}

static void check_counts(const model_t *model)
{
    for (unsigned n = 0; n < KINDS * NAMES; n++) {
        char name[8];
        stream_key_t one;
        size_t count = 0;

        snprintf(name, sizeof(name), "n%u", n / KINDS);
        one = key((stream_kind_t)(n % KINDS), name);
        for (int i = 0; i < STREAMS; i++)
            count += model->toys[i].stream.state == STREAM_INDEXED
                     && !strcmp(model->toys[i].names[one.kind], name);
        cr_assert_eq(registry_count(model->registry, &one), count);
    }
}

Test(sweeps, agree_with_a_plain_list_while_streams_come_and_go)
{
    model_t *model = calloc(1, sizeof(*model));

    model->registry = a_registry();
    sweeps_init(&model->sweeps, model->registry);
    for (int step = 0; step < 60000; step++) {
        unsigned what = random_below(10);

        if (what < 5)
            add_or_remove(model, &model->toys[random_below(STREAMS)]);
        else if (what < 6)
            change_keys(model, &model->toys[random_below(STREAMS)]);
        else if (what < 8)
            ask(model);
        else
            judge_some(model);
        if (step % 20 == 0)
            check_done(model);
        if (step % 200 == 0)
            check_counts(model);
    }
    while (!sweeps_are_done(&model->sweeps))
        judge_some(model);
    check_done(model);
    cr_assert_eq(sweeps_done(&model->sweeps), model->sweeps.number);
    cr_assert_gt(model->judged, 10000);
    free(model->registry);
    free(model);
}

Test(sweeps, of_more_keys_than_there_is_room_for_judge_every_stream)
{
    model_t *model = calloc(1, sizeof(*model));

    model->registry = a_registry();
    sweeps_init(&model->sweeps, model->registry);
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < 100; i++)
            add_or_remove(model, &model->toys[random_below(STREAMS)]);
        for (int i = 0; i < SWEEPS_MAX + 20; i++) {
            char name[SWEEPS_KEY_BYTES + 2];
            stream_key_t one;

            snprintf(name, sizeof(name), "k%d", i);
            one = key(STREAM_ENTRY, name);
            sweeps_ask(&model->sweeps, &one, (sweep_change_t){0, 0});
            if (random_below(30) == 0)
                judge_some(model);
        }
        for (int i = 0; i < 3; i++)
            ask(model);
        check_done(model);
        if (random_below(2))
            while (!sweeps_are_done(&model->sweeps))
                judge_some(model);
        check_done(model);
    }
    free(model->registry);
    free(model);
}

Test(sweeps, a_key_that_is_too_long_is_everybodys)
{
    static toy_t toy = {.names = {"r"}};
    static sweeps_t sweeps;
    registry_t *registry = a_registry();
    char name[SWEEPS_KEY_BYTES + 2];
    stream_key_t one;
    unsigned budget = 10;
    sweep_change_t change;

    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    one = key(STREAM_ENTRY, name);
    sweeps_init(&sweeps, registry);
    registry_add(registry, &toy.stream, 0);
    sweeps_ask(&sweeps, &one, (sweep_change_t){0, 0});
    cr_assert_eq(sweeps_done(&sweeps), 0);
    cr_assert_eq(sweeps_next(&sweeps, &budget, &change), &toy.stream);
    while (sweeps_next(&sweeps, &budget, &change))
        ;
    cr_assert_eq(sweeps_done(&sweeps), 1);
    free(registry);
}
