/* The client's address, and the X-Forwarded-* headers for the upstream.
 *
 * Headers that claim who the client is or what it asked for (proto/forwarded.def) are believed from
 * a trusted proxy only; those of other clients do not reach the upstream (GHSA-7x63-xv5r-3p2x). */
#include "services/edge/http/edge_forwarded.h"
#include "services/edge/http/edge_ctx.h"
#include "services/edge/http/edge_header.h"
#include "services/edge/worker/edge_conf.h"
#include "services/edge/http/forwarded.h"

#include <arpa/inet.h>

enum { HOPS_MAX = 64 };

static header_t  forwarded[] = {
#define NAME(text, low)                                                        \
    { (char *) text, (char *) low, NULL, sizeof(text) - 1, 0, 0 }
    NAME("X-Forwarded-For", "x-forwarded-for"),
    NAME("X-Forwarded-Proto", "x-forwarded-proto"),
    NAME("X-Forwarded-Host", "x-forwarded-host")
#undef NAME
};


/* Removes the last item from a list (RFC 9110 5.6.1). 0: there is none. */
static ngx_uint_t
take_last(ngx_str_t *list, ngx_str_t *item)
{
    u_char  *p;

    while (list->len && (list->data[list->len - 1] == ' '
                         || list->data[list->len - 1] == '\t'
                         || list->data[list->len - 1] == ','))
    {
        list->len--;
    }
    for (p = list->data + list->len; p > list->data && p[-1] != ','; p--) { /* void */ }
    item->data = p;
    item->len = list->data + list->len - p;
    list->len -= item->len;
    while (item->len && (*item->data == ' ' || *item->data == '\t')) {
        item->data++;
        item->len--;
    }
    return item->len > 0;
}


/* Parses an address with an optional port: 192.0.2.1:80, [2001:db8::1]:80. inet_pton refuses
 * leading zeros, which some parsers read as octal (CVE-2021-29923); ::ffff:192.0.2.1 is taken as
 * 192.0.2.1 (CVE-2024-24790). */
static ngx_int_t
parse_address(const ngx_str_t *item, ngx_sockaddr_t *out, socklen_t *len)
{
    u_char           *end = item->data + item->len, *p = item->data, *port;
    char              text[INET6_ADDRSTRLEN];
    struct in6_addr   v6;

    if (p < end && *p == '[') {
        p++;
        port = ngx_strlchr(p, end, ']');
        if (port == NULL) {
            return NGX_DECLINED;
        }
        end = port;
    } else {
        port = ngx_strlchr(p, end, ':');
        if (port && ngx_strlchr(port + 1, end, ':') == NULL) {
            end = port;
        }
    }
    if (end - p >= (ptrdiff_t) sizeof(text)) {
        return NGX_DECLINED;
    }
    *ngx_cpymem(text, p, end - p) = '\0';
    ngx_memzero(out, sizeof(*out));
    if (inet_pton(AF_INET, text, &out->sockaddr_in.sin_addr) == 1) {
        out->sockaddr_in.sin_family = AF_INET;
        *len = sizeof(struct sockaddr_in);
        return NGX_OK;
    }
    if (inet_pton(AF_INET6, text, &v6) != 1) {
        return NGX_DECLINED;
    }
    if (IN6_IS_ADDR_V4MAPPED(&v6)) {
        out->sockaddr_in.sin_family = AF_INET;
        ngx_memcpy(&out->sockaddr_in.sin_addr, v6.s6_addr + 12, 4);
        *len = sizeof(struct sockaddr_in);
        return NGX_OK;
    }
    out->sockaddr_in6.sin6_family = AF_INET6;
    out->sockaddr_in6.sin6_addr = v6;
    *len = sizeof(struct sockaddr_in6);
    return NGX_OK;
}


/* Walks the list from right to left: each trusted proxy vouches for the item it appended. The first
 * address that is not trusted is the client. The walk ends at an item that is no address: the last
 * address before it counts. */
static ngx_int_t
find_client(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    ngx_int_t        hops;
    ngx_str_t        list = ctx->forwarded_for, item;
    socklen_t        len = 0, found = 0;
    ngx_sockaddr_t   next, *client;

    client = ngx_palloc(r->pool, sizeof(*client));
    if (client == NULL) {
        return NGX_ERROR;
    }
    for (hops = 0; hops < HOPS_MAX && take_last(&list, &item); hops++) {
        if (parse_address(&item, &next, &len) != NGX_OK) {
            break;
        }
        *client = next;
        found = len;
        if (ngx_cidr_match(&client->sockaddr, edge_conf()->trusted)
            != NGX_OK)
        {
            break;
        }
    }
    if (found == 0) {
        return NGX_OK;
    }
    ctx->client_ip.data = ngx_pnalloc(r->pool, NGX_SOCKADDR_STRLEN);
    if (ctx->client_ip.data == NULL) {
        return NGX_ERROR;
    }
    ctx->client_ip.len = ngx_sock_ntop(&client->sockaddr, found,
                                       ctx->client_ip.data,
                                       NGX_SOCKADDR_STRLEN, 0);
    ctx->client = &client->sockaddr;
    return NGX_OK;
}


/* Joins all lines of X-Forwarded-For in their order (RFC 9110 5.3): a proxy may add a line of its
 * own behind the client's. */
static ngx_int_t
join_lines(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    u_char           *last = NULL;
    size_t            size = 0;
    ngx_uint_t        i, pass;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *header;

    for (pass = 0; pass < 2; pass++) {
        for (part = &r->headers_in.headers.part; part; part = part->next) {
            header = part->elts;
            for (i = 0; i < part->nelts; i++) {
                if (header[i].value.len == 0
                    || forwarded_of(header[i].lowcase_key, header[i].key.len)
                       != FORWARDED_FOR)
                {
                    continue;
                }
                if (pass == 0) {
                    size += header[i].value.len + 2;
                    continue;
                }
                if (last != ctx->forwarded_for.data) {
                    last = ngx_cpymem(last, ", ", 2);
                }
                last = ngx_cpymem(last, header[i].value.data,
                                  header[i].value.len);
            }
        }
        if (size == 0) {
            return NGX_OK;
        }
        if (pass == 0) {
            last = ctx->forwarded_for.data = ngx_pnalloc(r->pool, size);
            if (last == NULL) {
                return NGX_ERROR;
            }
        }
    }
    ctx->forwarded_for.len = last - ctx->forwarded_for.data;
    return NGX_OK;
}


/* Sets the client's address: the peer's, or the one that a trusted proxy names. */
ngx_int_t
edge_forwarded_read(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    edge_conf_t  *conf = edge_conf();

    ctx->client = r->connection->sockaddr;
    ctx->client_ip = r->connection->addr_text;
    if (conf->trusted == NULL
        || ngx_cidr_match(ctx->client, conf->trusted) != NGX_OK)
    {
        return NGX_OK;
    }
    ctx->from_proxy = 1;
    if (join_lines(r, ctx) != NGX_OK) {
        return NGX_ERROR;
    }
    return find_client(r, ctx);
}


/* Hides from the upstream the headers that a client may not set. Of a trusted proxy's
 * X-Forwarded-Proto and -Host the last item is the proxy's own (a client may have sent the others):
 * it is returned in *proto and *host. */
static ngx_int_t
hide_claims(ngx_http_request_t *r, edge_ctx_t *ctx, ngx_str_t *proto,
    ngx_str_t *host)
{
    forwarded_t           claim;
    ngx_str_t         list, item;
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *header;

    for (part = &r->headers_in.headers.part; part; part = part->next) {
        header = part->elts;
        for (i = 0; i < part->nelts; i++) {
            claim = forwarded_of(header[i].lowcase_key, header[i].key.len);
            if (claim == FORWARDED_NONE
                || (claim == FORWARDED_PROXY && ctx->from_proxy))
            {
                continue;
            }
            list = header[i].value;
            if (ctx->from_proxy && (claim == FORWARDED_PROTO || claim == FORWARDED_HOST)
                && take_last(&list, &item))
            {
                *(claim == FORWARDED_PROTO ? proto : host) = item;
            }
            if (edge_header_hide(r, ctx, &header[i]) != NGX_OK) {
                return NGX_ERROR;
            }
        }
    }
    return NGX_OK;
}


/* Makes *value "value, own", or own where value is empty. */
static ngx_int_t
append(ngx_http_request_t *r, ngx_str_t *value, const ngx_str_t *own)
{
    u_char  *text;

    if (value->len == 0) {
        *value = *own;
        return NGX_OK;
    }
    text = ngx_pnalloc(r->pool, value->len + 2 + own->len);
    if (text == NULL) {
        return NGX_ERROR;
    }
    value->len = ngx_sprintf(text, "%V, %V", value, own) - text;
    value->data = text;
    return NGX_OK;
}


/* Hides what the client may not claim, then adds the edge's own X-Forwarded-For, -Proto and
 * -Host. */
ngx_int_t
edge_forwarded_set(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    header_t          add;
    ngx_str_t         values[3];
    ngx_uint_t        n;
    static ngx_str_t  https = ngx_string("https");

    ngx_memzero(values, sizeof(values));
    values[0] = ctx->forwarded_for;
    if (hide_claims(r, ctx, &values[1], &values[2]) != NGX_OK
        || append(r, &values[0], &r->connection->addr_text) != NGX_OK
        || append(r, &values[1], &https) != NGX_OK)
    {
        return NGX_ERROR;
    }
    if (values[2].len == 0) {
        values[2] = ctx->authority;
    }
    for (n = 0; n < 3; n++) {
        add = forwarded[n];
        if (add.hash == 0) {
            add.hash = forwarded[n].hash = header_hash(add.lower);
        }
        add.value = (char *) values[n].data;
        add.value_len = values[n].len;
        if (edge_header_add(r, ctx, &add) != NGX_OK) {
            return NGX_ERROR;
        }
    }
    return NGX_OK;
}
