/* An edge is upgraded by a new master beside the old one: nginx starts it on USR2 with the same
 * listening sockets, so no connection that waits in them is lost. At most two masters live at a
 * time, and each has a seat, 0 or 1: a slot whose number is part of every name that two masters
 * must not share: the memory and the spool of events, and the name in the config log.
 *
 *   - The new master takes the free seat and records which master it succeeds. Its workers start
 *     as always.
 *   - When all new workers are ready, the old workers yield: they accept no connections and close
 *     each connection after its next response. Should the new master die, they go on as before.
 *   - After YIELD_MS the old master is told to quit. Only now are idle connections closed; streams
 *     go on for worker_shutdown_timeout at most.
 *   - Events that the old one leaves in memory or on disk are sent by the new one (edge_adopt.c).
 *
 * This file has the seats and their page in shared memory; edge_handover.c is the workers' part.
 *
 * A seat is taken while its file is locked (flock). The master holds the lock and its workers
 * inherit it, so the seat is free when the last of these processes has ended, however it ended. */
#include "services/edge/worker/edge_seat.h"
#include "common/base/invariant.h"
#include "services/edge/worker/edge_build.h"
#include "services/edge/worker/edge_conf.h"
#include "services/edge/worker/edge_file.h"

#include <sys/file.h>
#include <sys/mman.h>

enum { TAKE_TRIES = 40, TAKE_WAIT_MS = 50 };

/* Marks the layout of page_t: change the number with the layout. */
static const char  magic[16] = "postern seats 1";

typedef struct {
    uint64_t  generation;    /* of the master that has or had the seat; 0: never taken */
    uint64_t  predecessor;   /* generation whose sockets it inherited; 0: it made its own */
    uint64_t  ready;         /* bit i: worker i serves */
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
/* open on this seat's lock file for the life of the process */
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
    INVARIANT(page && seat < EDGE_SEATS);
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


/* Allocates the page's block on disk: writing to a mapped page without one raises SIGBUS when the
 * disk is full. */
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
        (void) flock(file, LOCK_UN);   /* close alone would not: the mapping refers to the file */
        close(file);
    }
    return page ? NGX_OK : NGX_ERROR;
}


/* NGX_OK: no process holds the seat. */
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


/* Takes a seat. Tried several times, because is_free of another process holds the lock for a
 * moment. */
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

/* The seat of the master that gave us its sockets: our parent. Seats that are free are skipped:
 * they still have the pid of their last master, and in a container, where pids repeat, that may
 * equal our parent's. */
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


/* Each worker has a listening socket of its own (reuseport). With fewer workers than before, a
 * socket without a worker would still collect connections; with more, the extra sockets are new
 * ones. So the number of workers must not change. */
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
succeed_master(seat_t *old, ngx_uint_t workers, ngx_log_t *log)
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
    /* a signal to one master's process group must not reach the other master */
    (void) setpgid(0, 0);
    return NGX_OK;
}


/* Takes the seat that was used last, so that the config log knows the name and the events left in
 * its memory and spool are found; else the other one. */
static ngx_int_t
begin_first(ngx_log_t *log)
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


/* nginx ignores USR2 while its parent is the process that started it. That is right for a master
 * which replaces another: the old one still runs. It is wrong for the first master, which is not a
 * daemon: its parent (0 for process 1) is a supervisor, and stays. No process has this pid. */
static void
allow_replacement(void)
{
    ngx_parent = NGX_INVALID_PID;
}


/* Refuses another number of workers before nginx makes their sockets: these would take connections
 * at once, which are lost when the master is refused later. If worker_processes has not been read
 * at this point, edge_seat_take checks it. */
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
    if (old ? succeed_master(old, core->worker_processes, cycle->log) != NGX_OK
            : begin_first(cycle->log) != NGX_OK)
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


/* Has a master with our sockets taken the other seat, and do all its workers serve? */
ngx_uint_t
edge_seat_is_succeeded(void)
{
    seat_t  *other = &page->seats[!mine];

    return other->predecessor == generation && other->generation > generation
           && is_ready(other) && is_free(!mine) == NGX_DECLINED;
}


/* A store into the page may block while its file system is frozen: stores without effect are
 * avoided. */
void
edge_seat_say_ready(void)
{
    uint64_t  *ready = &page->seats[mine].ready, bit = 1ULL << ngx_worker;

    INVARIANT(mine < EDGE_SEATS && ngx_worker < 64);   /* a bit each; see edge_ring_make */
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

/* May this master write the state file? early: it is not to take over from a running writer yet. */
static ngx_uint_t
may_write(ngx_uint_t early)
{
    if (page->writer == generation || page->writer_seat == mine
        || is_free(!mine) == NGX_OK)
    {
        return 1;   /* we are the writer, or the writer has ended */
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
    INVARIANT(mine < EDGE_SEATS && generation > 0);
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
    INVARIANT(page_file != NGX_INVALID_FILE);
    (void) flock(page_file, LOCK_UN);
}


/* ---- for the operator ---- */

edge_seat_info_t
edge_seat_info(void)
{
    edge_seat_info_t  info;

    info.generation = generation;
    info.master = page->seats[mine].master;
    info.build = edge_build_id();
    info.ready = is_ready(&page->seats[mine]);
    return info;
}
