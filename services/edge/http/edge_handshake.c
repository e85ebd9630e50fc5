#include "services/edge/http/edge_handshake.h"
#include "services/edge/http/edge_end.h"
#include "services/edge/tls/edge_bio.h"
#include "services/edge/tls/edge_tls.h"
#include "services/edge/worker/edge_worker.h"


/* Does the handshake satisfy the edge's TLS settings, which may have changed since? */
static ngx_uint_t
meets_demands(ngx_connection_t *c, const edge_client_t *client,
    const edge_t *edge)
{
    if (ngx_memcmp(client->profile, edge->profile, sizeof(client->profile))
        == 0)
    {
        return 1;   /* the usual case: unchanged */
    }
    return !edge->mutual_tls
           && SSL_version(c->ssl->connection) >= edge->min_version;
}


ngx_uint_t
edge_tls_is_of_host(ngx_http_request_t *r, const edge_ctx_t *ctx)
{
    edge_client_t  *client = edge_client(r->connection);

    return client->name_len == ctx->host.len
           && ngx_memcmp(client->name, ctx->host.data, ctx->host.len) == 0;
}


/* A connection made for one name of an edge serves its other names, too: the TLS settings are the
 * same. */
ngx_uint_t
edge_tls_is_of(ngx_http_request_t *r, const edge_t *edge, edge_ctx_t *ctx)
{
    edge_client_t  *client = edge_client(r->connection);

    if (edge_tls_is_of_host(r, ctx)) {
        return 1;   /* the usual case: host and server name are equal */
    }
    return client->name_len > 0
           && table_edge(edge_worker_table(), client->name, client->name_len)
              == edge;
}


ngx_int_t
edge_tls_agrees(ngx_http_request_t *r, const edge_t *edge, edge_ctx_t *ctx)
{
    if (!edge_tls_is_of(r, edge, ctx)) {
        return NGX_DECLINED;
    }
    if (!meets_demands(r->connection, edge_client(r->connection), edge)) {
        edge_end_connection(r);
        return NGX_DECLINED;
    }
    return NGX_OK;
}


void
edge_tls_check_name(ngx_http_request_t *r)
{
    edge_client_t  *client = edge_client(r->connection);

    if (client->name_len
        && table_domain(edge_worker_table(), client->name, client->name_len)
           == NULL)
    {
        edge_end_connection(r);
    }
}


static ngx_uint_t
is_replaced(const edge_client_t *client)
{
    const edge_t  *edge;

    if (edge_tls_certificate(client->name, client->name_len) != client->certificate) {
        return 1;
    }
    edge = table_edge(edge_worker_table(), client->name, client->name_len);
    return client->had_edge && (edge == NULL || !edge->present);
}


void
edge_tls_check_certificate(ngx_http_request_t *r)
{
    const void     *table = edge_worker_table();
    int64_t         revision = edge_worker_at()->revision;
    edge_client_t  *client = edge_client(r->connection);

    if (client->name_len == 0
        || (client->table == table && client->revision == revision))
    {
        return;   /* the usual case: nothing has changed */
    }
    client->table = table;
    client->revision = revision;
    if (is_replaced(client)) {
        edge_end_connection(r);
    }
}
