/* Names of backends: threads of each worker ask the system's resolver (hosts file, DNS, whatever the
 * machine uses) and hand addresses back through a pipe. No request ever waits for it; a change is
 * acknowledged once its names were tried. A name that nobody answers for can take a thread twenty
 * seconds: names that are new are not behind those that are only asked again, nor behind one another
 * while there are threads. */
#include "edge.h"

#include <netdb.h>
#include <poll.h>
#include <pthread.h>

enum { REFRESH_MS = 30000, QUEUE_MAX = 100000, THREADS = 4 };

typedef struct job {
    struct job              *next;
    backend_t               *backend;   /* held by the worker thread only */
    ngx_uint_t               again;     /* it has been asked for before */
    char                    *host;
    uint16_t                 port;
    struct sockaddr_storage  address;
    socklen_t                address_len;
} job_t;

typedef struct {
    job_t  *first, **end;
} queue_t;

static pthread_t         threads[THREADS];
static pthread_mutex_t   mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t    wake = PTHREAD_COND_INITIALIZER;
static queue_t           fresh = { NULL, &fresh.first };
static queue_t           again = { NULL, &again.first };
static job_t            *done;
static ngx_uint_t        fresh_pending, again_pending, stopping, started;
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


static job_t *
take_first(queue_t *queue)
{
    job_t  *job = queue->first;

    if (job) {
        queue->first = job->next;
        if (queue->first == NULL) {
            queue->end = &queue->first;
        }
    }
    return job;
}


/* Only the first thread asks again. */
static void *
resolver(void *number)
{
    job_t  *job;

    pthread_mutex_lock(&mutex);
    while (!stopping) {
        job = take_first(&fresh);
        if (job == NULL && number == NULL) {
            job = take_first(&again);
        }
        if (job == NULL) {
            pthread_cond_wait(&wake, &mutex);
            continue;
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
        if (job->again) {
            again_pending--;
        } else {
            fresh_pending--;
        }
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
    if (fresh_pending == 0) {
        edge_bus_resolved();
    }
}


static void
add(backend_t *backend, ngx_uint_t asked_before)
{
    job_t    *job;
    queue_t  *queue = asked_before ? &again : &fresh;

    if (!started || fresh_pending + again_pending >= QUEUE_MAX) {
        return;   /* the master; the worker adds all of them when it starts */
    }
    job = calloc(1, sizeof(*job));
    if (job == NULL || (job->host = strdup(backend->host)) == NULL) {
        free(job);
        return;
    }
    job->backend = backend;
    job->port = backend->port;
    job->again = asked_before;
    backend->refs++;
    if (asked_before) {
        again_pending++;
    } else {
        fresh_pending++;
    }
    pthread_mutex_lock(&mutex);
    *queue->end = job;
    queue->end = &job->next;
    pthread_cond_broadcast(&wake);
    pthread_mutex_unlock(&mutex);
}


void
edge_resolve_add(backend_t *backend)
{
    add(backend, 0);
}


static void
add_all(ngx_uint_t asked_before)
{
    void       *node = NULL;
    size_t      bucket = 0;
    backend_t  *backend;

    while ((backend = strmap_next(edge_worker.table->backends, &bucket,
                                  &node)) != NULL)
    {
        if (backend->host && !backend->literal) {
            add(backend, asked_before);
        }
    }
}


static void
on_refresh(ngx_event_t *ev)
{
    if (again_pending == 0) {
        add_all(1);
    }
    ngx_add_timer(ev, REFRESH_MS);
}


ngx_uint_t
edge_resolve_pending(void)
{
    return fresh_pending;
}


void
edge_resolve_wait(ngx_msec_t timeout)
{
    struct pollfd  pfd = { fds[0], POLLIN, 0 };

    for (ngx_msec_t waited = 0; fresh_pending && waited < timeout;
         waited += 20)
    {
        if (poll(&pfd, 1, 20) > 0) {
            collect();
        }
    }
}


ngx_int_t
edge_resolve_start(ngx_cycle_t *cycle)
{
    sigset_t    all, old;
    uintptr_t   i, made = 0;

    if (pipe2(fds, O_NONBLOCK|O_CLOEXEC)) {
        return NGX_ERROR;
    }
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);   /* signals are nginx's */
    for (i = 0; i < THREADS; i++) {
        if (pthread_create(&threads[i], NULL, resolver, (void *) i) == 0) {
            pthread_detach(threads[i]);   /* see edge_resolve_stop */
            made++;
        } else {
            break;
        }
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (made == 0) {
        return NGX_ERROR;
    }
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
    add_all(0);
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
    pthread_cond_broadcast(&wake);
    pthread_mutex_unlock(&mutex);
    /* getaddrinfo may take seconds: the process is ending, and the threads are left to end with it */
    if (connection) {
        ngx_del_event(connection->read, NGX_READ_EVENT, 0);
        ngx_free_connection(connection);
        connection->fd = (ngx_socket_t) -1;
        connection = NULL;
    }
}
