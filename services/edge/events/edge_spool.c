#include "services/edge/events/edge_spool.h"
#include "common/base/invariant.h"
#include "services/edge/events/edge_slot.h"
#include "services/edge/events/spool.h"
#include "services/edge/worker/edge_conf.h"
#include "services/edge/worker/edge_file.h"
#include "services/edge/worker/edge_seat.h"

enum { ADOPT_BYTES = 1 << 20 };   /* of another's file in one turn */

static spool_t     spool = { NGX_INVALID_FILE, 0, 0, 0, 0 };
static ngx_uint_t  is_logged;   /* that the file cannot be used: once, until it can again */


void
edge_spool_path(ngx_uint_t seat, ngx_uint_t worker, char *out, size_t size)
{
    ngx_snprintf((u_char *) out, size, "%V/events.%ui%s.spool%Z",
                 &edge_conf()->state_dir, worker, edge_seat_suffix(seat));
}


static void
log_trouble(ngx_err_t err, const char *what)
{
    if (!is_logged) {
        is_logged = 1;
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, err,
                      "postern: cannot %s the event spool: events beyond the "
                      "ring will be dropped", what);
    }
}


ngx_int_t
edge_spool_open(void)
{
    int       r;
    char      path[NGX_MAX_PATH];
    off_t     cut;
    ngx_fd_t  file;

    if (spool.file != NGX_INVALID_FILE) {
        return NGX_OK;
    }
    edge_spool_path(edge_seat(), ngx_worker, path, sizeof(path));
    file = edge_file_open(path, 0);
    if (file == NGX_INVALID_FILE) {
        log_trouble(ngx_errno, "open");
        return NGX_ERROR;
    }
    r = spool_attach(&spool, file, ngx_worker, &cut);
    if (r) {
        log_trouble(-r, "go on with");
        close(file);
        return NGX_ERROR;
    }
    if (cut) {
        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "postern: the event spool ended in %O bytes that are no "
                      "whole batch: they are cut off, behind %O bytes that are",
                      cut, spool.end);
    }
    return NGX_OK;
}


static void
trim_file(void)
{
    int  r = spool_trim(&spool);

    if (r) {
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, -r,
                      "postern: cannot shorten the event spool to %O bytes",
                      spool.end);
    }
}


/* r: of spool_append or spool_copy. That the file is full is not logged: events that find no
 * room are counted where they are dropped. */
static ngx_int_t
note_append(int r)
{
    if (r == 0) {
        is_logged = 0;
        return NGX_OK;
    }
    if (r != -EFBIG) {
        log_trouble(-r, "write to");
    }
    return NGX_ERROR;
}


ngx_int_t
edge_spool_append(const ring_batch_t *batch, ngx_uint_t worker, uint64_t boot)
{
    ring_spooled_t  head;

    if (edge_spool_open() != NGX_OK) {
        return NGX_ERROR;
    }
    ngx_memzero(&head, sizeof(head));
    head.boot = boot;
    head.seq = batch->is.seq;
    head.dropped = batch->is.dropped;
    head.len = batch->is.len;
    head.count = batch->is.count;
    return note_append(spool_append(&spool, &head, worker, batch->data, edge_conf()->spool_size));
}


uint64_t
edge_spool_taken(void)
{
    return spool.end;
}


uint64_t
edge_spool_room(void)
{
    off_t  size = edge_conf()->spool_size;

    return is_logged || spool.end >= size ? 0 : size - spool.end;
}


/* ---- sending ---- */

ngx_uint_t
edge_spool_next(edge_batch_t *batch)
{
    int             r;
    ring_spooled_t  head;

    if (spool.sent >= spool.end) {
        return 0;
    }
    r = spool_read(&spool, spool.sent, &head);
    if (r <= 0) {
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, -r,
                      "postern: the event spool is torn at byte %O of %O: the "
                      "rest of it is lost", spool.sent, spool.end);
        spool.end = spool.sent;
        trim_file();
        return 0;
    }
    INVARIANT(spool.acked <= spool.sent && head.len <= RING_SPOOL_BYTES);
    batch->oldest = spool.sent == spool.acked;
    batch->place.at = spool.sent + sizeof(head);
    batch->place.len = head.len;
    batch->place.spooled = 1;
    spool.sent = spool_behind(spool.sent, &head);
    batch->seq = head.seq;
    batch->count = ring_spooled_count(&head);
    batch->dropped = head.dropped;
    edge_slot_name_producer(batch->producer, sizeof(batch->producer),
                            spool_worker(&spool, &head), head.boot);
    return 1;
}


ngx_uint_t
edge_spool_is_used(void)
{
    return spool.acked < spool.end;
}


void
edge_spool_acknowledge(const char *producer, uint64_t seq)
{
    char            name[sizeof(((edge_batch_t *) 0)->producer)];
    off_t           at;
    ring_spooled_t  head;

    for (at = spool.acked; at < spool.sent && spool_read(&spool, at, &head) > 0; /* void */) {
        at = spool_behind(at, &head);
        if (at > spool.sent) {
            break;   /* somebody else changed the file since */
        }
        edge_slot_name_producer(name, sizeof(name), spool_worker(&spool, &head), head.boot);
        if (head.seq == seq && ngx_strcmp(name, producer) == 0) {
            spool.acked = at;
            break;
        }
    }
    if (!edge_spool_is_used()) {
        trim_file();
    }
}


void
edge_spool_resend(void)
{
    spool.sent = spool.acked;
}


ngx_int_t
edge_spool_copy(const edge_place_t *place, void *out)
{
    char             path[NGX_MAX_PATH];
    static ngx_fd_t  file = NGX_INVALID_FILE;   /* the helper's own */

    if (file == NGX_INVALID_FILE) {
        edge_spool_path(edge_seat(), ngx_worker, path, sizeof(path));
        file = open(path, O_RDONLY|O_CLOEXEC);
    }
    return pread(file, out, place->len, place->at) == (ssize_t) place->len
           ? NGX_OK : NGX_DECLINED;
}


/* ---- what another master left ---- */

ngx_int_t
edge_spool_adopt(ngx_fd_t file, ngx_uint_t worker, off_t *at)
{
    int    r = 1;
    off_t  end = *at + ADOPT_BYTES;

    while (r > 0 && *at < end) {
        if (edge_spool_open() != NGX_OK) {
            return NGX_AGAIN;
        }
        r = spool_copy(&spool, file, worker, at, edge_conf()->spool_size);
        if (r < 0) {
            (void) note_append(r);
            return NGX_AGAIN;   /* when there is room again */
        }
    }
    return r > 0 ? NGX_AGAIN : NGX_OK;   /* the end, or torn from here on */
}
