/* A socket that is closed lives on in the kernel until its upstream has taken the rest, and nobody
 * could say how many of them there are. So the worker keeps a descriptor of each that has more than
 * a little, looks once in LOOK_MS whether the upstream has acknowledged its end, and charges the
 * client and the account until then. What is charged for one is a part of all at least, so that
 * portions bound their number, too.
 *
 * What the upstream says meanwhile, such as pings of a WebSocket, is read and thrown away: the
 * kernel would answer it with a reset, were the socket closed or shut for reads, and what is left
 * would be lost. */
#include "services/edge/http/edge_unsent_left.h"
#include "services/edge/http/edge_looks.h"
#include "services/edge/http/edge_share.h"
#include "services/edge/http/edge_unsent.h"
#include "services/edge/http/left_places.h"
#include "services/edge/worker/edge_conf.h"

#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>

enum {
    DROPPED_MAX = 64 << 10,   /* bytes of an upstream in one look: it may talk so fast */
    LOOK_MS = 1000,
    LOG_EVERY_S = 60
};

typedef struct {
    ngx_queue_t        link;         /* among those that are free */
    look_t             look;
    portion_t          held;
    ngx_connection_t  *connection;   /* until that is closed */
    ngx_socket_t       fd;           /* from then on */
} left_t;

static left_t       places[LEFT_PLACES];   /* each is charged this part of memory, or more */
static ngx_queue_t  unused;


static void
free_place(left_t *left)
{
    edge_share_let_go(&left->held);
    ngx_queue_insert_head(&unused, &left->link);
}


/* Has the upstream acknowledged all, the end included, or has the kernel given it up? */
static ngx_uint_t
is_over(ngx_socket_t fd)
{
    socklen_t        len;
    struct tcp_info  info;

    len = sizeof(info);
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) == -1) {
        return 1;
    }
    return info.tcpi_state != TCP_FIN_WAIT1 && info.tcpi_state != TCP_CLOSING
           && info.tcpi_state != TCP_LAST_ACK;
}


/* What stands unread when the descriptor is closed would make a reset of its end. */
static void
drop_unread(ngx_socket_t fd)
{
    static u_char  dropped[DROPPED_MAX];

    (void) recv(fd, dropped, sizeof(dropped), MSG_DONTWAIT);   /* is_over sees what is wrong */
}


static void
look_at(look_t *look)
{
    left_t  *left = (left_t *) ((char *) look - offsetof(left_t, look));

    drop_unread(left->fd);
    if (!is_over(left->fd)) {
        return;
    }
    looks_forget(look);
    if (ngx_close_socket(left->fd) == -1) {
        ngx_log_error(NGX_LOG_ALERT, ngx_cycle->log, ngx_socket_errno,
                      "postern: close of a socket that was left failed");
    }
    free_place(left);
}


static edge_looks_t  looks = { .look_at = look_at };


static void
note_no_descriptor(const ngx_connection_t *c, ngx_err_t err)
{
    static time_t      said;
    static ngx_uint_t  times;

    times++;
    if (said == 0 || ngx_time() - said >= LOG_EVERY_S) {
        said = ngx_time();
        ngx_log_error(NGX_LOG_ALERT, c->log, err,
                      "postern: no descriptor for a socket that is left: it is reset (number "
                      "%ui; at most one line a minute)", times);
    }
}


/* A descriptor of the socket that outlives the connection, and of which nginx gets no events. Its
 * end is sent at once, as a close would. -1: there is none, which is logged. */
static ngx_socket_t
take_socket(ngx_connection_t *c)
{
    ngx_socket_t  fd;

    if (ngx_del_conn && (c->read->active || c->write->active)
        && ngx_del_conn(c, 0) != NGX_OK)
    {
        return -1;
    }
    fd = fcntl(c->fd, F_DUPFD_CLOEXEC, 0);
    if (fd == -1) {
        note_no_descriptor(c, ngx_socket_errno);
        return -1;
    }
    (void) shutdown(fd, SHUT_WR);   /* fails where the upstream has reset it: then it is over */
    return fd;
}


/* Where the socket is full TLS could not say its goodbye, and nginx forgets what OpenSSL has. */
static void
free_tls(ngx_connection_t *c)
{
    if (c->ssl && c->ssl->connection) {
        SSL_free(c->ssl->connection);
        c->ssl = NULL;
    }
}


/* nginx closes the socket right behind this. */
static void
on_closed(void *data)
{
    left_t  *left = data;

    free_tls(left->connection);
    left->fd = take_socket(left->connection);
    if (left->fd == -1) {
        edge_unsent_reset(left->connection);
        free_place(left);
        return;
    }
    edge_looks_watch(&looks, &left->look);
}


ngx_uint_t
edge_unsent_left_keep(const edge_ctx_t *ctx, ngx_connection_t *c, size_t bytes)
{
    left_t              *left;
    ngx_pool_cleanup_t  *cln;

    if (ngx_queue_empty(&unused) || c->pool == NULL) {
        return 0;
    }
    left = ngx_queue_data(ngx_queue_head(&unused), left_t, link);
    if (!edge_share_hold(ctx, &left->held,
                         ngx_max(bytes, edge_conf()->request_memory / LEFT_PLACES)))
    {
        return 0;
    }
    cln = ngx_pool_cleanup_add(c->pool, 0);
    if (cln == NULL) {
        edge_share_let_go(&left->held);
        return 0;
    }
    ngx_queue_remove(&left->link);
    left->connection = c;
    cln->handler = on_closed;
    cln->data = left;
    return 1;
}


static size_t
files_beside(ngx_cycle_t *cycle)
{
    ngx_core_conf_t  *core = (ngx_core_conf_t *) ngx_get_conf(cycle->conf_ctx, ngx_core_module);

    return left_files_beside(cycle->listening.nelts, core->worker_processes);
}


void
edge_unsent_left_start(ngx_cycle_t *cycle)
{
    ngx_uint_t     i, n;
    struct rlimit  files;

    n = getrlimit(RLIMIT_NOFILE, &files) == 0
            ? left_places(cycle->connection_n, files_beside(cycle), files.rlim_cur)
            : LEFT_PLACES_FEW;
    ngx_queue_init(&unused);
    for (i = 0; i < n; i++) {
        ngx_queue_insert_tail(&unused, &places[i].link);
    }
    edge_looks_start(&looks, cycle, LOOK_MS);
}
