/* A connection that is kept is idle, as those of clients are that wait for their next request:
 * where less than a sixteenth of a worker's are free nginx closes those that were idle for longest,
 * and which those are it knows by a mark alone.
 *
 * Upstreams end connections that were idle for long. nginx closes such a one when its event comes,
 * which may be behind the request that has just been given that connection. So a request that could
 * not be sent again asks its connection first, and where that has ended takes the next one, or
 * dials: nothing of it was sent, and whether it may be sent twice does not matter (RFC 9112 9.3.1).
 * What an upstream ends after that is seen when the request is on its way. */
#include "services/edge/http/edge_kept.h"
#include "services/edge/http/edge_sends.h"
#include "services/edge/http/edge_unsent.h"
#include "services/edge/worker/edge_vitals.h"

/* of nginx's keepalive module */
static ngx_event_get_peer_pt             keepalive_get;   /* NULL: postern_kept is not there */
static ngx_http_upstream_init_pt         keepalive_init_upstream;
static ngx_http_upstream_init_peer_pt    keepalive_init_peer;


static void
on_closed(void *data)
{
    ngx_connection_t  *c = data;

    edge_unsent_leave(c);
    if (c->close && !ngx_exiting && !ngx_terminate) {
        edge_vitals(ngx_worker)->kept_given_up++;
    }
}


void
edge_kept_mark(ngx_connection_t *c, ngx_uint_t is_new)
{
    ngx_pool_cleanup_t  *cln;

    if (keepalive_get == NULL) {
        return;
    }
    cln = is_new ? ngx_pool_cleanup_add(c->pool, 0) : NULL;
    if (cln) {
        cln->handler = on_closed;
        cln->data = c;
    }
    ngx_reusable_connection(c, 1);
}


/* As nginx closes one whose end it has seen. */
static void
close_kept(ngx_connection_t *c)
{
    c->idle = 1;   /* it still is: edge_unsent_leave asks for that */
    if (c->ssl) {
        c->ssl->no_wait_shutdown = 1;
        c->ssl->no_send_shutdown = 1;
        (void) ngx_ssl_shutdown(c);
    }
    ngx_destroy_pool(c->pool);
    ngx_close_connection(c);
}


/* Each call of keepalive_get takes a connection out of those that are kept, while there are any. */
static ngx_int_t
take_kept(ngx_peer_connection_t *pc, void *data)
{
    ngx_int_t  rc;

    for ( ;; ) {
        rc = keepalive_get(pc, data);
        if (rc != NGX_DONE || pc->connection == NULL) {
            return rc;
        }
        if (edge_sends_can_go(pc->connection)) {
            ngx_reusable_connection(pc->connection, 0);
            return edge_sends_later();
        }
        close_kept(pc->connection);
    }
}


static ngx_int_t
init_kept_peer(ngx_http_request_t *r, ngx_http_upstream_srv_conf_t *us)
{
    ngx_int_t  rc = keepalive_init_peer(r, us);

    if (rc == NGX_OK) {
        keepalive_get = r->upstream->peer.get;
        r->upstream->peer.get = take_kept;
    }
    return rc;
}


static ngx_int_t
init_kept(ngx_conf_t *cf, ngx_http_upstream_srv_conf_t *us)
{
    if (keepalive_init_upstream(cf, us) != NGX_OK) {
        return NGX_ERROR;
    }
    keepalive_init_peer = us->peer.init;
    us->peer.init = init_kept_peer;
    return NGX_OK;
}


char *
edge_kept_directive(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_upstream_srv_conf_t  *uscf;

    (void) cmd;
    (void) conf;
    uscf = ngx_http_conf_get_module_srv_conf(cf, ngx_http_upstream_module);
    if (keepalive_init_upstream || uscf->peer.init_upstream == NULL) {
        return "must stand once, behind keepalive";
    }
    keepalive_init_upstream = uscf->peer.init_upstream;
    uscf->peer.init_upstream = init_kept;
    return NGX_CONF_OK;
}
