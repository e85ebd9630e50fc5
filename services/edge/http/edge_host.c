/* The host of a request, parsed and checked once. It chooses the edge and route, is compared with
 * the TLS server name, and is used for the upstream's Host and X-Forwarded-Host, events and
 * redirects.
 *
 * A target in absolute form overrides the Host header (RFC 9112 3.2.2). */
#include "services/edge/http/edge_host.h"
#include "services/edge/http/edge_ctx.h"
#include "services/edge/http/authority.h"


/* host[:port] of a target in absolute form, as it stands in the request line. */
static ngx_str_t
target_authority(ngx_http_request_t *r)
{
    u_char     *p, *end = r->request_line.data + r->request_line.len;
    ngx_str_t   text;

    p = r->host_end;
    if (p < end && *p == ':') {
        for (p++; p < end && *p >= '0' && *p <= '9'; p++) { /* void */ }
    }
    text.data = r->host_start;
    text.len = p - r->host_start;
    return text;
}


static ngx_uint_t
scheme_is(ngx_http_request_t *r, const char *name, size_t len)
{
    return r->schema.len == len
           && ngx_strncasecmp(r->schema.data, (u_char *) name, len) == 0;
}


/* A colon and the port, which is not 0. */
static u_char *
write_port(u_char *p, unsigned port)
{
    unsigned  digit = 10000;   /* of 65535 */

    while (port < digit) {
        digit /= 10;
    }
    for (*p++ = ':'; digit; digit /= 10) {
        *p++ = (u_char) ('0' + port / digit % 10);
    }
    return p;
}


/* NGX_DECLINED: a malformed host or port, or a scheme that is neither http nor https. */
ngx_int_t
edge_host(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    size_t            len;
    unsigned          port = 0;
    ngx_str_t         text;
    ngx_table_elt_t  *header = r->headers_in.host;

    if (r->schema.len && !scheme_is(r, "https", 5) && !scheme_is(r, "http", 4)) {
        return NGX_DECLINED;
    }
    if (header
        && authority_split((char *) header->value.data, header->value.len, &len,
                           &port))
    {
        return NGX_DECLINED;
    }
    if (r->host_end) {
        text = target_authority(r);
        if (authority_split((char *) text.data, text.len, &len, &port)) {
            return NGX_DECLINED;
        }
    }
    ctx->host = r->headers_in.server;   /* nginx's reading of the same: lower case, no port, no dot at its end */
    ctx->authority = ctx->host;
    if (port) {
        text.data = ngx_pnalloc(r->pool, ctx->host.len + sizeof(":65535") - 1);
        if (text.data == NULL) {
            return NGX_ERROR;
        }
        text.len = write_port(ngx_cpymem(text.data, ctx->host.data, ctx->host.len), port)
                   - text.data;
        ctx->authority = text;
    }
    return NGX_OK;
}


/* Browsers send Host first; whoever sends it behind a line that is too long has it in the
 * handshake. */
ngx_str_t
edge_host_asked(ngx_http_request_t *r)
{
    ngx_str_t    host = r->headers_in.server;
    const char  *name;

    if (host.len || r->connection->ssl == NULL) {
        return host;
    }
    name = SSL_get_servername(r->connection->ssl->connection, TLSEXT_NAMETYPE_host_name);
    host.data = name ? ngx_pnalloc(r->pool, ngx_strlen(name)) : NULL;
    if (host.data) {
        host.len = ngx_strlen(name);
        ngx_strlow(host.data, (u_char *) name, host.len);
    }
    return host;
}
