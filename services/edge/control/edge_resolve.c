/* A worker's resolver: the rules are resolve.c's; here are its clock, its timer, and the link to
 * the helper, whose threads ask the system's resolver (hosts file, DNS, whatever the machine
 * uses). No request ever waits for a name. */
#include "services/edge/control/edge_resolve.h"
#include "services/edge/control/edge_link.h"
#include "services/edge/control/edge_timer.h"

#include <poll.h>

enum { POLL_MS = 20 };

static resolve_t     *resolver;   /* made with the first name, in the master or in the worker */
static edge_wait_t   *current_wait;
static link_t         helper = LINK_CLOSED;
static ngx_event_t    tick;
static void         (*on_answers)(void);


static bool
send_query(void *unused, uint64_t number, const char *host)
{
    char       text[24];
    ngx_str_t  frames[2];

    (void) unused;
    frames[0].data = (u_char *) text;
    frames[0].len = snprintf(text, sizeof(text), "%llu", (unsigned long long) number);
    frames[1].data = (u_char *) host;
    frames[1].len = ngx_strlen(host);
    return link_send(&helper, LINK_NAME, frames, 2, MSG_DONTWAIT) == NGX_OK;
}


static void
log_unresolved(void *unused, const char *account_id, const char *host, bool has_address)
{
    (void) unused;
    ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                  "postern: cannot resolve \"%s\"%s%s%s", host,
                  *account_id ? " of account " : "", account_id,
                  has_address ? ": the address that it had stays" : "");
}


static resolve_t *
worker_resolver(void)
{
    static const resolve_ports_t  ports = { send_query, log_unresolved };

    if (resolver == NULL) {
        resolver = resolve_new(&ports, NULL);
    }
    return resolver;
}


/* ---- names of backends ---- */

static void
release_backend(backend_t *backend)
{
    resolve_release(worker_resolver(), backend->name, ngx_current_msec);
}


void
edge_resolve_add(backend_t *backend)
{
    backend->name = resolve_hold(worker_resolver(),
                                 backend->account_id ? backend->account_id : "",
                                 backend->host, current_wait, ngx_current_msec);
    backend->forget_name = release_backend;
}


socklen_t
edge_resolve_address(const backend_t *backend, struct sockaddr_storage *ret_address)
{
    socklen_t                       len = backend->address_len;
    const struct sockaddr_storage  *address = &backend->address;

    if (backend->name) {
        len = resolve_address(backend->name, &address);
    }
    if (len) {
        ngx_memcpy(ret_address, address, len);
        ngx_inet_set_port((struct sockaddr *) ret_address, backend->port);
    }
    return len;
}


/* ---- acknowledgements that wait for names ---- */

edge_wait_t *
edge_resolve_wait_new(void)
{
    return resolve_wait_new();
}


void
edge_resolve_wait_drop(edge_wait_t *wait)
{
    resolve_wait_drop(wait);
}


ngx_uint_t
edge_resolve_wait_pending(const edge_wait_t *wait)
{
    return resolve_wait_pending(wait);
}


void
edge_resolve_wait_for(edge_wait_t *wait)
{
    current_wait = wait;
}


void
edge_resolve_release_spent(void)
{
    resolve_release_spent(worker_resolver(), ngx_current_msec);
}


/* ---- the helper ---- */

static void
collect_answers(void)
{
    ngx_int_t        rc;
    link_message_t   message;

    while ((rc = link_receive(&helper, &message, MSG_DONTWAIT)) == NGX_OK) {
        if (message.n == 2) {
            resolve_answer(worker_resolver(), message.frames[0].data, message.frames[0].len,
                           message.frames[1].data, message.frames[1].len, ngx_current_msec);
        }
    }
    if (rc == NGX_ERROR) {
        link_close(&helper);   /* until edge_resolve_connect */
    }
    resolve_ask(worker_resolver(), ngx_current_msec);
}


static void
on_readable(ngx_event_t *ev)
{
    (void) ev;
    collect_answers();
    if (on_answers) {
        on_answers();
    }
}


void
edge_resolve_wait(ngx_msec_t timeout)
{
    ngx_msec_t     waited;
    struct pollfd  pfd = { helper.fd, POLLIN, 0 };

    for (waited = 0; resolve_untried(worker_resolver()) && waited < timeout; waited += POLL_MS) {
        if (poll(&pfd, 1, POLL_MS) > 0) {
            collect_answers();
        }
    }
}


/* Queries that the helper before this one had are lost. */
ngx_int_t
edge_resolve_connect(int fd, ngx_log_t *log)
{
    link_close(&helper);
    if (link_watch(&helper, fd, on_readable, log) != NGX_OK) {
        return NGX_ERROR;
    }
    resolve_resend(worker_resolver(), ngx_current_msec);
    return NGX_OK;
}


/* ---- start and end ---- */

static void
on_tick(ngx_event_t *ev)
{
    resolve_tick(worker_resolver(), ngx_current_msec);
    ngx_add_timer(ev, RESOLVE_TICK_MS);
}


void
edge_resolve_start(ngx_cycle_t *cycle, void (*handler)(void))
{
    on_answers = handler;
    edge_timer_start(&tick, on_tick, cycle->log, RESOLVE_TICK_MS);
    resolve_start(worker_resolver(), ngx_current_msec);
}


void
edge_resolve_stop(void)
{
    if (resolver) {
        resolve_stop(resolver);
    }
    link_close(&helper);
}
