#include "services/edge/http/edge_answer.h"
#include "services/edge/http/edge_body.h"
#include "services/edge/http/edge_header.h"
#include "services/edge/http/edge_text.h"


/* The strings that it sends live as long as ctx->backend. */
ngx_int_t
edge_answer(ngx_http_request_t *r)
{
    size_t       i;
    ngx_int_t    rc;
    edge_ctx_t  *ctx = edge_ctx(r);
    backend_t   *backend = ctx->backend;

    rc = edge_body_discard(r, ctx);
    if (rc != NGX_OK) {
        return rc;
    }
    /* a field of the backend's own takes its place */
    ngx_str_set(&r->headers_out.content_type, "text/plain");
    r->headers_out.content_type_len = r->headers_out.content_type.len;
    for (i = 0; i < backend->headers.add_count; i++) {
        if (edge_header_answer(r, &backend->headers.add[i]) != NGX_OK) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }
    }
    return edge_text_send(r, backend->status, NULL, (u_char *) backend->body, backend->body_len);
}
