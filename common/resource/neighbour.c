#include "common/resource/neighbour.h"
#include "common/resource/waits.h"
#include "common/base/cleanup.h"
#include "common/base/err.h"
#include "common/base/id.h"
#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/base/quote.h"
#include "common/bus/bus.h"

#include <errno.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

enum {
    COPIES_MAX = 16,
    TICK_MS = 50,
    HOPE_MS = 1000, /* how long a question waits for a copy to be connected */
    SILENT_MS =
        2000, /* a copy that says nothing for so long, though it has a question, is silent */
    TRIAL_MS = 10000,    /* how often a silent copy is given a question, beside one that answers */
    SLOW_MS = 4000,      /* a question that a copy has for so long, while it answers others, */
    SLOW_MAX = 8,        /* is asked a second time, but never more than so many at once */
    REQUEST_ID_LEN = 36, /* of an edge's request, and longer than the gateway's */
    BURST_MAX = 64       /* answers taken before the loop does anything else */
};

/* How good a copy is for a question. */
enum { LIVE_NEW, LIVE_AGAIN, SILENT_NEW, SILENT_AGAIN };

typedef struct copy {
    zsock_t *socket;
    int64_t heard_ms; /* when it answered last */
    int64_t trial_ms; /* of a silent one: when it may be tried */
    bool is_silent;
    bool is_gone; /* no connection: what it was asked is lost */
} copy_t;

typedef struct question {
    struct question *next;
    void *job;
    char verb[64], account[64], id[ID_MAX];
    json_t *body;
    int copy;       /* that has it, and was asked last; -1: none */
    unsigned tried; /* copies that were asked, a bit for each */
    unsigned asked; /* those of them that have not refused it */
    bool is_lost;   /* its copy is gone, and no other one was there */
    bool is_slow;   /* it was asked a second time, though its copy may answer still */
    int64_t since_ms, sent_ms, until_ms;
} question_t;

struct neighbour {
    zloop_t *loop;
    const char *service;
    copy_t copies[COPIES_MAX];
    int count, next_copy, timer;
    question_t *first;
    neighbour_said_fn said;
    void *context;
    struct {
        uint64_t asked, again, tried, unanswered;
    } metrics;
};

static void question_free(question_t **self_p)
{
    question_t *self = take(*self_p);

    json_decref(self->body);
    free(self);
}

/* ---- asking ---- */

/* Send it to that copy. False: that copy is not connected, or the message cannot be made. */
static bool send_to(neighbour_t *self, question_t *question, int copy, int64_t now)
{
    zmsg_t *msg = request_encode(question->verb, question->id, NULL, question->account,
                                 question->until_ms - now, NULL, json_incref(question->body));
    bool is_sent = msg && !zmsg_send(&msg, self->copies[copy].socket);

    zmsg_destroy(&msg);
    if (!is_sent)
        return false;
    question->copy = copy;
    question->tried |= 1u << copy;
    question->asked |= 1u << copy;
    question->is_lost = false;
    question->sent_ms = now;
    self->next_copy = (copy + 1) % self->count;
    return true;
}

/* Send it to the best copy that is connected, none that is worse than that. False: none is. */
static bool send_to_best(neighbour_t *self, question_t *question, int worst, int64_t now)
{
    for (int rank = 0; rank <= worst; rank++)
        for (int i = 0; i < self->count; i++) {
            int copy = (self->next_copy + i) % self->count;
            int its_rank = (self->copies[copy].is_silent ? SILENT_NEW : LIVE_NEW)
                           + (question->tried >> copy & 1);

            if (its_rank == rank && send_to(self, question, copy, now))
                return true;
        }
    return false;
}

/* A silent copy shows that it answers again by a question that costs nobody any time: another copy
 * has it, too. */
static void try_silent(neighbour_t *self, question_t *question, int64_t now)
{
    for (int i = 0; i < self->count; i++) {
        copy_t *copy = &self->copies[i];

        if (!copy->is_silent || now < copy->trial_ms)
            continue;
        copy->trial_ms = now + TRIAL_MS;
        if (send_to(self, question, i, now)) {
            self->metrics.tried++;
            return;
        }
    }
}

static void ask_first(neighbour_t *self, question_t *question, int64_t now)
{
    try_silent(self, question, now);
    send_to_best(self, question, question->copy < 0 ? SILENT_NEW : LIVE_NEW, now);
}

/* Copies of this service may ask for one request at the same time, so chance tells their questions
 * apart. */
static void name_question(question_t *question, const char *id)
{
    unsigned char chance[8];
    char hex[2 * sizeof(chance) + 1];

    randombytes_buf(chance, sizeof(chance));
    sodium_bin2hex(hex, sizeof(hex), chance, sizeof(chance));
    snprintf(question->id, sizeof(question->id), "%.*s.%s", REQUEST_ID_LEN, id, hex);
}

void neighbour_ask(neighbour_t *self, const char *id, const char *verb, const char *account,
                   json_t *body, int64_t until_ms, void *job)
{
    question_t *question = memory_new(sizeof(*question), "a question to another service");
    int64_t now = bus_mono_ms();

    question->job = job;
    question->body = body;
    question->copy = -1;
    question->since_ms = now;
    question->until_ms = until_ms;
    snprintf(question->verb, sizeof(question->verb), "%s", verb);
    snprintf(question->account, sizeof(question->account), "%s", account);
    name_question(question, id);
    question->next = self->first;
    self->first = question;
    self->metrics.asked++;
    ask_first(self, question, now); /* else the next tick tries again */
}

/* ---- answers ---- */

static void end_question(neighbour_t *self, question_t *question, int code, const char *why,
                         json_t *body)
{
    question_t **at = &self->first;
    void *job = question->job;

    while (*at != question)
        at = &(*at)->next;
    *at = question->next;
    question_free(&question);
    self->said(self->context, job, code, why, body);
}

static question_t *question_find(const neighbour_t *self, const char *id)
{
    question_t *one = self->first;

    while (one && strcmp(one->id, id) != 0)
        one = one->next;
    return one;
}

/* Is another copy at work on it, as far as can be seen? */
static bool is_with_another(neighbour_t *self, question_t *question)
{
    for (int i = 0; i < self->count; i++)
        if (question->asked >> i & 1 && !self->copies[i].is_silent && !self->copies[i].is_gone) {
            question->copy = i;
            question->is_slow = false; /* and may be asked elsewhere, should it stay slow */
            return true;
        }
    return false;
}

/* A copy that cannot answer now says nothing about the others: they may, or be at it already. */
static bool is_passed_on(neighbour_t *self, question_t *question, int copy, int code)
{
    if (code != ERR_BUSY && code != ERR_MAINTENANCE)
        return false;
    question->asked &= ~(1u << copy);
    if (is_with_another(self, question))
        return true;
    if (!send_to_best(self, question, LIVE_NEW, bus_mono_ms()))
        return false;
    self->metrics.again++;
    return true;
}

static void take_answer(neighbour_t *self, int copy, zmsg_t *msg)
{
    _cleanup_(json_clear_ref) json_t *outcome = NULL;
    json_t *body = NULL;
    char id[64] = "", why[WAIT_WHY_SIZE];
    const char *said;
    question_t *question;
    int code, r = reply_decode(msg, id, &outcome, &body);

    question = question_find(self, id);
    code = r || !json_is_integer(json_object_get(outcome, "code"))
               ? ERR_INTERNAL
               : (int)json_integer_value(json_object_get(outcome, "code"));
    if (!question || is_passed_on(self, question, copy, code)) {
        json_decref(body);
        return;
    }
    said = json_string_value(json_object_get(outcome, "msg")); /* NULL: another version says none */
    quote_plain(why, sizeof(why), said ? said : "");
    if (code)
        json_clear_ref(&body);
    end_question(self, question, code, why, body);
}

/* Whatever it says, it works. The number of the copy. */
static int note_heard(neighbour_t *self, const zsock_t *socket)
{
    int copy = 0;

    while (copy < self->count - 1 && self->copies[copy].socket != socket)
        copy++;
    self->copies[copy].heard_ms = bus_mono_ms();
    self->copies[copy].is_silent = false;
    return copy;
}

static int on_answer(zloop_t *loop, zsock_t *socket, void *context)
{
    neighbour_t *self = context;
    int copy = note_heard(self, socket);

    (void)loop;
    for (int i = 0; i < BURST_MAX && zsock_events(socket) & ZMQ_POLLIN; i++) {
        zmsg_t *msg = zmsg_recv(socket);

        if (!msg)
            break;
        take_answer(self, copy, msg);
        zmsg_destroy(&msg);
    }
    return 0;
}

/* Is nobody asked any more? */
static bool is_over(const question_t *question, int64_t now)
{
    return now >= question->until_ms || (question->copy < 0 && now >= question->since_ms + HOPE_MS);
}

/* A connection takes along what its copy was asked. */
static void lose_questions(neighbour_t *self, int copy)
{
    for (question_t *one = self->first; one; one = one->next)
        one->asked &= ~(1u << copy);
}

/* A copy that was away is as good as any when it is back. */
static void look_at_copies(neighbour_t *self)
{
    for (int i = 0; i < self->count; i++) {
        copy_t *copy = &self->copies[i];
        bool is_gone = !(zsock_events(copy->socket) & ZMQ_POLLOUT);

        if (copy->is_gone && !is_gone)
            copy->is_silent = false;
        if (is_gone)
            lose_questions(self, i);
        copy->is_gone = is_gone;
    }
}

/* Has its copy said nothing at all since it has the question? */
static void judge_silence(copy_t *copy, const question_t *question, int64_t now)
{
    if (copy->is_silent || copy->heard_ms >= question->sent_ms
        || now < question->sent_ms + SILENT_MS)
        return;
    copy->is_silent = true;
    copy->trial_ms = now + TRIAL_MS;
}

/* Those that two copies work on because one of them was slow. */
static int count_slow(const neighbour_t *self)
{
    int count = 0;

    for (const question_t *one = self->first; one; one = one->next)
        count += one->is_slow;
    return count;
}

/* Of a copy that is gone a question is lost; one that is silent may have lost it. One that answers
 * others is only slow, and to ask twice would make all of them slower: but a connection that was
 * lost and came back between two looks took questions with it, so a few are. */
static bool ask_elsewhere(neighbour_t *self, question_t *question, int64_t now)
{
    copy_t *copy = &self->copies[question->copy];

    if (copy->is_gone)
        question->is_lost = true;
    if (question->is_lost)
        return send_to_best(self, question, SILENT_AGAIN, now);
    judge_silence(copy, question, now);
    if (copy->is_silent && send_to_best(self, question, LIVE_NEW, now))
        return true;
    if (question->is_slow || now < question->sent_ms + SLOW_MS || count_slow(self) >= SLOW_MAX)
        return false;
    question->is_slow = true;
    return send_to_best(self, question, SILENT_AGAIN, now);
}

static int on_tick(zloop_t *loop, int timer, void *context)
{
    neighbour_t *self = context;
    int64_t now = bus_mono_ms();
    question_t *next;

    (void)loop;
    (void)timer;
    look_at_copies(self);
    for (question_t *one = self->first; one; one = next) {
        next = one->next; /* said only hands the job to a worker: no question is added here */
        if (is_over(one, now)) {
            self->metrics.unanswered++;
            end_question(self, one, ERR_MAINTENANCE, "no copy of the service answers", NULL);
        } else if (one->copy < 0) {
            ask_first(self, one, now);
        } else if (ask_elsewhere(self, one, now)) {
            self->metrics.again++;
        }
    }
    return 0;
}

/* ---- start and stop ---- */

static int connect_copies(neighbour_t *self, const char *endpoints, const char *curve_dir)
{
    _cleanup_(free_mem) char *list = memory_copy(endpoints, "endpoints of a service");
    char *rest = NULL;

    for (char *one = strtok_r(list, ", ", &rest); one; one = strtok_r(NULL, ", ", &rest)) {
        zsock_t *copy;

        if (self->count == COPIES_MAX)
            return fault(-E2BIG, "connect to more than 16 copies of a service");
        copy = bus_connect_peer(one, curve_dir, self->service);
        if (!copy)
            return -ENOTCONN;
        zsock_set_sndtimeo(copy, 0); /* else sending waits for a copy that is not there */
        self->copies[self->count++] = (copy_t){.socket = copy};
        zloop_reader(self->loop, copy, on_answer, self);
        zloop_reader_set_tolerant(self->loop, copy);
    }
    return 0;
}

int neighbour_new(neighbour_t **ret_self, zloop_t *loop, const char *service, const char *endpoints,
                  const char *curve_dir, neighbour_said_fn said, void *context)
{
    neighbour_t *self = memory_new(sizeof(*self), "what another service is asked");

    *ret_self = self;
    self->loop = loop;
    self->service = service;
    self->said = said;
    self->context = context;
    self->timer = zloop_timer(loop, TICK_MS, 0, on_tick, self);
    return connect_copies(self, endpoints, curve_dir);
}

void neighbour_destroy(neighbour_t **self_p)
{
    neighbour_t *self = take(*self_p);

    if (!self)
        return;
    zloop_timer_end(self->loop, self->timer);
    for (int i = 0; i < self->count; i++) {
        zloop_reader_end(self->loop, self->copies[i].socket);
        zsock_destroy(&self->copies[i].socket);
    }
    while (self->first) {
        question_t *one = self->first;

        self->first = one->next;
        question_free(&one);
    }
    free(self);
}

size_t neighbour_metrics(const neighbour_t *self, const char *service, char *out, size_t size)
{
    int n = self ? snprintf(out, size,
                            "postern_%s_asked_total{service=\"%s\"} %" PRIu64 "\n"
                            "postern_%s_asked_again_total{service=\"%s\"} %" PRIu64 "\n"
                            "postern_%s_asked_trials_total{service=\"%s\"} %" PRIu64 "\n"
                            "postern_%s_asked_in_vain_total{service=\"%s\"} %" PRIu64 "\n",
                            service, self->service, self->metrics.asked, service, self->service,
                            self->metrics.again, service, self->service, self->metrics.tried,
                            service, self->service, self->metrics.unanswered)
                 : 0;

    return (size_t)n < size ? (size_t)n : 0;
}
