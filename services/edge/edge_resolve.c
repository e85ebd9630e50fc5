/* Names of backends: a thread per worker asks the system's resolver (hosts file, DNS, whatever the
 * machine uses) and hands addresses back through a pipe. No request ever waits for it; a change is
 * acknowledged once its names were tried. */
#include "edge.h"

#include <netdb.h>
#include <poll.h>
#include <pthread.h>

enum { REFRESH_MS = 30000, QUEUE_MAX = 100000 };

typedef struct job {
    struct job              *next;
    backend_t               *backend;   /* held by the worker thread only */
    char                    *host;
    uint16_t                 port;
    struct sockaddr_storage  address;
    socklen_t                address_len;
} job_t;

static pthread_t         thread;
static pthread_mutex_t   mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t    wake = PTHREAD_COND_INITIALIZER;
static job_t            *queue, **queue_end = &queue, *done;
static ngx_uint_t        pending, stopping, started;
static int               fds[2] = { -1, -1 };
static ngx_connection_t *connection;
static ngx_event_t       refresh;
static ngx_connection_t  refresh_dummy;


static void
resolve(job_t *job)
{
    char              port[8];
    struct addrinfo   hints, *list;

    memset(&hints, 0, sizeof(hints));
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_ADDRCONFIG|AI_NUMERICSERV;
    snprintf(port, sizeof(port), "%u", job->port);
    job->address_len = 0;
    if (getaddrinfo(job->host, port, &hints, &list) == 0) {
        memcpy(&job->address, list->ai_addr, list->ai_addrlen);
        job->address_len = list->ai_addrlen;
        freeaddrinfo(list);
    }
}


static void *
resolver(void *unused)
{
    job_t  *job;

    (void) unused;
    pthread_mutex_lock(&mutex);
    while (!stopping) {
        job = queue;
        if (job == NULL) {
            pthread_cond_wait(&wake, &mutex);
            continue;
        }
        queue = job->next;
        if (queue == NULL) {
            queue_end = &queue;
        }
        pthread_mutex_unlock(&mutex);
        resolve(job);
        pthread_mutex_lock(&mutex);
        job->next = done;
        done = job;
        if (write(fds[1], "", 1) < 0) { /* void: full means it will be read */ }
    }
    pthread_mutex_unlock(&mutex);
    return NULL;
}


/* In the worker's own thread. */
static void
collect(void)
{
    char    bytes[256];
    job_t  *job, *next;

    while (read(fds[0], bytes, sizeof(bytes)) > 0) { /* void */ }
    pthread_mutex_lock(&mutex);
    job = done;
    done = NULL;
    pthread_mutex_unlock(&mutex);
    for ( /* void */ ; job; job = next) {
        next = job->next;
        if (job->address_len) {
            job->backend->address = job->address;
            job->backend->address_len = job->address_len;
            job->backend->unresolved = 0;
        } else if (!job->backend->unresolved) {
            job->backend->unresolved = 1;
            ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                          "postern: cannot resolve \"%s\" of backend %s",
                          job->host, job->backend->id);
        }
        pending--;
        backend_release(job->backend);
        free(job->host);
        free(job);
    }
}


static void
on_readable(ngx_event_t *ev)
{
    (void) ev;
    collect();
    if (pending == 0) {
        edge_bus_resolved();
    }
}


void
edge_resolve_add(backend_t *backend)
{
    job_t  *job;

    if (!started || pending >= QUEUE_MAX) {
        return;   /* the master; the worker adds all of them when it starts */
    }
    job = calloc(1, sizeof(*job));
    if (job == NULL || (job->host = strdup(backend->host)) == NULL) {
        free(job);
        return;
    }
    job->backend = backend;
    job->port = backend->port;
    backend->refs++;
    pending++;
    pthread_mutex_lock(&mutex);
    *queue_end = job;
    queue_end = &job->next;
    pthread_cond_signal(&wake);
    pthread_mutex_unlock(&mutex);
}


static void
add_all(void)
{
    void       *node = NULL;
    size_t      bucket = 0;
    backend_t  *backend;

    while ((backend = strmap_next(edge_worker.table->backends, &bucket,
                                  &node)) != NULL)
    {
        if (backend->host && !backend->literal) {
            edge_resolve_add(backend);
        }
    }
}


static void
on_refresh(ngx_event_t *ev)
{
    if (pending == 0) {
        add_all();
    }
    ngx_add_timer(ev, REFRESH_MS);
}


ngx_uint_t
edge_resolve_pending(void)
{
    return pending;
}


void
edge_resolve_wait(ngx_msec_t timeout)
{
    struct pollfd  pfd = { fds[0], POLLIN, 0 };

    for (ngx_msec_t waited = 0; pending && waited < timeout; waited += 20) {
        if (poll(&pfd, 1, 20) > 0) {
            collect();
        }
    }
}


ngx_int_t
edge_resolve_start(ngx_cycle_t *cycle)
{
    sigset_t  all, old;

    if (pipe2(fds, O_NONBLOCK|O_CLOEXEC)) {
        return NGX_ERROR;
    }
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);   /* signals are nginx's */
    if (pthread_create(&thread, NULL, resolver, NULL)) {
        pthread_sigmask(SIG_SETMASK, &old, NULL);
        return NGX_ERROR;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    started = 1;
    connection = ngx_get_connection(fds[0], cycle->log);
    if (connection == NULL) {
        return NGX_ERROR;
    }
    connection->read->handler = on_readable;
    connection->read->log = cycle->log;
    if (ngx_add_event(connection->read, NGX_READ_EVENT, NGX_LEVEL_EVENT)
        != NGX_OK)
    {
        return NGX_ERROR;
    }
    refresh.handler = on_refresh;
    refresh.log = cycle->log;
    refresh.data = &refresh_dummy;
    refresh.cancelable = 1;
    refresh_dummy.fd = -1;
    ngx_add_timer(&refresh, REFRESH_MS);
    add_all();
    return NGX_OK;
}


void
edge_resolve_stop(void)
{
    if (!started) {
        return;
    }
    started = 0;
    pthread_mutex_lock(&mutex);
    stopping = 1;
    pthread_cond_signal(&wake);
    pthread_mutex_unlock(&mutex);
    /* getaddrinfo may take seconds: the process is ending, so it is left to end with it */
    pthread_detach(thread);
    if (connection) {
        ngx_del_event(connection->read, NGX_READ_EVENT, 0);
        ngx_free_connection(connection);
        connection->fd = (ngx_socket_t) -1;
        connection = NULL;
    }
}
