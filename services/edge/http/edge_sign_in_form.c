#include "services/edge/http/edge_sign_in_form.h"
#include "services/edge/table/document.h"

enum { MESSAGE_MAX = 32768, RELAY_MAX = 512, NAME_MAX_LEN = 16 };

/* Its hash stands in the policy of the page: another text would not run. */
#define SCRIPT       "document.forms[0].submit()"
#define SCRIPT_HASH  "sha256-ePniVEkSivX/c7XWBGafqh8tSpiRrKiqYeqbG7N1TOE="

/* form-action: the page that takes the form may redirect, to wherever the provider signs people in,
 * and browsers hold this against those redirects, too. */
#define POLICY                                                                \
    "default-src 'none'; script-src '" SCRIPT_HASH "'; style-src 'unsafe-inline'; " \
    "frame-ancestors 'none'; base-uri 'none'; form-action https:"

#define PAGE_BEGIN                                                            \
    "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">"                \
    "<meta name=\"viewport\" content=\"width=device-width\">"                 \
    "<title>One moment</title><style>body{font:16px/1.5 sans-serif;margin:15vh " \
    "auto;max-width:34em;padding:0 1em}</style><form method=\"post\" action=\""
#define PAGE_FIELD   "\"><input type=\"hidden\" name=\""
#define PAGE_VALUE   "\" value=\""
#define PAGE_END                                                              \
    "\"><p>You are on your way to your identity provider.</p>"                \
    "<button>Continue</button></form><script>" SCRIPT "</script></html>\n"


static ngx_int_t
take_text(ngx_pool_t *pool, const msgpack_object *form, const char *key, size_t max,
    ngx_str_t *out)
{
    const msgpack_object  *value = document_get(form, key);

    if (value == NULL || value->type != MSGPACK_OBJECT_STR || value->via.str.size > max) {
        return NGX_DECLINED;
    }
    out->len = value->via.str.size;
    out->data = ngx_pnalloc(pool, out->len + 1);
    if (out->data == NULL) {
        return NGX_ERROR;
    }
    ngx_memcpy(out->data, value->via.str.ptr, out->len);
    return NGX_OK;
}


static ngx_uint_t
is_name(const ngx_str_t *name)
{
    return (name->len == 11 && ngx_memcmp(name->data, "SAMLRequest", 11) == 0)
           || (name->len == 12 && ngx_memcmp(name->data, "SAMLResponse", 12) == 0);
}


ngx_int_t
edge_sign_in_form_take(ngx_pool_t *pool, const ask_answer_t *answer, edge_form_t *out)
{
    ngx_int_t              rc;
    const msgpack_object  *form = edge_sign_in_member(answer, "post");

    ngx_memzero(out, sizeof(*out));
    if (form == NULL || form->type != MSGPACK_OBJECT_MAP) {
        return NGX_DECLINED;
    }
    rc = take_text(pool, form, "url", EDGE_SIGN_IN_LOCATION_MAX, &out->url);
    if (rc == NGX_OK) {
        rc = take_text(pool, form, "name", NAME_MAX_LEN, &out->name);
    }
    if (rc == NGX_OK) {
        rc = take_text(pool, form, "message", MESSAGE_MAX, &out->message);
    }
    if (rc == NGX_OK && document_get(form, "relay_state")) {
        rc = take_text(pool, form, "relay_state", RELAY_MAX, &out->relay_state);
    }
    if (rc == NGX_OK && (out->url.len < 9 || ngx_memcmp(out->url.data, "https://", 8) != 0
                         || !is_name(&out->name)))
    {
        rc = NGX_DECLINED;
    }
    return rc;
}


/* Between the quotes of an attribute. */
static u_char *
put_escaped(u_char *p, const ngx_str_t *text)
{
    return (u_char *) ngx_escape_html(p, text->data, text->len);
}


static size_t
escaped_len(const ngx_str_t *text)
{
    return text->len + ngx_escape_html(NULL, text->data, text->len);
}


ngx_int_t
edge_sign_in_form(ngx_http_request_t *r, edge_ctx_t *ctx, const edge_form_t *form)
{
    u_char     *p;
    ngx_str_t   html;

    html.data = ngx_pnalloc(r->pool, sizeof(PAGE_BEGIN PAGE_END) + 2 * sizeof(PAGE_FIELD PAGE_VALUE)
                                     + sizeof("RelayState") + escaped_len(&form->url)
                                     + form->name.len + escaped_len(&form->message)
                                     + escaped_len(&form->relay_state));
    if (html.data == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    p = ngx_cpymem(html.data, PAGE_BEGIN, sizeof(PAGE_BEGIN) - 1);
    p = put_escaped(p, &form->url);
    p = ngx_sprintf(p, PAGE_FIELD "%V" PAGE_VALUE, &form->name);
    p = put_escaped(p, &form->message);
    if (form->relay_state.data) {
        p = ngx_cpymem(p, PAGE_FIELD "RelayState" PAGE_VALUE,
                       sizeof(PAGE_FIELD "RelayState" PAGE_VALUE) - 1);
        p = put_escaped(p, &form->relay_state);
    }
    p = ngx_cpymem(p, PAGE_END, sizeof(PAGE_END) - 1);
    html.len = p - html.data;
    return edge_sign_in_document(r, ctx, &html, "text/html; charset=utf-8", POLICY);
}
