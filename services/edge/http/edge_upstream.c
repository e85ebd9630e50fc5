/* The upstream peer of nginx's proxy: the backend that the route's backend module chose.
 *
 * nginx's keep-alive pool is keyed by the socket address alone, so a connection verified for one
 * TLS name would be reused for another. Every TLS name therefore has a pool number, stored in bytes
 * of the address that the kernel ignores: sin_zero, or after a sockaddr_in6. A connection that a
 * module takes over is none of the pool's: it asks for a number that no pool has. Another
 * bit of the number says HTTP/2.
 *
 * Members of a failover backend are tries of nginx's own: after a dial that failed, and then only,
 * free_peer goes on to the next member, whose address the next get_peer gives. All of its requests
 * are in the location with TLS, where u->ssl says for each connection whether it has it. */
#include "services/edge/http/edge_upstream.h"
#include "services/edge/control/edge_resolve.h"
#include "services/edge/http/edge_address.h"
#include "services/edge/http/edge_ctx.h"
#include "services/edge/http/edge_failover.h"
#include "services/edge/http/edge_grpc.h"
#include "services/edge/http/edge_head.h"
#include "services/edge/http/edge_kept.h"
#include "services/edge/http/edge_reader.h"
#include "services/edge/http/edge_sends.h"
#include "services/edge/http/edge_share.h"
#include "services/edge/http/edge_unsent.h"
#include "services/edge/http/edge_writer.h"
#include "services/edge/tls/edge_tls_address.h"
#include "services/edge/tls/edge_tls_messages.h"
#include "services/edge/modules/module.h"
#include "services/edge/table/table.h"
#include "common/base/err.h"

typedef struct {
    union {
        struct sockaddr_storage  storage;
        struct sockaddr_in       v4;
        struct {
            struct sockaddr_in6  v6;
            uint64_t             pool;
        } v6;
    } address;
    socklen_t                  len;
    ngx_str_t                  name;
    edge_ctx_t                *ctx;
    ngx_http_request_t        *request;
    ngx_http_upstream_conf_t  *conf;     /* the location's */
    ngx_output_chain_filter_pt  writer;  /* whose place on_first_write has; NULL: of none */
    void                      *writer_data;
    unsigned                   sent:1;   /* bytes of the request, to an upstream that had closed */
    unsigned                   unproven:1;   /* its connection stands, without a certificate */
} peer_t;


#define NO_POOL     (1ull << 62)
#define HTTP2_POOL  (1ull << 63)

static ngx_event_free_peer_pt  keepalive_free;   /* of nginx's keepalive module */


/* ---- connections that a request leaves ---- */

/* A connection with bytes behind the end of its response must not serve another request, whose
 * response they would be taken for. nginx looks for them in the socket alone; those that came in
 * the same TLS record as the end stand in OpenSSL's buffer. */
static void
leave_peer(ngx_peer_connection_t *pc, void *data, ngx_uint_t state)
{
    ngx_connection_t     *c = pc->connection;
    ngx_http_upstream_t  *u;

    if (c && c->ssl && SSL_has_pending(c->ssl->connection)) {
        u = (ngx_http_upstream_t *)
                ((u_char *) pc - offsetof(ngx_http_upstream_t, peer));
        u->keepalive = 0;
    }
    keepalive_free(pc, data, state);
    if (c && pc->connection == NULL && c->fd != (ngx_socket_t) -1) {
        edge_kept_mark(c, !pc->cached);
    }
}


socklen_t
edge_upstream_address(ngx_http_request_t *r, const backend_t *backend,
    struct sockaddr_storage *ret_address)
{
    socklen_t  len = edge_resolve_address(backend, ret_address);

    if (len && !edge_address_permits(r, backend, (struct sockaddr *) ret_address)) {
        return 0;
    }
    return len;
}


/* Numbers of pools are counted from 1, and never reach these bits. */
static uint64_t
pool_of(const edge_ctx_t *ctx, const backend_t *backend)
{
    if (ctx->tunnel) {
        return NO_POOL;
    }
    return ctx->grpc ? backend->pool | HTTP2_POOL : backend->pool;
}


/* Where the chosen backend is. 0: nowhere, or it must not be dialled. */
static ngx_uint_t
find_peer(peer_t *peer)
{
    uint64_t    pool;
    backend_t  *backend = peer->ctx->backend;

    peer->len = edge_upstream_address(peer->request, backend, &peer->address.storage);
    if (peer->len == 0) {
        return 0;
    }
    pool = pool_of(peer->ctx, backend);
    if (peer->address.storage.ss_family == AF_INET) {
        ngx_memcpy(peer->address.v4.sin_zero, &pool, sizeof(pool));
    } else {
        peer->address.v6.pool = pool;
        peer->len = sizeof(peer->address.v6);
    }
    peer->name.data = (u_char *) backend->host;
    peer->name.len = ngx_strlen(backend->host);
    return 1;
}


/* ---- failover ---- */

/* The member that step finds, or the next one that can be dialled. 0: there is none, or it answers
 * by itself, which the page of this failure does then (edge_page.c); who came for a tunnel is
 * denied there, as where that member is the first. */
static ngx_uint_t
find_member(peer_t *peer,
    ngx_uint_t (*step)(ngx_http_request_t *r, edge_ctx_t *ctx))
{
    edge_ctx_t  *ctx = peer->ctx;

    for (/* void */; step(peer->request, ctx); step = edge_failover_next) {
        if (ctx->backend->http_response) {
            if (ctx->tunnel) {
                edge_deny_late(peer->request, ctx,
                               MODULE_WEBSOCKET_TCP_CONVERTER,
                               ERR_EDGE_WEBSOCKET_BACKEND);
            }
            ctx->answers = 1;
            return 0;
        }
        if (find_peer(peer)) {
            return 1;
        }
    }
    return 0;
}


/* Was there no connection yet? u->request_sent is set before the first write to one that was made,
 * and stays set until there is another. A member that spoke before nginx wrote, and closed, was
 * reached: nginx keeps what it read of the answer, and for gRPC the state of that connection, which
 * another member's answer must not meet. */
static ngx_uint_t
is_dial(const ngx_peer_connection_t *pc, const peer_t *peer)
{
    const ngx_http_upstream_t  *u = peer->request->upstream;

    return pc->connection == NULL
           || (!pc->cached && (!u->request_sent || peer->unproven)
               && u->state->bytes_received == 0);
}


/* The handshake of a dial that failed. NULL: it has none, or that is not why. */
static const char *
handshake_fault(ngx_connection_t *c, ngx_http_upstream_t *u)
{
    if (c == NULL || c->ssl == NULL) {
        return NULL;
    }
    if (!c->ssl->handshaked) {
        if (!u->conf->ssl_verify
            && SSL_get_verify_result(c->ssl->connection) != X509_V_OK)
        {
            return "its certificate is not valid";
        }
        return c->write->timedout ? "no TLS handshake in time"
                                  : "the TLS handshake failed";
    }
    if (!u->conf->ssl_verify) {   /* it was verified within the handshake */
        return edge_tls_address_is_verified(c) ? NULL : "it has no certificate";
    }
    return SSL_get_verify_result(c->ssl->connection) != X509_V_OK
           || ngx_ssl_check_host(c, &u->ssl_name) != NGX_OK
           ? "its certificate is not valid" : NULL;
}


static const char *
dial_fault(const ngx_connection_t *c)
{
    return c && c->write->timedout ? "no connection in time"
                                   : "no connection could be made";
}


/* A try is over: how many are left? Where an upstream had closed a kept connection nginx adds one
 * itself, which dials the same member. */
static ngx_uint_t
free_member(const ngx_peer_connection_t *pc, peer_t *peer, ngx_uint_t state,
    const char *bad_tls)
{
    ngx_http_upstream_t  *u = peer->request->upstream;

    if ((state & NGX_PEER_FAILED) == 0) {
        if (u->headers_in.status_n) {
            edge_failover_stands(peer->request, peer->ctx);
        } else {
            edge_failover_leave(peer->ctx);   /* the request ends */
        }
        return 0;
    }
    if (!is_dial(pc, peer)) {
        peer->sent |= pc->connection->sent > 0;
        return 0;
    }
    edge_failover_failed(peer->request, peer->ctx,
                         bad_tls ? bad_tls : dial_fault(pc->connection));
    return peer->sent ? 0 : find_member(peer, edge_failover_next);
}


/* The location has TLS; does the member? */
static void
set_tls(ngx_http_request_t *r, edge_ctx_t *ctx)
{
#if (NGX_HTTP_SSL)
    r->upstream->ssl = ctx->backend->tls;
#endif
    if (ctx->grpc) {
        edge_grpc_set_scheme(ctx, ctx->backend->tls);
    } else if (ctx->backend->tls) {   /* for the log */
        ngx_str_set(&r->upstream->schema, "https://");
    } else {
        ngx_str_set(&r->upstream->schema, "http://");
    }
}


/* ---- the certificate of an upstream that is known by its address ---- */

static void
restore_writer(peer_t *peer)
{
    ngx_http_upstream_t  *u = peer->request->upstream;

    if (peer->writer) {
        u->output.output_filter = peer->writer;
        u->output.filter_ctx = peer->writer_data;
        peer->writer = NULL;
    }
}


/* In place of the writer to the upstream, before anything is sent on a new connection. */
static ngx_int_t
on_first_write(void *data, ngx_chain_t *in)
{
    peer_t                  *peer = data;
    ngx_connection_t        *c = peer->request->upstream->peer.connection;
    ngx_output_chain_ctx_t  *output = &peer->request->upstream->output;

    restore_writer(peer);
    if (!edge_tls_address_is_verified(c)) {
        peer->unproven = 1;
        peer->request->upstream->request_sent = 0;   /* it is a dial that failed, for nginx, too */
        ngx_log_error(NGX_LOG_ERR, c->log, 0,
                      "upstream SSL certificate verify error: there is no valid certificate");
        return NGX_ERROR;
    }
    return output->output_filter(output->filter_ctx, in);
}


static void
watch_first_write(peer_t *peer)
{
    ngx_output_chain_ctx_t  *output = &peer->request->upstream->output;

    peer->writer = output->output_filter;
    peer->writer_data = output->filter_ctx;
    output->output_filter = on_first_write;
    output->filter_ctx = peer;
}


/* ---- what nginx calls ---- */

/* The keepalive module has put its own functions before these by now. */
static ngx_int_t
get_peer(ngx_peer_connection_t *pc, void *data)
{
    peer_t  *peer = data;

    if (pc->free != leave_peer) {
        keepalive_free = pc->free;
        pc->free = leave_peer;
    }
    peer->request->upstream->conf = peer->conf;
    peer->unproven = 0;
    if (peer->ctx->failover) {
        set_tls(peer->request, peer->ctx);
    }
    pc->sockaddr = (struct sockaddr *) &peer->address;
    pc->socklen = peer->len;
    pc->name = &peer->name;
    pc->cached = 0;
    pc->connection = NULL;
    edge_sends_note(peer->request, peer->ctx);
    if (peer->ctx->tunnel) {
        peer->ctx->tunnel(peer->request, peer->ctx);
    }
    if (peer->request->upstream->ssl) {
        edge_tls_messages_bound(peer->request->upstream->conf->ssl->ctx);
    }
    return NGX_OK;
}


/* A call of gRPC whose upstream was reached by TCP and has not said a word of HTTP/2: one of
 * HTTP/1.1 ends the handshake of TLS, answers 400, or closes. */
static ngx_uint_t
has_no_http2(const edge_ctx_t *ctx, const ngx_peer_connection_t *pc)
{
    const ngx_connection_t  *c = pc->connection;

    return ctx->grpc && c && !pc->cached && !edge_grpc_was_answered(ctx)
           && (c->ssl || ctx->request->upstream->request_sent);
}


/* Where an upstream closes a kept connection nginx tries another one, unless it knows that the
 * method is not idempotent: for it that is POST, LOCK and PATCH. */
static void
keep_from_again(ngx_peer_connection_t *pc, const ngx_http_request_t *r, edge_ctx_t *ctx)
{
    if (pc->cached && r->upstream->request_sent && !edge_sends_is_idempotent(r)) {
        pc->cached = 0;
        ctx->cut_off = 1;
    }
}


static void
free_peer(ngx_peer_connection_t *pc, void *data, ngx_uint_t state)
{
    peer_t               *peer = data;
    const char           *bad_tls = NULL;
    ngx_http_upstream_t  *u = peer->request->upstream;

    edge_sends_forget(peer->ctx);
    restore_writer(peer);
    edge_unsent_end(peer->request, peer->ctx, pc->connection);
    if (state & NGX_PEER_FAILED && is_dial(pc, peer)) {
        bad_tls = handshake_fault(pc->connection, u);
        peer->ctx->bad_tls = bad_tls != NULL;
    }
    peer->ctx->no_http2 = has_no_http2(peer->ctx, pc);
    if (peer->ctx->failover) {
        pc->tries = free_member(pc, peer, state, bad_tls);
    } else if (pc->tries) {
        pc->tries--;
    }
    if (state & NGX_PEER_FAILED) {
        keep_from_again(pc, peer->request, peer->ctx);
    }
}


/* Before the handshake of a new connection. TLS sessions are not kept: they would outlive a change
 * of the backend. Where the upstream is known by its address the handshake verifies all of its
 * certificate, and then only nginx, which knows names alone, is told not to: if this is not called
 * every such certificate is refused. */
static ngx_int_t
set_session(ngx_peer_connection_t *pc, void *data)
{
    peer_t                    *peer = data;
    ngx_http_upstream_t       *u = peer->request->upstream;
    const backend_t           *backend = peer->ctx->backend;
    ngx_http_upstream_conf_t  *conf;

    if (!backend->literal) {
        return NGX_OK;
    }
    conf = ngx_palloc(peer->request->pool, sizeof(*conf));
    if (conf == NULL
        || edge_tls_address_demand(pc->connection, backend->host) != NGX_OK)
    {
        return NGX_ERROR;
    }
    *conf = *peer->conf;
    conf->ssl_verify = 0;
    u->conf = conf;
    watch_first_write(peer);
    return NGX_OK;
}


static void
save_session(ngx_peer_connection_t *pc, void *data)
{
    (void) pc;
    (void) data;
}


/* Wraps what nginx does with the bytes of the upstream, and with those for it. */
static void
watch_upstream(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    if (ctx->grpc) {
        edge_grpc_watch(r, ctx);
    } else {
        edge_head_watch(r, ctx);
    }
    edge_reader_watch(r, ctx);
    edge_writer_watch(r, ctx);
}


static ngx_int_t
init_peer(ngx_http_request_t *r, ngx_http_upstream_srv_conf_t *us)
{
    peer_t      *peer;
    edge_ctx_t  *ctx = edge_ctx(r);

    (void) us;
    if (ctx == NULL || ctx->backend == NULL) {
        return NGX_ERROR;
    }
    peer = ngx_pcalloc(r->pool, sizeof(peer_t));
    if (peer == NULL) {
        return NGX_ERROR;
    }
    peer->ctx = ctx;
    peer->request = r;
    peer->conf = r->upstream->conf;
    if (!edge_share_take(r, ctx)) {
        ctx->error = ERR_EDGE_BUSY;
        return NGX_ERROR;
    }
    if (!(ctx->failover ? find_member(peer, edge_failover_dial) : find_peer(peer))) {
        if (ctx->error == 0 && !ctx->answers) {
            ctx->error = ERR_EDGE_REFUSED;   /* the same error as for a name without an address */
        }
        return NGX_ERROR;
    }
    r->upstream->peer.data = peer;
    r->upstream->peer.get = get_peer;
    r->upstream->peer.free = free_peer;
    r->upstream->peer.set_session = set_session;
    r->upstream->peer.save_session = save_session;
    r->upstream->peer.tries = 1;
    if (ctx->tunnel == NULL) {
        watch_upstream(r, ctx);
    }
    return NGX_OK;
}


static ngx_int_t
init_upstream(ngx_conf_t *cf, ngx_http_upstream_srv_conf_t *us)
{
    (void) cf;
    us->peer.init = init_peer;
    return NGX_OK;
}


char *
edge_upstream_directive(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_upstream_srv_conf_t  *uscf;

    (void) cmd;
    (void) conf;
    uscf = ngx_http_conf_get_module_srv_conf(cf, ngx_http_upstream_module);
    uscf->flags = NGX_HTTP_UPSTREAM_CREATE;
    uscf->peer.init_upstream = init_upstream;
    return NGX_CONF_OK;
}
