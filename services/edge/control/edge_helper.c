/* The one file that speaks ZeroMQ, and all of it in a process of its own beside each worker: a second
 * thread would make every allocation and every file descriptor of the worker cost more, and an abort
 * of a library would take requests along. It carries messages between the worker and the bus, copies
 * batches out of the event ring, asks the system's resolver for names, brings the keys of session tickets, and
 * beside worker 0 it keeps the configuration on disk. It ends when its worker does, and the worker starts another one when it dies. */
#include "services/edge/control/edge_helper.h"
#include "services/edge/events/edge_ring.h"
#include "services/edge/worker/edge_conf.h"
#include "services/edge/control/edge_link.h"
#include "services/edge/control/edge_store.h"
#include "services/edge/tls/edge_tickets.h"
#include "services/edge/control/merge.h"
#include "services/edge/control/parts.h"
#include "common/bus/heartbeat.h"
#include "common/codec/pack.h"

#include <netdb.h>
#include <pthread.h>
#include <sched.h>
#include <sodium.h>
#include <sys/prctl.h>
#include <zmq.h>

enum {
    BURST = 64,
    HWM = 10000,
    KEEP_MAX = 8,
    BETWEEN = 5,           /* the frame with the revisions between: of use to the state file only */
    RECONNECT_MS = 50,
    RESOLVERS_KEPT = 4,    /* threads */
    RESOLVER_IDLE_S = 10   /* after which one of the others ends */
};

typedef struct {
    void         *socket;
    link_kind_t   kind;
} bus_t;

static void   *contexts[2];   /* of config, of events */
static bus_t   configs[MERGE_COPIES_MAX];   /* of each copy */
static parts_t   parts_of[MERGE_COPIES_MAX];
static bus_t   events = { NULL, LINK_EVENTS };
static merge_t    merge;      /* what the copies say, for one worker */
static ngx_int_t  passed;     /* NGX_OK, while the worker takes what is passed to it */
static link_t  worker = LINK_CLOSED;
static int     names = -1;


static const merge_ports_t  ports;   /* below */


/* ---- sockets ---- */

/* CURVE: key files as zcert writes them, lines of  public-key = "..." */
static ngx_int_t
read_key(const char *dir, const char *file, const char *name, char out[41])
{
    char    path[NGX_MAX_PATH], line[256], *quote;
    FILE   *in;

    snprintf(path, sizeof(path), "%s/%s", dir, file);
    in = fopen(path, "re");
    out[0] = '\0';
    while (in && fgets(line, sizeof(line), in)) {
        quote = strchr(line, '"');
        if (strstr(line, name) && quote && strlen(quote) > 41) {
            ngx_cpystrn((u_char *) out, (u_char *) quote + 1, 41);
        }
    }
    if (in) {
        fclose(in);
    }
    if (out[0] == '\0') {
        ngx_log_error(NGX_LOG_EMERG, ngx_cycle->log, 0,
                      "postern: no %s in CURVE key file \"%s\"", name, path);
        return NGX_ERROR;
    }
    return NGX_OK;
}


static ngx_int_t
set_keys(void *socket, const char *peer)
{
    char  dir[NGX_MAX_PATH], file[128], secret[41], public[41], server[41];

    ngx_snprintf((u_char *) dir, sizeof(dir), "%V%Z",
                 &edge_conf()->curve_dir);
    if (dir[0] == '\0') {
        ngx_log_error(NGX_LOG_EMERG, ngx_cycle->log, 0,
                      "postern: a tcp:// endpoint needs postern_curve_dir");
        return NGX_ERROR;
    }
    snprintf(file, sizeof(file), "peers/%s.cert", peer);
    if (read_key(dir, "self.cert_secret", "secret-key", secret) != NGX_OK
        || read_key(dir, "self.cert_secret", "public-key", public) != NGX_OK
        || read_key(dir, file, "public-key", server) != NGX_OK)
    {
        return NGX_ERROR;
    }
    zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, server, 41);
    zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, public, 41);
    zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, secret, 41);
    ngx_explicit_memzero(secret, sizeof(secret));
    return NGX_OK;
}


/* Services end a connection whose other end says nothing; the edge must notice, too, and make another one. */
static void
set_heartbeat(void *socket)
{
    static const struct {
        int  option, ms;
    } limits[] = {
        { ZMQ_HEARTBEAT_IVL, HEARTBEAT_MS },
        { ZMQ_HEARTBEAT_TIMEOUT, HEARTBEAT_SILENCE_MS },
        { ZMQ_HEARTBEAT_TTL, HEARTBEAT_SILENCE_MS },
        { ZMQ_HANDSHAKE_IVL, HEARTBEAT_HANDSHAKE_MS },
        { ZMQ_TCP_MAXRT, HEARTBEAT_UNSENT_MS },
        { ZMQ_CONNECT_TIMEOUT, HEARTBEAT_CONNECT_MS },
    };
    size_t  i;

    for (i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        zmq_setsockopt(socket, limits[i].option, &limits[i].ms, sizeof(int));
    }
}


static ngx_int_t
open_socket(bus_t *bus, void **context, const ngx_str_t *endpoint,
    const char *peer)
{
    int      one = 1, linger = EDGE_LINGER_MS, hwm = HWM, ivl = RECONNECT_MS;
    int      unbounded = 0; /* heartbeat.h: a socket that asks has no receive mark */
    char     address[512];
    int64_t  max = PACK_BYTES_MAX;

    if (*context == NULL) {
        *context = zmq_ctx_new();
    }
    bus->socket = *context ? zmq_socket(*context, ZMQ_DEALER) : NULL;
    if (bus->socket == NULL) {
        return NGX_ERROR;
    }
    /* only to peers that are there; a restarted peer says "who" to what it does not know */
    zmq_setsockopt(bus->socket, ZMQ_IMMEDIATE, &one, sizeof(one));
    zmq_setsockopt(bus->socket, ZMQ_PROBE_ROUTER, &one, sizeof(one));
    zmq_setsockopt(bus->socket, ZMQ_LINGER, &linger, sizeof(linger));
    zmq_setsockopt(bus->socket, ZMQ_SNDHWM, &hwm, sizeof(hwm));
    zmq_setsockopt(bus->socket, ZMQ_RCVHWM, &unbounded, sizeof(unbounded));
    zmq_setsockopt(bus->socket, ZMQ_RECONNECT_IVL, &ivl, sizeof(ivl));
    zmq_setsockopt(bus->socket, ZMQ_MAXMSGSIZE, &max, sizeof(max));
    set_heartbeat(bus->socket);
    ngx_snprintf((u_char *) address, sizeof(address), "%V%Z", endpoint);
    /* over ipc:// a service from before it had keys may be at the other end */
    if ((edge_conf()->curve_dir.len
         || ngx_strncmp(address, "tcp://", 6) == 0)
        && set_keys(bus->socket, peer) != NGX_OK)
    {
        return NGX_ERROR;
    }
    if (zmq_connect(bus->socket, address)) {
        ngx_log_error(NGX_LOG_EMERG, ngx_cycle->log, 0,
                      "postern: cannot connect to %s: %s", address,
                      zmq_strerror(zmq_errno()));
        return NGX_ERROR;
    }
    return NGX_OK;
}


/* Copies of postern-routes, with commas between; see edge_helper_copies. */
static ngx_int_t
open_configs(void)
{
    u_char     *at = edge_conf()->config_log.data;
    u_char     *end = at + edge_conf()->config_log.len, *comma;
    ngx_str_t   endpoint;
    ngx_int_t   n = 0;

    for ( ; at < end; at = comma + 1) {
        comma = ngx_strlchr(at, end, ',');
        comma = comma ? comma : end;
        endpoint.data = at;
        endpoint.len = comma - at;
        configs[n].kind = LINK_CONFIG;
        if (open_socket(&configs[n++], &contexts[0], &endpoint, "routes")
            != NGX_OK)
        {
            return NGX_ERROR;
        }
    }
    merge_init(&merge, n, &ports, NULL);
    return NGX_OK;
}


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

    if (open_configs() != NGX_OK) {
        return NGX_ERROR;
    }
    sched_setscheduler(0, SCHED_BATCH, &none);
    rc = open_socket(&events, &contexts[1], &edge_conf()->events,
                     "events");
    sched_setscheduler(0, SCHED_OTHER, &none);
    return rc;
}


/* ---- names ---- */

/* Threads that wait for a name, and all of them. */
static ngx_atomic_t  idle, resolvers;

static ngx_int_t add_resolver(void);


/* More than there always are, and nothing to do. */
static ngx_uint_t
may_leave(void)
{
    ngx_atomic_uint_t  n = resolvers;

    return n > RESOLVERS_KEPT && ngx_atomic_cmp_set(&resolvers, n, n - 1);
}


static void
resolve(link_t *link, const link_message_t *message)
{
    char              host[NI_MAXHOST];
    ngx_str_t         answer[2];
    struct addrinfo   hints, *list = NULL;

    memset(&hints, 0, sizeof(hints));
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_ADDRCONFIG;
    ngx_cpystrn((u_char *) host, message->frames[1].data,
                ngx_min(message->frames[1].len + 1, sizeof(host)));
    answer[0] = message->frames[0];
    ngx_str_null(&answer[1]);
    if (getaddrinfo(host, NULL, &hints, &list) == 0) {
        answer[1].data = (u_char *) list->ai_addr;
        answer[1].len = list->ai_addrlen;
    }
    (void) link_send(link, LINK_NAME, answer, 2, 0);
    if (list) {
        freeaddrinfo(list);
    }
}


/* The packets that wait in the socket are the queue of these threads. Whoever takes the last idle one's place starts
 * another, so that a name never waits behind one that nobody answers for. */
static void *
resolver(void *arg)
{
    link_t          link = LINK_CLOSED;
    ngx_int_t       rc;
    link_message_t  message;

    (void) arg;
    link.fd = names;
    for ( ;; ) {
        (void) ngx_atomic_fetch_add(&idle, 1);
        rc = link_receive(&link, &message, 0);
        if (ngx_atomic_fetch_add(&idle, -1) == 1 && rc == NGX_OK) {
            (void) add_resolver();
        }
        if (rc == NGX_OK && message.n == 2) {
            resolve(&link, &message);
        } else if (rc == NGX_ERROR || (rc == NGX_AGAIN && may_leave())) {
            free(link.buffer);
            return NULL;
        }
    }
}


static ngx_int_t
add_resolver(void)
{
    int             rc;
    pthread_t       thread;
    pthread_attr_t  attr;

    if (ngx_atomic_fetch_add(&resolvers, 1) >= EDGE_RESOLVERS) {
        (void) ngx_atomic_fetch_add(&resolvers, -1);
        return NGX_OK;
    }
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);   /* getaddrinfo may take long: they end with the process */
    rc = pthread_create(&thread, &attr, resolver, NULL);
    pthread_attr_destroy(&attr);
    if (rc != 0) {
        (void) ngx_atomic_fetch_add(&resolvers, -1);
        return NGX_ERROR;
    }
    return NGX_OK;
}


static ngx_int_t
start_resolvers(void)
{
    int             i;
    struct timeval  patience = { RESOLVER_IDLE_S, 0 };

    setsockopt(names, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    for (i = 0; i < RESOLVERS_KEPT; i++) {
        if (add_resolver() != NGX_OK) {
            return NGX_ERROR;
        }
    }
    return NGX_OK;
}


/* ---- from the worker ---- */

static ngx_uint_t
is_ready(bus_t *bus, int direction)
{
    int     flags = 0;
    size_t  size = sizeof(flags);

    return zmq_getsockopt(bus->socket, ZMQ_EVENTS, &flags, &size) == 0
           && flags & direction;
}


/* What does not go is lost: the worker's beats say it again. */
static ngx_int_t
forward(bus_t *bus, const link_message_t *message)
{
    ngx_uint_t  i;

    for (i = 0; i < message->n; i++) {
        if (zmq_send(bus->socket, message->frames[i].data,
                     message->frames[i].len,
                     ZMQ_DONTWAIT | (i + 1 < message->n ? ZMQ_SNDMORE : 0)) < 0)
        {
            return NGX_DECLINED;
        }
    }
    return NGX_OK;
}


/* On disk first: what the worker acknowledges is there. Where it is not, the worker knows before it
 * hears of the change. */
static void
keep(const ngx_str_t *frames, ngx_uint_t n)
{
    store_standing_t         now;
    static store_standing_t  told = STORE_UNKNOWN;

    edge_store_message(frames, n);
    now = edge_store_standing();
    if (now != told) {
        link_send(&worker, now == STORE_BEHIND ? LINK_UNKEPT : LINK_KEPT, NULL,
                  0, 0);
        told = now;
    }
    if (edge_store_wants_snapshot()) {
        link_send(&worker, LINK_SNAPSHOT, NULL, 0, 0);
    }
}


/* ---- the copies of the config log ---- */

static int64_t
now_ms(void)
{
    struct timespec  now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t) now.tv_sec * 1000 + now.tv_nsec / 1000000;
}


static bool
copy_is_there(void *unused, int copy)
{
    (void) unused;
    return is_ready(&configs[copy], ZMQ_POLLOUT);
}


static bool
to_copy(void *unused, int copy, const merge_frame_t *frames, size_t n)
{
    size_t          i;
    link_message_t  message;

    (void) unused;
    message.n = n;
    for (i = 0; i < n; i++) {
        message.frames[i].data = (u_char *) frames[i].data;
        message.frames[i].len = frames[i].len;
    }
    if (n == 5 && frames[0].len == 5
        && ngx_strncmp(frames[0].data, "hello", 5) == 0)
    {
        ngx_str_set(&message.frames[n], "parts");   /* it may send large bodies so: parts.h */
        message.n++;
    }
    return forward(&configs[copy], &message) == NGX_OK;
}


static void
pass_to_worker(void *unused, const merge_frame_t *frames, size_t n)
{
    size_t     i;
    ngx_str_t  texts[LINK_FRAMES_MAX];

    (void) unused;
    for (i = 0; i < n; i++) {
        texts[i].data = (u_char *) frames[i].data;
        texts[i].len = frames[i].len;
    }
    if (ngx_worker == 0) {
        keep(texts, n);
    }
    passed = link_send(&worker, LINK_CONFIG, texts,
                       ngx_min(n, BETWEEN), 0);
}


static const merge_ports_t  ports = { copy_is_there, to_copy, pass_to_worker };


static size_t
frames_of(const ngx_str_t *texts, size_t n, merge_frame_t *frames)
{
    size_t  i;

    for (i = 0; i < n; i++) {
        frames[i].data = (const char *) texts[i].data;
        frames[i].len = texts[i].len;
    }
    return n;
}


static void
config_from_worker(const link_message_t *message)
{
    merge_frame_t  frames[LINK_FRAMES_MAX];

    merge_from_worker(&merge, frames,
                      frames_of(message->frames, message->n, frames), now_ms());
}


static ngx_int_t
config_from_copy(int copy, const ngx_str_t *texts, ngx_uint_t n)
{
    size_t         count;
    ngx_str_t      word;
    merge_frame_t  frames[LINK_FRAMES_MAX];

    count = frames_of(texts, n, frames);
    switch (parts_take(&parts_of[copy], frames, &count)) {
    case PARTS_WAIT:
        ngx_str_set(&word, "part");   /* the config log is not silent */
        return link_send(&worker, LINK_CONFIG, &word, 1, 0);
    case PARTS_LOST:
        return NGX_OK;   /* its next beat names another revision than what passed, and it is greeted */
    default:
        break;
    }
    passed = NGX_OK;
    merge_from_copy(&merge, copy, frames, count, now_ms());
    return passed;
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
    if (!is_ready(&events, ZMQ_POLLOUT) || zmq_msg_init_size(&body, place.len)) {
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


/* NGX_AGAIN: nothing more now | NGX_ERROR: the worker is gone. */
static ngx_int_t
from_worker(void)
{
    ngx_int_t       rc;
    link_message_t  message;

    while ((rc = link_receive(&worker, &message, MSG_DONTWAIT)) == NGX_OK) {
        switch (message.kind) {
        case LINK_CONFIG:
            config_from_worker(&message);
            break;
        case LINK_EVENTS:
            (void) forward(&events, &message);
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
        default:
            break;
        }
    }
    return rc;
}


/* ---- to the worker ---- */

static ngx_uint_t
receive(bus_t *bus, zmq_msg_t *parts, ngx_str_t *frames)
{
    int         more = 1;
    size_t      size = sizeof(more);
    zmq_msg_t   beyond, *part;
    ngx_uint_t  n = 0;

    while (more) {
        part = n < LINK_FRAMES_MAX ? &parts[n] : &beyond;
        zmq_msg_init(part);
        if (zmq_msg_recv(part, bus->socket, ZMQ_DONTWAIT) < 0) {
            zmq_msg_close(part);
            break;
        }
        zmq_getsockopt(bus->socket, ZMQ_RCVMORE, &more, &size);
        if (part == &beyond) {
            zmq_msg_close(part);
            continue;
        }
        frames[n].data = zmq_msg_data(part);
        frames[n++].len = zmq_msg_size(part);
    }
    return n;
}


/* A few at a time: the other socket has news too. */
static ngx_int_t
to_worker(bus_t *bus)
{
    ngx_int_t   rc = NGX_OK;
    zmq_msg_t   parts[LINK_FRAMES_MAX];
    ngx_str_t   frames[LINK_FRAMES_MAX];
    ngx_uint_t  burst, n;

    for (burst = 0; burst < BURST && rc == NGX_OK
                    && is_ready(bus, ZMQ_POLLIN); burst++)
    {
        n = receive(bus, parts, frames);
        rc = bus == &events ? link_send(&worker, bus->kind, frames, n, 0)
                            : config_from_copy(bus - configs, frames, n);
        while (n > 0) {
            zmq_msg_close(&parts[--n]);
        }
    }
    return rc;
}


/* ---- the process ---- */

static void
run(void)
{
    int             i, n = 2;
    ngx_int_t       rc;
    zmq_pollitem_t  items[2 + MERGE_COPIES_MAX] = {
        { NULL, worker.fd, ZMQ_POLLIN, 0 },
        { events.socket, 0, ZMQ_POLLIN, 0 },
    };

    for (i = 0; i < merge.count; i++, n++) {
        items[n].socket = configs[i].socket;
        items[n].events = ZMQ_POLLIN;
    }
    do {
        zmq_poll(items, n, -1);
        rc = from_worker() == NGX_AGAIN ? NGX_OK : NGX_ERROR;
        for (i = 0; i < merge.count && rc == NGX_OK; i++) {
            rc = to_worker(&configs[i]);
        }
    } while (rc == NGX_OK && to_worker(&events) == NGX_OK);
}


/* Whatever the worker had open is not this process's to hold: listening sockets, clients. */
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


/* Signals are the worker's; its end is told by the link. */
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


/* At once when the worker is killed: the next one's helper has the state file for itself. */
static void
end_with(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(2);
    }
}


static void __attribute__((noreturn))
helper(int link, int names_fd)
{
    int    i;
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
    if (start_resolvers() != NGX_OK || open_sockets() != NGX_OK
        || link_send(&worker, LINK_READY, NULL, 0, 0) != NGX_OK)
    {
        _exit(2);
    }
    bring_tickets();   /* before any news of the config log: a worker has them when it begins to serve */
    run();
    for (i = 0; i < merge.count; i++) {
        zmq_close(configs[i].socket);
    }
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
        helper(pair[1], names_pair[1]);
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
