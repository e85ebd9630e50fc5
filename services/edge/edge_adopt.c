/* Events that workers left that are no more: those of a master in the other seat that was replaced, or killed, and in the own seat
 * those of an edge that had more workers. Each worker takes those of the workers whose number is its own or another one that it has
 * when they are dealt round, into its own spool, under the name and the numbers that they have, and sends them from there. Should it
 * die between a copy and its mark, some go twice: postern-events takes none of them twice. */
#include "edge.h"
#include "edge_seat.h"
#include "ring.h"

enum { LOOK_MS = 1000 };

static ngx_msec_t  looked;

/* Of a spool that is not taken whole in one turn. Whoever sits down in its seat meanwhile may write to it. */
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


/* NGX_OK: all of it is ours. */
static ngx_int_t
adopt_spool(ngx_uint_t seat, ngx_uint_t worker)
{
    char       path[NGX_MAX_PATH];
    off_t      size;
    ngx_fd_t   file;
    ngx_int_t  rc;

    edge_ring_spool_path(seat, worker, path, sizeof(path));
    if (!is_there(path)) {
        return NGX_OK;
    }
    file = open(path, O_RDWR|O_CLOEXEC|O_NOFOLLOW);
    if (file == NGX_INVALID_FILE) {
        return ngx_errno == NGX_ENOENT ? NGX_OK : NGX_AGAIN;
    }
    copied.at = begin_copy(seat, worker);
    rc = edge_ring_adopt_spool(file, worker, &copied.at);
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


/* Of the workers that are dealt to this one, from the first on. What is in their spools is older than what is in memory.
 * NGX_OK: nothing is left there. */
static ngx_int_t
adopt_spools(ngx_uint_t seat, ngx_uint_t first)
{
    ngx_int_t   rc = NGX_OK;
    ngx_uint_t  worker;

    for (worker = first; worker < RING_WORKERS_MAX && rc == NGX_OK;
         worker += edge_ring_workers())
    {
        rc = adopt_spool(seat, worker);
    }
    return rc;
}


static ngx_int_t
adopt_own_seat(void)
{
    void        *at;
    ngx_uint_t   worker, first = ngx_worker + edge_ring_workers();

    if (adopt_spools(edge_seat(), first) != NGX_OK) {
        return NGX_AGAIN;
    }
    for (worker = first; (at = edge_memory_slot(worker)) != NULL;
         worker += edge_ring_workers())
    {
        (void) edge_ring_adopt_slot(at, edge_memory_slot_bytes(), worker);
    }
    return NGX_OK;
}


static void
adopt_memory(ngx_uint_t seat)
{
    ngx_uint_t           i, is_empty = 1;
    edge_memory_left_t   left;

    if (edge_memory_left_open(seat, &left) != NGX_OK) {
        return;
    }
    for (i = ngx_worker; i < left.slots; i += edge_ring_workers()) {
        (void) edge_ring_adopt_slot(edge_memory_left_slot(&left, i),
                                    left.slot_bytes, i);
    }
    for (i = 0; i < left.slots; i++) {
        is_empty &= edge_ring_slot_is_empty(edge_memory_left_slot(&left, i),
                                            left.slot_bytes);
    }
    edge_memory_left_close(&left, is_empty);
}


static void
adopt_other_seat(void)
{
    ngx_uint_t  seat = !edge_seat();

    if (edge_seat_visit_other() != NGX_OK) {
        copied.at = 0;
        return;
    }
    if (adopt_spools(seat, ngx_worker) == NGX_OK) {
        adopt_memory(seat);
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
    if (adopt_own_seat() == NGX_OK) {   /* one spool at a time */
        adopt_other_seat();
    }
    edge_bus_send_events();
}
