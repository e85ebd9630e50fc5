#include "services/edge/http/edge_answer.h"
#include "services/edge/http/edge_body.h"
#include "services/edge/http/edge_header.h"


/* The strings that it sends live as long as ctx->backend. */
ngx_int_t
edge_answer(ngx_http_request_t *r)
{
    size_t        i;
    ngx_buf_t    *b;
    ngx_int_t     rc;
    ngx_chain_t   out;
    edge_ctx_t   *ctx = edge_ctx(r);
    backend_t    *backend = ctx->backend;

    rc = edge_body_discard(r, ctx);
    if (rc != NGX_OK) {
        return rc;
    }
    r->headers_out.status = backend->status;
    r->headers_out.content_length_n = backend->body_len;
    ngx_str_set(&r->headers_out.content_type, "text/plain");
    r->headers_out.content_type_len = r->headers_out.content_type.len;
    for (i = 0; i < backend->headers.add_count; i++) {
        if (edge_header_answer(r, &backend->headers.add[i]) != NGX_OK) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }
    }
    if (backend->status == NGX_HTTP_NO_CONTENT || backend->status == 304
        || backend->body_len == 0)
    {
        r->header_only = 1;
        if (backend->status == NGX_HTTP_NO_CONTENT || backend->status == 304) {
            ngx_http_clear_content_length(r);
        }
    }
    rc = ngx_http_send_header(r);
    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
        return rc;
    }
    b = ngx_calloc_buf(r->pool);
    if (b == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    b->pos = (u_char *) backend->body;
    b->last = b->pos + backend->body_len;
    b->memory = 1;
    b->last_buf = 1;
    b->last_in_chain = 1;
    out.buf = b;
    out.next = NULL;
    return ngx_http_output_filter(r, &out);
}
