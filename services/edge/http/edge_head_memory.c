/* nginx keeps a head as it came, and copies of parts of it: the request to the upstream has all of
 * it again; of HTTP/2 there is also a request line, and cookies, which come in pieces, are joined;
 * names of HTTP/1.1 are there in lower case, too; and the path is there as nginx has read it, and
 * as the edge has normalised it. Who sends heads that are made of such parts has up to three times
 * what came. */
#include "services/edge/http/edge_head_memory.h"

#include "services/edge/http/edge_grpc.h"
#include "common/codec/path.h"

enum {
    LINE_BYTES = 4,   /* around name and value of a field that goes upstream */
    GRPC_PIECES = 3   /* of nginx's memory for one field, while it makes HPACK of all */
};

/* Of the fields of a head, without what nginx leaves out. */
typedef struct {
    size_t  bytes;     /* of names and values */
    size_t  names;     /* of them */
    size_t  largest;   /* name or value */
    size_t  count;
} fields_t;


static fields_t
sum_of_fields(const ngx_http_request_t *r)
{
    fields_t                of = { 0 };
    ngx_uint_t              i;
    const ngx_list_part_t  *part;
    const ngx_table_elt_t  *header;

    for (part = &r->headers_in.headers.part; part; part = part->next) {
        header = part->elts;
        for (i = 0; i < part->nelts; i++) {
            of.names += header[i].key.len;
            of.bytes += header[i].key.len + header[i].value.len;
            of.largest = ngx_max(of.largest, ngx_max(header[i].key.len, header[i].value.len));
        }
        of.count += part->nelts;
    }
    return of;
}


/* ---- as it came ---- */

#if (NGX_HTTP_V2)

/* Fields of HTTP/2 have copies of their own, whatever they took on the wire: a reference of one
 * byte may stand for 4 KB. nginx counts their bytes while it reads the head, those of fields that
 * it leaves out, too. The buffer of what comes in Huffman's code is 8/5 of that, and as little as
 * 2/7 may come out of it (RFC 7541 B: 30 bits for a byte). */
static size_t
copied_bytes(ngx_http_request_t *r, const fields_t *of)
{
    size_t                     bytes, cookies = 0;
    ngx_http_v2_connection_t  *h2c = r->stream->connection;
    ngx_http_core_srv_conf_t  *cscf;

    if (h2c->state.pool && h2c->state.pool == r->stream->pool) {
        cscf = ngx_http_get_module_srv_conf(h2c->http_connection->conf_ctx,
                                            ngx_http_core_module);
        bytes = cscf->large_client_header_buffers.num * cscf->large_client_header_buffers.size
                - h2c->state.header_limit;
    } else {
        bytes = of->bytes + r->unparsed_uri.len;
    }
    if (r->stream->cookies) {
        cookies = 2 * r->stream->cookies->nalloc * r->stream->cookies->size;
    }
    return bytes + cookies + r->request_length * 4 / 3;
}

#endif


static size_t
came_bytes(ngx_http_request_t *r, const fields_t *of)
{
    size_t                     bytes = of->count * sizeof(ngx_table_elt_t);
    ngx_http_core_srv_conf_t  *cscf;

#if (NGX_HTTP_V2)
    if (r->stream) {
        return bytes + copied_bytes(r, of);
    }
#endif
    if (r->http_connection) {
        cscf = ngx_http_get_module_srv_conf(r, ngx_http_core_module);
        bytes += r->http_connection->nbusy * cscf->large_client_header_buffers.size;
    }
    return bytes + of->names;   /* in lower case */
}


size_t
edge_head_memory_so_far(ngx_http_request_t *r)
{
    fields_t  of = sum_of_fields(r);

    return came_bytes(r, &of);
}


/* ---- copies ---- */

/* Of the normalised path and the query, twice, and of what nginx has read of a path with an escape
 * or a dot. */
static size_t
uri_bytes(const ngx_http_request_t *r)
{
    size_t            path, of_nginx = r->complex_uri || r->quoted_uri ? r->uri.len : 0;
    const u_char     *args;
    const ngx_str_t  *uri = &r->unparsed_uri;

    if (uri->len == 0) {
        return 0;   /* the request line could not be read */
    }
    args = ngx_strlchr(uri->data, uri->data + uri->len, '?');
    path = args ? (size_t) (args - uri->data) : uri->len;
    return of_nginx + 2 * (path_room((const char *) uri->data, path) + uri->len - path);
}


#if (NGX_HTTP_V2)

/* The request line, and all cookies in one field. */
static size_t
joined_bytes(const ngx_http_request_t *r)
{
    size_t            bytes = r->request_line.len;
    ngx_uint_t        i;
    const ngx_str_t  *pieces;

    if (r->stream->cookies) {
        pieces = r->stream->cookies->elts;
        for (i = 0; i < r->stream->cookies->nelts; i++) {
            bytes += pieces[i].len + 2;
        }
    }
    return bytes;
}

#endif


size_t
edge_head_memory(ngx_http_request_t *r)
{
    size_t    bytes;
    fields_t  of = sum_of_fields(r);

    bytes = came_bytes(r, &of) + uri_bytes(r);
    bytes += of.bytes + of.count * LINE_BYTES;   /* upstream */
#if (NGX_HTTP_V2)
    if (r->stream) {
        bytes += joined_bytes(r);
        if (edge_grpc_is_asked(r)) {
            bytes += GRPC_PIECES * of.largest;
        }
    }
#endif
    return bytes;
}
