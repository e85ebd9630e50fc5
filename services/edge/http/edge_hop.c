/* Hop-by-hop fields of a request do not go upstream (RFC 9110 7.6.1): those that are hop-by-hop by
 * definition, and those that Connection names. A client cannot remove fields like that which the
 * edge itself uses or sets.
 *
 * nginx's proxy itself drops TE, Keep-Alive, Upgrade, Transfer-Encoding, Expect and Connection. */
#include "services/edge/http/edge_hop.h"
#include "services/edge/http/edge_ctx.h"
#include "services/edge/http/edge_header.h"
#include "services/edge/http/forwarded.h"

typedef struct {
    head_option_t  all[HEAD_OPTIONS_MAX];
    ngx_uint_t     count;
} options_t;


#define is_named(header, name)                                                \
    ((header)->key.len == sizeof(name) - 1                                    \
     && ngx_memcmp((header)->lowcase_key, name, sizeof(name) - 1) == 0)


/* Hop-by-hop by definition. Trailer is among them because a client's trailers are not passed on. */
static ngx_uint_t
is_of_hop(const ngx_table_elt_t *header)
{
    return is_named(header, "proxy-connection")
           || is_named(header, "http2-settings")
           || is_named(header, "trailer");
}


/* Fields that go upstream even if Connection names them: a trusted proxy may have passed a client's
 * Connection on, which must not remove the proxy's own fields (CVE-2022-31813). */
static ngx_uint_t
stays(const ngx_table_elt_t *header)
{
    return is_named(header, "host") || is_named(header, "content-length")
           || is_named(header, "connection")
           || forwarded_of(header->lowcase_key, header->key.len)
              != FORWARDED_NONE;
}


static ngx_uint_t
is_option(const ngx_table_elt_t *header, const options_t *options)
{
    ngx_uint_t  i;

    for (i = 0; i < options->count; i++) {
        if (options->all[i].len == header->key.len
            && ngx_strncasecmp((u_char *) options->all[i].name,
                               header->key.data, header->key.len) == 0)
        {
            return 1;
        }
    }
    return 0;
}


/* Collects the names in one Connection field. NGX_DECLINED: more than HEAD_OPTIONS_MAX, a limit
 * because each name is compared with all fields. */
static ngx_int_t
add_options(edge_ctx_t *ctx, const ngx_str_t *list, options_t *options)
{
    size_t         at = 0;
    head_option_t  option;

    while (head_next_option((char *) list->data, list->len, &at, &option)) {
        if (!head_option_names(&option)) {
            continue;
        }
        if (option.len == sizeof("upgrade") - 1
            && ngx_strncasecmp((u_char *) option.name, (u_char *) "upgrade",
                               option.len) == 0)
        {
            ctx->may_upgrade = 1;
            continue;
        }
        if (options->count == HEAD_OPTIONS_MAX) {
            return NGX_DECLINED;
        }
        options->all[options->count++] = option;
    }
    return NGX_OK;
}


static ngx_int_t
hide_options(ngx_http_request_t *r, edge_ctx_t *ctx, const options_t *options)
{
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *header;

    for (part = &r->headers_in.headers.part; part; part = part->next) {
        header = part->elts;
        for (i = 0; i < part->nelts; i++) {
            if (is_option(&header[i], options) && !stays(&header[i])
                && edge_header_hide(r, ctx, &header[i]) != NGX_OK)
            {
                return NGX_ERROR;
            }
        }
    }
    return NGX_OK;
}


ngx_int_t
edge_hop_hide(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    options_t         options;
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *header;

    options.count = 0;
    for (part = &r->headers_in.headers.part; part; part = part->next) {
        header = part->elts;
        for (i = 0; i < part->nelts; i++) {
            if (head_has_control((char *) header[i].value.data,
                                 header[i].value.len))
            {
                return NGX_DECLINED;   /* RFC 9110 5.5; RFC 9113 8.2.1 */
            }
            if (is_named(&header[i], "connection")) {
                if (add_options(ctx, &header[i].value, &options) != NGX_OK) {
                    return NGX_DECLINED;
                }
            } else if (is_of_hop(&header[i])
                       && edge_header_hide(r, ctx, &header[i]) != NGX_OK)
            {
                return NGX_ERROR;
            }
        }
    }
    return options.count ? hide_options(r, ctx, &options) : NGX_OK;
}
