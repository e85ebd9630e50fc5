/* The file of the last configuration, written: in the helper of worker 0, so that no request waits for
 * a disk. What the config log says is on disk before the worker hears of it, and so before it is
 * acknowledged. A delta is appended; a snapshot goes to a new file that replaces the old one when
 * it is complete. Records: edge_store.h, edge_state.c. */
#include "services/edge/control/edge_store.h"
#include "services/edge/worker/edge_seat.h"
#include "services/edge/worker/edge_worker.h"
#include "services/edge/control/record.h"

#include <sys/statvfs.h>

enum {
    GROWTH = 16 << 20,   /* delta bytes after which a new snapshot is asked for */
    GROWTH_QUIET = 64 << 10,   /* and when nothing is new: most of them may be deletions */
    QUIET_BEATS = 80,    /* 20 s, of one copy */
    TAIL = 16            /* a record ends with as much that no other one ends with */
};

/* How a file ends that nobody else has touched. */
typedef struct {
    off_t   size;
    u_char  tail[TAIL];
} file_end_t;

static ngx_fd_t    current = NGX_INVALID_FILE;
static ngx_fd_t    fresh = NGX_INVALID_FILE;   /* a snapshot in the making */
static file_end_t  current_end, fresh_end;
static char        log_id[64];                 /* of the last record of current */
static int64_t     revision;
static off_t       delta_bytes, snapshot_bytes;
static ngx_uint_t  opened, writing;
static ngx_uint_t  quiet;    /* beats since anything was new */
static ngx_uint_t  broken;   /* nothing goes to current before it is replaced */
static off_t       room;     /* that the next try needs */
static ngx_err_t   snapshot_failed;   /* why the last one could not be written; 0: it could */
static store_standing_t  standing;


static void
path_of(char *out, size_t size, const char *suffix)
{
    ngx_snprintf((u_char *) out, size, "%V/config.state%s%Z",
                 &edge_worker.conf->state_dir, suffix);
}


static void
close_file(ngx_fd_t *file)
{
    if (*file != NGX_INVALID_FILE) {
        ngx_close_file(*file);
        *file = NGX_INVALID_FILE;
    }
}


/* The file that failed is done with. Without current nothing is kept before a snapshot is; without
 * fresh current goes on. */
static void
give_up(ngx_fd_t *file, const char *what)
{
    ngx_err_t  err = ngx_errno;

    close_file(file);
    if (file == &fresh && err == snapshot_failed) {
        return;   /* said */
    }
    if (file == &fresh) {
        snapshot_failed = err;
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, err,
                      "postern: cannot %s in \"%V\": the one before it %s",
                      what, &edge_worker.conf->state_dir,
                      broken ? "is older than the configuration in force"
                             : "goes on");
    } else if (!broken) {
        broken = 1;
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, err,
                      "postern: cannot %s in \"%V\": until it is written "
                      "again, a restart without the control plane serves an "
                      "older configuration", what,
                      &edge_worker.conf->state_dir);
    }
}


static file_end_t *
end_of(const ngx_fd_t *file)
{
    return file == &fresh ? &fresh_end : &current_end;
}


/* Of a file that is as long as that; one that is shorter has another tail. */
static void
read_end(ngx_fd_t fd, off_t size, file_end_t *out)
{
    ngx_memzero(out, sizeof(*out));
    out->size = size;
    if (size < TAIL || pread(fd, out->tail, TAIL, size - TAIL) != TAIL) {
        ngx_memzero(out->tail, TAIL);
    }
}


/* What was written last is still there, and nothing behind it. */
static ngx_uint_t
ends_as_written(const ngx_fd_t *file)
{
    file_end_t         now;
    struct stat        st;
    const file_end_t  *end = end_of(file);

    if (fstat(*file, &st) != 0 || st.st_size != end->size) {
        return 0;
    }
    read_end(*file, st.st_size, &now);
    return ngx_memcmp(now.tail, end->tail, TAIL) == 0;
}


static void
at_record(const state_record_t *record)
{
    ngx_memcpy(log_id, record->log_id, sizeof(log_id));
    revision = record->revision;
}


/* Nothing where there is nothing to cut: that would wait for as long as the file system is frozen. */
static int
cut(ngx_fd_t file, off_t end)
{
    struct stat  st;

    return fstat(file, &st) == 0 && st.st_size == end ? 0 : ftruncate(file, end);
}


/* What a helper that was killed left of a record would hide all that comes behind it. Nobody else may be writing. */
static void
open_current(void)
{
    char             path[NGX_MAX_PATH];
    off_t            last = 0, end = 0, next = 0;
    u_char          *plain;
    state_record_t   record;

    opened = 1;
    broken = 0;
    log_id[0] = '\0';
    revision = 0;
    delta_bytes = snapshot_bytes = 0;
    close_file(&current);
    path_of(path, sizeof(path), "");
    current = open(path, O_RDWR|O_APPEND|O_CLOEXEC);
    if (current == NGX_INVALID_FILE) {
        return;   /* a new edge: a snapshot comes first */
    }
    while (edge_state_skip(current, &next) == NGX_OK) {
        last = end;
        end = next;
        if (end - last == RECORD_LENGTH + RECORD_MIN && snapshot_bytes == 0) {
            snapshot_bytes = end;   /* only the end of a snapshot says nothing */
        }
    }
    delta_bytes = end - snapshot_bytes;
    ngx_set_errno(0);
    plain = edge_state_read(current, &last, &record);
    if (plain == NULL || cut(current, end) != 0) {
        give_up(&current, "go on with the state file");
    } else {
        at_record(&record);
        read_end(current, end, &current_end);
    }
    edge_state_free(plain);
}


/* NGX_OK: this helper writes, until edge_seat_write_end. Where another one wrote, its file is read
 * again: what it wrote is there | NGX_DECLINED: another one writes | NGX_ERROR: nobody can tell. */
static ngx_int_t
begin_writing(ngx_uint_t early)
{
    ngx_int_t   rc;
    ngx_uint_t  taken;

    rc = edge_seat_write_begin(early, &taken);
    writing = rc == NGX_OK;
    if (writing && (taken || !opened)) {
        open_current();
    }
    return rc;
}


/* While an older master lives it goes on writing until there is something for us to write. */
void
edge_store_open(void)
{
    if (begin_writing(1) == NGX_OK) {
        edge_seat_write_end();
    }
}


/* A file of its own, even where another helper is about to be gone. */
static void
open_fresh(void)
{
    char  path[NGX_MAX_PATH];

    close_file(&fresh);
    ngx_memzero(&fresh_end, sizeof(fresh_end));
    path_of(path, sizeof(path), ".new");
    unlink(path);
    fresh = open(path, O_RDWR|O_CREAT|O_EXCL|O_APPEND|O_CLOEXEC, 0600);
    if (fresh == NGX_INVALID_FILE) {
        give_up(&fresh, "make a new state file");
    }
}


static ngx_uint_t
is_same(const char *path, ngx_fd_t fd)
{
    struct stat  named, open;

    return stat(path, &named) == 0 && fstat(fd, &open) == 0
           && named.st_ino == open.st_ino && named.st_dev == open.st_dev;
}


/* A snapshot that cannot be finished must not keep the disk full. */
static void
remove_fresh(void)
{
    char  temp[NGX_MAX_PATH];

    path_of(temp, sizeof(temp), ".new");
    if (fresh != NGX_INVALID_FILE && is_same(temp, fresh)) {
        unlink(temp);
    }
}


/* What came of a record that did not fit goes; the file ends as it did before. */
static void
undo(ngx_fd_t *file, off_t end, size_t len)
{
    ngx_err_t  err = ngx_errno;

    room = (file == &fresh ? end : 0) + (off_t) len;
    if (ftruncate(*file, end) != 0) {
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, ngx_errno,
                      "postern: cannot cut a torn record off the state file");
    }
    if (file == &fresh) {
        remove_fresh();
    }
    ngx_set_errno(err);
}


static ngx_int_t
append(ngx_fd_t *file, const state_record_t *record)
{
    off_t     end;
    size_t    len = 0;
    ssize_t   n;
    u_char   *sealed;

    if (*file == NGX_INVALID_FILE) {
        return NGX_ERROR;
    }
    end = end_of(file)->size;
    sealed = edge_state_seal(record, &len);
    if (sealed == NULL) {
        ngx_set_errno(ENOMEM);
        n = -1;
    } else {
        n = write(*file, sealed, len);
        free(sealed);
    }
    if (n == (ssize_t) len && n > 0) {
        read_end(*file, end + n, end_of(file));
        return NGX_OK;
    }
    if (n >= 0) {
        ngx_set_errno(ENOSPC);   /* what write() says of a part of it is nothing */
    }
    undo(file, end, len);
    give_up(file, "write the state file");
    return NGX_ERROR;
}


static void
finish_snapshot(const state_record_t *record)
{
    char  path[NGX_MAX_PATH], temp[NGX_MAX_PATH];

    if (fresh == NGX_INVALID_FILE) {
        return;
    }
    path_of(path, sizeof(path), "");
    path_of(temp, sizeof(temp), ".new");
    if (!is_same(temp, fresh)) {
        close_file(&fresh);   /* another worker 0 makes its own */
        return;
    }
    if (!ends_as_written(&fresh)) {
        remove_fresh();
        ngx_set_errno(ESTALE);
        give_up(&fresh, "finish a new state file that somebody else changed");
        return;
    }
    if (ngx_rename_file(temp, path) == NGX_FILE_ERROR) {
        give_up(&fresh, "replace the state file");
        return;
    }
    close_file(&current);
    current = fresh;
    current_end = fresh_end;
    fresh = NGX_INVALID_FILE;
    snapshot_bytes = current_end.size;
    delta_bytes = 0;
    if (broken || standing == STORE_BEHIND) {
        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "postern: the state file is written again");
    }
    broken = 0;
    room = 0;
    snapshot_failed = 0;
    at_record(record);
}


/* The worker said hello in the middle of it, and it was not begun again: see say_hello in edge_bus.c. */
static void
drop_snapshot(void)
{
    remove_fresh();
    close_file(&fresh);
}


/* Somebody removed it, put another one in its place, or cut or wrote it where it is: what went on into the old one would be
 * nowhere, what went on behind anything but a whole record would not be read. */
static ngx_int_t
check_current(void)
{
    char  path[NGX_MAX_PATH];

    if (current == NGX_INVALID_FILE) {
        return NGX_OK;   /* see append_delta */
    }
    path_of(path, sizeof(path), "");
    if (is_same(path, current) && ends_as_written(&current)) {
        return NGX_OK;
    }
    ngx_set_errno(0);
    give_up(&current, "go on with a state file that somebody else changed");
    return NGX_ERROR;
}


/* A gap would be served as if it were whole. */
static void
append_delta(const state_record_t *record)
{
    ngx_uint_t  same_log = ngx_strcmp(record->log_id, log_id) == 0;

    if (broken || (same_log && record->revision <= revision)) {
        return;   /* it waits for a snapshot, or was told twice */
    }
    if (!same_log || record->previous > revision) {
        ngx_set_errno(0);
        give_up(&current, "keep a change without the one before it");
        return;
    }
    if (check_current() == NGX_OK && append(&current, record) == NGX_OK) {
        at_record(record);
        delta_bytes = current_end.size - snapshot_bytes;
    }
}


/* After what brings the worker to the record's revision. */
static void
compare_with(const state_record_t *record)
{
    standing = !broken && ngx_strcmp(record->log_id, log_id) == 0
               && record->revision <= revision
               ? STORE_KEPT : STORE_BEHIND;
}


static ngx_uint_t
is_word(const ngx_str_t *frame, const char *word)
{
    return frame->len == ngx_strlen(word)
           && ngx_memcmp(frame->data, word, frame->len) == 0;
}


static int64_t
number(const ngx_str_t *frame)
{
    char  text[24];

    ngx_cpystrn((u_char *) text, frame->data,
                ngx_min(frame->len + 1, sizeof(text)));
    return strtoll(text, NULL, 10);
}


static void
store(const ngx_str_t *frames, ngx_uint_t n)
{
    state_record_t  record;

    ngx_memzero(&record, sizeof(record));
    ngx_cpystrn((u_char *) record.log_id, frames[1].data,
                ngx_min(frames[1].len + 1, sizeof(record.log_id)));
    record.previous = number(&frames[2]);
    record.revision = number(&frames[3]);
    if (n > 4) {
        record.body = frames[4];
    }

    if (is_word(&frames[0], "snapshot")) {
        record.type = STATE_SNAPSHOT;
        open_fresh();
        (void) append(&fresh, &record);

    } else if (is_word(&frames[0], "more")) {
        record.type = STATE_MORE;
        (void) append(&fresh, &record);

    } else if (is_word(&frames[0], "end")) {
        record.type = STATE_END;
        (void) append(&fresh, &record);
        finish_snapshot(&record);
        compare_with(&record);

    } else if (is_word(&frames[0], "delta")) {
        record.type = STATE_DELTA;
        drop_snapshot();
        append_delta(&record);
        compare_with(&record);
    }
}


static ngx_uint_t
is_news(const ngx_str_t *frames, ngx_uint_t n)
{
    return n >= 4 && (is_word(&frames[0], "snapshot") || is_word(&frames[0], "more")
                      || is_word(&frames[0], "end") || is_word(&frames[0], "delta"));
}


static void
store_news(const ngx_str_t *frames, ngx_uint_t n)
{
    quiet = 0;
    switch (begin_writing(0)) {
    case NGX_OK:
        store(frames, n);
        edge_seat_write_end();
        break;
    case NGX_DECLINED:
        standing = STORE_KEPT;   /* by the other's helper, before its own worker says so */
        break;
    default:
        standing = STORE_BEHIND;
    }
}


/* Nothing is new: the moment to look whether what was kept is still there. */
static void
store_beat(void)
{
    quiet++;
    if (standing != STORE_KEPT || !writing || begin_writing(1) != NGX_OK) {
        return;
    }
    if (current == NGX_INVALID_FILE || check_current() != NGX_OK) {
        standing = STORE_BEHIND;
    }
    edge_seat_write_end();
}


void
edge_store_message(const ngx_str_t *frames, ngx_uint_t n)
{
    if (is_news(frames, n)) {
        store_news(frames, n);
    } else if (n > 0 && is_word(&frames[0], "beat")) {
        store_beat();
    }
}


store_standing_t
edge_store_standing(void)
{
    return standing;
}


/* For as much as was too much the last time. */
static ngx_uint_t
has_room(void)
{
    char            dir[NGX_MAX_PATH];
    struct statvfs  fs;

    ngx_snprintf((u_char *) dir, sizeof(dir), "%V%Z",
                 &edge_worker.conf->state_dir);
    return room == 0 || statvfs(dir, &fs) != 0
           || (uint64_t) fs.f_bavail * fs.f_frsize >= (uint64_t) room;
}


ngx_uint_t
edge_store_wants_snapshot(void)
{
    if (!writing || fresh != NGX_INVALID_FILE) {
        return 0;   /* another one's part, or on its way */
    }
    return (broken || standing == STORE_BEHIND)
           ? has_room()
           : delta_bytes > GROWTH + 2 * snapshot_bytes
             || (quiet >= QUIET_BEATS
                 && delta_bytes > GROWTH_QUIET + snapshot_bytes / 4);
}
