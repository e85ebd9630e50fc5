/* nginx's filters make a buffer for each chunk or frame: for one of a byte, 6 bytes on the wire,
 * they take 96 bytes of the request's memory, and those of HTTP/2 as many again. Of a read of
 * 64 KiB that is more than a megabyte. So what is in small pieces is moved together, where the
 * framing between them stood. Large ones stay where they are, and are not copied. */
#include "services/edge/http/edge_pieces.h"

enum {
    MOVED = 1 << 10,      /* the largest piece that is moved: a read has up to 65 others */
    GRPC_PART = 2 << 10   /* nginx makes up to 186 buffers of it before they are joined */
};


/* Was the piece read behind the bytes of b, which were not sent yet, and does it go there? */
static ngx_uint_t
goes_behind(const ngx_buf_t *b, const ngx_buf_t *read, const u_char *piece, size_t size)
{
    return b->pos >= read->start && b->last <= piece && (b->last == piece || size <= MOVED);
}


static void
move_behind(ngx_buf_t *b, const u_char *piece, size_t size)
{
    if (b->last != piece) {
        ngx_memmove(b->last, piece, size);
    }
    b->last += size;
}


static ngx_chain_t **
find_end(ngx_chain_t **link)
{
    while (*link && (*link)->next) {
        link = &(*link)->next;
    }
    return link;   /* of the last one, or of none */
}


/* *last: the link to the last piece, or where the first one will be. */
static ngx_int_t
add_piece(ngx_http_request_t *r, ngx_chain_t ***last, u_char *piece, size_t size)
{
    ngx_buf_t            *b;
    ngx_chain_t          *cl;
    ngx_http_upstream_t  *u = r->upstream;

    if (**last) {
        if (goes_behind((**last)->buf, &u->buffer, piece, size)) {
            move_behind((**last)->buf, piece, size);
            return NGX_OK;
        }
        *last = &(**last)->next;
    }
    cl = ngx_chain_get_free_buf(r->pool, &u->free_bufs);
    if (cl == NULL) {
        return NGX_ERROR;
    }
    b = cl->buf;
    b->flush = 1;
    b->memory = 1;
    b->tag = u->output.tag;
    b->pos = piece;
    b->last = piece + size;
    **last = cl;
    return NGX_OK;
}


/* As ngx_http_proxy_non_buffered_chunked_filter does it, but for add_piece. */
ngx_int_t
edge_pieces_chunked(ngx_http_request_t *r, ngx_http_chunked_t *chunked, ssize_t bytes)
{
    off_t                 size;
    ngx_int_t             rc;
    ngx_http_upstream_t  *u = r->upstream;
    ngx_buf_t            *read = &u->buffer;
    ngx_chain_t         **last = find_end(&u->out_bufs);

    read->pos = read->last;
    read->last += bytes;
    while ((rc = ngx_http_parse_chunked(r, read, chunked)) == NGX_OK) {
        size = ngx_min(read->last - read->pos, chunked->size);
        if (add_piece(r, &last, read->pos, (size_t) size)) {
            return NGX_ERROR;
        }
        read->pos += size;
        chunked->size -= size;
    }
    if (rc == NGX_AGAIN) {
        return NGX_OK;
    }
    if (rc != NGX_DONE) {
        ngx_log_error(NGX_LOG_ERR, r->connection->log, 0, "upstream sent invalid chunked response");
        return NGX_ERROR;
    }
    u->keepalive = !u->headers_in.connection_close;
    u->length = 0;
    if (read->pos != read->last) {
        ngx_log_error(NGX_LOG_WARN, r->connection->log, 0,
                      "upstream sent data after final chunk");
        u->keepalive = 0;
    }
    return NGX_OK;
}


static void
join_pieces(ngx_http_upstream_t *u, ngx_chain_t *cl)
{
    size_t        size;
    ngx_chain_t  *next;

    while (cl && cl->next) {
        next = cl->next;
        size = next->buf->last - next->buf->pos;
        if (!goes_behind(cl->buf, &u->buffer, next->buf->pos, size)) {
            cl = next;
            continue;
        }
        move_behind(cl->buf, next->buf->pos, size);
        cl->next = next->next;
        next->next = u->free_bufs;
        u->free_bufs = next;
    }
}


/* The filter says after each part whether the response has ended, and whether the connection can be
 * kept: of both only what it says behind the last byte counts. */
ngx_int_t
edge_pieces_grpc(ngx_http_request_t *r, ngx_int_t (*filter)(void *data, ssize_t bytes), void *data,
                 ssize_t bytes)
{
    ssize_t               part;
    ngx_int_t             rc;
    ngx_chain_t         **last;
    ngx_http_upstream_t  *u = r->upstream;
    const off_t           length = u->length;

    do {
        part = ngx_min(bytes, GRPC_PART);
        bytes -= part;
        last = find_end(&u->out_bufs);
        u->length = length;
        u->keepalive = 0;
        rc = filter(data, part);
        join_pieces(u, *last);
    } while (rc != NGX_ERROR && bytes > 0);
    return rc;
}


ngx_uint_t
edge_pieces_count(const ngx_http_upstream_t *u)
{
    ngx_uint_t          count = 0;
    const ngx_chain_t  *cl;

    for (cl = u->out_bufs; cl; cl = cl->next) {
        count++;
    }
    return count;
}
