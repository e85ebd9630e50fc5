/* Requests that a browser sends at once have the same cookies, so their answers could not all add
 * to one: each sets its own. How many there may be is seen when the next sign-in begins. Browsers
 * send the oldest first (RFC 6265 5.4). */
#include "services/edge/http/edge_flow_cookies.h"
#include "services/edge/http/cookies.h"
#include "services/edge/http/edge_sign_in_answer.h"

enum {
    FLOWS_MAX = 6,
    FLOWS_BYTES = 8192,   /* of names and values: heads of requests have room for far more */
    LISTED_MAX = 128
};

#define NAME      "__Host-postern.login."
#define NAME_LEN  (sizeof(NAME) - 1)

typedef struct {
    ngx_uint_t     n;
    size_t         bytes;
    cookie_text_t  names[LISTED_MAX], values[LISTED_MAX];
} flows_t;


static ngx_uint_t
is_flow(cookie_text_t name)
{
    return name.len == NAME_LEN + FLOW_NAME_LEN && ngx_memcmp(name.at, NAME, NAME_LEN) == 0;
}


static void
list_line(flows_t *flows, const ngx_str_t *text)
{
    cookie_text_t  line = { (char *) text->data, text->len }, name, value;

    while (cookies_next(&line, &name, &value)) {
        if (is_flow(name) && flows->n < LISTED_MAX) {
            flows->names[flows->n] = name;
            flows->values[flows->n++] = value;
            flows->bytes += name.len + value.len;
        }
    }
}


static void
list_flows(flows_t *flows, ngx_http_request_t *r)
{
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *header;

    flows->n = 0;
    flows->bytes = 0;
    for (part = &r->headers_in.headers.part; part; part = part->next) {
        header = part->elts;
        for (i = 0; i < part->nelts; i++) {
            if (header[i].key.len == 6
                && ngx_memcmp(header[i].lowcase_key, "cookie", 6) == 0)
            {
                list_line(flows, &header[i].value);
            }
        }
    }
}


/* What stands behind the dot of a state. NULL: nothing that names a flow. */
static const char *
flow_of(const char *state, size_t len)
{
    const char  *dot = len ? memchr(state, '.', len) : NULL;

    return dot && (size_t) (state + len - dot) > FLOW_NAME_LEN ? dot + 1 : NULL;
}


ngx_str_t
edge_flow_cookie(ngx_http_request_t *r, const char *state, size_t len)
{
    flows_t      flows;
    ngx_str_t    found = ngx_null_string;
    ngx_uint_t   i, n = 0;
    const char  *flow = flow_of(state, len);

    list_flows(&flows, r);
    for (i = 0; flow && i < flows.n; i++) {
        if (ngx_memcmp(flows.names[i].at + NAME_LEN, flow, FLOW_NAME_LEN) == 0) {
            found.data = (u_char *) flows.values[i].at;
            found.len = flows.values[i].len;
            n++;
        }
    }
    if (n != 1 || found.len > EDGE_SIGN_IN_COOKIE_MAX) {
        ngx_str_null(&found);
    }
    return found;
}


/* SameSite=None: some providers send browsers back with a form. */
static ngx_int_t
set_flow(ngx_http_request_t *r, const char *flow, const ngx_str_t *value)
{
    u_char     text[NAME_LEN + FLOW_NAME_LEN];
    ngx_str_t  name = { sizeof(text), text };

    ngx_memcpy(text, NAME, NAME_LEN);
    ngx_memcpy(text + NAME_LEN, flow, FLOW_NAME_LEN);
    return edge_sign_in_set_cookie(r, &name, value, value->len ? "; SameSite=None; Max-Age=900"
                                                               : "; SameSite=None");
}


ngx_int_t
edge_flow_cookie_add(ngx_http_request_t *r, const ngx_str_t *flow, const ngx_str_t *value,
    ngx_uint_t may_take)
{
    flows_t     flows;
    ngx_str_t   none = ngx_null_string;
    ngx_uint_t  i;
    size_t      bytes;

    list_flows(&flows, r);
    bytes = flows.bytes + NAME_LEN + FLOW_NAME_LEN + value->len;
    for (i = 0; i < flows.n && (flows.n - i >= FLOWS_MAX || bytes > FLOWS_BYTES); i++) {
        if (!may_take) {
            return NGX_DECLINED;
        }
        if (set_flow(r, flows.names[i].at + NAME_LEN, &none) != NGX_OK) {
            return NGX_ERROR;
        }
        bytes -= flows.names[i].len + flows.values[i].len;
    }
    return set_flow(r, (char *) flow->data, value);
}


ngx_int_t
edge_flow_cookie_end(ngx_http_request_t *r, const char *state, size_t len)
{
    ngx_str_t    none = ngx_null_string;
    const char  *flow = flow_of(state, len);

    return flow && edge_flow_cookie(r, state, len).len ? set_flow(r, flow, &none) : NGX_OK;
}
