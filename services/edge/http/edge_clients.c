/* A client may keep a connection for as long as one byte of a head or of a handshake lasts, and as
 * a connection is idle at first and may be so again, none is told from those that will be of use.
 * So all connections of a client count, from accept to close, together with those to upstreams for
 * its requests (share.h), and when it has its portion of the worker's a new one takes the place of
 * one of its own that is idle, or is closed. Its idle ones are given up only then: people behind
 * one address share what that address may have. Who connects over a trusted proxy, or over a load
 * balancer that says nothing of whom, is not counted for that address. The last ones,
 * share_reserve, are for the status port alone. */
#include "services/edge/http/edge_clients.h"
#include "services/edge/http/edge_heads.h"
#include "services/edge/http/edge_share.h"
#include "services/edge/worker/edge_vitals.h"
#include "common/base/invariant.h"

#include <netinet/tcp.h>

enum {
    /* bytes that a client's socket takes ahead of what it may send; with 128 KiB a large body took
     * a third more of CPU, for it is written in small steps */
    UNSENT_MAX = 1 << 20,
    LOOKS_MAX = 16,   /* at a client's connections, for one that is idle */
    LOG_EVERY_S = 60
};

/* Clients whose hashes fall together are one. */
typedef struct {
    ngx_queue_t  open;    /* what is looked at next is first; next NULL: never used */
    size_t       count;   /* in open */
} client_t;

/* In the connection's pool. */
typedef struct {
    ngx_queue_t        link;
    client_t          *client;
    share_whose_t      whose;
    ngx_connection_t  *connection;
} place_t;

static client_t  clients[SHARE_CLIENTS];   /* of this worker */


/* ---- refused connections ---- */

static void
refuse_connection(ngx_connection_t *c, uint64_t *counter, time_t *said, const char *why)
{
    (*counter)++;
    if (*said == 0 || ngx_time() - *said >= LOG_EVERY_S) {
        *said = ngx_time();
        ngx_log_error(NGX_LOG_WARN, c->log, 0,
                      "postern: a connection of %V is closed: %s, of %ui connections "
                      "%ui are free (number %uL of this kind; at most one line a "
                      "minute)", &c->addr_text, why, ngx_cycle->connection_n,
                      ngx_cycle->free_connection_n, *counter);
    }
    ngx_http_close_connection(c);
}


static void
note_connections(void)
{
    edge_vitals(ngx_worker)->connections = ngx_cycle->connection_n
                                           - ngx_cycle->free_connection_n;
}


/* Whoever it is. */
static void
refuse_new(ngx_connection_t *c, const char *why)
{
    static time_t  said;

    refuse_connection(c, &edge_vitals(ngx_worker)->clients_out_of_room, &said, why);
}


ngx_uint_t
edge_clients_has_room(ngx_connection_t *c)
{
    note_connections();
    if (ngx_cycle->free_connection_n >= share_reserve(ngx_cycle->connection_n)) {
        return 1;
    }
    refuse_new(c, "the others are kept for the status port");
    return 0;
}


/* ---- a client's connections ---- */

/* As nginx does where connections run short: the first time its end may be told the client. */
static void
close_idle(client_t *client, ngx_connection_t *c)
{
    size_t      before = client->count;
    ngx_uint_t  i;

    for (i = 0; i < 2 && client->count == before && c->reusable; i++) {
        c->close = 1;
        c->read->handler(c->read);
    }
}


static void
give_up_idle(client_t *client)
{
    place_t      *place;
    ngx_uint_t    i;
    ngx_queue_t  *q;

    for (i = 0; i < LOOKS_MAX && !ngx_queue_empty(&client->open); i++) {
        q = ngx_queue_head(&client->open);
        place = ngx_queue_data(q, place_t, link);
        ngx_queue_remove(q);
        ngx_queue_insert_tail(&client->open, q);
        if (place->connection->reusable) {
            close_idle(client, place->connection);
            return;
        }
    }
}


void
edge_clients_give_up_idle(uint32_t hash)
{
    client_t  *client = &clients[hash % SHARE_CLIENTS];

    if (hash && client->open.next) {
        give_up_idle(client);
    }
}


static void
leave_client(void *data)
{
    place_t  *place = data;

    INVARIANT(place->client->count > 0);
    place->client->count--;
    edge_share_leave(&place->whose);
    ngx_queue_remove(&place->link);
    note_connections();
}


static ngx_uint_t
enter_client(client_t *client, uint32_t hash, ngx_connection_t *c)
{
    place_t             *place;
    ngx_pool_cleanup_t  *cln = ngx_pool_cleanup_add(c->pool, sizeof(place_t));

    if (cln == NULL) {
        ngx_http_close_connection(c);
        return 0;
    }
    place = cln->data;
    place->client = client;
    place->connection = c;
    ngx_queue_insert_tail(&client->open, &place->link);
    client->count++;
    place->whose = edge_share_enter(hash);
    cln->handler = leave_client;
    return 1;
}


ngx_uint_t
edge_clients_admit(ngx_connection_t *c)
{
    uint32_t        hash;
    client_t       *client;
    static time_t   said;

    if (!edge_clients_has_room(c)) {
        return 0;
    }
    if (edge_share_is_of_many(c->sockaddr)) {
        return 1;
    }
    hash = edge_share_client(c->sockaddr, 0);
    client = &clients[hash % SHARE_CLIENTS];
    if (client->open.next == NULL) {
        ngx_queue_init(&client->open);
    }
    if (!edge_share_may_enter(hash)) {
        give_up_idle(client);
    }
    if (edge_share_may_enter(hash)) {
        return enter_client(client, hash, c);
    }
    if (edge_share_lets_nobody_in(hash)) {
        refuse_new(c, "the others are kept for requests of clients that are connected");
    } else {
        refuse_connection(c, &edge_vitals(ngx_worker)->clients_refused, &said,
                          "its client, or the network above, has its portion of them");
    }
    return 0;
}


/* ---- listeners ---- */

/* In place of ngx_http_init_connection. */
static void
accept_connection(ngx_connection_t *c)
{
    if (!edge_clients_admit(c)) {
        return;
    }
    if (edge_heads_watch(c) != NGX_OK) {
        ngx_http_close_connection(c);
        return;
    }
    ngx_http_init_connection(c);
}


ngx_int_t
edge_clients_exempt(ngx_conf_t *cf)
{
    ngx_http_core_srv_conf_t  **server;
    edge_conf_t                *conf;

    conf = ngx_http_conf_get_module_main_conf(cf, ngx_http_postern_module);
    if (conf->status_servers == NULL) {
        conf->status_servers = ngx_array_create(cf->pool, 1, sizeof(*server));
    }
    server = conf->status_servers ? ngx_array_push(conf->status_servers) : NULL;
    if (server == NULL) {
        return NGX_ERROR;
    }
    *server = ngx_http_conf_get_module_srv_conf(cf, ngx_http_core_module);
    return NGX_OK;
}


/* The server of a listener's first address. */
static ngx_http_core_srv_conf_t *
server_of(const ngx_listening_t *ls)
{
    ngx_http_port_t  *port = ls->servers;

#if (NGX_HAVE_INET6)
    if (ls->sockaddr->sa_family == AF_INET6) {
        return ((ngx_http_in6_addr_t *) port->addrs)->conf.default_server;
    }
#endif
    return ((ngx_http_in_addr_t *) port->addrs)->conf.default_server;
}


static ngx_uint_t
is_exempt(const ngx_listening_t *ls)
{
    ngx_uint_t                   i;
    ngx_array_t                 *exempt = edge_conf()->status_servers;
    ngx_http_core_srv_conf_t   **servers = exempt ? exempt->elts : NULL;

    for (i = 0; exempt && i < exempt->nelts; i++) {
        if (servers[i] == server_of(ls)) {
            return 1;
        }
    }
    return 0;
}


/* A socket takes bytes as long as it has room, be it megabytes that its client has not asked for,
 * and says that it has room again when a third of these is gone. With this it takes little more
 * than it may send by what the client and the network have taken so far, which bounds what an
 * answer holds that is not taken. With HTTP/2 other answers, and resets, need not wait behind that.
 * Sockets have it from the one that accepts them. */
static void
limit_unsent(const ngx_listening_t *ls, ngx_log_t *log)
{
    int  bytes = UNSENT_MAX;

    if (ls->fd == (ngx_socket_t) -1) {
        return;   /* nginx -t beside an edge that listens */
    }
    if (setsockopt(ls->fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof(bytes)) == -1) {
        ngx_log_error(NGX_LOG_WARN, log, ngx_socket_errno,
                      "postern: setsockopt(TCP_NOTSENT_LOWAT) failed");
    }
}


void
edge_clients_install(ngx_cycle_t *cycle)
{
    ngx_uint_t        i;
    ngx_listening_t  *ls = cycle->listening.elts;

    for (i = 0; i < cycle->listening.nelts; i++) {
        if (ls[i].handler == ngx_http_init_connection && !is_exempt(&ls[i])) {
            ls[i].handler = accept_connection;
            limit_unsent(&ls[i], cycle->log);
        }
    }
}
