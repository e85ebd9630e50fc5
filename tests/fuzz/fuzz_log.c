/* The config log from several copies to a worker, and to the file of what it was told. Copies say
 * what the bytes say: whatever that is, what a worker or the file has in force is one whole
 * snapshot and the changes behind it, without a gap, and of the log and the revision that it
 * claims. And what copies say of their workers to each other. */
#include "common/resource/roster.h"
#include "services/edge/worker/follow.h"
#include "services/edge/control/merge.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { COPIES = 3, TEXT = 64, FILE_MAX = 256, ROUND = 3000 };

static void check(bool holds)
{
    if (!holds)
        abort();
}

typedef struct in {
    const uint8_t *at, *end;
} in_t;

static unsigned take(in_t *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

/* ---- what a message is said to hold ---- */

typedef struct body {
    int copy, snapshot,
        chunk; /* which of its snapshots, and which part of that; at the end: how many there were */
    char log_id[2]; /* that it really is of: a copy may say another */
    int64_t previous, revision;
    int64_t known; /* the one revision between those that the delta is said to know; 0: none */
    bool bad;      /* cannot be applied */
} body_t;

/* ---- a table: what was applied to it ---- */

typedef struct table {
    bool any;
    int copy, snapshot, chunks;
    char log_id[2];
    int64_t revision; /* up to which nothing is missing */
} table_t;

static bool apply_chunk(table_t *table, const body_t *body)
{
    if (body->bad)
        return false;
    if (!table->any)
        *table = (table_t){.any = true,
                           .copy = body->copy,
                           .snapshot = body->snapshot,
                           .revision = body->revision,
                           .log_id = {body->log_id[0]}};
    check(table->copy == body->copy && table->snapshot == body->snapshot
          && table->chunks == body->chunk && table->log_id[0] == body->log_id[0]
          && table->revision == body->revision);
    table->chunks++;
    return true;
}

static void check_whole(const table_t *table, const body_t *end, const char *log_id,
                        int64_t revision)
{
    check(table->any && table->copy == end->copy && table->snapshot == end->snapshot
          && table->chunks == end->chunk && !strcmp(table->log_id, log_id)
          && table->revision == revision);
}

static bool apply_change(table_t *table, const body_t *body, const char *log_id, int64_t revision)
{
    if (body->bad)
        return false;
    check(!strcmp(table->log_id, log_id) && body->log_id[0] == log_id[0]
          && body->previous <= table->revision && body->revision == revision
          && revision >= table->revision);
    table->revision = revision;
    return true;
}

/* ---- a follower: a worker, or who reads the file ---- */

typedef struct follower {
    follow_t at;
    table_t now, next;
} follower_t;

static void set_text(char out[TEXT], const char *text)
{
    if (out != text)
        snprintf(out, TEXT, "%s", text);
}

static bool apply(follower_t *self, follow_step_t step, const follow_message_t *message,
                  const body_t *body)
{
    switch (step) {
    case FOLLOW_BEGIN:
        self->next = (table_t){0};
        /* fall through */
    case FOLLOW_ADD:
        return apply_chunk(&self->next, body);
    case FOLLOW_END:
        check_whole(&self->next, body, self->at.log_id, message->revision);
        self->now = self->next;
        return true;
    case FOLLOW_CHANGE:
        return apply_change(&self->now, body, self->at.log_id, message->revision);
    case FOLLOW_CURRENT:
        check(!self->at.arriving && !strcmp(message->log_id, self->at.log_id)
              && message->revision == self->at.revision);
        return true;
    default:
        return true;
    }
}

/* FOLLOW_ASK, and FOLLOW_FAILED: of a file, it ends here. */
static follow_step_t follow(follower_t *self, const follow_message_t *message, const body_t *body)
{
    follow_step_t step = follow_take(&self->at, message);

    if (!apply(self, step, message, body)) {
        follow_failed(&self->at, message);
        step = FOLLOW_FAILED;
    }
    check(
        !*self->at.log_id
        || (self->now.revision == self->at.revision && !strcmp(self->now.log_id, self->at.log_id)));
    return step;
}

/* ---- the file: as edge_store.c writes it, records of messages ---- */

typedef struct record {
    int type;
    char log_id[TEXT];
    int64_t previous, revision;
    body_t body;
} record_t;

typedef struct file {
    record_t records[FILE_MAX];
    int count;
} file_t;

static void keep(file_t *file, int type, const char *log_id, int64_t previous, int64_t revision,
                 const body_t *body)
{
    record_t *record = &file->records[file->count];

    if (file->count == FILE_MAX)
        return;
    file->count++;
    *record = (record_t){.type = type, .previous = previous, .revision = revision, .body = *body};
    set_text(record->log_id, log_id);
}

/* From any record on is as well as from the first, as a worker reads what came since; and any end
 * may be torn off. */
static void read_file(const file_t *file, int from, int to)
{
    follower_t reader = {0};

    for (int i = from; i < to && i < file->count; i++) {
        const record_t *record = &file->records[i];
        follow_message_t message = {.kind = record->type,
                                    .log_id = record->log_id,
                                    .previous = record->previous,
                                    .revision = record->revision,
                                    .kept = true};
        follow_step_t step = follow(&reader, &message, &record->body);

        if (step == FOLLOW_ASK || step == FOLLOW_FAILED)
            return;
    }
}

/* ---- the world ---- */

typedef struct copy {
    bool there;
    int snapshot, chunk;
    char log_id[2];
    int64_t revision;
} copy_t;

typedef struct world {
    merge_t merge;
    copy_t copies[COPIES];
    follower_t worker;
    file_t file;
    bool ask; /* the worker says hello, once the message is done with */
    int64_t mark, now_ms;
} world_t;

static bool is_there(void *context, int copy)
{
    const world_t *self = context;

    return self->copies[copy].there;
}

/* What is named to a copy is in force. */
static bool to_copy(void *context, int copy, const merge_frame_t *frames, size_t n)
{
    const world_t *self = context;
    char text[TEXT] = "";

    if (n >= 3 && frames[0].len == 5 && !memcmp(frames[0].data, "hello", 5)) {
        snprintf(text, sizeof(text), "%.*s", (int)frames[2].len, frames[2].data);
        if (strtoll(text, NULL, 10) > 0 && frames[1].len == strlen(self->worker.at.log_id)
            && !memcmp(frames[1].data, self->worker.at.log_id, frames[1].len))
            check(strtoll(text, NULL, 10) <= self->worker.at.revision);
    }
    return self->copies[copy].there;
}

static const char *text_of(const merge_frame_t *frames, size_t n, size_t i, char out[TEXT])
{
    snprintf(out, TEXT, "%.*s", i < n ? (int)frames[i].len : 0, i < n ? frames[i].data : "");
    return out;
}

/* As the helper and the worker do it. */
static void to_worker(void *context, const merge_frame_t *frames, size_t n)
{
    world_t *self = context;
    char word[TEXT], log_id[TEXT], number[TEXT];
    body_t body = {.bad = true};
    follow_message_t message = {.log_id = text_of(frames, n, 1, log_id)};
    bool has_body = n > 4 && frames[4].len == sizeof(body);

    message.kind = follow_kind(text_of(frames, n, 0, word));
    message.previous = strtoll(text_of(frames, n, 2, number), NULL, 10);
    message.revision = strtoll(text_of(frames, n, 3, number), NULL, 10);
    if (has_body)
        memcpy(&body, frames[4].data, sizeof(body));
    if (message.kind == FOLLOW_DELTA && has_body)
        check(n <= 6 && (message.previous == body.previous || message.previous == body.known));
    if (message.kind != FOLLOW_OTHER && message.kind != FOLLOW_BEAT)
        keep(&self->file, message.kind, log_id, message.previous, message.revision, &body);
    if (follow(&self->worker, &message, &body) == FOLLOW_ASK || !strcmp(word, "who"))
        self->ask = true;
}

static const merge_ports_t ports = {is_there, to_copy, to_worker};

static void say_hello(world_t *self)
{
    char revision[24], mark[24];
    const char *log_id = *self->worker.at.log_id ? self->worker.at.log_id : "-";
    merge_frame_t frames[] = {
        {"hello", 5}, {log_id, strlen(log_id)}, {revision, 0}, {"e/0", 3}, {mark, 0}};

    self->ask = false;
    follow_drop(&self->worker.at);
    frames[2].len =
        (size_t)snprintf(revision, sizeof(revision), "%" PRId64, follow_named(&self->worker.at));
    frames[4].len = (size_t)snprintf(mark, sizeof(mark), "%" PRId64, ++self->mark);
    merge_from_worker(&self->merge, frames, 5, self->now_ms);
}

static void acknowledge(world_t *self, int64_t revision)
{
    char text[24];
    merge_frame_t frames[] = {
        {"ack", 3}, {text, 0}, {self->worker.at.log_id, strlen(self->worker.at.log_id)}};

    if (revision > self->worker.at.revision)
        revision = self->worker.at.revision;
    frames[1].len = (size_t)snprintf(text, sizeof(text), "%" PRId64, revision);
    merge_from_worker(&self->merge, frames, 3, self->now_ms);
}

/* body NULL: none. */
static void say(world_t *self, int i, const char *word, const char *log_id, int64_t previous,
                int64_t revision, const body_t *body)
{
    char before[24], number[24], known[48];
    merge_frame_t frames[] = {
        {word, strlen(word)},
        {log_id, strlen(log_id)},
        {before, (size_t)snprintf(before, sizeof(before), "%" PRId64, previous)},
        {number, (size_t)snprintf(number, sizeof(number), "%" PRId64, revision)},
        {(const char *)body, sizeof(*body)},
        {known, 0}};

    if (body && body->known)
        frames[5].len =
            (size_t)snprintf(known, sizeof(known), "%" PRId64 ",%d", body->known, 1 << 30);
    merge_from_copy(&self->merge, i, frames, !body ? 4 : body->known ? 6 : 5, self->now_ms);
}

/* Frames of bytes, behind a word or not. */
static void say_garbage(world_t *self, int i, in_t *in)
{
    static const char *const words[] = {"",    "snapshot", "more", "end",     "delta",
                                        "who", "heard",    "beat", "refused", "ack"};
    const char *word = words[take(in) % (sizeof(words) / sizeof(words[0]))];
    merge_frame_t frames[MERGE_FRAMES_MAX + 2] = {{word, strlen(word)}};
    size_t n = 1, most = take(in) % (MERGE_FRAMES_MAX + 2);

    for (; n < most; n++) {
        size_t len = take(in), left = (size_t)(in->end - in->at);

        len = len < left ? len : left;
        if (n == 4)
            len = len < 8 ? len : 8; /* it shall not pass for a body */
        if (n == 1 && !strcmp(word, "end"))
            len = len == 1 ? 0 : len; /* it has none, so it shall not name a log that there is */
        frames[n] = (merge_frame_t){(const char *)in->at, len};
        in->at += len;
    }
    merge_from_copy(&self->merge, i, frames, n, self->now_ms);
}

static void snapshot_part(world_t *self, int i, unsigned what, in_t *in)
{
    static const char *const words[] = {"snapshot", "more", "end"};
    copy_t *copy = &self->copies[i];
    int part = (int)(what % 3u);
    char log_id[2];
    int64_t revision;
    body_t body;

    if (part == 0) {
        copy->snapshot++;
        copy->chunk = 0;
        copy->log_id[0] = take(in) % 4u ? 'L' : 'M';
        copy->revision = take(in) % 16u;
    } else if (take(in) % 8u == 0) { /* its database is another one */
        copy->log_id[0] = take(in) % 2u ? 'L' : 'M';
        copy->revision = take(in) % 16u;
    }
    log_id[0] = copy->log_id[0];
    log_id[1] = '\0';
    revision = copy->revision;
    body = (body_t){.copy = i,
                    .snapshot = copy->snapshot,
                    .chunk = copy->chunk,
                    .log_id = {log_id[0]},
                    .revision = revision,
                    .bad = take(in) % 16u == 1};
    if (part < 2)
        copy->chunk++;
    say(self, i, words[part], log_id, 0, revision, &body);
}

static void delta(world_t *self, int i, in_t *in)
{
    const char *log_id = take(in) % 4u ? "L" : "M";
    int64_t previous = self->worker.at.revision + take(in) % 7u - 4;
    body_t body = {.copy = i,
                   .log_id = {log_id[0]},
                   .previous = previous,
                   .revision = previous + take(in) % 6u - 1,
                   .known = self->worker.at.revision + take(in) % 4u - 1,
                   .bad = take(in) % 16u == 1};

    say(self, i, "delta", log_id, previous, body.revision, &body);
}

static void turn(world_t *self, in_t *in)
{
    unsigned what = take(in), more;
    int i = (int)(what >> 4) % COPIES;

    self->now_ms += what >> 6;
    switch (what & 15u) {
    case 0:
        self->copies[i].there = !self->copies[i].there;
        break;
    case 1:
        say_hello(self);
        break;
    case 2:
        acknowledge(self, take(in) % 4u ? self->worker.at.revision : take(in) % 16u);
        break;
    case 3:
        say(self, i, "who", "", 0, 0, NULL);
        break;
    case 4:
    case 5:
        say(self, i, "heard", "L", 0, self->mark - (take(in) % 8u ? 0 : 1), NULL);
        break;
    case 6:
        more = take(in);
        say(self, i, "beat", more % 8u ? "L" : "M", 0, self->worker.at.revision + more % 5u - 1,
            NULL);
        break;
    case 7: /* the helper is another one */
        merge_init(&self->merge, COPIES, &ports, self);
        say_hello(self);
        break;
    case 8:
        self->now_ms += ROUND;
        break;
    case 9:
        say_garbage(self, i, in);
        break;
    case 10:
        more = take(in);
        read_file(&self->file, 0, more % 2u ? (int)(more / 2u) : self->file.count);
        break;
    case 11:
    case 12:
        delta(self, i, in);
        break;
    default:
        snapshot_part(self, i, what & 15u ? (what & 15u) - 13u : 0, in);
    }
    if (self->ask)
        say_hello(self);
}

static void try_messages(in_t *in)
{
    world_t *world = calloc(1, sizeof(*world));

    check(world != NULL);
    world->now_ms = ROUND;
    for (int i = 0; i < COPIES; i++)
        world->copies[i].there = true;
    merge_init(&world->merge, COPIES, &ports, world);
    while (in->at < in->end)
        turn(world, in);
    read_file(&world->file, 0, world->file.count);
    free(world);
}

/* ---- copies to each other ---- */

static void see_worker(void *context, const roster_worker_t *worker)
{
    int64_t acked = -1;

    check(worker->name && (worker->lost || roster_hears(context, "L", worker->name, &acked)));
    check(worker->lost || acked == worker->acked);
}

static int take_part(void *context, const char *text)
{
    check(strlen(text) <= ROSTER_BYTES);
    check(roster_take(context, text, 1) >= 0);
    return 0;
}

/* Lines are notifications; then each line is a worker's name that another copy says, and hears
 * back. */
static void try_roster(in_t *in)
{
    size_t size = (size_t)(in->end - in->at);
    char *text = malloc(size + 1), *rest = text, *line;
    roster_t *roster = roster_new("own");
    roster_worker_t workers[FILE_MAX];
    int count = 0;

    check(text && roster);
    memcpy(text, in->at, size);
    text[size] = '\0';
    while ((line = strsep(&rest, "\n"))) {
        (void)roster_take(roster, line, 1);
        if (count < FILE_MAX && strlen(line) < 128) {
            workers[count] = (roster_worker_t){line, count, count % 3 == 0};
            count++;
        }
    }
    roster_each(roster, "L", see_worker, roster);
    check(!roster_write("other", 7, "L", workers, count, take_part, roster));
    roster_each(roster, "L", see_worker, roster);
    (void)roster_lacks(roster, "e/0");
    check(!roster_expire(roster, 1) && roster_copies(roster) >= 1);
    roster_destroy(&roster);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    in_t in = {data, data + size};

    if (take(&in) % 4u)
        try_messages(&in);
    else
        try_roster(&in);
    return 0;
}
