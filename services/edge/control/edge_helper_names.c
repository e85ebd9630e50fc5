/* The helper's threads that ask the system's resolver (getaddrinfo): hosts file, DNS, whatever the
 * machine uses. */
#include "services/edge/control/edge_helper_names.h"
#include "services/edge/control/resolve_turns.h"
#include "services/edge/control/edge_link.h"

#include <netdb.h>
#include <pthread.h>

enum {
    RESOLVERS_KEPT = 4,    /* threads */
    RESOLVER_IDLE_S = 10   /* after which one of the others ends */
};

static int  names = -1;   /* the helper's end of the link */


/* Threads that wait for a name, and all of them. */
static ngx_atomic_t  idle, resolvers;

static ngx_int_t add_resolver(void);


/* May this thread end? It was idle, and there are more than RESOLVERS_KEPT. */
static ngx_uint_t
may_leave(void)
{
    ngx_atomic_uint_t  n = resolvers;

    return n > RESOLVERS_KEPT && ngx_atomic_cmp_set(&resolvers, n, n - 1);
}


static void
resolve_name(link_t *link, const link_message_t *message)
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


/* A thread that resolves names. Queries that wait in the socket are the queue of these threads. The
 * last idle thread starts another one when it takes a query, so that a name never waits behind one
 * that nobody answers for. */
static void *
run_resolver(void *arg)
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
            resolve_name(&link, &message);
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

    if (ngx_atomic_fetch_add(&resolvers, 1) >= RESOLVE_QUERIES_MAX) {
        (void) ngx_atomic_fetch_add(&resolvers, -1);
        return NGX_OK;
    }
    pthread_attr_init(&attr);
    /* getaddrinfo may take long: they end with the process */
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    rc = pthread_create(&thread, &attr, run_resolver, NULL);
    pthread_attr_destroy(&attr);
    if (rc != 0) {
        (void) ngx_atomic_fetch_add(&resolvers, -1);
        return NGX_ERROR;
    }
    return NGX_OK;
}


ngx_int_t
edge_helper_names_start(int link)
{
    int             i;
    struct timeval  patience = { RESOLVER_IDLE_S, 0 };

    names = link;
    setsockopt(names, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    for (i = 0; i < RESOLVERS_KEPT; i++) {
        if (add_resolver() != NGX_OK) {
            return NGX_ERROR;
        }
    }
    return NGX_OK;
}
