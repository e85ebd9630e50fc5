#include "services/edge/http/edge_text.h"


static void
set_head(ngx_http_request_t *r, ngx_uint_t status, const char *type, size_t len)
{
    r->headers_out.status = status;
    r->headers_out.content_length_n = len;
    if (type) {
        r->headers_out.content_type.data = (u_char *) type;
        r->headers_out.content_type.len = ngx_strlen(type);
        r->headers_out.content_type_len = r->headers_out.content_type.len;
    }
    if (status == NGX_HTTP_NO_CONTENT || status == NGX_HTTP_NOT_MODIFIED) {
        r->header_only = 1;
        ngx_http_clear_content_length(r);
    }
    if (len == 0) {
        r->header_only = 1;
    }
}


ngx_int_t
edge_text_send(ngx_http_request_t *r, ngx_uint_t status, const char *type, u_char *text,
    size_t len)
{
    ngx_buf_t    *b;
    ngx_int_t     rc;
    ngx_chain_t   out;

    set_head(r, status, type, len);
    rc = ngx_http_send_header(r);
    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
        return rc;
    }
    b = ngx_calloc_buf(r->pool);
    if (b == NULL) {
        return NGX_ERROR;
    }
    b->pos = text;
    b->last = text + len;
    b->memory = 1;
    b->last_buf = 1;
    b->last_in_chain = 1;
    out.buf = b;
    out.next = NULL;
    return ngx_http_output_filter(r, &out);
}
