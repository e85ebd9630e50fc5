#include "services/edge/control/merge.h"

#include "services/edge/worker/follow.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LAGGING_MAX = 4, /* beats: a copy that stays behind is greeted, its log may be another one */
    HELLO_AGAIN_MS = 750, /* to a copy that did not say that it heard the last */
    /* the worker says hello again sooner, while it waits; later it begins anew: it may have stood
     * still */
    ROUND_MS = 850
};

typedef struct say {
    merge_frame_t frames[MERGE_FRAMES_MAX];
    size_t n;
} say_t;

static void add(say_t *say, const char *text)
{
    say->frames[say->n++] = (merge_frame_t){text, strlen(text)};
}

static const char *text_of(const merge_frame_t *frames, size_t n, size_t i, char out[MERGE_TEXT])
{
    size_t len = i < n ? frames[i].len : 0;

    if (len >= MERGE_TEXT)
        len = MERGE_TEXT - 1;
    if (len)
        memcpy(out, frames[i].data, len);
    out[len] = '\0';
    return out;
}

static int64_t number_of(const merge_frame_t *frames, size_t n, size_t i)
{
    char text[MERGE_TEXT];

    return strtoll(text_of(frames, n, i, text), NULL, 10);
}

void merge_init(merge_t *self, int count, const merge_ports_t *ports, void *context)
{
    memset(self, 0, sizeof(*self));
    self->count = count < MERGE_COPIES_MAX ? count : MERGE_COPIES_MAX;
    self->ports = ports;
    self->context = context;
    self->asked = self->source = self->last_asked = -1;
}

/* ---- to the copies ---- */

/* hello: log id, revision, name, mark. */
static void say_hello(merge_t *self, int i, const char *log_id, int64_t revision, int64_t now_ms)
{
    merge_copy_t *copy = &self->copies[i];
    char number[24];
    say_t say = {.n = 0};

    snprintf(number, sizeof(number), "%" PRId64, revision);
    add(&say, "hello");
    add(&say, log_id);
    add(&say, number);
    add(&say, self->name);
    add(&say, self->mark);
    copy->named = revision;
    copy->hello_ms = now_ms;
    copy->lagging = 0;
    copy->owed = !self->ports->to_copy(self->context, i, say.frames, say.n);
}

/* Names what the worker has for sure: what passed since may not have reached it. */
static void greet(merge_t *self, int i, int64_t now_ms)
{
    if (self->sure)
        say_hello(self, i, self->sure_log, self->sure, now_ms);
    else
        self->copies[i].owed = true;
}

static void say_acked(merge_t *self, int i)
{
    char number[24];
    say_t say = {.n = 0};

    snprintf(number, sizeof(number), "%" PRId64, self->acked);
    add(&say, "ack");
    add(&say, number);
    add(&say, self->sure_log);
    self->ports->to_copy(self->context, i, say.frames, say.n);
}

/* ---- from the worker ---- */

/* Everything is asked of one copy, and each time of the next one: nobody knows which of them
 * will answer. */
static void ask_one(merge_t *self, const char *log_id, int64_t now_ms)
{
    for (int k = 1; k <= self->count; k++) {
        int i = (self->last_asked + k) % self->count;

        if (!self->ports->is_there(self->context, i))
            continue;
        self->asked = self->last_asked = i;
        say_hello(self, i, log_id, 0, now_ms);
        return;
    }
}

/* Nothing that the copy said before counts. But a hello with the mark of the last voids nothing:
 * the worker did not stand still, it hears nothing, and what is on its way behind the answer to
 * that one is right. Of several hellos that the worker says while it waits the answer to the
 * first will do. */
static void begin_round(merge_t *self, int i, int64_t mark, int64_t now_ms)
{
    merge_copy_t *copy = &self->copies[i];

    if (mark != copy->mark && (copy->heard || !copy->mark || now_ms - copy->hello_ms > ROUND_MS)) {
        copy->mark = mark;
        copy->heard = false;
    }
    copy->named = -1;
    copy->hello_ms = now_ms;
    copy->owed = true;
}

static void on_hello(merge_t *self, const merge_frame_t *frames, size_t n, int64_t now_ms)
{
    char log_id[MERGE_TEXT];
    int64_t revision = number_of(frames, n, 2);

    text_of(frames, n, 1, log_id);
    text_of(frames, n, 3, self->name);
    text_of(frames, n, 4, self->mark);
    for (int i = 0; i < self->count; i++)
        begin_round(self, i, number_of(frames, n, 4), now_ms);
    self->asked = self->source = -1;
    self->revision = self->sure = self->acked = 0;
    snprintf(self->log_id, sizeof(self->log_id), "-");
    if (revision <= 0) {
        ask_one(self, log_id, now_ms);
        return;
    }
    snprintf(self->log_id, sizeof(self->log_id), "%s", log_id);
    snprintf(self->sure_log, sizeof(self->sure_log), "%s", log_id);
    self->revision = self->sure = revision;
    for (int i = 0; i < self->count; i++)
        greet(self, i, now_ms);
}

/* ack: revision, log id. Also the sign of life: it goes to all, and those that are owed a hello
 * get it. */
static void on_ack(merge_t *self, const merge_frame_t *frames, size_t n, int64_t now_ms)
{
    int64_t revision = number_of(frames, n, 1);
    char log_id[MERGE_TEXT];
    bool counts = revision > 0 && revision <= self->revision
                  && !strcmp(text_of(frames, n, 2, log_id), self->log_id);

    if (counts) {
        snprintf(self->sure_log, sizeof(self->sure_log), "%s", log_id);
        self->acked = revision;
        self->sure = revision > self->sure ? revision : self->sure;
    }
    for (int i = 0; i < self->count; i++) {
        merge_copy_t *copy = &self->copies[i];
        bool unheard = !copy->heard && now_ms - copy->hello_ms >= HELLO_AGAIN_MS;

        if (self->asked < 0 && self->sure && (copy->owed || unheard))
            greet(self, i, now_ms);
        else
            self->ports->to_copy(self->context, i, frames, n);
    }
}

void merge_from_worker(merge_t *self, const merge_frame_t *frames, size_t n, int64_t now_ms)
{
    char word[MERGE_TEXT];

    text_of(frames, n, 0, word);
    if (!strcmp(word, "hello")) {
        on_hello(self, frames, n, now_ms);
    } else if (!strcmp(word, "ack")) {
        on_ack(self, frames, n, now_ms);
    } else {
        for (int i = 0; i < self->count; i++)
            self->ports->to_copy(self->context, i, frames, n);
    }
}

/* ---- from a copy ---- */

static void pass(merge_t *self, const merge_frame_t *frames, size_t n)
{
    self->ports->to_worker(self->context, frames, n);
}

/* What the copy says from now on it read after that hello of the worker's. */
static void on_heard(merge_t *self, int i, const merge_frame_t *frames, size_t n)
{
    merge_copy_t *copy = &self->copies[i];

    if (!copy->mark || number_of(frames, n, 3) < copy->mark)
        return;
    copy->heard = true;
    pass(self, frames, n);
}

/* It does not know us: another process. Where it was to send everything, or there is nothing
 * that it could be told, the worker decides. */
static void on_who(merge_t *self, int i, const merge_frame_t *frames, size_t n, int64_t now_ms)
{
    if (!*self->name)
        return; /* it will say its first hello soon */
    if (self->source == i || self->asked == i || (self->asked < 0 && !self->sure))
        pass(self, frames, n);
    else if (self->asked < 0)
        greet(self, i, now_ms);
    else
        self->copies[i].owed = true;
}

/* It was asked for, of this copy or of one before it, or is the only way on: another log, a
 * database from a backup, or far behind. */
static bool takes_snapshot(const merge_t *self, int i, const char *log_id, int64_t revision)
{
    int64_t named = self->copies[i].named;

    if (self->asked >= 0)
        return self->source == i || (self->source < 0 && named == 0);
    return strcmp(log_id, self->log_id) || revision < named || (revision > self->revision && named);
}

static void on_snapshot(merge_t *self, int i, const char *log_id, int64_t revision,
                        const merge_frame_t *frames, size_t n)
{
    if (!takes_snapshot(self, i, log_id, revision)) {
        self->copies[i].owed = true;
        return;
    }
    self->asked = self->source = i;
    pass(self, frames, n);
}

static void on_end(merge_t *self, const char *log_id, int64_t revision, const merge_frame_t *frames,
                   size_t n)
{
    snprintf(self->log_id, sizeof(self->log_id), "%s", log_id);
    self->revision = revision;
    self->sure = self->acked = 0; /* of this log, or before a backup: the worker says it */
    self->asked = self->source = -1;
    pass(self, frames, n);
}

/* It begins where the worker is, and passes as if it had begun there. */
static void on_delta(merge_t *self, int i, const char *log_id, int64_t revision,
                     const merge_frame_t *frames, size_t n, int64_t now_ms)
{
    follow_message_t delta = {.kind = FOLLOW_DELTA,
                              .log_id = log_id,
                              .previous = number_of(frames, n, 2),
                              .revision = revision,
                              .between = n > 5 ? frames[5].data : NULL,
                              .between_len = n > 5 ? frames[5].len : 0};
    merge_frame_t changed[MERGE_FRAMES_MAX];
    char number[24];

    if (self->asked >= 0) {
        self->copies[i].owed = true;
        return;
    }
    switch (follow_delta(self->log_id, self->revision, &delta)) {
    case FOLLOW_CHANGE:
        snprintf(number, sizeof(number), "%" PRId64, self->revision);
        memcpy(changed, frames, n * sizeof(*frames));
        changed[2] = (merge_frame_t){number, strlen(number)};
        self->revision = revision;
        pass(self, changed, n < 6 ? n : 6);
        break;
    case FOLLOW_NOTHING:
        if (revision <= self->acked) /* it was acknowledged before this copy said it */
            say_acked(self, i);
        break;
    default:
        greet(self, i, now_ms);
    }
}

static void on_beat(merge_t *self, int i, const char *log_id, int64_t revision,
                    const merge_frame_t *frames, size_t n, int64_t now_ms)
{
    merge_copy_t *copy = &self->copies[i];

    if (self->asked >= 0) {
        copy->owed = true;
    } else if (!strcmp(log_id, self->log_id) && revision == self->revision) {
        copy->lagging = 0;
        pass(self, frames, n);
    } else if (strcmp(log_id, self->log_id) || revision > self->revision
               || ++copy->lagging >= (self->count > 1 ? LAGGING_MAX : 1)) {
        greet(self, i, now_ms);
    }
}

void merge_from_copy(merge_t *self, int i, const merge_frame_t *frames, size_t n, int64_t now_ms)
{
    char word[MERGE_TEXT], log_id[MERGE_TEXT];
    int64_t revision = number_of(frames, n, 3);

    if (n > MERGE_FRAMES_MAX)
        return;
    text_of(frames, n, 0, word);
    text_of(frames, n, 1, log_id);
    if (!strcmp(word, "who"))
        on_who(self, i, frames, n, now_ms);
    else if (!strcmp(word, "heard"))
        on_heard(self, i, frames, n);
    else if (strcmp(word, "snapshot") && strcmp(word, "more") && strcmp(word, "end")
             && strcmp(word, "delta") && strcmp(word, "beat"))
        pass(self, frames, n); /* about this edge, not of the log */
    else if (!self->copies[i].heard || n < 4)
        return;
    else if (!strcmp(word, "snapshot"))
        on_snapshot(self, i, log_id, revision, frames, n);
    else if (!strcmp(word, "delta"))
        on_delta(self, i, log_id, revision, frames, n, now_ms);
    else if (!strcmp(word, "beat"))
        on_beat(self, i, log_id, revision, frames, n, now_ms);
    else if (self->source != i)
        return;
    else if (!strcmp(word, "more"))
        pass(self, frames, n);
    else
        on_end(self, log_id, revision, frames, n);
}
