/* nginx keeps the buffer of a body until the request ends. Of HTTP/2 it is the whole window of a
 * stream, whatever was announced; but memory that nothing is written to is none. */
#include "services/edge/http/edge_body_memory.h"

#if (NGX_HTTP_V2)
#include <ngx_http_v2_module.h>
#endif


/* length: of the body; -1: nobody has said it. */
static size_t
buffer_bytes(const ngx_http_request_t *r, off_t length)
{
    off_t                            size;
#if (NGX_HTTP_V2)
    const ngx_http_v2_srv_conf_t    *h2scf;
#endif
    const ngx_http_core_loc_conf_t  *clcf;

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);
    size = (off_t) clcf->client_body_buffer_size;
#if (NGX_HTTP_V2)
    if (r->stream) {
        h2scf = ngx_http_get_module_srv_conf(r, ngx_http_v2_module);
        size = ngx_max(size, (off_t) h2scf->preread_size);
        return (size_t) (length < 0 ? size : ngx_min(length, size)) + ngx_pagesize;
    }
#endif
    return (size_t) (length < 0 || length >= size + size / 4 ? size : length);
}


/* Has all of it come with the head, or has it room behind that? */
static ngx_uint_t
fits_behind_head(const ngx_http_request_t *r, off_t length)
{
    const ngx_buf_t  *head = r->header_in;

    return length == 0 || (head->pos < head->last && length <= head->end - head->pos);
}


size_t
edge_body_memory(const ngx_http_request_t *r)
{
    off_t  length = r->headers_in.chunked ? -1 : r->headers_in.content_length_n;

    if (length < 0 && !r->headers_in.chunked) {
        return 0;
    }
    if (r->stream == NULL && length >= 0 && fits_behind_head(r, length)) {
        return 0;
    }
    return buffer_bytes(r, length);
}


/* Its bytes, with their framing, are among those of the request. */
size_t
edge_body_memory_whole(const ngx_http_request_t *r)
{
    return buffer_bytes(r, r->request_length);
}
