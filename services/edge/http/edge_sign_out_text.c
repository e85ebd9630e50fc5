/* What a provider is told about a logout token: OpenID Connect Back-Channel Logout 1.0, 2.8. */
#include "services/edge/http/edge_sign_out_text.h"
#include "services/edge/http/edge_body.h"
#include "services/edge/http/edge_header.h"

enum { REASON_MAX = 300 };


static ngx_int_t
send_text(ngx_http_request_t *r, ngx_uint_t status, ngx_str_t *json)
{
    ngx_int_t       rc;
    ngx_buf_t      *b;
    ngx_chain_t     out;
    const header_t  unkept = {
        .name = "Cache-Control", .name_len = 13, .lower = "",
        .value = "no-store", .value_len = 8
    };

    rc = edge_body_discard(r, edge_ctx(r));
    if (rc != NGX_OK) {
        return rc;
    }
    if (edge_header_answer(r, &unkept) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    r->headers_out.status = status;
    r->headers_out.content_length_n = json->len;
    r->header_only = json->len == 0;
    if (json->len) {
        ngx_str_set(&r->headers_out.content_type, "application/json");
        r->headers_out.content_type_len = r->headers_out.content_type.len;
    }
    rc = ngx_http_send_header(r);
    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
        return rc;
    }
    b = ngx_calloc_buf(r->pool);
    if (b == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    b->pos = json->data;
    b->last = json->data + json->len;
    b->memory = 1;
    b->last_buf = 1;
    b->last_in_chain = 1;
    out.buf = b;
    out.next = NULL;
    return ngx_http_output_filter(r, &out);
}


/* 2.8: what failed, for whatever reason, is answered with 400. */
static ngx_int_t
refuse(ngx_http_request_t *r, const char *error, const char *reason)
{
    size_t     len = ngx_min(ngx_strlen(reason), REASON_MAX);
    u_char    *p;
    ngx_str_t  json;

    json.data = ngx_pnalloc(r->pool, 6 * REASON_MAX + 128);
    if (json.data == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    p = ngx_sprintf(json.data, "{\"error\":\"%s\",\"error_description\":\"", error);
    p = (u_char *) ngx_escape_json(p, (u_char *) reason, len);
    p = ngx_cpymem(p, "\"}\n", 3);
    json.len = p - json.data;
    return send_text(r, NGX_HTTP_BAD_REQUEST, &json);
}


ngx_int_t
edge_sign_out_accept(ngx_http_request_t *r)
{
    ngx_str_t  nothing = ngx_null_string;

    return send_text(r, NGX_HTTP_OK, &nothing);
}


ngx_int_t
edge_sign_out_refuse(ngx_http_request_t *r, const char *reason)
{
    return refuse(r, "invalid_request", reason);
}


ngx_int_t
edge_sign_out_refuse_for_now(ngx_http_request_t *r)
{
    return refuse(r, "temporarily_unavailable", "nobody can tell now: send it again");
}
