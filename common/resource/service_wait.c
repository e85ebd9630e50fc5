/* Requests whose verb waits (waits.h): the reactor makes their HTTP requests, asks their questions,
 * watches their pauses, and gives them to a worker again. */
#include "common/base/cleanup.h"
#include "common/base/err.h"
#include "common/base/invariant.h"
#include "common/base/log.h"
#include "common/base/quote.h"
#include "common/resource/service_internal.h"

#include <errno.h>

enum { REFUSED_MAX = 16 /* requests in a row for which the way out has no room */ };

static void on_said(void *context, void *job, int code, const char *why, json_t *body);

static int start_neighbours(service_t *self)
{
    const char *const *asks = self->spec->asks;
    char setting[32];
    int r = 0;

    for (int i = 0; !r && asks && asks[i]; i++) {
        INVARIANT(i < SERVICE_ASKS_MAX);
        snprintf(setting, sizeof(setting), "%s-rpc", asks[i]);
        r = neighbour_new(&self->neighbours[i], self->loop, asks[i],
                          config_str(self->config, setting), config_str(self->config, "curve-dir"),
                          on_said, self);
    }
    return r;
}

/* The service that a verb of proto/verbs.def is of, if this one asks it; NULL: it does not. */
static neighbour_t *neighbour_of(const service_t *self, const char *verb)
{
    static const struct {
        const char *service, *verb;
    } verbs[] = {
#define VERB(service, name, handler, who, most, shapes) {#service, name},
#include "proto/verbs.def"
    };
    const char *const *asks = self->spec->asks;

    for (size_t row = 0; asks && row < LEN(verbs); row++)
        for (int i = 0; asks[i] && !strcmp(verbs[row].verb, verb); i++)
            if (!strcmp(asks[i], verbs[row].service))
                return self->neighbours[i];
    return NULL;
}

int service_waits_start(service_t *self)
{
    const way_out_t *out = self->spec->way_out;
    unsigned calls = 1, calls_of_one = 1;
    int r;

    if (out) {
        calls = (unsigned)config_int(self->config, out->calls);
        calls_of_one = (unsigned)config_int(self->config, out->calls_of_one);
    }
    self->waits = waits_new(calls, calls_of_one);
    r = start_neighbours(self);
    if (r)
        return r;
    return out ? out->start(&self->outbound, self->loop, self->config) : 0;
}

/* End a request that waits without its verb. */
static void refuse_wait(service_t *self, wait_t *wait, int code)
{
    service_answer_code(self, wait->key, wait->request.id, &wait->identity, code);
    if (wait->admitted)
        waits_forget(self->waits, &wait);
    else
        wait_free(&wait);
}

static void on_fetched(void *context, const outbound_answer_t *answer);

/* Ask its question. True: somebody will answer, or it was answered. */
static bool ask_one(service_t *self, wait_t *wait)
{
    neighbour_t *neighbour = neighbour_of(self, wait->verb);

    if (!neighbour) {
        waits_fetched(self->waits, wait);
        wait_take_said(wait, ERR_MAINTENANCE, "this service asks no other", NULL);
        service_enqueue_again(self, wait);
        return true;
    }
    neighbour_ask(neighbour, wait->request.id, wait->verb, wait->owner, take(wait->question),
                  wait->ask_until_ms, wait);
    return true;
}

/* Nothing is asked: the verb goes on as if nobody had answered. */
static bool end_unasked(service_t *self, wait_t *wait, const char *why)
{
    waits_fetched(self->waits, wait);
    wait_take_end(wait, OUTBOUND_TIMEOUT, why);
    service_enqueue_again(self, wait);
    return true;
}

/* Make a request. False: not now, and it waits on. One that cannot be made at all is answered as
 * one that came to nothing: its verb says what that means. */
static bool send_one(service_t *self, wait_t *wait)
{
    int r = -EINVAL;

    int64_t now = bus_mono_ms();

    if (!wait_shorten(wait, now))
        return end_unasked(self, wait, "too little time is left to ask");
    if (*wait->verb)
        return ask_one(self, wait);
    if (waits_is_silent(self->waits, wait, now))
        return end_unasked(self, wait, "the server did not answer a moment ago");
    if (waits_follow(self->waits, wait))
        return true;
    if (self->outbound)
        r = self->spec->way_out->send(self->outbound, &wait->fetch, on_fetched, wait, &wait->call);
    if (!r)
        return true;
    waits_note_end(self->waits, wait, NULL, now);
    waits_fetched(self->waits, wait);
    if (r == -EDQUOT || r == -EAGAIN) { /* by requests that have ended, but not their resolvers */
        waits_queue(self->waits, wait);
        return false;
    }
    wait_take_end(wait, OUTBOUND_DENIED, "the request is malformed, or plain HTTP");
    service_enqueue_again(self, wait);
    return true;
}

/* Make the requests that there are calls left for. */
static void send_queued(service_t *self)
{
    int refused = 0;
    wait_t *wait;

    while (refused < REFUSED_MAX && (wait = waits_next(self->waits)))
        refused += !send_one(self, wait);
}

static int on_room(zloop_t *loop, int timer, void *context)
{
    service_t *self = context;

    (void)loop;
    (void)timer;
    self->room_is_told = false;
    send_queued(self);
    return 0;
}

/* There is room for another request, as soon as the call has ended that the loop is in. */
static void tell_room(service_t *self)
{
    if (!self->room_is_told)
        self->room_is_told = zloop_timer(self->loop, 1, 1, on_room, self) >= 0;
}

/* What is told to whoever asked names no address, so that nobody learns here what names of the
 * operator's network lead to. */
static void log_denial(const wait_t *wait, const char *why)
{
    const char *host = strstr(wait->fetch.url, "://");
    char name[256];

    host = host ? host + 3 : "";
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(host, "/?#"), host);
    log_warn("no request for account %s goes to %s: %s", wait->fetch.owner, quote(name).text, why);
}

/* Those that wait for the same answer have it too, or make their request by themselves. */
static void share_answer(service_t *self, const wait_t *wait, const outbound_answer_t *answer)
{
    wait_t *other;
    bool shares;

    while ((other = waits_follower(self->waits, wait, answer, &shares))) {
        if (!shares) {
            waits_queue(self->waits, other);
            continue;
        }
        wait_take_answer(other, answer, self->spec->way_out->header);
        waits_answered(self->waits, other);
        service_enqueue_again(self, other);
    }
}

static void on_fetched(void *context, const outbound_answer_t *answer)
{
    wait_t *wait = context;
    service_t *self = wait->service;

    wait->call = NULL;
    waits_fetched(self->waits, wait);
    if (answer->end == OUTBOUND_STOPPED) /* service_waits_drain answers */
        return;
    if (answer->end == OUTBOUND_DENIED)
        log_denial(wait, answer->why);
    waits_note_end(self->waits, wait, &answer->end, bus_mono_ms());
    share_answer(self, wait, answer);
    wait_take_answer(wait, answer, self->spec->way_out->header);
    waits_answered(self->waits, wait);
    service_enqueue_again(self, wait);
    tell_room(self);
}

static void on_said(void *context, void *job, int code, const char *why, json_t *body)
{
    service_t *self = context;
    wait_t *wait = job;

    waits_fetched(self->waits, wait);
    wait_take_said(wait, code, why, body);
    waits_answered(self->waits, wait);
    service_enqueue_again(self, wait);
    tell_room(self);
}

void service_wait_begin(service_t *self, wait_t *wait)
{
    int r = waits_admit(self->waits, wait);

    wait->service = self;
    if (r) {
        self->metrics.refused++;
        refuse_wait(self, wait, ERR_BUSY);
    } else if (wait->fetch.url || *wait->verb) {
        waits_queue(self->waits, wait);
        send_queued(self);
    }
}

void service_waits_tick(service_t *self)
{
    int64_t now = bus_mono_ms();
    wait_t *wait;

    while ((wait = waits_due(self->waits, now)))
        service_enqueue_again(self, wait);
    while ((wait = waits_late_follower(self->waits, now))) {
        wait_take_end(wait, OUTBOUND_TIMEOUT, "the server did not answer in time");
        service_enqueue_again(self, wait);
    }
    send_queued(self);
}

void service_waits_drain(service_t *self)
{
    wait_t *wait;

    if (!self->waits)
        return;
    if (self->spec->way_out && self->outbound)
        self->spec->way_out->stop(&self->outbound);
    for (int i = 0; i < SERVICE_ASKS_MAX; i++)
        neighbour_destroy(&self->neighbours[i]); /* what it was asked is answered below */
    while ((wait = waits_first(self->waits)))
        refuse_wait(self, wait, ERR_MAINTENANCE);
    waits_destroy(&self->waits);
}
