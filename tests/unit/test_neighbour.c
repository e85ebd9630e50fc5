/* Questions to the copies of another service: who gets them, and which of the answers count. The
 * copies are sockets of the test, in the same loop. */
#include "common/base/cleanup.h"
#include "common/base/err.h"
#include "common/bus/bus.h"
#include "common/codec/pack.h"
#include "common/resource/neighbour.h"

#include <criterion/criterion.h>
#include <string.h>

#define REQUEST "req_0123456789abcdef0123456789abcdef"

enum { COPIES = 3, QUESTIONS = 200, GUARD_MS = 60000 };
enum { TRIAL_MS = 10000, SLOW_MS = 4000, SLOW_MAX = 8 }; /* as in neighbour.c */

typedef enum manner {
    GOOD,       /* answers {"number": of the question} */
    BUSY,       /* has no room */
    SILENT,     /* never answers, but keeps the question */
    SLOW,       /* answers the last question alone */
    WORDLESS,   /* refuses, and says no reason */
    SPEECHLESS, /* refuses, with a reason that is no text */
    CODELESS,   /* answers without a code */
    GARBLED     /* before the answer says what is none, and what answers nothing */
} manner_t;

struct bench;

typedef struct copy {
    struct bench *bench;
    zsock_t *socket;
    char endpoint[64];
    manner_t manner;
    int asked, place;   /* place: questions to all copies before its first one */
    zframe_t *identity; /* of the question that it keeps */
    char id[64];
} copy_t;

typedef struct bench {
    zloop_t *loop;
    neighbour_t *neighbour;
    copy_t copies[COPIES];
    int said[QUESTIONS], code[QUESTIONS], count, wanted, wanted_asked;
    int64_t number[QUESTIONS], began_ms, born_ms;
    char why[160];
    bool is_late;
} bench_t;

/* ---- copies ---- */

static int asked_of(const bench_t *self)
{
    int count = 0;

    for (int i = 0; i < COPIES; i++)
        count += self->copies[i].asked;
    return count;
}

static void send_frames(copy_t *self, zframe_t *identity, const char *id, json_t *outcome,
                        json_t *body)
{
    zmsg_t *msg = zmsg_new();
    zframe_t *to = zframe_dup(identity);
    json_t *const parts[] = {outcome, body};

    zmsg_append(msg, &to);
    zmsg_addstr(msg, id);
    for (size_t i = 0; i < LEN(parts); i++) {
        msgpack_sbuffer packed;

        msgpack_sbuffer_init(&packed);
        cr_assert_eq(pack_json(&packed, parts[i]), 0);
        zmsg_addmem(msg, packed.data, packed.size);
        msgpack_sbuffer_destroy(&packed);
        json_decref(parts[i]);
    }
    zmsg_send(&msg, self->socket);
}

static void answer(copy_t *self, zframe_t *identity, const char *id, json_int_t number)
{
    send_frames(self, identity, id, json_pack("{s:i, s:s}", "code", 0, "msg", ""),
                json_pack("{s:I}", "number", number));
}

static void say_garbage(copy_t *self, zframe_t *identity, const char *id)
{
    zmsg_t *msg = zmsg_new();
    zframe_t *to = zframe_dup(identity);

    zmsg_append(msg, &to); /* and nothing behind it */
    zmsg_send(&msg, self->socket);
    msg = zmsg_new();
    to = zframe_dup(identity);
    zmsg_append(msg, &to);
    zmsg_addstr(msg, "op_nobody");
    zmsg_addstr(msg, "\xff");
    zmsg_addstr(msg, "\xc1");
    zmsg_send(&msg, self->socket);
    answer(self, identity, "op_nobody", 7);
    answer(self, identity, "op_a_name_that_is_longer_than_any_name_of_a_question_may_ever_be", 7);
    (void)id;
}

static void act(copy_t *self, zframe_t *identity, const request_t *request)
{
    json_int_t number = json_integer_value(json_object_get(request->body, "number"));

    switch (self->manner) {
    case BUSY:
        send_frames(self, identity, request->id, json_pack("{s:i}", "code", ERR_BUSY), json_null());
        break;
    case SILENT:
        zframe_destroy(&self->identity);
        self->identity = zframe_dup(identity);
        snprintf(self->id, sizeof(self->id), "%s", request->id);
        break;
    case SLOW:
        if (number == QUESTIONS - 1)
            answer(self, identity, request->id, number);
        break;
    case WORDLESS:
        send_frames(self, identity, request->id, json_pack("{s:i}", "code", ERR_NOT_FOUND),
                    json_pack("{s:i}", "number", 7));
        break;
    case SPEECHLESS:
        send_frames(self, identity, request->id,
                    json_pack("{s:i, s:n}", "code", ERR_NOT_FOUND, "msg"), json_null());
        break;
    case CODELESS:
        send_frames(self, identity, request->id, json_object(), json_pack("{s:i}", "number", 7));
        break;
    case GARBLED:
        say_garbage(self, identity, request->id);
        answer(self, identity, request->id, number);
        break;
    default:
        answer(self, identity, request->id, number);
    }
}

static int on_question(zloop_t *loop, zsock_t *socket, void *context)
{
    copy_t *self = context;
    zmsg_t *msg = zmsg_recv(socket);
    zframe_t *identity = zmsg_pop(msg);
    request_t request;

    (void)loop;
    if (!request_decode(msg, &request)) { /* else it is the hello of a connection */
        if (!self->asked++)
            self->place = asked_of(self->bench) - 1;
        cr_assert(!strncmp(request.id, REQUEST ".", strlen(REQUEST ".")), "%s", request.id);
        act(self, identity, &request);
        request_done(&request);
    }
    zframe_destroy(&identity);
    zmsg_destroy(&msg);
    return 0;
}

static void copy_start(bench_t *bench, copy_t *self, manner_t manner)
{
    static int names;

    *self = (copy_t){.bench = bench, .manner = manner};
    self->socket = zsock_new(ZMQ_ROUTER);
    snprintf(self->endpoint, sizeof(self->endpoint), "inproc://neighbour-%d",
             ++names); /* needs no keys */
    cr_assert_eq(zsock_bind(self->socket, "%s", self->endpoint), 0);
    zloop_reader(bench->loop, self->socket, on_question, self);
}

static void copy_end(copy_t *self)
{
    zframe_destroy(&self->identity);
    if (!self->socket)
        return;
    zloop_reader_end(self->bench->loop, self->socket);
    zsock_destroy(&self->socket);
}

/* ---- the bench ---- */

static void on_said(void *context, void *job, int code, const char *why, json_t *body)
{
    bench_t *self = context;
    size_t i = (size_t)job - 1;

    cr_assert(why);
    cr_assert(!code || !body, "a refusal has no answer");
    self->said[i]++;
    self->count++;
    self->code[i] = code;
    self->number[i] = json_integer_value(json_object_get(body, "number"));
    snprintf(self->why, sizeof(self->why), "%s", why);
    json_decref(body);
}

static void bench_start(bench_t *self, const manner_t *manners, int count)
{
    char endpoints[COPIES * 70] = "";

    *self = (bench_t){.loop = zloop_new(), .born_ms = bus_mono_ms()};
    for (int i = 0; i < count; i++) {
        copy_start(self, &self->copies[i], manners[i]);
        strcat(strcat(endpoints, *endpoints ? "," : ""), self->copies[i].endpoint);
    }
    cr_assert_eq(neighbour_new(&self->neighbour, self->loop, "saml", endpoints, "", on_said, self),
                 0);
}

static void bench_end(bench_t *self)
{
    neighbour_destroy(&self->neighbour);
    for (int i = 0; i < COPIES; i++)
        copy_end(&self->copies[i]);
    zloop_destroy(&self->loop);
}

static int on_tick(zloop_t *loop, int timer, void *context)
{
    bench_t *self = context;

    (void)loop;
    (void)timer;
    self->is_late = bus_mono_ms() - self->began_ms > GUARD_MS;
    return (self->count >= self->wanted && asked_of(self) >= self->wanted_asked) || self->is_late
               ? -1
               : 0;
}

/* Run until so many questions have ended, and copies were asked so often. */
static void bench_run_asked(bench_t *self, int wanted, int wanted_asked)
{
    int timer = zloop_timer(self->loop, 5, 0, on_tick, self);

    self->wanted = wanted;
    self->wanted_asked = wanted_asked;
    self->began_ms = bus_mono_ms();
    zloop_start(self->loop);
    zloop_timer_end(self->loop, timer);
    cr_assert_not(self->is_late, "%d of %d were said", self->count, wanted);
}

static void bench_run(bench_t *self, int wanted)
{
    bench_run_asked(self, wanted, 0);
}

static void ask(bench_t *self, size_t i, int64_t left_ms)
{
    neighbour_ask(self->neighbour, REQUEST ".18446744073709551615", "saml.verify", "ac_1",
                  json_pack("{s:i}", "number", (int)i), bus_mono_ms() + left_ms, (void *)(i + 1));
}

static int asked_again(const bench_t *self)
{
    char text[1024] = "";
    const char *at;

    neighbour_metrics(self->neighbour, "identity", text, sizeof(text));
    at = strstr(text, "asked_again_total{service=\"saml\"} ");
    cr_assert(at, "%s", text);
    return atoi(strchr(at, ' '));
}

/* ---- the claims ---- */

Test(neighbour, each_of_many_questions_gets_its_own_answer_and_copies_take_turns)
{
    bench_t bench;

    bench_start(&bench, (manner_t[]){GOOD, GOOD}, 2);
    for (size_t i = 0; i < QUESTIONS; i++) /* more than are taken at one time */
        ask(&bench, i, GUARD_MS);
    bench_run(&bench, QUESTIONS);
    for (size_t i = 0; i < QUESTIONS; i++) {
        cr_assert_eq(bench.said[i], 1, "question %zu", i);
        cr_assert_eq(bench.code[i], 0);
        cr_assert_eq(bench.number[i], (int64_t)i);
    }
    cr_assert_geq(bench.copies[0].asked, 1);
    cr_assert_geq(bench.copies[1].asked, 1);
    bench_end(&bench);
}

Test(neighbour, a_refusal_without_words_has_none)
{
    static const manner_t manners[] = {WORDLESS, SPEECHLESS};

    for (size_t i = 0; i < LEN(manners); i++) {
        bench_t bench;

        bench_start(&bench, &manners[i], 1);
        ask(&bench, 0, GUARD_MS);
        bench_run(&bench, 1);
        cr_assert_eq(bench.code[0], ERR_NOT_FOUND);
        cr_assert_str_eq(bench.why, "");
        bench_end(&bench);
    }
}

/* An answer is a yes: what does not say so is none. */
Test(neighbour, an_answer_without_a_code_is_no_yes)
{
    bench_t bench;

    bench_start(&bench, (manner_t[]){CODELESS}, 1);
    ask(&bench, 0, GUARD_MS);
    bench_run(&bench, 1);
    cr_assert_eq(bench.code[0], ERR_INTERNAL);
    bench_end(&bench);
}

Test(neighbour, what_is_no_answer_or_answers_nothing_is_passed_over)
{
    bench_t bench;

    bench_start(&bench, (manner_t[]){GARBLED}, 1);
    for (size_t i = 0; i < 3; i++)
        ask(&bench, i, GUARD_MS);
    bench_run(&bench, 3);
    for (size_t i = 0; i < 3; i++)
        cr_assert(bench.said[i] == 1 && !bench.code[i] && bench.number[i] == (int64_t)i);
    bench_end(&bench);
}

Test(neighbour, an_answer_that_comes_too_late_or_twice_is_nobodys)
{
    bench_t bench;
    copy_t *copy = &bench.copies[0];

    bench_start(&bench, (manner_t[]){SILENT}, 1);
    ask(&bench, 0, GUARD_MS);
    bench_run_asked(&bench, 0, 1);
    cr_assert_eq(copy->asked, 1);
    answer(copy, copy->identity, copy->id, 0);
    answer(copy, copy->identity, copy->id, 9);
    bench_run(&bench, 1);
    ask(&bench, 1, 1); /* nobody waits by the time that it is answered */
    bench_run(&bench, 2);
    cr_assert_eq(bench.code[1], ERR_MAINTENANCE);
    answer(copy, copy->identity, copy->id, 9);
    copy->manner = GOOD;
    ask(&bench, 2, GUARD_MS);
    bench_run(&bench, 3);
    cr_assert(bench.said[0] == 1 && bench.said[1] == 1 && bench.said[2] == 1);
    cr_assert(bench.number[0] == 0 && bench.code[2] == 0 && bench.number[2] == 2);
    bench_end(&bench);
}

Test(neighbour, who_has_no_room_passes_a_question_on_until_nobody_has)
{
    bench_t bench;

    bench_start(&bench, (manner_t[]){BUSY, BUSY, GOOD}, 3);
    ask(&bench, 0, GUARD_MS); /* perhaps to the only one that is connected by now */
    bench_run(&bench, 1);
    for (size_t i = 1; i < 10; i++)
        ask(&bench, i, GUARD_MS);
    bench_run(&bench, 10);
    for (size_t i = 1; i < 10; i++)
        cr_assert(!bench.code[i] && bench.number[i] == (int64_t)i, "question %zu: %d", i,
                  bench.code[i]);
    cr_assert_geq(asked_again(&bench), 1);
    bench.copies[2].manner = BUSY;
    ask(&bench, 10, GUARD_MS);
    bench_run(&bench, 11);
    cr_assert_eq(bench.code[10], ERR_BUSY);
    bench_end(&bench);
}

Test(neighbour, a_copy_that_is_gone_costs_a_question_its_time_and_nothing_else)
{
    bench_t bench;

    bench_start(&bench, (manner_t[]){SILENT, SILENT}, 2);
    for (size_t i = 0; i < 4; i++)
        ask(&bench, i, GUARD_MS);
    bench_run_asked(&bench, 0, 4);
    copy_end(&bench.copies[0]);
    bench.copies[1].manner = GOOD;
    bench_run(&bench, 4);
    for (size_t i = 0; i < 4; i++)
        cr_assert(!bench.code[i] && bench.number[i] == (int64_t)i);
    cr_assert_geq(asked_again(&bench), 1);
    bench_end(&bench);
}

/* Two silent copies have the one question: the number of the one that was asked first. */
static int ask_both(bench_t *bench)
{
    bench_start(bench, (manner_t[]){SILENT, SILENT}, 2);
    ask(bench, 0, GUARD_MS);
    bench_run_asked(bench, 0, 2); /* the other one when the first has said nothing for a while */
    cr_assert(bench->copies[0].asked && bench->copies[1].asked);
    return bench->copies[0].place > 0;
}

static void refuse(copy_t *copy)
{
    send_frames(copy, copy->identity, copy->id, json_pack("{s:i}", "code", ERR_BUSY), json_null());
}

/* The copy that was silent is back, with so much to do that it has no room: the other one is at
 * work on the question. */
Test(neighbour, who_has_no_room_does_not_answer_for_a_copy_that_has_the_question_too)
{
    bench_t bench;
    int first = ask_both(&bench), asked = 0;
    copy_t *back = &bench.copies[first], *other = &bench.copies[!first];

    refuse(back);
    back->manner = other->manner = GOOD;
    while (back->asked < 2) { /* what it says now comes behind the refusal */
        cr_assert_lt(++asked, QUESTIONS);
        ask(&bench, (size_t)asked, GUARD_MS);
        bench_run(&bench, asked);
    }
    answer(other, other->identity, other->id, 0);
    bench_run(&bench, asked + 1);
    cr_assert_eq(bench.said[0], 1);
    cr_assert_eq(bench.code[0], 0);
    bench_end(&bench);
}

Test(neighbour, a_question_that_two_copies_have_is_refused_when_neither_has_room)
{
    bench_t bench;
    int first = ask_both(&bench);

    bench.copies[0].manner = bench.copies[1].manner = BUSY;
    refuse(&bench.copies[first]);
    refuse(&bench.copies[!first]);
    bench_run(&bench, 1);
    cr_assert_eq(bench.code[0], ERR_BUSY);
    bench_end(&bench);
}

Test(neighbour, a_silent_copy_costs_those_that_have_come_to_it_their_time_and_nobody_else)
{
    bench_t bench;
    int before;

    bench_start(&bench, (manner_t[]){SILENT, GOOD}, 2);
    ask(&bench, 0, GUARD_MS);
    ask(&bench, 1, GUARD_MS);
    bench_run(&bench, 2);
    before = bench.copies[0].asked;
    cr_assert_geq(before, 1);
    for (size_t i = 2; i < QUESTIONS; i++) {
        ask(&bench, i, GUARD_MS);
        bench_run(&bench, (int)i + 1);
        cr_assert(!bench.code[i] && bench.number[i] == (int64_t)i);
    }
    /* where all of that takes longer than here, it is tried now and then */
    cr_assert_leq(bench.copies[0].asked - before,
                  1 + (int)(bus_mono_ms() - bench.born_ms) / TRIAL_MS);
    bench_end(&bench);
}

Test(neighbour, a_copy_that_was_silent_takes_its_turn_again_when_it_answers)
{
    bench_t bench;
    int before;

    bench_start(&bench, (manner_t[]){SILENT, GOOD}, 2);
    ask(&bench, 0, GUARD_MS);
    ask(&bench, 1, GUARD_MS);
    bench_run(&bench, 2);
    bench.copies[0].manner = GOOD;
    answer(&bench.copies[0], bench.copies[0].identity, bench.copies[0].id, 7); /* too late */
    before = bench.copies[0].asked;
    for (size_t i = 2; bench.copies[0].asked < before + 5; i++) {
        cr_assert_lt(i, QUESTIONS);
        ask(&bench, i, GUARD_MS);
        bench_run(&bench, (int)i + 1);
    }
    bench_end(&bench);
}

/* Who is slow because there is too much to do is not given twice as much. */
Test(neighbour, what_copies_are_only_slow_with_is_asked_twice_for_a_few_questions_at_most)
{
    int64_t until_ms = bus_mono_ms() + 3 * SLOW_MS / 2;
    bench_t bench;

    bench_start(&bench, (manner_t[]){SLOW, SLOW}, 2);
    for (size_t i = 0; i < 40; i++)
        neighbour_ask(bench.neighbour, REQUEST ".1", "saml.verify", "ac_1",
                      json_pack("{s:i}", "number", (int)i), until_ms, (void *)(i + 1));
    for (size_t i = 40; i < 44; i++) /* each of them is heard */
        neighbour_ask(bench.neighbour, REQUEST ".1", "saml.verify", "ac_1",
                      json_pack("{s:i}", "number", QUESTIONS - 1), until_ms, (void *)(i + 1));
    bench_run(&bench, 44);
    for (size_t i = 0; i < 40; i++)
        cr_assert_eq(bench.code[i], ERR_MAINTENANCE);
    cr_assert_leq(asked_again(&bench), SLOW_MAX);
    bench_end(&bench);
}

Test(neighbour, without_anybody_to_ask_the_answer_is_that_nobody_answers)
{
    bench_t bench;

    bench_start(&bench, NULL, 0);
    ask(&bench, 0, GUARD_MS);
    bench_run(&bench, 1);
    cr_assert_eq(bench.code[0], ERR_MAINTENANCE);
    cr_assert(strstr(bench.why, "no copy of the service answers"));
    bench_end(&bench);
    bench_start(&bench, (manner_t[]){GOOD}, 1);
    copy_end(&bench.copies[0]);
    ask(&bench, 0, 1000); /* perhaps sent still, and lost */
    bench_run(&bench, 1);
    cr_assert_eq(bench.code[0], ERR_MAINTENANCE);
    bench_end(&bench);
}

Test(neighbour, has_room_for_sixteen_copies)
{
    char endpoints[17 * 32] = "";
    zloop_t *loop = zloop_new();
    neighbour_t *neighbour = NULL;

    for (int i = 0; i < 17; i++)
        sprintf(endpoints + strlen(endpoints), "%sinproc://nobody-%d", i ? "," : "", i);
    cr_assert_eq(neighbour_new(&neighbour, loop, "saml", endpoints, "", on_said, NULL), -E2BIG);
    neighbour_destroy(&neighbour);
    *strrchr(endpoints, ',') = '\0';
    cr_assert_eq(neighbour_new(&neighbour, loop, "saml", endpoints, "", on_said, NULL), 0);
    neighbour_destroy(&neighbour);
    zloop_destroy(&loop);
}

Test(neighbour, nobody_is_told_of_questions_that_end_with_it)
{
    bench_t bench;

    bench_start(&bench, (manner_t[]){SILENT}, 1);
    ask(&bench, 0, GUARD_MS);
    ask(&bench, 1, GUARD_MS);
    bench_end(&bench);
    cr_assert_eq(bench.count, 0);
    neighbour_destroy(&bench.neighbour);
    cr_assert_eq(neighbour_metrics(NULL, "identity", bench.why, sizeof(bench.why)), 0);
}
