/* Events that a master left in the other seat when it was replaced, or killed: each worker takes those of the worker of its number
 * into its own spool, under the name and the numbers that they have, and sends them from there. Should this worker die between a copy
 * and its mark, some go twice: postern-events takes none of them twice. */
#include "edge.h"
#include "edge_seat.h"

enum { LOOK_MS = 1000 };

static ngx_msec_t  looked;
static off_t       copied;   /* of the other's spool */


static ngx_uint_t
is_there(const char *path)
{
    struct stat  st;

    return stat(path, &st) == 0 && st.st_size > 0;
}


/* Older than what is in memory. NGX_OK: all of it is ours. */
static ngx_int_t
adopt_spool(const char *path)
{
    off_t      size;
    ngx_fd_t   file;
    ngx_int_t  rc;

    file = open(path, O_RDWR|O_CLOEXEC|O_NOFOLLOW);
    if (file == NGX_INVALID_FILE) {
        return ngx_errno == NGX_ENOENT ? NGX_OK : NGX_AGAIN;
    }
    rc = edge_ring_adopt_spool(file, &copied);
    size = lseek(file, 0, SEEK_END);
    close(file);
    if (rc == NGX_OK) {
        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "postern: took over %O bytes of events that another edge "
                      "left in \"%s\"; %O bytes behind them are no whole batch",
                      copied, path, size - copied);
        copied = 0;
        (void) unlink(path);
    }
    return rc;
}


static void
adopt_memory(ngx_uint_t seat)
{
    void                *at;
    ngx_uint_t           i, is_empty = 1;
    edge_memory_left_t   left;

    if (edge_memory_left_open(seat, &left) != NGX_OK) {
        return;
    }
    at = edge_memory_left_slot(&left, ngx_worker);
    if (at) {
        (void) edge_ring_adopt_slot(at, left.slot_bytes);
    }
    for (i = 0; i < left.slots; i++) {
        is_empty &= edge_ring_slot_is_empty(edge_memory_left_slot(&left, i),
                                            left.slot_bytes);
    }
    edge_memory_left_close(&left, is_empty);
}


void
edge_adopt(void)
{
    char        path[NGX_MAX_PATH];
    ngx_uint_t  seat = !edge_seat();

    if (copied == 0 && ngx_current_msec - looked < LOOK_MS) {
        return;
    }
    looked = ngx_current_msec;
    if (ngx_exiting || edge_seat_visit_other() != NGX_OK) {
        return;
    }
    edge_ring_spool_path(seat, path, sizeof(path));
    if (!is_there(path) || adopt_spool(path) == NGX_OK) {
        adopt_memory(seat);
    }
    edge_seat_leave_other();
    edge_bus_send_events();
}
