#include "services/cli/tail.h"
#include "common/base/memory.h"
#include "common/bus/bus.h"
#include "common/base/cleanup.h"
#include "services/cli/gaps.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    POLL_MS = 200,
    BURST = 1000,      /* events before the loop does anything else */
    IDLE_MS = 1000,    /* without an event, before the log is asked whether there were any */
    HEADS_MS = 2000,   /* between two such questions */
    LOG_WAIT_MS = 1000 /* for an answer of the log; events wait meanwhile */
};

typedef struct tail {
    zsock_t *sub, *log;
    const char *prefix;
    gaps_t gaps;
    int64_t event_ms, heads_ms;
} tail_t;

/* Print an event without its number, which is for the subscriber only. */
static void print_event(json_t *event)
{
    _cleanup_(free_mem) char *text = NULL;

    json_object_del(event, "sequence");
    text = json_dumps(event, JSON_COMPACT);
    if (text)
        printf("%s\n", text);
}

static void take_event(tail_t *self)
{
    zmsg_t *msg = zmsg_recv(self->sub);
    _cleanup_(json_clear_ref) json_t *event = NULL;
    _cleanup_(free_mem) char *topic = msg ? zmsg_popstr(msg) : NULL;
    zframe_t *body = msg ? zmsg_pop(msg) : NULL;

    self->event_ms = bus_mono_ms();
    if (body && !frame_json(body, &event) && json_is_object(event)) {
        int64_t number = json_integer_value(json_object_get(event, "sequence"));

        if (number < 1 || gaps_seen(&self->gaps, topic, number, self->event_ms))
            print_event(event);
    } else if (msg) {
        fprintf(stderr, "warning: skipped an event that cannot be decoded\n");
    }
    zframe_destroy(&body);
    zmsg_destroy(&msg);
}

/* Ask the event service. NULL: no answer, or none for now; the question will be asked again. */
static json_t *ask_log(tail_t *self, const char *verb, json_t *body)
{
    _cleanup_(json_clear_ref) json_t *outcome = NULL;
    json_t *answer = NULL;
    json_int_t code;

    if (!self->log) {
        json_decref(body);
        return NULL;
    }
    if (bus_call(self->log, verb, "", LOG_WAIT_MS, body, &outcome, &answer))
        return NULL;
    code = json_integer_value(json_object_get(outcome, "code"));
    if (code == ERR_MAINTENANCE || code == ERR_BUSY) {
        json_decref(answer);
        return NULL;
    }
    if (code) {
        fprintf(stderr, "warning: %s: %s\n", verb,
                json_string_value(json_object_get(outcome, "msg")));
        json_decref(answer);
        return NULL;
    }
    return answer;
}

/* Ask how far the numbers go: events missed at the end leave no gap behind them. */
static void ask_heads(tail_t *self)
{
    _cleanup_(json_clear_ref) json_t *answer =
        ask_log(self, "event.heads", json_pack("{s:s}", "prefix", self->prefix));
    const char *type;
    json_t *head;

    json_object_foreach(json_object_get(answer, "heads"), type, head)
        gaps_head(&self->gaps, type, json_integer_value(head), !self->gaps.begun, bus_mono_ms());
    self->gaps.begun |= answer != NULL;
}

/* Fetch the events of a gap from the log, page by page. missed is sent once, for the service's
 * counter. False: the log does not answer. *ret_all: all events came. */
static bool fetch_gap(tail_t *self, const char *type, const gap_t *gap, bool *ret_all)
{
    int64_t after = gap->first - 1, missed = gap->last - gap->first + 1, fetched = 0, kept = 0;
    bool more = true;

    *ret_all = false;
    while (more && !zsys_interrupted) {
        _cleanup_(json_clear_ref) json_t *answer = ask_log(
            self, "event.missed",
            json_pack("{s:s, s:I, s:I, s:I, s:I}", "type", type, "first", (json_int_t)gap->first,
                      "last", (json_int_t)gap->last, "after", (json_int_t)after, "missed",
                      (json_int_t)(after < gap->first ? missed : 0)));
        json_t *event;
        size_t i;

        if (!answer && after < gap->first)
            return false;
        if (!answer) {
            fprintf(stderr, "warning: the log answered for %" PRId64 " of them only\n", fetched);
            return true;
        }
        if (after < gap->first) {
            kept = json_integer_value(json_object_get(answer, "kept"));
            fprintf(stderr,
                    "warning: missed %" PRId64 " events of %s, numbers %" PRId64 " to %" PRId64
                    "; the log has %s%" PRId64 " of them%s\n",
                    missed, type, gap->first, gap->last,
                    json_is_true(json_object_get(answer, "beyond")) ? "more than " : "", kept,
                    kept ? ", which follow" : "");
        }
        json_array_foreach(json_object_get(answer, "events"), i, event)
        {
            after = json_integer_value(json_object_get(event, "sequence"));
            print_event(event);
            fetched++;
        }
        more = json_is_true(json_object_get(answer, "more"));
    }
    *ret_all = fetched == missed;
    return true;
}

static void tell_unfetched(const char *type, const gap_t *gap, const char *why)
{
    fprintf(stderr,
            "warning: missed %" PRId64 " events of %s, numbers %" PRId64 " to %" PRId64 "; %s\n",
            gap->last - gap->first + 1, type, gap->first, gap->last, why);
}

/* Print one line for each gap, and the events of it that the log has. While the log does not answer
 * the gap waits. */
static void tell_gaps(tail_t *self)
{
    gap_t *gap = gaps_due(&self->gaps, bus_mono_ms());

    if (gap) {
        bool all;
        const char *type = self->gaps.types[gap->type].name;

        if (!self->log) {
            tell_unfetched(type, gap, "set POSTERN_EVENTS_RPC to get them from the log");
            gaps_told(gap, false);
        } else if (fetch_gap(self, type, gap, &all)) {
            gaps_told(gap, all);
        } else {
            gap->due_ms = bus_mono_ms() + GAP_GRACE_MS;
        }
    }
    if (self->gaps.overflowed) {
        fprintf(stderr, "warning: missed %" PRId64 " events more, in too many places to tell\n",
                self->gaps.overflowed);
        self->gaps.overflowed = 0;
    }
}

int tail_run(zsock_t *sub, zsock_t *log, const char *prefix)
{
    tail_t *self = memory_need(calloc(1, sizeof(*self)), "tail");
    zmq_pollitem_t item = {zsock_resolve(sub), 0, ZMQ_POLLIN, 0};

    self->sub = sub;
    self->log = log;
    self->prefix = prefix;
    while (!zsys_interrupted) {
        int n = 0;

        while (n < BURST && zmq_poll(&item, 1, n ? 0 : POLL_MS) > 0 && !zsys_interrupted) {
            take_event(self);
            n++;
        }
        if (n < BURST && bus_mono_ms() - self->event_ms > IDLE_MS
            && bus_mono_ms() - self->heads_ms > HEADS_MS) {
            self->heads_ms = bus_mono_ms();
            ask_heads(self);
        }
        tell_gaps(self);
    }
    for (gap_t *gap; (gap = gaps_due(&self->gaps, INT64_MAX)); gaps_told(gap, false))
        tell_unfetched(self->gaps.types[gap->type].name, gap, "stopped before the log was asked");
    free(self);
    return EXIT_SUCCESS;
}
