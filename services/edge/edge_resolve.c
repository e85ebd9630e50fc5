/* Names of backends: the helper's threads ask the system's resolver (hosts file, DNS, whatever the
 * machine uses). No request ever waits for it; a change is acknowledged once its names were tried. A
 * name that nobody answers for can take a thread twenty seconds: names that are new are not behind
 * those that are only asked again, nor behind one another while there are threads. */
#include "edge.h"
#include "edge_link.h"

#include <poll.h>

enum { REFRESH_MS = 30000, QUEUE_MAX = 100000 };

typedef struct job {
    struct job  *next;
    backend_t   *backend;
    ngx_uint_t   again;   /* it has been asked for before */
    uint64_t     number;
    uint16_t     port;
    char         host[];
} job_t;

typedef struct {
    job_t  *first, **end;
} queue_t;

static queue_t            fresh = { NULL, &fresh.first };
static queue_t            again = { NULL, &again.first };
static job_t             *asked[1 + EDGE_RESOLVERS];   /* the first: asked again */
static uint64_t           last_number;
static ngx_uint_t         fresh_pending, again_pending, started;
static link_t             helper = LINK_CLOSED;
static ngx_event_t        refresh;
static ngx_connection_t   refresh_dummy;


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


/* One that is lost with a helper is asked of the next. */
static void
ask(const job_t *job)
{
    char       number[24], port[8];
    ngx_str_t  frames[3];

    frames[0].data = (u_char *) number;
    frames[0].len = snprintf(number, sizeof(number), "%llu",
                             (unsigned long long) job->number);
    frames[1].data = (u_char *) port;
    frames[1].len = snprintf(port, sizeof(port), "%u", job->port);
    frames[2].data = (u_char *) job->host;
    frames[2].len = ngx_strlen(job->host);
    (void) link_send(&helper, LINK_NAME, frames, 3, MSG_DONTWAIT);
}


static void
ask_next(void)
{
    ngx_uint_t  i;

    for (i = 0; i <= EDGE_RESOLVERS; i++) {
        if (asked[i] == NULL) {
            asked[i] = take_first(i == 0 ? &again : &fresh);
            if (asked[i]) {
                asked[i]->number = ++last_number;
                ask(asked[i]);
            }
        }
    }
}


static job_t *
take_asked(const ngx_str_t *number)
{
    job_t       *job;
    char         text[24];
    ngx_uint_t   i;

    ngx_cpystrn((u_char *) text, number->data,
                ngx_min(number->len + 1, sizeof(text)));
    for (i = 0; i <= EDGE_RESOLVERS; i++) {
        job = asked[i];
        if (job && job->number == strtoull(text, NULL, 10)) {
            asked[i] = NULL;
            return job;
        }
    }
    return NULL;
}


static void
finish(job_t *job, const ngx_str_t *address)
{
    backend_t  *backend = job->backend;

    if (address->len > 0 && address->len <= sizeof(backend->address)) {
        ngx_memcpy(&backend->address, address->data, address->len);
        backend->address_len = address->len;
        backend->unresolved = 0;
    } else if (!backend->unresolved) {
        backend->unresolved = 1;
        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "postern: cannot resolve \"%s\" of backend %s",
                      job->host, backend->id);
    }
    if (job->again) {
        again_pending--;
    } else {
        fresh_pending--;
    }
    backend_release(backend);
    free(job);
}


static void
collect(void)
{
    job_t           *job;
    ngx_int_t        rc;
    link_message_t   message;

    while ((rc = link_receive(&helper, &message, MSG_DONTWAIT)) == NGX_OK) {
        job = message.n == 2 ? take_asked(&message.frames[0]) : NULL;
        if (job) {
            finish(job, &message.frames[1]);
        }
    }
    if (rc == NGX_ERROR) {
        link_close(&helper);   /* until edge_resolve_connect */
    }
    ask_next();
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
    size_t    len = ngx_strlen(backend->host) + 1;
    queue_t  *queue = asked_before ? &again : &fresh;

    if (!started || fresh_pending + again_pending >= QUEUE_MAX) {
        return;   /* the master; the worker adds all of them when it starts */
    }
    job = calloc(1, sizeof(*job) + len);
    if (job == NULL) {
        return;
    }
    ngx_memcpy(job->host, backend->host, len);
    job->backend = backend;
    job->port = backend->port;
    job->again = asked_before;
    backend->refs++;
    if (asked_before) {
        again_pending++;
    } else {
        fresh_pending++;
    }
    *queue->end = job;
    queue->end = &job->next;
    ask_next();
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
    struct pollfd  pfd = { helper.fd, POLLIN, 0 };

    for (ngx_msec_t waited = 0; fresh_pending && waited < timeout;
         waited += 20)
    {
        if (poll(&pfd, 1, 20) > 0) {
            collect();
        }
    }
}


/* A helper's end of names: at the start, and when another one took its place. */
ngx_int_t
edge_resolve_connect(int fd, ngx_log_t *log)
{
    ngx_uint_t  i;

    link_close(&helper);
    if (link_watch(&helper, fd, on_readable, log) != NGX_OK) {
        return NGX_ERROR;
    }
    for (i = 0; i <= EDGE_RESOLVERS; i++) {
        if (asked[i]) {
            ask(asked[i]);
        }
    }
    ask_next();
    return NGX_OK;
}


/* Once the table from disk is there. */
void
edge_resolve_start(ngx_cycle_t *cycle)
{
    started = 1;
    refresh.handler = on_refresh;
    refresh.log = cycle->log;
    refresh.data = &refresh_dummy;
    refresh.cancelable = 1;
    refresh_dummy.fd = -1;
    ngx_add_timer(&refresh, REFRESH_MS);
    add_all(0);
}


void
edge_resolve_stop(void)
{
    started = 0;
    link_close(&helper);
}
