/* Events that workers left which do not run any more: of a master in the other seat that was
 * replaced or killed, and in this seat of an edge that had more workers. Numbers of workers are
 * dealt out: a worker takes over those of n, n + workers, n + 2 * workers and so on, n being its
 * own number. It copies them into its own spool, under the producer's name and numbers that they
 * have, and sends them from there. Should it die before the copy is marked as done, some are
 * sent twice; postern-events knows them by their numbers and stores them once. */
#include "services/edge/events/edge_adopt.h"
#include "services/edge/events/edge_memory.h"
#include "services/edge/events/edge_ring.h"
#include "services/edge/events/edge_slot.h"
#include "services/edge/events/edge_spool.h"
#include "services/edge/worker/edge_file.h"
#include "services/edge/worker/edge_seat.h"
#include "services/edge/events/ring.h"

enum {
    LOOK_MS = 1000,
    SAY_MS = 60000
};

static ngx_msec_t  looked;

/* How far a spool was copied that is too large for one turn. Where another master took the seat
 * meanwhile, its worker may have written to the file, so the copy begins anew. */
static struct {
    off_t       at;           /* 0: none */
    uint64_t    generation;   /* of the seat's master */
    ngx_uint_t  seat, worker;
} copied;


static ngx_uint_t
is_there(const char *path)
{
    struct stat  st;

    return stat(path, &st) == 0 && st.st_size > 0;
}


static off_t
begin_copy(ngx_uint_t seat, ngx_uint_t worker)
{
    uint64_t  generation = edge_seat_generation(seat);

    if (copied.seat != seat || copied.worker != worker
        || copied.generation != generation)
    {
        copied.at = 0;
    }
    copied.seat = seat;
    copied.worker = worker;
    copied.generation = generation;
    return copied.at;
}


/* A spool that cannot be read keeps the events that are in that worker's memory, which are
 * newer, from being taken over; those of other workers are taken over all the same. */
static ngx_int_t
refuse_spool(const char *path)
{
    static ngx_msec_t  said;

    if (said == 0 || ngx_current_msec - said >= SAY_MS) {
        said = ngx_current_msec;
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, ngx_errno,
                      "postern: cannot take over the events that another edge "
                      "left in \"%s\": is it a file, this user's alone?", path);
    }
    return NGX_DECLINED;
}


/* NGX_OK: nothing is left there. NGX_AGAIN: there is more, or no room for it now. NGX_DECLINED:
 * it cannot be read. */
static ngx_int_t
adopt_spool(ngx_uint_t seat, ngx_uint_t worker)
{
    char       path[NGX_MAX_PATH];
    off_t      size;
    ngx_fd_t   file;
    ngx_int_t  rc;

    edge_spool_path(seat, worker, path, sizeof(path));
    if (!is_there(path)) {
        return NGX_OK;
    }
    file = open(path, O_RDWR|O_CLOEXEC|O_NOFOLLOW|O_NONBLOCK);
    if (file == NGX_INVALID_FILE) {
        return ngx_errno == NGX_ENOENT ? NGX_OK : refuse_spool(path);
    }
    if (!edge_file_is_own(file)) {
        rc = refuse_spool(path);
        close(file);
        return rc;
    }
    copied.at = begin_copy(seat, worker);
    rc = edge_spool_adopt(file, worker, &copied.at);
    size = lseek(file, 0, SEEK_END);
    close(file);
    if (rc == NGX_OK) {
        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "postern: took over %O bytes of events that another edge "
                      "left in \"%s\"; %O bytes behind them are no whole batch",
                      copied.at, path, size - copied.at);
        copied.at = 0;
        (void) unlink(path);
    }
    return rc;
}


/* A worker's spool, and then its slot of the memory, which has newer events; slot NULL: it has
 * none. */
static ngx_int_t
adopt_worker(ngx_uint_t seat, ngx_uint_t worker, void *slot, size_t slot_bytes)
{
    ngx_int_t  rc = adopt_spool(seat, worker);

    if (rc == NGX_OK && slot) {
        (void) edge_ring_adopt_slot(slot, slot_bytes, worker);
    }
    return rc;
}


/* One spool at a time: NGX_AGAIN, it is not done. */
static ngx_int_t
adopt_own_seat(void)
{
    ngx_uint_t  worker;

    for (worker = ngx_worker + edge_ring_workers(); worker < RING_WORKERS_MAX;
         worker += edge_ring_workers())
    {
        if (adopt_worker(edge_seat(), worker, edge_memory_slot(worker),
                         edge_memory_slot_bytes())
            == NGX_AGAIN)
        {
            return NGX_AGAIN;
        }
    }
    return NGX_OK;
}


static ngx_uint_t
left_is_empty(const edge_memory_left_t *left)
{
    ngx_uint_t  i, is_empty = 1;

    for (i = 0; i < left->slots; i++) {
        is_empty &= edge_slot_is_empty(edge_memory_left_slot(left, i),
                                       left->slot_bytes);
    }
    return is_empty;
}


static void
adopt_other_seat(void)
{
    void                *slot;
    ngx_uint_t           seat = !edge_seat(), worker, is_open;
    edge_memory_left_t   left;

    if (edge_seat_visit_other() != NGX_OK) {
        copied.at = 0;
        return;
    }
    is_open = edge_memory_left_open(seat, &left) == NGX_OK;
    for (worker = ngx_worker; worker < RING_WORKERS_MAX;
         worker += edge_ring_workers())
    {
        slot = is_open && worker < left.slots
               ? edge_memory_left_slot(&left, worker) : NULL;
        if (adopt_worker(seat, worker, slot, is_open ? left.slot_bytes : 0)
            == NGX_AGAIN)
        {
            break;
        }
    }
    if (is_open) {
        edge_memory_left_close(&left, left_is_empty(&left));
    }
    edge_seat_leave_other();
}


void
edge_adopt(void)
{
    if (copied.at == 0 && ngx_current_msec - looked < LOOK_MS) {
        return;
    }
    looked = ngx_current_msec;
    if (ngx_exiting) {
        return;
    }
    if (adopt_own_seat() == NGX_OK) {
        adopt_other_seat();
    }
    edge_ring_send();
}
