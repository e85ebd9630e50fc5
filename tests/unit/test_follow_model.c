/* The whole way of the config log against the truth: a database, copies of the writer, the merge
 * of what they say, the reader of a worker, and the state file that is written before the worker
 * hears of anything and read back by the next one. Histories are random: changes, connections
 * that break and lose what was on the way, helpers and workers that die anywhere, hellos and
 * acknowledgements that are lost, messages that come twice, databases that are put back to an
 * older state or are replaced by another log, bodies that cannot be read. What is in force must
 * always be what the writer had at that revision of one log; and once nothing fails any more, it
 * must become what the writer has.
 *
 * FOLLOW_HISTORIES=1000000 tries so many, FOLLOW_SEED=n begins with that one: a failure prints
 * its own. */
#include "services/edge/control/merge.h"
#include "services/edge/worker/follow.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    HISTORIES = 20000, /* unless FOLLOW_HISTORIES says otherwise */
    STEPS = 80,        /* of one history at most, before everything works again */
    HEAL_ROUNDS = 60,  /* in which it has to become what the writer has */
    KEYS = 5,
    COMMITS_MAX = 128,
    COPIES = 2,
    QUEUE_MAX = 64,
    RECORDS_MAX = 160,
    CHUNK = 2, /* entries in a part of a snapshot */
    BEAT_MS = 250
};

/* ---- chance ---- */

static uint64_t chance_state;

static unsigned chance(unsigned n)
{
    chance_state ^= chance_state << 13;
    chance_state ^= chance_state >> 7;
    chance_state ^= chance_state << 17;
    return (unsigned)(chance_state >> 33) % n;
}

/* ---- the truth ---- */

typedef struct state {
    int values[KEYS];  /* the commit that wrote the entry; 0: there is none */
    int touched[KEYS]; /* the last commit that wrote or deleted it */
} state_t;

typedef struct commit {
    char log[2];
    int64_t revision;
    int parent; /* 0: none, and commit 0 is nothing */
    state_t state;
} commit_t;

static commit_t commits[COMMITS_MAX];
static int commit_count, database; /* its head */
static int logs;                   /* the name of the next one */
static int pinned; /* a commit that the database does not lose any more: see copy_send_chunk */

static bool is_in_history(int commit, int head)
{
    while (head > commit)
        head = commits[head].parent;
    return head == commit;
}

static bool is_used(const char *log, int64_t revision)
{
    for (int i = 1; i < commit_count; i++)
        if (commits[i].revision == revision && !strcmp(commits[i].log, log))
            return true;
    return false;
}

/* A revision never means two things: one that was lost with a database is not given again. */
static void commit_change(void)
{
    commit_t *next = &commits[commit_count];
    int key = (int)chance(KEYS);

    if (commit_count == COMMITS_MAX)
        return;
    *next = commits[database];
    next->parent = database;
    do
        next->revision += 1 + chance(3);
    while (is_used(next->log, next->revision));
    next->state.values[key] = chance(4) ? commit_count : 0;
    next->state.touched[key] = commit_count;
    database = commit_count++;
}

/* Each database has a log of its own; revisions of two may be the same. */
static void replace_database(void)
{
    if (commit_count == COMMITS_MAX || logs == 'Z' + 1)
        return;
    commits[commit_count] = (commit_t){.log = {(char)logs++}, .revision = 1 + chance(20)};
    commits[commit_count].state.values[0] = commits[commit_count].state.touched[0] = commit_count;
    database = commit_count++;
}

static void put_back_database(void)
{
    for (unsigned n = 1 + chance(4); n && commits[database].parent && database != pinned; n--)
        database = commits[database].parent;
}

static int find_commit(const char *log, int64_t revision)
{
    for (int i = 1; i < commit_count; i++)
        if (commits[i].revision == revision && !strcmp(commits[i].log, log))
            return i;
    return 0;
}

/* ---- messages ---- */

typedef struct body {
    bool bad; /* cannot be read */
    int count, keys[KEYS], values[KEYS];
    /* the head of the database when it was read: a snapshot's entries may be newer than the
     * snapshot */
    int read_at;
} body_t;

typedef struct message {
    const char *word;
    char log[2];
    int64_t previous, revision; /* revision: of "heard" the mark */
    char between[160];
    bool has_body;
    body_t body;
} message_t;

typedef struct queue {
    message_t at[QUEUE_MAX];
    int count;
} queue_t;

static void push(queue_t *queue, const message_t *message)
{
    if (queue->count < QUEUE_MAX)
        queue->at[queue->count++] = *message;
}

static bool pop(queue_t *queue, message_t *message)
{
    if (!queue->count)
        return false;
    *message = queue->at[0];
    memmove(queue->at, queue->at + 1, (size_t)--queue->count * sizeof(queue->at[0]));
    return true;
}

/* ---- a copy of the writer, and what it knows of the worker ---- */

typedef struct copy {
    bool there, knows_worker, in_snapshot;
    int head;    /* as it has read it */
    int highest; /* what it read entries of, at the latest */
    int sent, snapshot_head, next_key;
    queue_t in, out;
} copy_t;

static copy_t copies[COPIES];
static bool faults; /* may anything fail? */

static void copy_say(copy_t *copy, const char *word, int64_t previous, const body_t *body)
{
    int head = copy->in_snapshot ? copy->snapshot_head : copy->head;
    message_t message = {.word = word,
                         .log = {commits[head].log[0]},
                         .previous = previous,
                         .revision = commits[head].revision,
                         .has_body = body != NULL};

    if (body)
        message.body = *body;
    push(&copy->out, &message);
}

static void add_between(message_t *message, int after, int head)
{
    size_t len = 0;

    for (int at = commits[head].parent; at > after; at = commits[at].parent) {
        if (len > sizeof(message->between) - 24)
            return;
        len += (size_t)snprintf(message->between + len, sizeof(message->between) - len,
                                "%s%" PRId64, len ? "," : "", commits[at].revision);
    }
}

static void copy_begin_snapshot(copy_t *copy)
{
    copy->in_snapshot = true;
    copy->snapshot_head = copy->head;
    copy->next_key = 0;
}

/* Everything after a commit up to its head, as one change. */
static void copy_send_change(copy_t *copy, int after)
{
    message_t message = {.word = "delta",
                         .log = {commits[copy->head].log[0]},
                         .previous = commits[after].revision,
                         .revision = commits[copy->head].revision,
                         .has_body = true};
    const state_t *old = &commits[after].state, *new = &commits[copy->head].state;

    for (int key = 0; key < KEYS; key++) {
        if (old->touched[key] == new->touched[key])
            continue;
        message.body.keys[message.body.count] = key;
        message.body.values[message.body.count++] = new->values[key];
    }
    message.body.bad = faults && !chance(60);
    message.body.read_at = copy->head;
    add_between(&message, after, copy->head);
    push(&copy->out, &message);
    if (faults && !chance(20))
        push(&copy->out, &message); /* it comes twice */
    copy->sent = copy->head;
}

/* Its own head is not in the database any more: it begins again with the worker. */
static void copy_look(copy_t *copy)
{
    int old = copy->head;
    bool lost = !is_in_history(copy->highest, database);

    copy->head = copy->highest = database;
    if (!copy->knows_worker)
        return;
    if (lost || (copy->in_snapshot && !is_in_history(copy->snapshot_head, database)))
        copy_begin_snapshot(copy);
    else if (!copy->in_snapshot && copy->sent == old && old != copy->head)
        copy_send_change(copy, old);
}

/* Entries are read when they are sent, so they may be newer than the snapshot. A database that
 * lost such a change behind that would leave it in force: that is the writer's to prevent, so
 * here it loses none that was read so. */
static void copy_send_chunk(copy_t *copy)
{
    int as_of = chance(3) ? copy->snapshot_head : database;
    body_t body = {.bad = faults && !chance(60), .read_at = as_of};
    const char *word = copy->next_key ? "more" : "snapshot";
    int key = copy->next_key;

    if (!is_in_history(copy->highest, database) && chance(2)) {
        copy->head = copy->highest = copy->snapshot_head = database;
        as_of = body.read_at =
            database; /* it goes on with what it finds: of another log, perhaps */
    } else if (!is_in_history(copy->highest, database)) {
        copy_look(copy);
        return;
    }
    if (!is_in_history(copy->snapshot_head, database))
        return;
    copy->highest = as_of > copy->highest ? as_of : copy->highest;
    if (as_of != copy->snapshot_head)
        pinned = as_of;
    for (; key < KEYS && body.count < CHUNK; key++) {
        if (!commits[as_of].state.values[key])
            continue;
        body.keys[body.count] = key;
        body.values[body.count++] = commits[as_of].state.values[key];
    }
    if (body.count || !copy->next_key)
        copy_say(copy, word, 0, &body);
    copy->next_key = key;
    if (key < KEYS)
        return;
    body.count = 0;
    body.bad = false;
    copy_say(copy, "end", 0,
             &body); /* no body is said: only when its parts were read, for is_prefix() */
    copy->in_snapshot = false;
    copy->sent = copy->snapshot_head;
    if (copy->sent != copy->head && is_in_history(copy->sent, copy->head))
        copy_send_change(copy, copy->sent);
    else if (copy->sent != copy->head)
        copy_begin_snapshot(copy);
}

static void copy_hear(copy_t *copy, const message_t *message)
{
    message_t answer = {.word = "heard", .revision = message->previous};
    int has;

    if (strcmp(message->word, "hello") != 0) {
        if (!copy->knows_worker)
            push(&copy->out, &(message_t){.word = "who"});
        return;
    }
    copy->knows_worker = copy->in_snapshot = false;
    copy_look(copy);
    copy->knows_worker = true;
    push(&copy->out, &answer);
    has = find_commit(message->log, message->revision);
    if (has && is_in_history(has, copy->head) && chance(8))
        copy_send_change(copy, has);
    else
        copy_begin_snapshot(copy); /* or it has forgotten deletions since */
}

static void copy_beat(copy_t *copy)
{
    if (copy->knows_worker && !copy->in_snapshot) {
        int head = copy->head;

        copy->head = copy->sent;
        copy_say(copy, "beat", 0, NULL);
        copy->head = head;
    }
}

static void copy_step(copy_t *copy)
{
    message_t message;

    if (pop(&copy->in, &message))
        copy_hear(copy, &message);
    else if (copy->in_snapshot && copy->knows_worker)
        copy_send_chunk(copy);
    else if (chance(2))
        copy_look(copy);
    else
        copy_beat(copy);
}

/* What was on the way is lost. The other process does not know the worker. */
static void copy_cut(copy_t *copy, bool restart)
{
    copy->in.count = copy->out.count = 0;
    copy->knows_worker = copy->knows_worker && !restart;
    copy->in_snapshot = copy->in_snapshot && !restart;
    if (copy->in_snapshot)
        copy->knows_worker = copy->in_snapshot = false; /* its identity is a new one */
}

/* ---- what follows: a worker, and who reads the file ---- */

typedef struct reader {
    follow_t at;
    state_t now, next;
    int now_read_at, next_read_at;
} reader_t;

static bool apply_body(state_t *state, int *read_at, const body_t *body)
{
    if (body->bad)
        return false;
    for (int i = 0; i < body->count; i++)
        state->values[body->keys[i]] = body->values[i];
    *read_at = body->read_at > *read_at ? body->read_at : *read_at;
    return true;
}

static follow_step_t reader_take(reader_t *self, const follow_message_t *message,
                                 const body_t *body)
{
    follow_step_t step = follow_take(&self->at, message);
    bool ok = true;

    switch (step) {
    case FOLLOW_BEGIN:
        memset(&self->next, 0, sizeof(self->next));
        self->next_read_at = 0;
        /* fall through */
    case FOLLOW_ADD:
        ok = apply_body(&self->next, &self->next_read_at, body);
        break;
    case FOLLOW_END:
        self->now = self->next;
        self->now_read_at = body->read_at > self->next_read_at ? body->read_at : self->next_read_at;
        break;
    case FOLLOW_CHANGE:
        ok = apply_body(&self->now, &(int){0}, body);
        break;
    default:
        break;
    }
    if (ok)
        return step;
    follow_failed(&self->at, message);
    return FOLLOW_FAILED;
}

/* The value of an entry at a commit or, of a snapshot that was read later, at any between. */
static bool is_value_of(int key, int value, int commit, int read_at)
{
    for (int at = read_at; at > commit; at = commits[at].parent)
        if (commits[at].state.values[key] == value)
            return true;
    return commits[commit].state.values[key] == value;
}

static bool is_prefix(const reader_t *self)
{
    int commit = find_commit(self->at.log_id, self->at.revision), read_at = self->now_read_at;

    if (!self->at.revision)
        return true;
    if (!commit)
        return false;
    if (!is_in_history(commit, read_at))
        read_at = commit;
    for (int key = 0; key < KEYS; key++)
        if (!is_value_of(key, self->now.values[key], commit, read_at))
            return false;
    return true;
}

/* ---- the state file, as control/edge_store.c keeps it ---- */

typedef struct record {
    int kind;
    char log[FOLLOW_LOG_BYTES];
    int64_t previous, revision;
    body_t body;
} record_t;

typedef struct file {
    record_t records[RECORDS_MAX];
    int count;
} file_t;

static file_t current, fresh;
static follow_t kept;
static bool broken, behind; /* behind: of what a beat says */

static bool append(file_t *file, const record_t *record)
{
    if (file->count == RECORDS_MAX)
        return false;
    file->records[file->count++] = *record;
    return true;
}

static bool keep_snapshot(const record_t *record)
{
    if (record->kind == FOLLOW_SNAPSHOT)
        fresh.count = 0;
    if (!append(&fresh, record) || (faults && !chance(80)))
        return false; /* the disk is full */
    if (record->kind == FOLLOW_SNAPSHOT_END) {
        current.count = fresh.count;
        memcpy(current.records, fresh.records, (size_t)fresh.count * sizeof(record_t));
        broken = false;
    }
    return true;
}

static bool keep_change(record_t *record)
{
    if (broken)
        return false;
    if (record->revision == kept.revision)
        return true;
    record->previous = kept.revision;
    broken = !append(&current, record) || (faults && !chance(80));
    if (broken && current.count)
        current.count -= current.records[current.count - 1].revision == record->revision;
    return !broken;
}

static void keep(const follow_message_t *message, const body_t *body)
{
    follow_t next = kept;
    record_t record = {.kind = message->kind, .revision = message->revision, .body = *body};
    follow_step_t step = follow_take(&next, message);
    bool ok = false;

    snprintf(record.log, sizeof(record.log), "%s", message->log_id);
    kept.arriving = false;
    if (step == FOLLOW_BEGIN || step == FOLLOW_ADD || step == FOLLOW_END)
        ok = !body->bad && keep_snapshot(&record);
    else if (step == FOLLOW_CHANGE && body->bad)
        broken = true;
    else if (step == FOLLOW_CHANGE)
        ok = keep_change(&record);
    else if (step == FOLLOW_ASK && message->kind == FOLLOW_DELTA)
        broken = true;
    if (ok)
        kept = next;
}

/* The file may be ahead of the worker with what the database lost. */
static void keep_beat(const follow_message_t *message)
{
    follow_t at = kept;

    follow_drop(&at);
    behind = follow_take(&at, message) != FOLLOW_CURRENT;
}

static void read_file(reader_t *reader)
{
    memset(reader, 0, sizeof(*reader));
    for (int i = 0; i < current.count; i++) {
        const record_t *record = &current.records[i];
        follow_message_t message = {.kind = record->kind,
                                    .log_id = record->log,
                                    .previous = record->previous,
                                    .revision = record->revision,
                                    .kept = true};
        follow_step_t step = reader_take(reader, &message, &record->body);

        if (step == FOLLOW_ASK || step == FOLLOW_FAILED)
            break;
    }
    follow_drop(&reader->at);
}

static void open_file(void)
{
    const record_t *last = current.count ? &current.records[current.count - 1] : NULL;

    kept = (follow_t){0};
    fresh.count = 0;
    behind = false;
    broken = last && last->kind != FOLLOW_SNAPSHOT_END && last->kind != FOLLOW_DELTA;
    if (last && !broken) {
        snprintf(kept.log_id, sizeof(kept.log_id), "%s", last->log);
        kept.revision = last->revision;
    }
}

/* ---- the worker and its helper ---- */

static merge_t merge;
static reader_t worker;
static int64_t mark, now_ms;
static bool asks, helper_dies;

static bool is_there(void *context, int copy)
{
    (void)context;
    return copies[copy].there;
}

static int64_t frame_number(const merge_frame_t *frames, size_t n, size_t i)
{
    char text[32] = "";

    if (i < n)
        snprintf(text, sizeof(text), "%.*s", (int)frames[i].len, frames[i].data);
    return strtoll(text, NULL, 10);
}

static bool frame_is(const merge_frame_t *frame, const char *word)
{
    return frame->len == strlen(word) && !memcmp(frame->data, word, frame->len);
}

static bool to_copy(void *context, int copy, const merge_frame_t *frames, size_t n)
{
    bool hello = frame_is(&frames[0], "hello");
    message_t message = {.word = hello ? "hello" : "ack"};

    (void)context;
    if (!copies[copy].there)
        return false;
    if (hello) {
        message.log[0] = frames[1].data[0];
        message.revision = frame_number(frames, n, 2);
        message.previous = frame_number(frames, n, 4);
    }
    if (!faults || chance(20))
        push(&copies[copy].in, &message);
    return true;
}

static follow_kind_t kind_of(const merge_frame_t *frames)
{
    char word[16];

    snprintf(word, sizeof(word), "%.*s", (int)frames[0].len, frames[0].data);
    return follow_kind(word);
}

/* First on disk, then to the worker; the helper may die between. */
static void to_worker(void *context, const merge_frame_t *frames, size_t n)
{
    char log[2] = {n > 1 && frames[1].len ? frames[1].data[0] : '\0', '\0'};
    body_t body = {0};
    follow_message_t message = {.kind = kind_of(frames),
                                .log_id = log,
                                .previous = frame_number(frames, n, 2),
                                .revision = frame_number(frames, n, 3)};
    follow_step_t step;

    (void)context;
    if (n > 4 && frames[4].len == sizeof(body))
        memcpy(&body, frames[4].data, sizeof(body));
    if (n > 5) {
        message.between = frames[5].data;
        message.between_len = frames[5].len;
    }
    if (message.kind == FOLLOW_BEAT)
        keep_beat(&message);
    else if (message.kind != FOLLOW_OTHER)
        keep(&message, &body);
    if (helper_dies || (faults && !chance(150))) {
        helper_dies = true;
        return;
    }
    message.between = NULL;
    step = reader_take(&worker, &message, &body);
    asks = asks || step == FOLLOW_ASK || frame_is(&frames[0], "who");
}

static const merge_ports_t ports = {is_there, to_copy, to_worker};

static void say_hello(bool again)
{
    char revision[24], number[24];
    const char *log = *worker.at.log_id ? worker.at.log_id : "-";
    merge_frame_t frames[] = {
        {"hello", 5}, {log, strlen(log)}, {revision, 0}, {"e/0", 3}, {number, 0}};

    follow_drop(&worker.at);
    asks = false;
    mark += !again;
    frames[2].len =
        (size_t)snprintf(revision, sizeof(revision), "%" PRId64, follow_named(&worker.at));
    frames[4].len = (size_t)snprintf(number, sizeof(number), "%" PRId64, mark);
    merge_from_worker(&merge, frames, 5, now_ms);
}

static void acknowledge(void)
{
    char text[24];
    merge_frame_t frames[] = {{"ack", 3}, {text, 0}, {worker.at.log_id, strlen(worker.at.log_id)}};

    if (worker.at.arriving)
        frames[1].len = (size_t)snprintf(text, sizeof(text), "0");
    else
        frames[1].len = (size_t)snprintf(text, sizeof(text), "%" PRId64, worker.at.revision);
    merge_from_worker(&merge, frames, worker.at.arriving ? 2 : 3, now_ms);
}

static void worker_beat(void)
{
    if (broken || behind)
        worker.at.wants_all = true;
    if (worker.at.wants_all && !worker.at.arriving)
        say_hello(false);
    acknowledge();
}

static void start_helper(void)
{
    helper_dies = false;
    for (int i = 0; i < COPIES; i++)
        copy_cut(&copies[i], true);
    open_file();
    merge_init(&merge, COPIES, &ports, NULL);
    say_hello(false);
}

static void start_worker(void)
{
    if (faults && current.count && !chance(8))
        current.count--; /* torn */
    read_file(&worker);
    mark = 0;
    start_helper();
}

static void deliver(int i)
{
    char previous[24], number[24];
    message_t message;
    merge_frame_t frames[6];
    size_t n;

    if (!pop(&copies[i].out, &message))
        return;
    frames[0] = (merge_frame_t){message.word, strlen(message.word)};
    frames[1] = (merge_frame_t){message.log, strlen(message.log)};
    frames[2] = (merge_frame_t){
        previous, (size_t)snprintf(previous, sizeof(previous), "%" PRId64, message.previous)};
    frames[3] = (merge_frame_t){
        number, (size_t)snprintf(number, sizeof(number), "%" PRId64, message.revision)};
    frames[4] = (merge_frame_t){(const char *)&message.body, sizeof(message.body)};
    frames[5] = (merge_frame_t){message.between, strlen(message.between)};
    n = !message.has_body ? 4 : *message.between ? 6 : 5;
    merge_from_copy(&merge, i, frames, n, now_ms);
    if (helper_dies)
        start_helper();
    if (asks)
        say_hello(false);
}

/* ---- histories ---- */

static void step(void)
{
    int i = (int)chance(COPIES);
    reader_t reader;

    now_ms += chance(200);
    switch (chance(32)) {
    case 0:
        copy_cut(&copies[i], chance(2));
        break;
    case 1:
        copies[i].there = !copies[i].there;
        copy_cut(&copies[i], true);
        break;
    case 2:
        put_back_database();
        break;
    case 3:
        if (!chance(4))
            replace_database();
        break;
    case 4:
        start_helper();
        break;
    case 5:
        start_worker();
        break;
    case 6:
        read_file(&reader);
        cr_assert(is_prefix(&reader), "the file holds what never was");
        break;
    case 7:
        say_hello(chance(2));
        break;
    case 8:
    case 9:
        worker_beat();
        break;
    case 10:
    case 11:
    case 12:
        commit_change();
        break;
    default:
        if (chance(2))
            copy_step(&copies[i]);
        else
            deliver(i);
    }
}

static bool is_current(void)
{
    const commit_t *head = &commits[database];
    reader_t reader;

    read_file(&reader);
    return worker.at.revision == head->revision && !strcmp(worker.at.log_id, head->log)
           && !memcmp(worker.now.values, head->state.values, sizeof(head->state.values))
           && !worker.at.arriving && reader.at.revision == head->revision
           && !strcmp(reader.at.log_id, head->log)
           && !memcmp(reader.now.values, head->state.values, sizeof(head->state.values));
}

/* Nothing fails any more: each round is a beat. */
static int heal(void)
{
    int round = 0;

    faults = false;
    for (int i = 0; i < COPIES; i++)
        copies[i].there = true;
    for (; round < HEAL_ROUNDS && !is_current(); round++) {
        now_ms += BEAT_MS;
        for (int i = 0; i < COPIES; i++) {
            copy_look(&copies[i]);
            while (copies[i].in.count || (copies[i].in_snapshot && copies[i].knows_worker))
                copy_step(&copies[i]);
            copy_beat(&copies[i]);
            while (copies[i].out.count)
                deliver(i);
        }
        if (round % 4 == 3 && !is_current())
            say_hello(true); /* the log was silent */
        worker_beat();
    }
    return round;
}

static void begin_history(uint64_t seed)
{
    chance_state = (seed + 1) * 0x9e3779b97f4a7c15u;
    commit_count = 1;
    pinned = 0;
    memset(copies, 0, sizeof(copies));
    logs = 'L';
    replace_database();
    for (int i = 0; i < COPIES; i++) {
        copies[i].there = true;
        copies[i].head = copies[i].highest = copies[i].sent = database;
    }
    current.count = fresh.count = 0;
    now_ms = 10000;
    faults = true;
    start_worker();
}

static void check_history(uint64_t seed)
{
    begin_history(seed);
    for (unsigned n = 1 + chance(STEPS); n; n--) {
        step();
        cr_assert(is_prefix(&worker),
                  "FOLLOW_SEED=%" PRIu64 " FOLLOW_HISTORIES=1: revision %" PRId64
                  " of %s is in force, and is not what the writer had",
                  seed, worker.at.revision, worker.at.log_id);
    }
    cr_assert(heal() < HEAL_ROUNDS,
              "FOLLOW_SEED=%" PRIu64 " FOLLOW_HISTORIES=1: revision %" PRId64
              " of %s stays in force, where the writer has %" PRId64 " of %s",
              seed, worker.at.revision, worker.at.log_id, commits[database].revision,
              commits[database].log);
    cr_assert(is_prefix(&worker), "FOLLOW_SEED=%" PRIu64, seed);
}

static uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

Test(follow_model, what_is_in_force_was_the_writers_once_and_becomes_what_it_has, .timeout = 3600)
{
    uint64_t seed = setting("FOLLOW_SEED", (uint64_t)time(NULL) * 1000000);
    uint64_t count = setting("FOLLOW_HISTORIES", HISTORIES);

    printf("follow_model: FOLLOW_SEED=%" PRIu64 " FOLLOW_HISTORIES=%" PRIu64 "\n", seed, count);
    for (uint64_t i = 0; i < count; i++)
        check_history(seed + i);
}
