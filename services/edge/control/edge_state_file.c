/* The files of the last configuration: the one in use, config.state, and a snapshot that is being
 * written, config.state.new, which replaces it when it is complete. edge_store.c decides what is
 * written to them. */
#include "services/edge/control/edge_state_file.h"
#include "services/edge/control/edge_record.h"
#include "common/base/invariant.h"
#include "services/edge/worker/edge_conf.h"
#include "services/edge/worker/edge_key.h"

#include <sys/statvfs.h>

enum { TAIL = 16 };   /* a record ends with as much that no other one ends with */

/* How a file ends that nobody else has touched. */
typedef struct {
    off_t   size;
    u_char  tail[TAIL];
} file_end_t;

static ngx_fd_t    current = NGX_INVALID_FILE;
static ngx_fd_t    fresh = NGX_INVALID_FILE;   /* a snapshot in the making */
static file_end_t  current_end, fresh_end;
static off_t       snapshot_bytes;    /* of current, what its snapshot takes */
static ngx_uint_t  broken;   /* nothing goes to current before it is replaced */
static off_t       room;     /* that the next try needs */
static ngx_err_t   snapshot_failed;   /* why the last one could not be written; 0: it could */


static void
path_of(char *out, size_t size, const char *suffix)
{
    ngx_snprintf((u_char *) out, size, "%V/config.state%s%Z",
                 &edge_conf()->state_dir, suffix);
}


static void
close_file(ngx_fd_t *file)
{
    if (*file != NGX_INVALID_FILE) {
        ngx_close_file(*file);
        *file = NGX_INVALID_FILE;
    }
}


/* Close a file that failed. Without current no change is written before a snapshot is; without
 * fresh current stays in use. */
static void
give_up(ngx_fd_t *file, const char *what)
{
    ngx_err_t  err = ngx_errno;

    close_file(file);
    if (file == &fresh && err == snapshot_failed) {
        return;   /* logged before */
    }
    if (file == &fresh) {
        snapshot_failed = err;
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, err,
                      "postern: cannot %s in \"%V\": the one before it %s",
                      what, &edge_conf()->state_dir,
                      broken ? "is older than the configuration in force"
                             : "goes on");
    } else if (!broken) {
        broken = 1;
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, err,
                      "postern: cannot %s in \"%V\": until it is written "
                      "again, a restart without the control plane serves an "
                      "older configuration", what,
                      &edge_conf()->state_dir);
    }
}


static file_end_t *
end_of(const ngx_fd_t *file)
{
    return file == &fresh ? &fresh_end : &current_end;
}


/* The end of a file of size bytes. A file that is shorter by now has zeros for its tail. */
static void
read_end(ngx_fd_t fd, off_t size, file_end_t *out)
{
    ngx_memzero(out, sizeof(*out));
    out->size = size;
    if (size < TAIL || pread(fd, out->tail, TAIL, size - TAIL) != TAIL) {
        ngx_memzero(out->tail, TAIL);
    }
}


/* Does the file end with the record that was written last, and nothing behind it? */
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


/* Cut the file to end bytes. A file of that length is left alone: ftruncate would wait for as
 * long as the file system is frozen. */
static int
cut_file(ngx_fd_t file, off_t end)
{
    struct stat  st;

    return fstat(file, &st) == 0 && st.st_size == end ? 0 : ftruncate(file, end);
}


/* Does a file whose last record this is hold a configuration? One that ends with another record
 * lost the end of its snapshot, and nothing of it is in force. */
static ngx_uint_t
is_in_force(const record_t *record)
{
    return record->type == FOLLOW_SNAPSHOT_END || record->type == FOLLOW_DELTA;
}


/* The file is cut behind its last whole record: the rest of a record, which a helper that was
 * killed left, would hide all records that are written behind it. */
void
edge_state_file_open(follow_t *at)
{
    char             path[NGX_MAX_PATH];
    off_t            last = 0, end = 0, next = 0;
    u_char          *plain;
    record_t         record;

    broken = 0;
    at->log_id[0] = '\0';
    at->revision = 0;
    snapshot_bytes = 0;
    ngx_memzero(&current_end, sizeof(current_end));
    close_file(&current);
    path_of(path, sizeof(path), "");
    current = open(path, O_RDWR|O_APPEND|O_CLOEXEC);
    if (current == NGX_INVALID_FILE) {
        return;   /* a new edge: a snapshot comes first */
    }
    while (edge_record_skip(current, &next) == NGX_OK) {
        last = end;
        end = next;
        if (end - last == RECORD_LENGTH + RECORD_MIN && snapshot_bytes == 0) {
            snapshot_bytes = end;   /* a record without a body is the end of a snapshot */
        }
    }
    ngx_set_errno(0);
    plain = edge_record_read(current, &last, &record);
    if (plain == NULL || !is_in_force(&record) || cut_file(current, end) != 0) {
        give_up(&current, "go on with the state file");
    } else {
        ngx_memcpy(at->log_id, record.log_id, sizeof(at->log_id));
        at->revision = record.revision;
        read_end(current, end, &current_end);
    }
    edge_record_free(plain);
}


/* A new file, also where a helper that is about to end still has the old one of that name. */
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


/* Cut off what was written of a record that did not fit: the file ends as it did before. */
static void
undo_append(ngx_fd_t *file, off_t end, size_t len)
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
append_record(ngx_fd_t *file, const record_t *record)
{
    off_t     end;
    size_t    len = 0;
    ssize_t   n;
    u_char   *sealed;

    if (*file == NGX_INVALID_FILE) {
        return NGX_ERROR;
    }
    end = end_of(file)->size;
    sealed = record_seal(record, edge_key(), &len);
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
        ngx_set_errno(ENOSPC);   /* write() of a part of it sets no error */
    }
    undo_append(file, end, len);
    give_up(file, "write the state file");
    return NGX_ERROR;
}


static ngx_int_t
replace_current(void)
{
    char  path[NGX_MAX_PATH], temp[NGX_MAX_PATH];

    path_of(path, sizeof(path), "");
    path_of(temp, sizeof(temp), ".new");
    if (!is_same(temp, fresh)) {
        close_file(&fresh);   /* another worker 0 makes its own */
        return NGX_ERROR;
    }
    if (!ends_as_written(&fresh)) {
        remove_fresh();
        ngx_set_errno(ESTALE);
        give_up(&fresh, "finish a new state file that somebody else changed");
        return NGX_ERROR;
    }
    if (ngx_rename_file(temp, path) == NGX_FILE_ERROR) {
        give_up(&fresh, "replace the state file");
        return NGX_ERROR;
    }
    INVARIANT(fresh != NGX_INVALID_FILE && fresh_end.size > 0);
    close_file(&current);
    current = fresh;
    current_end = fresh_end;
    fresh = NGX_INVALID_FILE;
    snapshot_bytes = current_end.size;
    broken = 0;
    room = 0;
    snapshot_failed = 0;
    return NGX_OK;
}


ngx_int_t
edge_state_file_snapshot(const record_t *record)
{
    if (record->type == FOLLOW_SNAPSHOT) {
        open_fresh();
    }
    if (append_record(&fresh, record) != NGX_OK) {
        return NGX_ERROR;
    }
    return record->type == FOLLOW_SNAPSHOT_END ? replace_current() : NGX_OK;
}


void
edge_state_file_drop_snapshot(void)
{
    remove_fresh();
    close_file(&fresh);
}


/* Somebody may have removed the file, put another one in its place, or cut or written it where
 * it is. Records that are appended to a file without a name are lost, and those behind anything
 * but a whole record are never read. */
ngx_int_t
edge_state_file_check(void)
{
    char  path[NGX_MAX_PATH];

    if (current == NGX_INVALID_FILE) {
        return NGX_OK;   /* a new edge: there is nothing to go on with */
    }
    path_of(path, sizeof(path), "");
    if (is_same(path, current) && ends_as_written(&current)) {
        return NGX_OK;
    }
    ngx_set_errno(0);
    give_up(&current, "go on with a state file that somebody else changed");
    return NGX_ERROR;
}


ngx_uint_t
edge_state_file_has_room(void)
{
    char            dir[NGX_MAX_PATH];
    struct statvfs  fs;

    ngx_snprintf((u_char *) dir, sizeof(dir), "%V%Z",
                 &edge_conf()->state_dir);
    return room == 0 || statvfs(dir, &fs) != 0
           || (uint64_t) fs.f_bavail * fs.f_frsize >= (uint64_t) room;
}


ngx_int_t
edge_state_file_change(const record_t *record)
{
    return edge_state_file_check() == NGX_OK ? append_record(&current, record)
                                             : NGX_ERROR;
}


void
edge_state_file_break(const char *what)
{
    ngx_set_errno(0);
    give_up(&current, what);
}


ngx_uint_t
edge_state_file_is_broken(void)
{
    return broken;
}


ngx_uint_t
edge_state_file_is_there(void)
{
    return current != NGX_INVALID_FILE;
}


ngx_uint_t
edge_state_file_is_replacing(void)
{
    return fresh != NGX_INVALID_FILE;
}


off_t
edge_state_file_snapshot_bytes(void)
{
    return snapshot_bytes;
}


off_t
edge_state_file_change_bytes(void)
{
    return ngx_max(current_end.size - snapshot_bytes, 0);
}
