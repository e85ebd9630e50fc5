/* An edge is replaced by a new master beside the old one: nginx starts it on USR2 with the listening sockets, which both then
 * have, so no connection that waits in one of them is lost. At most two masters live at a time, and each has a seat: 0 or 1.
 * Everything that two must not share carries the seat's number: the memory and the spool of events, and the name in the config log.
 *
 *   - The new master sits down in the free seat and knows whom it succeeds. Its workers start as always.
 *   - When all of them are ready, the old workers yield: they accept nothing any more and say in each answer that its
 *     connection ends. Should the new master die now, they go on as before.
 *   - After YIELD_MS the old master is told to quit. Only now are connections closed that were idle all that time; streams go on for
 *     worker_shutdown_timeout at most.
 *   - What events the old one leaves in memory or on disk, the new one sends (edge_adopt.c).
 *
 * This file has the seats and what is written of them; edge_handover.c is the workers' part.
 *
 * A seat is taken while its lock is held. The master has it and its workers inherit it, so it is free when the last of them is gone,
 * however they ended. */
#include "services/edge/worker/edge_seat.h"
#include "services/edge/worker/edge_conf.h"
#include "services/edge/worker/edge_file.h"

#include <elf.h>
#include <link.h>
#include <sys/file.h>
#include <sys/mman.h>

enum { TAKE_TRIES = 40, TAKE_WAIT_MS = 50, BUILD_BYTES = 20 };

/* Another layout is not read. */
static const char  magic[16] = "postern seats 1";

typedef struct {
    uint64_t  generation;    /* 0: nobody ever sat here */
    uint64_t  predecessor;   /* that it took the sockets of; 0: it began with its own */
    uint64_t  ready;         /* a bit for each worker */
    uint32_t  master, workers;
} seat_t;

typedef struct {
    char      magic[sizeof(magic)];
    uint64_t  writer;        /* generation that writes the state file */
    uint64_t  writer_seat;
    uint64_t  last;          /* seat that was taken last */
    seat_t    seats[EDGE_SEATS];
} page_t;

static page_t          *page;
static ngx_uint_t       mine;
static uint64_t         generation;
/* of my seat, as long as this process lives */
static ngx_fd_t         lock = NGX_INVALID_FILE;
static ngx_fd_t         visit = NGX_INVALID_FILE, page_file = NGX_INVALID_FILE;


ngx_uint_t
edge_seat(void)
{
    return mine;
}


const char *
edge_seat_suffix(ngx_uint_t seat)
{
    return seat ? ".1" : "";
}


ngx_uint_t
edge_seat_is_taken(void)
{
    return lock != NGX_INVALID_FILE;
}


uint64_t
edge_seat_generation(ngx_uint_t seat)
{
    return __atomic_load_n(&page->seats[seat].generation, __ATOMIC_SEQ_CST);
}


/* ---- files ---- */

static ngx_fd_t
open_named(const char *name, ngx_uint_t seat)
{
    char  path[NGX_MAX_PATH];

    ngx_snprintf((u_char *) path, sizeof(path), "%V/%s%s%Z",
                 &edge_conf()->state_dir, name, edge_seat_suffix(seat));
    return edge_file_open(path, 0);
}


/* With a block of its own on disk: a page that is mapped and has none ends, where the disk is
 * full, who writes to it (SIGBUS). */
static int
make_room(ngx_fd_t file)
{
    int  err = posix_fallocate(file, 0, sizeof(page_t));

    if (err) {
        ngx_set_errno(err);
        return -1;
    }
    return ftruncate(file, sizeof(page_t));
}


static page_t *
map_page(ngx_fd_t file)
{
    page_t  *map;

    if (file == NGX_INVALID_FILE || flock(file, LOCK_EX) != 0 || make_room(file) != 0) {
        return NULL;
    }
    map = mmap(NULL, sizeof(page_t), PROT_READ|PROT_WRITE, MAP_SHARED, file, 0);
    return map == MAP_FAILED ? NULL : map;
}


static ngx_int_t
open_page(ngx_log_t *log)
{
    ngx_fd_t  file;

    if (page) {
        return NGX_OK;
    }
    file = open_named("edge.seats", 0);
    page = map_page(file);
    if (page == NULL) {
        ngx_log_error(NGX_LOG_EMERG, log, ngx_errno,
                      "postern: cannot make \"%V/edge.seats\" of %uz bytes",
                      &edge_conf()->state_dir, sizeof(page_t));
    } else if (ngx_memcmp(page->magic, magic, sizeof(magic)) != 0) {
        ngx_memzero(page, sizeof(*page));
        ngx_memcpy(page->magic, magic, sizeof(magic));
    }
    if (file != NGX_INVALID_FILE) {
        (void) flock(file, LOCK_UN);   /* the mapping keeps what is closed open */
        close(file);
    }
    return page ? NGX_OK : NGX_ERROR;
}


/* NGX_OK: nobody sits there now. */
static ngx_int_t
is_free(ngx_uint_t seat)
{
    ngx_fd_t   file = open_named("edge.seat", seat);
    ngx_int_t  rc;

    if (file == NGX_INVALID_FILE) {
        return NGX_ERROR;
    }
    rc = flock(file, LOCK_SH|LOCK_NB) == 0 ? NGX_OK : NGX_DECLINED;
    close(file);
    return rc;
}


/* Whoever looks whether a seat is free has its lock for a moment. */
static ngx_int_t
sit_down(ngx_uint_t seat, ngx_uint_t tries)
{
    ngx_uint_t  i;

    lock = open_named("edge.seat", seat);
    for (i = 0; lock != NGX_INVALID_FILE && i < tries; i++) {
        if (flock(lock, LOCK_EX|LOCK_NB) == 0) {
            mine = seat;
            return NGX_OK;
        }
        ngx_msleep(TAKE_WAIT_MS);
    }
    if (lock != NGX_INVALID_FILE) {
        close(lock);
        lock = NGX_INVALID_FILE;
    }
    return NGX_DECLINED;
}


/* ---- the master ---- */

/* The one that gave us its sockets: our parent. A seat that nobody has says who had it last, and
 * in a container, where numbers of processes come again, that may be our parent's number, too. */
static seat_t *
find_predecessor(void)
{
    seat_t      *seat, *found = NULL;
    ngx_uint_t   i;

    for (i = 0; i < EDGE_SEATS; i++) {
        seat = &page->seats[i];
        if (seat->generation && seat->master == (uint32_t) getppid()
            && (found == NULL || seat->generation > found->generation)
            && is_free(i) != NGX_OK)
        {
            found = seat;
        }
    }
    return found;
}


/* Of a listening socket for each worker one that nobody has any more would go on taking
 * connections, and a new one would be bound to a port of its own kind: so the number stays. */
static ngx_int_t
check_workers(const seat_t *old, ngx_uint_t workers, ngx_log_t *log)
{
    if (old->workers == workers) {
        return NGX_OK;
    }
    ngx_log_error(NGX_LOG_EMERG, log, 0,
                  "postern: the edge that is to be replaced has %uD workers "
                  "and this one %ui: restart it to change that",
                  old->workers, workers);
    return NGX_ERROR;
}


static ngx_int_t
succeed(seat_t *old, ngx_uint_t workers, ngx_log_t *log)
{
    if (check_workers(old, workers, log) != NGX_OK) {
        return NGX_ERROR;
    }
    if (sit_down(old == page->seats ? 1 : 0, TAKE_TRIES) != NGX_OK) {
        ngx_log_error(NGX_LOG_EMERG, log, 0,
                      "postern: the edge that was replaced before still ends: "
                      "two are all there can be");
        return NGX_ERROR;
    }
    /* Who ends this one with all that belongs to it must not end the other. */
    (void) setpgid(0, 0);
    return NGX_OK;
}


/* Where the last one sat: the config log knows its name, and its events are where they were. */
static ngx_int_t
begin(ngx_log_t *log)
{
    ngx_uint_t  last = page->last ? 1 : 0;

    if (sit_down(last, TAKE_TRIES) != NGX_OK && sit_down(!last, 1) != NGX_OK) {
        ngx_log_error(NGX_LOG_EMERG, log, 0,
                      "postern: two edges run with \"%V\" already",
                      &edge_conf()->state_dir);
        return NGX_ERROR;
    }
    return NGX_OK;
}


/* nginx ignores USR2 while its parent is the process that started it, which is right for a
 * master that was itself started so: the old one still runs. It is wrong for the first one,
 * which does not become a daemon: its parent (or, as process 1, its lack of one) is whoever
 * supervises it, and stays. No process has this number. */
static void
allow_replacement(void)
{
    ngx_parent = NGX_INVALID_PID;
}


/* Sockets for more workers are made once the configuration is read, and take connections that
 * end with a master that is refused then. Where the number of workers is not said by now,
 * edge_seat_take refuses. */
ngx_int_t
edge_seat_check(ngx_conf_t *cf)
{
    seat_t           *old;
    ngx_core_conf_t  *core;

    core = (ngx_core_conf_t *) ngx_get_conf(cf->cycle->conf_ctx, ngx_core_module);
    if (!ngx_inherited || ngx_test_config
        || core->worker_processes == NGX_CONF_UNSET)
    {
        return NGX_OK;
    }
    if (open_page(cf->log) != NGX_OK) {
        return NGX_ERROR;
    }
    old = find_predecessor();
    return old ? check_workers(old, core->worker_processes, cf->log) : NGX_OK;
}


ngx_int_t
edge_seat_take(ngx_cycle_t *cycle)
{
    seat_t           *seat, *old = NULL;
    ngx_core_conf_t  *core;

    if (open_page(cycle->log) != NGX_OK) {
        return NGX_ERROR;
    }
    core = (ngx_core_conf_t *) ngx_get_conf(cycle->conf_ctx, ngx_core_module);
    if (ngx_inherited) {
        old = find_predecessor();
    }
    if (old ? succeed(old, core->worker_processes, cycle->log) != NGX_OK
            : begin(cycle->log) != NGX_OK)
    {
        return NGX_ERROR;
    }
    if (old == NULL) {
        allow_replacement();
    }
    generation = ngx_max(page->seats[0].generation, page->seats[1].generation) + 1;
    seat = &page->seats[mine];
    __atomic_store_n(&seat->ready, 0, __ATOMIC_SEQ_CST);
    seat->predecessor = old ? old->generation : 0;
    seat->master = ngx_pid;
    seat->workers = core->worker_processes;
    __atomic_store_n(&seat->generation, generation, __ATOMIC_SEQ_CST);
    page->last = mine;
    return NGX_OK;
}


/* ---- a worker's part ---- */

static uint64_t
all_workers(const seat_t *seat)
{
    return seat->workers >= 64 ? ~0ULL : (1ULL << seat->workers) - 1;
}


static ngx_uint_t
is_ready(const seat_t *seat)
{
    return __atomic_load_n(&seat->ready, __ATOMIC_SEQ_CST) == all_workers(seat);
}


/* One who has our sockets, and whose workers all serve. */
ngx_uint_t
edge_seat_is_succeeded(void)
{
    seat_t  *other = &page->seats[!mine];

    return other->predecessor == generation && other->generation > generation
           && is_ready(other) && is_free(!mine) == NGX_DECLINED;
}


/* A store into the page may wait for as long as its file system is frozen: none is made that
 * changes nothing. */
void
edge_seat_say_ready(void)
{
    uint64_t  *ready = &page->seats[mine].ready, bit = 1ULL << ngx_worker;

    if ((__atomic_load_n(ready, __ATOMIC_SEQ_CST) & bit) == 0) {
        __atomic_fetch_or(ready, bit, __ATOMIC_SEQ_CST);
    }
}


/* ---- the other seat ---- */

ngx_int_t
edge_seat_visit_other(void)
{
    visit = open_named("edge.seat", !mine);
    if (visit != NGX_INVALID_FILE && flock(visit, LOCK_SH|LOCK_NB) == 0) {
        return NGX_OK;
    }
    edge_seat_leave_other();
    return NGX_DECLINED;
}


void
edge_seat_leave_other(void)
{
    if (visit != NGX_INVALID_FILE) {
        close(visit);
        visit = NGX_INVALID_FILE;
    }
}


/* ---- the writer of the state file ---- */

/* May this master write, as things are? */
static ngx_uint_t
may_write(ngx_uint_t early)
{
    if (page->writer == generation || page->writer_seat == mine
        || is_free(!mine) == NGX_OK)
    {
        return 1;   /* ours, or of one that is gone */
    }
    return generation > page->writer && !early;
}


ngx_int_t
edge_seat_write_begin(ngx_uint_t early, ngx_uint_t *taken)
{
    if (page_file == NGX_INVALID_FILE) {
        page_file = open_named("edge.seats", 0);
    }
    if (page_file == NGX_INVALID_FILE || flock(page_file, LOCK_EX) != 0) {
        ngx_log_error(NGX_LOG_ALERT, ngx_cycle->log, ngx_errno,
                      "postern: cannot lock \"%V/edge.seats\"",
                      &edge_conf()->state_dir);
        return NGX_ERROR;
    }
    if (!may_write(early)) {
        edge_seat_write_end();
        return NGX_DECLINED;
    }
    *taken = page->writer != generation;
    if (*taken || page->writer_seat != mine) {   /* see edge_seat_say_ready */
        page->writer = generation;
        page->writer_seat = mine;
    }
    return NGX_OK;
}


void
edge_seat_write_end(void)
{
    (void) flock(page_file, LOCK_UN);
}


/* ---- for the operator ---- */

/* The linker's mark of what was built, in hexadecimal. */
static int
find_build(struct dl_phdr_info *info, size_t size, void *out)
{
    size_t                  i;
    const u_char           *at, *end;
    const ElfW(Nhdr)       *note;
    const ElfW(Phdr)       *ph;

    (void) size;
    for (i = 0; i < info->dlpi_phnum; i++) {
        ph = &info->dlpi_phdr[i];
        if (ph->p_type == PT_LOAD
            && (uintptr_t) &ngx_http_postern_module - info->dlpi_addr - ph->p_vaddr
               < ph->p_memsz)
        {
            break;
        }
    }
    if (i == info->dlpi_phnum) {
        return 0;   /* another library */
    }
    for (i = 0; i < info->dlpi_phnum; i++) {
        ph = &info->dlpi_phdr[i];
        if (ph->p_type != PT_NOTE) {
            continue;
        }
        at = (const u_char *) info->dlpi_addr + ph->p_vaddr;
        end = at + ph->p_memsz;
        while (at + sizeof(*note) < end) {
            note = (const ElfW(Nhdr) *) at;
            at += sizeof(*note);
            if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4
                && ngx_memcmp(at, "GNU", 4) == 0)
            {
                *ngx_hex_dump(out, (u_char *) at + 4,
                              ngx_min(note->n_descsz, BUILD_BYTES)) = '\0';
                return 1;
            }
            at += ngx_align(note->n_namesz, 4) + ngx_align(note->n_descsz, 4);
        }
    }
    return 1;
}


edge_seat_info_t
edge_seat_info(void)
{
    static u_char     build[2 * BUILD_BYTES + 1];
    edge_seat_info_t  info;

    if (build[0] == '\0') {
        dl_iterate_phdr(find_build, build);
    }
    info.generation = generation;
    info.master = page->seats[mine].master;
    info.build = (char *) build;
    info.ready = is_ready(&page->seats[mine]);
    return info;
}
