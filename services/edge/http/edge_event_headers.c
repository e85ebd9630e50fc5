/* Headers in an event: a list of name, value, name, value. Credentials are redacted here: they
 * never leave the edge. */
#include "services/edge/http/edge_event_put.h"
#include "services/edge/http/edge_header.h"
#include "services/edge/http/userinfo.h"

enum { HEADERS_MAX = 100, HEADERS_BYTES = 24000, NAME_MAX_BYTES = 256 };


/* Must the value be redacted? By length first: few names have the length of one of these. */
static ngx_uint_t
secret(const ngx_str_t *name)
{
    switch (name->len) {
    case sizeof("cookie") - 1:
        return ngx_strncasecmp(name->data, (u_char *) "cookie", name->len) == 0;
    case sizeof("x-api-key") - 1:
        return ngx_strncasecmp(name->data, (u_char *) "x-api-key", name->len) == 0;
    case sizeof("set-cookie") - 1:
        return ngx_strncasecmp(name->data, (u_char *) "set-cookie", name->len) == 0;
    case sizeof("authorization") - 1:
        return ngx_strncasecmp(name->data, (u_char *) "authorization", name->len) == 0;
    case sizeof("x-gitlab-token") - 1:   /* the secret of a webhook, as it is */
        return ngx_strncasecmp(name->data, (u_char *) "x-gitlab-token", name->len) == 0;
    case sizeof("x-buildkite-token") - 1:
        return ngx_strncasecmp(name->data, (u_char *) "x-buildkite-token", name->len) == 0;
    case sizeof("proxy-authorization") - 1:
        return ngx_strncasecmp(name->data, (u_char *) "proxy-authorization", name->len) == 0;
    default:
        return 0;
    }
}


/* How the value says a host or a URL, which may have a password. By length first, as above. */
typedef enum { IS_OTHER, IS_HOST, IS_URL } header_form_t;


static header_form_t
form_of(const ngx_str_t *name)
{
#define IS(text)  (ngx_strncasecmp(name->data, (u_char *) text, name->len) == 0)
    switch (name->len) {
    case sizeof("host") - 1:
        return IS("host") ? IS_HOST : IS_OTHER;
    case sizeof("origin") - 1:
        return IS("origin") ? IS_URL : IS_OTHER;
    case sizeof("referer") - 1:
        return IS("referer") ? IS_URL : IS_OTHER;
    case sizeof("location") - 1:
        return IS("location") ? IS_URL : IS_OTHER;
    case sizeof("content-location") - 1:
        return IS("content-location") ? IS_URL
               : IS("x-forwarded-host") ? IS_HOST : IS_OTHER;
    default:
        return IS_OTHER;
    }
#undef IS
}


/* A text without its user information: a password never leaves the edge. all: userinfo.h. */
void
edge_event_put_public(pack_t *pk, const ngx_str_t *text, ngx_uint_t all)
{
    size_t  begin, end, rest;

    if (!userinfo_find((char *) text->data, text->len, all, &begin, &end)) {
        edge_event_put_text(pk, text->data, text->len);
        return;
    }
    begin = ngx_min(begin, EVENT_VALUE_MAX);
    rest = ngx_min(text->len - end, EVENT_VALUE_MAX - begin);
    pack_str_head(pk, begin + rest);
    pack_append(pk, text->data, begin);
    pack_append(pk, text->data + end, rest);
}


/* A list of headers being packed: its count is written when the list ends. Beyond max items or
 * HEADERS_BYTES, headers are only counted (left_out). */
typedef struct {
    u_char      *count;
    size_t       bytes;
    ngx_uint_t   n, left_out;
    ngx_uint_t   max;
} header_list_t;


static void
begin_list(header_list_t *list, pack_t *pk, ngx_uint_t max)
{
    ngx_memzero(list, sizeof(*list));
    list->max = max;
    pack_fixed_byte(pk, 0xdc);
    list->count = pk->at;
    pk->at += 2;
}


static void
end_list(const header_list_t *list)
{
    list->count[0] = (u_char) (2 * list->n >> 8);
    list->count[1] = (u_char) (2 * list->n);
}


/* Adds a header, or counts it in left_out where the list is full. */
static void
put_header(pack_t *pk, header_list_t *list, const ngx_str_t *name,
    const ngx_str_t *value)
{
    size_t         bytes = ngx_min(name->len, NAME_MAX_BYTES)
                           + ngx_min(value->len, EVENT_VALUE_MAX);
    header_form_t  form;

    if (list->n >= list->max || list->bytes + bytes > HEADERS_BYTES) {
        list->left_out++;
        return;
    }
    list->n++;
    list->bytes += bytes;
    pack_str(pk, name->data, ngx_min(name->len, NAME_MAX_BYTES));
    form = form_of(name);
    if (secret(name)) {
        pack_str(pk, "[redacted]", 10);
    } else if (form == IS_OTHER) {
        edge_event_put_text(pk, value->data, value->len);
    } else {
        edge_event_put_public(pk, value, form == IS_HOST);
    }
}


static void
put_known(pack_t *pk, header_list_t *list, const char *name, const void *value,
    size_t len)
{
    ngx_str_t  key = { ngx_strlen(name), (u_char *) name };
    ngx_str_t  text = { len, (u_char *) value };

    put_header(pk, list, &key, &text);
}


ngx_uint_t
edge_event_put_request_headers(pack_t *pk, ngx_http_request_t *r, edge_ctx_t *ctx, ngx_uint_t all)
{
    ngx_str_t         name;
    header_list_t     list;
    ngx_uint_t        i, end;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *header;

    begin_list(&list, pk, all ? HEADERS_MAX : 0);
    for (part = &r->headers_in.headers.part; part; part = part->next) {
        header = part->elts;
        end = part == ctx->own_part ? ctx->own_index : part->nelts;
        for (i = 0; i < end; i++) {
            name = edge_header_name(&header[i]);
            put_header(pk, &list, &name, &header[i].value);
        }
        if (part == ctx->own_part) {
            break;   /* from here on headers were added by the edge */
        }
    }
    end_list(&list);
    return list.left_out;
}


/* Adds a constant pair, packed at compile time: nearly every response has some. These come first in
 * their list, so HEADERS_BYTES is not checked. */
static void
put_packed(pack_t *pk, header_list_t *list, const char *pair, size_t len)
{
    if (list->max == 0) {
        list->left_out++;
        return;
    }
    list->n++;
    list->bytes += len;
    pack_append(pk, pair, len);
}


#define PAIR(pair)  put_packed(pk, list, pair, sizeof(pair) - 1)


/* An HTTP date (RFC 9110 5.6.7); the last one is cached. */
static const u_char *
http_time(time_t when)
{
    static time_t  kept;
    static u_char  text[sizeof("Mon, 28 Sep 1970 06:00:00 GMT")];

    if (kept != when) {
        ngx_http_time(text, when);
        kept = when;
    }
    return text;
}


/* Headers that are in no list because nginx's header filter writes them itself: this repeats its
 * rules (ngx_http_header_filter). */
static void
put_own_headers(pack_t *pk, ngx_http_request_t *r, edge_ctx_t *ctx,
    header_list_t *list)
{
    u_char                    *end, length[NGX_OFF_T_LEN];
    ngx_http_headers_out_t    *out = &r->headers_out;

    if (out->server == NULL) {
        PAIR("\xa6" "server" "\xa5" "nginx");
    }
    if (out->date == NULL) {
        put_known(pk, list, "date", http_time(ctx->sent.time),
                  sizeof("Mon, 28 Sep 1970 06:00:00 GMT") - 1);
    }
    if (out->content_type.len) {
        put_known(pk, list, "content-type", out->content_type.data,
                  out->content_type.len);
    }
    if (out->content_length == NULL && out->content_length_n >= 0) {
        end = ngx_sprintf(length, "%O", out->content_length_n);
        put_known(pk, list, "content-length", length, end - length);
    }
    if (r->http_version >= NGX_HTTP_VERSION_20) {
        return;
    }
    if (r->chunked) {
        PAIR("\xb1" "transfer-encoding" "\xa7" "chunked");
    }
    if (out->status == NGX_HTTP_SWITCHING_PROTOCOLS) {
        PAIR("\xaa" "connection" "\xa7" "upgrade");
    } else if (ctx->sent.keepalive) {
        PAIR("\xaa" "connection" "\xaa" "keep-alive");
    } else {
        PAIR("\xaa" "connection" "\xa5" "close");
    }
}


ngx_uint_t
edge_event_put_response_headers(pack_t *pk, ngx_http_request_t *r, edge_ctx_t *ctx,
    ngx_uint_t all)
{
    ngx_uint_t        i;
    header_list_t     list;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *header;
    static const ngx_str_t  redacted = ngx_string("[redacted]");

    begin_list(&list, pk, all ? HEADERS_MAX : 0);
    if (r->header_sent) {
        put_own_headers(pk, r, ctx, &list);
    }
    part = r->header_sent ? &r->headers_out.headers.part : NULL;
    for (/* void */; part; part = part->next) {
        header = part->elts;
        for (i = 0; i < part->nelts; i++) {
            if (header[i].hash) {
                put_header(pk, &list, &header[i].key,
                           ctx->concealed && &header[i] == r->headers_out.location
                           ? &redacted : &header[i].value);
            }
        }
    }
    end_list(&list);
    return list.left_out;
}
