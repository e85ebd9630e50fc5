/* What a provider is told about a logout token: OpenID Connect Back-Channel Logout 1.0, 2.8. */
#include "services/edge/http/edge_sign_out_text.h"
#include "services/edge/http/edge_body.h"
#include "services/edge/http/edge_header.h"
#include "services/edge/http/edge_text.h"

enum { REASON_MAX = 300 };


static ngx_int_t
send_text(ngx_http_request_t *r, ngx_uint_t status, const char *type, u_char *text, size_t len)
{
    ngx_int_t       rc;
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
    return edge_text_send(r, status, type, text, len);
}


/* 2.8: what failed, for whatever reason, is answered with 400. */
static ngx_int_t
refuse(ngx_http_request_t *r, const char *error, const char *reason)
{
    size_t   len = ngx_min(ngx_strlen(reason), REASON_MAX);
    u_char  *json = ngx_pnalloc(r->pool, 6 * REASON_MAX + 128), *p;

    if (json == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    p = ngx_sprintf(json, "{\"error\":\"%s\",\"error_description\":\"", error);
    p = (u_char *) ngx_escape_json(p, (u_char *) reason, len);
    p = ngx_cpymem(p, "\"}\n", 3);
    return send_text(r, NGX_HTTP_BAD_REQUEST, "application/json", json, p - json);
}


ngx_int_t
edge_sign_out_accept(ngx_http_request_t *r)
{
    return send_text(r, NGX_HTTP_OK, NULL, NULL, 0);
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
