/* The memory of the event rings, a slot for each worker. The master makes it and workers inherit
 * it, so it outlives them. With postern_event_memory it is a file there (a tmpfs):
 * postern-events on the same machine reads batches from it instead of being sent them, and what
 * a killed edge left is found by the next. */
#include "services/edge/events/edge_memory.h"
#include "common/base/invariant.h"
#include "services/edge/worker/edge_key.h"
#include "services/edge/worker/edge_file.h"
#include "services/edge/worker/edge_seat.h"
#include "services/edge/worker/edge_conf.h"
#include "services/edge/events/ring.h"
#include "common/schema/event_memory.h"

#include <sys/file.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <linux/magic.h>

enum { HEAD_BYTES = EVENT_MEMORY_HEAD };

static u_char     *base;            /* of the first slot */
static size_t      total;           /* mapped, with the head */
static size_t      bytes;           /* of a slot */
static ngx_uint_t  slots;           /* at least one for each worker */
static ngx_uint_t  count;           /* of workers */
static char        name[64];        /* of the file; "": nobody else can read it */
static int         memory = -1;     /* the file; it stays open, for its locks */


void *
edge_memory_slot(ngx_uint_t worker)
{
    return base && worker < slots ? base + worker * bytes : NULL;
}


size_t
edge_memory_slot_bytes(void)
{
    return bytes;
}


const char *
edge_memory_name(void)
{
    return name;
}


off_t
edge_memory_position(const void *at)
{
    INVARIANT((const u_char *) at >= base && (size_t) ((const u_char *) at - base) < slots * bytes);
    return HEAD_BYTES + ((const u_char *) at - base);
}


/* The file's name. Behind the prefix it is hexadecimal: postern-events opens no other names. */
static void
make_name(char *out, size_t size, ngx_uint_t seat)
{
    edge_key_name(EDGE_MEMORY_PREFIX, out, size);
    if (seat) {
        (void) ngx_cpystrn((u_char *) out + ngx_strlen(out), (u_char *) "01",
                           size - ngx_strlen(out));
    }
}


static void
file_path(char *out, size_t size, const char *file)
{
    ngx_snprintf((u_char *) out, size, "%V/%s%Z",
                 &edge_conf()->event_memory, file);
}


/* A symbolic link to the file in the state folder, for operators who look for it or remove it. */
static void
link_path(char *out, size_t size, ngx_uint_t seat)
{
    ngx_snprintf((u_char *) out, size, "%V/events%s.memory%Z",
                 &edge_conf()->state_dir, edge_seat_suffix(seat));
}


/* How many slots a file has that an edge left, 0: none of this size. An edge with more workers may
 * have been killed: their slots still hold events. */
static ngx_uint_t
slots_in(int file)
{
    struct stat          st;
    event_memory_head_t  head;

    return fstat(file, &st) == 0
           && pread(file, &head, sizeof(head), 0) == (ssize_t) sizeof(head)
           && ring_file_is_whole(&head, st.st_size) && head.slot_bytes == bytes
           && head.slots <= RING_WORKERS_MAX ? head.slots : 0;
}


static void
set_slots(ngx_uint_t n)
{
    slots = n;
    total = HEAD_BYTES + n * bytes;
}


/* Allocate all pages now: a store into a page that has none kills the worker where the file
 * system is full. */
static int
make_room(int file)
{
    int  err = posix_fallocate(file, 0, total);

    if (err) {
        ngx_set_errno(err);
        return -1;
    }
    return ftruncate(file, total);
}


/* Locked as long as the master lives: two edges with one key must not share it. */
static int
open_file(ngx_log_t *log)
{
    int            file;
    char           path[NGX_MAX_PATH], link[NGX_MAX_PATH];
    ngx_uint_t     good;
    struct statfs  fs;

    make_name(name, sizeof(name), edge_seat());
    file_path(path, sizeof(path), name);
    file = open(path, O_RDWR|O_CREAT|O_CLOEXEC|O_NOFOLLOW|O_NONBLOCK, 0600);
    good = file >= 0 && edge_file_is_own(file) && fstatfs(file, &fs) == 0
           && fs.f_type == TMPFS_MAGIC && flock(file, LOCK_EX|LOCK_NB) == 0;
    set_slots(good ? ngx_max(count, slots_in(file)) : count);
    if (good && make_room(file) == 0) {
        link_path(link, sizeof(link), edge_seat());
        (void) unlink(link);
        (void) symlink(path, link);
        return file;
    }
    ngx_log_error(NGX_LOG_WARN, log, ngx_errno,
                  "postern: \"%s\" cannot hold events (is it this user's alone, on a "
                  "tmpfs with %uz bytes left?): they are sent instead",
                  path, total);
    if (file >= 0) {
        close(file);
    }
    return -1;
}


static int
open_anonymous(void)
{
    int  file = memfd_create("postern events", MFD_CLOEXEC);

    set_slots(count);
    name[0] = '\0';
    if (file >= 0 && ftruncate(file, total) != 0) {
        close(file);
        return -1;
    }
    return file;
}


ngx_int_t
edge_memory_open(size_t slot_bytes, ngx_uint_t workers, ngx_log_t *log)
{
    int                   file = -1;
    u_char               *at;
    ngx_uint_t            used;
    event_memory_head_t  *head;

    bytes = ngx_align(slot_bytes, RING_FILE_PAGE);
    count = workers;
    if (edge_conf()->event_memory.len) {
        file = open_file(log);
    }
    if (file < 0) {
        file = open_anonymous();
    }
    at = file < 0 ? MAP_FAILED
                  : mmap(NULL, total, PROT_READ|PROT_WRITE, MAP_SHARED, file, 0);
    if (at == MAP_FAILED) {
        ngx_log_error(NGX_LOG_EMERG, log, ngx_errno,
                      "postern: no memory for %ui event rings of %uz bytes",
                      count, bytes);
        return NGX_ERROR;
    }
    head = (event_memory_head_t *) at;
    used = ngx_memcmp(head->magic, ring_file_magic, sizeof(head->magic)) == 0;
    if (used && head->slot_bytes == bytes && head->slots < slots) {
        head->slots = slots;   /* more workers: what comes behind is zeros */
    }
    if (!used || head->slot_bytes != bytes || head->slots != slots) {
        if (used) {
            ngx_log_error(NGX_LOG_ERR, log, 0,
                          "postern: the event memory was made for %uL workers "
                          "of %uL bytes: what an edge that was killed left in "
                          "it is lost", head->slots, head->slot_bytes);
        }
        ngx_memzero(at, total);
        ngx_memcpy(head->magic, ring_file_magic, sizeof(head->magic));
        head->slot_bytes = bytes;
        head->slots = slots;
    }
    /* an older edge may have made it, or one of another name */
    ngx_memzero(head->name, sizeof(head->name));
    ngx_memcpy(head->name, edge_conf()->name.data,
               ngx_min(edge_conf()->name.len, sizeof(head->name) - 1));
    base = at + HEAD_BYTES;
    memory = file;
    return NGX_OK;
}


void
edge_memory_shrink(void)
{
    size_t                all = total;
    event_memory_head_t  *head = (event_memory_head_t *) (base - HEAD_BYTES);

    set_slots(count);
    INVARIANT(total <= all && memory >= 0);
    head->slots = count;
    munmap((u_char *) head + total, all - total);
    if (ftruncate(memory, total) != 0) {
        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, ngx_errno,
                      "postern: cannot shorten the event memory to %uz bytes",
                      total);
    }
}


/* A record lock is its process's alone: neither a helper nor the next worker has it from its
 * parent. */
ngx_int_t
edge_memory_claim(ngx_uint_t worker)
{
    struct flock  slot = { 0 };

    if (worker >= count) {
        ngx_set_errno(ERANGE);
        return NGX_ERROR;
    }
    INVARIANT(count <= slots);
    slot.l_type = F_WRLCK;
    slot.l_whence = SEEK_SET;
    slot.l_start = HEAD_BYTES + worker * bytes;
    slot.l_len = bytes;
    return fcntl(memory, F_SETLK, &slot) == 0 ? NGX_OK : NGX_ERROR;
}


static void
remove_files(ngx_uint_t seat, const char *file)
{
    char  path[NGX_MAX_PATH];

    file_path(path, sizeof(path), file);
    (void) unlink(path);
    link_path(path, sizeof(path), seat);
    (void) unlink(path);
}


void
edge_memory_remove(void)
{
    if (name[0]) {
        remove_files(edge_seat(), name);
    }
}


/* ---- of a master that is gone ---- */

void *
edge_memory_left_slot(const edge_memory_left_t *left, ngx_uint_t worker)
{
    if (worker >= left->slots) {
        return NULL;
    }
    INVARIANT((worker + 1) * left->slot_bytes <= left->total - HEAD_BYTES);
    return left->at + HEAD_BYTES + worker * left->slot_bytes;
}


/* This is looked for every second, so a file that is not this user's alone is logged once. */
static int
open_left(const char *path)
{
    static ngx_uint_t  told;
    int                file;

    file = open(path, O_RDWR|O_CLOEXEC|O_NOFOLLOW|O_NONBLOCK);
    if (file >= 0 && edge_file_is_own(file)) {
        told = 0;
        return file;
    }
    if (ngx_errno != ENOENT && !told) {
        told = 1;
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, ngx_errno,
                      "postern: \"%s\" is no event memory of this user alone: "
                      "nothing is taken from it. Remove it", path);
    }
    if (file >= 0) {
        close(file);
    }
    return -1;
}


ngx_int_t
edge_memory_left_open(ngx_uint_t seat, edge_memory_left_t *left)
{
    int                   file;
    char                  other[sizeof(name)], path[NGX_MAX_PATH];
    struct stat           st;
    event_memory_head_t   head;   /* a copy: what was checked is what is used */

    if (edge_conf()->event_memory.len == 0) {
        return NGX_DECLINED;
    }
    make_name(other, sizeof(other), seat);
    file_path(path, sizeof(path), other);
    file = open_left(path);
    if (file < 0) {
        return NGX_DECLINED;
    }
    left->seat = seat;
    left->at = MAP_FAILED;
    if (fstat(file, &st) == 0 && st.st_size >= HEAD_BYTES) {
        left->total = st.st_size;
        left->at = mmap(NULL, left->total, PROT_READ|PROT_WRITE, MAP_SHARED, file, 0);
    }
    close(file);
    if (left->at != MAP_FAILED) {
        ngx_memcpy(&head, left->at, sizeof(head));
        if (ring_file_is_whole(&head, left->total)) {
            left->slot_bytes = head.slot_bytes;
            left->slots = head.slots;
            return NGX_OK;
        }
    }
    ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                  "postern: the event memory \"%s\" that another edge left "
                  "cannot be read: what it held is lost", path);
    if (left->at != MAP_FAILED) {
        munmap(left->at, left->total);
    }
    remove_files(seat, other);
    return NGX_DECLINED;
}


void
edge_memory_left_close(edge_memory_left_t *left, ngx_uint_t is_empty)
{
    char  other[sizeof(name)];

    munmap(left->at, left->total);
    if (is_empty) {
        make_name(other, sizeof(other), left->seat);
        remove_files(left->seat, other);
    }
}
