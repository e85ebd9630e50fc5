/* The last configuration on disk, kept in the helper of worker 0, so that no request waits for a
 * disk. What the config log says is on disk before the worker hears of it, and so before it is
 * acknowledged. A change is appended; a snapshot goes to a new file that replaces the old one
 * when it is complete. The file follows the log as a worker does (follow.h), so it never holds
 * what a reader would take for something else. */
#include "services/edge/control/edge_store.h"
#include "services/edge/control/edge_state_file.h"
#include "common/base/invariant.h"
#include "services/edge/worker/edge_apply.h"
#include "services/edge/worker/edge_seat.h"

enum {
    GROWTH = 16 << 20,   /* delta bytes after which a new snapshot is asked for */
    GROWTH_QUIET = 64 << 10,   /* and when nothing is new: most of them may be deletions */
    QUIET_BEATS = 80     /* 20 s, of one copy */
};

static follow_t          kept;      /* what the file in use holds, and the snapshot in the making */
static ngx_uint_t        opened, writing;
static ngx_uint_t        quiet;     /* beats since anything was new */
static store_standing_t  standing;


/* NGX_OK: this helper writes, until edge_seat_write_end. Where another one wrote, its file is read
 * again: what it wrote is there | NGX_DECLINED: another one writes | NGX_ERROR: nobody can tell. */
static ngx_int_t
begin_writing(ngx_uint_t early)
{
    ngx_int_t   rc;
    ngx_uint_t  taken;

    rc = edge_seat_write_begin(early, &taken);
    writing = rc == NGX_OK;
    if (!writing) {
        /* parts of a snapshot that go by meanwhile are missing from its file */
        follow_drop(&kept);
        return rc;
    }
    if (taken || !kept.arriving) {
        follow_drop(&kept);
        edge_state_file_drop_snapshot();
    }
    if (taken || !opened) {
        opened = 1;
        edge_state_file_open(&kept);
    }
    return rc;
}


/* At the helper's start. Where an older master lives its helper goes on writing the file, until
 * there is something for this one to write. */
void
edge_store_open(void)
{
    if (begin_writing(1) == NGX_OK) {
        edge_seat_write_end();
    }
}


/* Whoever reads the file stops at a record that cannot be applied, and never sees those behind
 * it. */
static ngx_uint_t
can_read(const record_t *record)
{
    return record->type == FOLLOW_SNAPSHOT_END
           || edge_apply_can_read(record->body, record->body_len);
}


static ngx_int_t
keep_snapshot(const record_t *record)
{
    ngx_uint_t  was_behind = edge_state_file_is_broken()
                             || standing == STORE_BEHIND;

    if (!can_read(record)) {
        edge_state_file_drop_snapshot();
        return NGX_ERROR;
    }
    if (edge_state_file_snapshot(record) != NGX_OK) {
        return NGX_ERROR;
    }
    if (record->type == FOLLOW_SNAPSHOT_END && was_behind) {
        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "postern: the state file is written again");
    }
    return NGX_OK;
}


/* Each record names the revision of the one before it. */
static ngx_int_t
keep_change(record_t *record)
{
    if (edge_state_file_is_broken()) {
        return NGX_ERROR;   /* it waits for a snapshot */
    }
    if (record->revision == kept.revision) {
        return NGX_OK;      /* nothing is new */
    }
    if (!can_read(record)) {
        edge_state_file_break("keep a change that cannot be read");
        return NGX_ERROR;
    }
    INVARIANT(record->revision > kept.revision);
    record->previous = kept.revision;
    return edge_state_file_change(record);
}


/* A file with a gap would be served as if it were whole, so nothing is appended behind one. */
static void
refuse_change(const follow_message_t *message)
{
    if (message->kind == FOLLOW_DELTA && !edge_state_file_is_broken()) {
        edge_state_file_break("keep a change without the one before it");
    }
}


/* Write what the message says, where it follows on what the file holds. Where that fails the file
 * holds what it did before, and a snapshot that was being written is dropped. */
static void
keep_message(const follow_message_t *message, record_t *record)
{
    follow_t       next = kept;
    ngx_int_t      rc = NGX_ERROR;
    follow_step_t  step = follow_take(&next, message);

    if (kept.arriving && !next.arriving && step != FOLLOW_END) {
        edge_state_file_drop_snapshot();
    }
    kept.arriving = false;
    switch (step) {
    case FOLLOW_BEGIN:
    case FOLLOW_ADD:
    case FOLLOW_END:
        rc = keep_snapshot(record);
        break;
    case FOLLOW_CHANGE:
        rc = keep_change(record);
        break;
    case FOLLOW_ASK:
        refuse_change(message);
        break;
    default:
        break;
    }
    if (rc == NGX_OK) {
        kept = next;
    }
    INVARIANT(kept.arriving == (edge_state_file_is_replacing() != 0));
}


/* After a message that brings the worker to a new revision: does the file hold that, too? */
static void
compare_with(const follow_message_t *message)
{
    standing = !edge_state_file_is_broken()
               && ngx_strcmp(message->log_id, kept.log_id) == 0
               && message->revision <= kept.revision
               ? STORE_KEPT : STORE_BEHIND;
}


static const char *
frame_text(const ngx_str_t *frame, char *out, size_t size)
{
    ngx_cpystrn((u_char *) out, frame->data, ngx_min(frame->len + 1, size));
    return out;
}


static int64_t
frame_number(const ngx_str_t *frame)
{
    char  digits[24];

    return strtoll(frame_text(frame, digits, sizeof(digits)), NULL, 10);
}


/* What the frames say: word, log id, previous revision, revision, body, revisions between. */
static void
read_message(follow_kind_t kind, const ngx_str_t *frames, ngx_uint_t n,
    follow_message_t *message, record_t *record)
{
    ngx_memzero(record, sizeof(*record));
    ngx_memzero(message, sizeof(*message));
    message->kind = record->type = kind;
    message->log_id = frame_text(&frames[1], record->log_id, sizeof(record->log_id));
    message->previous = record->previous = frame_number(&frames[2]);
    message->revision = record->revision = frame_number(&frames[3]);
    if (n > 4) {
        record->body = frames[4].data;
        record->body_len = frames[4].len;
    }
    if (n > 5) {
        message->between = (char *) frames[5].data;
        message->between_len = frames[5].len;
    }
}


static void
store_message(follow_kind_t kind, const ngx_str_t *frames, ngx_uint_t n)
{
    record_t          record;
    follow_message_t  message;

    read_message(kind, frames, n, &message, &record);
    keep_message(&message, &record);
    if (kind == FOLLOW_SNAPSHOT_END || kind == FOLLOW_DELTA) {
        compare_with(&message);
    }
}


/* Does the file hold what the beat names, which is what the worker has? It may be ahead of it
 * with changes that the worker never heard of, because the helper before this one died, and that
 * the database lost when it was put back. */
static ngx_uint_t
is_current(const ngx_str_t *frames, ngx_uint_t n)
{
    follow_t          at = kept;
    record_t          record;
    follow_message_t  message;

    follow_drop(&at);
    read_message(FOLLOW_BEAT, frames, n, &message, &record);
    return follow_take(&at, &message) == FOLLOW_CURRENT;
}


static void
store_news(follow_kind_t kind, const ngx_str_t *frames, ngx_uint_t n)
{
    quiet = 0;
    switch (begin_writing(0)) {
    case NGX_OK:
        store_message(kind, frames, n);
        edge_seat_write_end();
        break;
    case NGX_DECLINED:
        /* the other master's helper writes it before its worker acknowledges it */
        standing = STORE_KEPT;
        break;
    default:
        standing = STORE_BEHIND;
    }
}


/* Nothing is new: the moment to check that the file still holds what was written. */
static void
store_beat(const ngx_str_t *frames, ngx_uint_t n)
{
    quiet++;
    if (standing != STORE_KEPT || !writing || begin_writing(1) != NGX_OK) {
        return;
    }
    if (!edge_state_file_is_there() || edge_state_file_check() != NGX_OK
        || !is_current(frames, n))
    {
        standing = STORE_BEHIND;
    }
    edge_seat_write_end();
}


void
edge_store_message(const ngx_str_t *frames, ngx_uint_t n)
{
    char           word[16];
    follow_kind_t  kind = n ? follow_kind(frame_text(&frames[0], word, sizeof(word)))
                            : FOLLOW_OTHER;

    if (kind == FOLLOW_OTHER || n < 4) {
        return;
    }
    if (kind == FOLLOW_BEAT) {
        store_beat(frames, n);
    } else {
        store_news(kind, frames, n);
    }
}


store_standing_t
edge_store_standing(void)
{
    return standing;
}


ngx_uint_t
edge_store_wants_snapshot(void)
{
    off_t  changes = edge_state_file_change_bytes();
    off_t  snapshot = edge_state_file_snapshot_bytes();

    if (!writing || edge_state_file_is_replacing()) {
        return 0;   /* another one's part, or on its way */
    }
    return edge_state_file_is_broken() || standing == STORE_BEHIND
           ? edge_state_file_has_room()
           : changes > GROWTH + 2 * snapshot
             || (quiet >= QUIET_BEATS
                 && changes > GROWTH_QUIET + snapshot / 4);
}
