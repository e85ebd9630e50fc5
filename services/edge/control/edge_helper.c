/* Speaks ZeroMQ (edge_socket.c), and all of it in a process of its own beside each worker: a
 * second thread would make every allocation and every file descriptor of the worker cost more,
 * and an abort of a library would take requests along. It carries messages between the worker
 * and the bus, copies batches out of the event ring, asks the system's resolver for names, has
 * certificates of webhook signers fetched, asks postern-identity what the worker asks, brings the
 * keys of session tickets, and beside worker 0 it keeps the configuration on disk. It ends when
 * its worker does, and the worker starts another one when it dies. */
#include "services/edge/control/edge_helper.h"
#include "services/edge/events/edge_ring.h"
#include "services/edge/worker/edge_conf.h"
#include "services/edge/control/edge_helper_ask.h"
#include "services/edge/control/edge_helper_logs.h"
#include "services/edge/control/edge_helper_names.h"
#include "services/edge/control/edge_helper_signers.h"
#include "services/edge/control/edge_link.h"
#include "services/edge/control/edge_socket.h"
#include "services/edge/control/edge_store.h"
#include "services/edge/tls/edge_tickets.h"

#include <sched.h>
#include <sodium.h>
#include <sys/prctl.h>

enum { KEEP_MAX = 8 };

static void          *contexts[2];   /* of the logs, of events */
static edge_socket_t  events = { .kind = LINK_EVENTS };
static link_t         worker = LINK_CLOSED;
static int            names = -1;    /* the helper's end of the names' link */


/* ---- sockets ---- */

ngx_int_t
edge_helper_copies(const ngx_str_t *endpoints)
{
    size_t      i, begin = 0;
    ngx_int_t   n = 0;

    for (i = 0; i <= endpoints->len; i++) {
        if (i == endpoints->len || endpoints->data[i] == ',') {
            if (i == begin) {
                return NGX_ERROR;
            }
            begin = i + 1;
            n++;
        }
    }
    return n <= MERGE_COPIES_MAX ? n : NGX_ERROR;
}


/* Requests go before events: a context's I/O thread starts with its first socket and inherits the
 * policy, under which its wake-ups do not preempt a worker. */
static ngx_int_t
open_sockets(void)
{
    ngx_int_t           rc;
    struct sched_param  none = { 0 };

    if (edge_helper_logs_open(&contexts[0], &worker) != NGX_OK) {
        return NGX_ERROR;
    }
    /* logged: without them everything else is served, and nobody signs in */
    (void) edge_helper_ask_open(&contexts[0]);
    sched_setscheduler(0, SCHED_BATCH, &none);
    rc = edge_socket_open(&events, &contexts[1], &edge_conf()->events,
                     "events");
    sched_setscheduler(0, SCHED_OTHER, &none);
    return rc;
}


/* ---- events ---- */

static ngx_int_t
send_batch(const link_message_t *message)
{
    zmq_msg_t     body;
    edge_place_t  place;

    if (message->n != 2 || message->frames[1].len != sizeof(place)) {
        return NGX_ERROR;
    }
    ngx_memcpy(&place, message->frames[1].data, sizeof(place));
    if (!edge_socket_is_ready(&events, ZMQ_POLLOUT) || zmq_msg_init_size(&body, place.len)) {
        return NGX_DECLINED;
    }
    if ((place.len == 0 || edge_ring_copy(&place, zmq_msg_data(&body)) == NGX_OK)
        && zmq_send(events.socket, "batch", 5, ZMQ_DONTWAIT|ZMQ_SNDMORE) >= 0
        && zmq_send(events.socket, message->frames[0].data,
                    message->frames[0].len, ZMQ_DONTWAIT|ZMQ_SNDMORE) >= 0
        && zmq_msg_send(&body, events.socket, ZMQ_DONTWAIT) >= 0)
    {
        return NGX_OK;
    }
    zmq_msg_close(&body);
    return NGX_DECLINED;
}


/* ---- session tickets ---- */

/* At each beat of the worker's. */
static void
bring_tickets(void)
{
    ngx_int_t       rc;
    ngx_str_t       frame;
    edge_tickets_t  news;

    rc = edge_ticket_file_look(&news);
    if (rc != NGX_AGAIN) {
        frame.data = (u_char *) &news;
        frame.len = rc == NGX_OK ? sizeof(news) : 0;
        (void) link_send(&worker, LINK_TICKETS, &frame, 1, 0);
    }
    ngx_explicit_memzero(&news, sizeof(news));
}


/* ---- from the worker ---- */

/* NGX_AGAIN: nothing more now | NGX_ERROR: the worker is gone. */
static ngx_int_t
from_worker(void)
{
    ngx_int_t       rc;
    link_message_t  message;

    while ((rc = link_receive(&worker, &message, MSG_DONTWAIT)) == NGX_OK) {
        switch (message.kind) {
        case LINK_CONFIG:
        case LINK_SESSIONS:
            edge_helper_logs_take(&message);
            break;
        case LINK_EVENTS:
            (void) edge_socket_send(&events, message.frames, message.n);
            break;
        case LINK_PING:
            link_send(&worker, LINK_PING, NULL, 0, 0);
            bring_tickets();
            break;
        case LINK_BATCH:
            if (send_batch(&message) != NGX_OK) {
                link_send(&worker, LINK_NOBODY, NULL, 0, 0);
            }
            break;
        case LINK_SIGNER:
            if (message.n == 1) {
                edge_helper_signers_ask(&worker, &message.frames[0]);
            }
            break;
        case LINK_ASK:
            edge_helper_ask_take(&worker, &message);
            break;
        default:
            break;
        }
    }
    return rc;
}


/* ---- to the worker ---- */

static ngx_int_t
take_event(void *context, edge_socket_t *bus, const ngx_str_t *frames, ngx_uint_t n)
{
    (void) context;
    return link_send(&worker, bus->kind, frames, n, 0);
}


/* ---- the process ---- */

/* Milliseconds for which nothing is to be looked after; -1: for good. */
static int
patience(void)
{
    int  asks = edge_helper_ask_patience(), signers = edge_helper_signers_patience();

    if (asks < 0 || signers < 0) {
        return ngx_max(asks, signers);
    }
    return ngx_min(asks, signers);
}


static void
run_loop(void)
{
    int             n = 2;
    ngx_int_t       rc;
    zmq_pollitem_t  items[2 + EDGE_HELPER_LOGS_ITEMS + EDGE_HELPER_ASK_ITEMS + 1] = {
        { NULL, worker.fd, ZMQ_POLLIN, 0 },
        { events.socket, 0, ZMQ_POLLIN, 0 },
    };

    n += edge_helper_logs_poll(items + n);
    n += edge_helper_ask_poll(items + n);
    do {
        items[n].fd = edge_helper_signers_fd();
        items[n].events = ZMQ_POLLIN;
        zmq_poll(items, items[n].fd < 0 ? n : n + 1, patience());
        rc = from_worker() == NGX_AGAIN ? edge_helper_signers_take(&worker) : NGX_ERROR;
        rc = rc == NGX_OK ? edge_helper_signers_watch(&worker) : rc;
        rc = rc == NGX_OK ? edge_helper_logs_turn() : rc;
        rc = rc == NGX_OK ? edge_helper_ask_turn(&worker) : rc;
    } while (rc == NGX_OK && edge_socket_drain(&events, take_event, NULL) == NGX_OK);
}


/* Close what the worker had open: a listening socket or a client's connection that this process
 * held would stay open when the worker closes it. */
static void
close_others(ngx_log_t *log)
{
    int         keep[KEEP_MAX] = { worker.fd, names }, swap;
    ngx_uint_t  i, k, n = 2;
    unsigned    next = STDERR_FILENO + 1;

    for (/* void */; log && n < KEEP_MAX; log = log->next) {
        if (log->file) {
            keep[n++] = log->file->fd;
        }
    }
    for (i = 0; i < n; i++) {   /* in their order */
        for (k = i + 1; k < n; k++) {
            if (keep[k] < keep[i]) {
                swap = keep[i];
                keep[i] = keep[k];
                keep[k] = swap;
            }
        }
        if (keep[i] > (int) next) {
            close_range(next, keep[i] - 1, 0);
        }
        next = ngx_max((int) next, keep[i] + 1);
    }
    close_range(next, ~0U, 0);
}


/* Signals to the process group are for the worker; the helper ends when its link does. */
static void
ignore_signals(void)
{
    static const int  signals[] = {
        SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH, SIGIO,
        SIGPIPE
    };
    size_t            i;
    sigset_t          none;

    for (i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        signal(signals[i], SIG_IGN);
    }
    signal(SIGCHLD, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}


/* The kernel kills this process at once when the worker is killed: the next worker's helper must be
 * the only one that writes the state file. */
static void
end_with(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(2);
    }
}


static void __attribute__((noreturn))
run_helper(int link, int names_fd)
{
    pid_t  parent = ngx_pid;

    ngx_pid = ngx_getpid();
    worker.fd = link;
    names = names_fd;
    ngx_setproctitle((char *) "postern helper");
    ignore_signals();
    end_with(parent);
    close_others(ngx_cycle->log);
    randombytes_set_implementation(&randombytes_sysrandom_implementation);
    if (ngx_worker == 0) {
        edge_store_open();
    }
    if (edge_helper_names_start(names) != NGX_OK || open_sockets() != NGX_OK
        || link_send(&worker, LINK_READY, NULL, 0, 0) != NGX_OK)
    {
        _exit(2);
    }
    /* before any news of the config log: a worker has them when it begins to serve */
    bring_tickets();
    run_loop();
    edge_helper_logs_close();
    edge_helper_ask_close();
    zmq_close(events.socket);
    zmq_ctx_term(contexts[0]);
    zmq_ctx_term(contexts[1]);   /* as long as the linger, for the last batches */
    _exit(0);
}


pid_t
edge_helper_start(int *link, int *names_fd)
{
    int    pair[2], names_pair[2];
    pid_t  pid;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET|SOCK_CLOEXEC, 0, pair) != 0) {
        return -1;
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET|SOCK_CLOEXEC, 0, names_pair) != 0) {
        close(pair[0]);
        close(pair[1]);
        return -1;
    }
    pid = fork();
    if (pid == 0) {
        close(pair[0]);
        close(names_pair[0]);
        run_helper(pair[1], names_pair[1]);
    }
    close(pair[1]);
    close(names_pair[1]);
    if (pid < 0) {
        close(pair[0]);
        close(names_pair[0]);
        return -1;
    }
    *link = pair[0];
    *names_fd = names_pair[0];
    return pid;
}
