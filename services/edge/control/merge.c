#include "services/edge/control/merge.h"

#include "common/base/invariant.h"
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

static void say_add(say_t *say, const char *text)
{
    INVARIANT(say->n < MERGE_FRAMES_MAX);
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

    INVARIANT(i >= 0 && i < self->count);
    snprintf(number, sizeof(number), "%" PRId64, revision);
    say_add(&say, "hello");
    say_add(&say, log_id);
    say_add(&say, number);
    say_add(&say, self->name);
    say_add(&say, self->mark);
    copy->named = revision;
    copy->hello_ms = now_ms;
    copy->lagging = 0;
    copy->owed = !self->ports->to_copy(self->context, i, say.frames, say.n);
}

/* The hello names the revision that the worker said it has: messages that passed since may not have
 * reached it. */
static void greet_copy(merge_t *self, int i, int64_t now_ms)
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
    say_add(&say, "ack");
    say_add(&say, number);
    say_add(&say, self->sure_log);
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

/* The worker said hello: messages that the copy sent before it heard this hello do not count any
 * more. A repeated hello has the mark of the last one and voids nothing: the worker did not stand
 * still, it only hears nothing, and messages behind the answer to the first hello are right. Nor
 * does a new hello while the answer to one before it is still awaited: that answer will do. */
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
        greet_copy(self, i, now_ms);
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
        INVARIANT(self->acked <= self->sure && self->sure <= self->revision);
    }
    for (int i = 0; i < self->count; i++) {
        merge_copy_t *copy = &self->copies[i];
        bool unheard = !copy->heard && now_ms - copy->hello_ms >= HELLO_AGAIN_MS;

        if (self->asked < 0 && self->sure && (copy->owed || unheard))
            greet_copy(self, i, now_ms);
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

static void pass_on(merge_t *self, const merge_frame_t *frames, size_t n)
{
    self->ports->to_worker(self->context, frames, n);
}

/* Messages of the copy count from now on: it sends them after it read that hello of the worker. */
static void on_heard(merge_t *self, int i, const merge_frame_t *frames, size_t n)
{
    merge_copy_t *copy = &self->copies[i];

    if (!copy->mark || number_of(frames, n, 3) < copy->mark)
        return;
    copy->heard = true;
    pass_on(self, frames, n);
}

/* The copy does not know this edge: it is another process than the one that was greeted. Where
 * it was to send everything, or no revision is known that a hello could name, the worker
 * decides. */
static void on_who(merge_t *self, int i, const merge_frame_t *frames, size_t n, int64_t now_ms)
{
    if (!*self->name)
        return; /* it will say its first hello soon */
    if (self->source == i || self->asked == i || (self->asked < 0 && !self->sure))
        pass_on(self, frames, n);
    else if (self->asked < 0)
        greet_copy(self, i, now_ms);
    else
        self->copies[i].owed = true;
}

/* Does the snapshot pass? It was asked for, of this copy or of one before it; or a change cannot
 * lead from what the worker has to what this copy has: another log, a database from a backup, or
 * too far behind. */
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
    pass_on(self, frames, n);
}

static void on_end(merge_t *self, const char *log_id, int64_t revision, const merge_frame_t *frames,
                   size_t n)
{
    snprintf(self->log_id, sizeof(self->log_id), "%s", log_id);
    self->revision = revision;
    self->sure = self->acked = 0; /* of this log, or before a backup: the worker says it */
    self->asked = self->source = -1;
    pass_on(self, frames, n);
}

/* A change passes when it leads on from what the worker has; its previous revision is then replaced
 * by the worker's. */
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
        INVARIANT(n <= MERGE_FRAMES_MAX);
        memcpy(changed, frames, n * sizeof(*frames));
        changed[2] = (merge_frame_t){number, strlen(number)};
        INVARIANT(revision >= self->revision);
        self->revision = revision;
        pass_on(self, changed, n < 6 ? n : 6);
        break;
    case FOLLOW_NOTHING:
        if (revision <= self->acked) /* the worker acknowledged it before this copy sent it */
            say_acked(self, i);
        break;
    default:
        greet_copy(self, i, now_ms);
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
        pass_on(self, frames, n);
    } else if (strcmp(log_id, self->log_id) || revision > self->revision
               || ++copy->lagging >= (self->count > 1 ? LAGGING_MAX : 1)) {
        greet_copy(self, i, now_ms);
    }
}

void merge_from_copy(merge_t *self, int i, const merge_frame_t *frames, size_t n, int64_t now_ms)
{
    char word[MERGE_TEXT], log_id[MERGE_TEXT];
    int64_t revision = number_of(frames, n, 3);

    INVARIANT(i >= 0 && i < self->count);
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
        pass_on(self, frames, n); /* about this edge, not of the log */
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
        pass_on(self, frames, n);
    else
        on_end(self, log_id, revision, frames, n);
}
