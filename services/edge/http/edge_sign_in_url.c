#include "services/edge/http/edge_sign_in_url.h"
#include "services/edge/http/authority.h"


/* A name of small letters, digits, dashes and dots, with a dot in it. */
static ngx_uint_t
is_name(const u_char *name, size_t len)
{
    size_t      i;
    ngx_uint_t  dots = 0;

    for (i = 0; i < len; i++) {
        if (name[i] == '.') {
            if (i == 0 || i + 1 == len || name[i - 1] == '.') {
                return 0;
            }
            dots++;
        } else if (name[i] != '-' && !(name[i] >= 'a' && name[i] <= 'z')
                   && !(name[i] >= '0' && name[i] <= '9'))
        {
            return 0;
        }
    }
    return dots > 0 && len <= 253;
}


ngx_int_t
edge_sign_in_url_check(ngx_conf_t *cf, edge_conf_t *conf)
{
    size_t      len = 0;
    unsigned    port = 0;
    ngx_str_t  *url = &conf->sign_in_url, host = *url;

    if (url->len == 0) {
        return NGX_OK;
    }
    if (url->len > 8 && ngx_strncmp(url->data, "https://", 8) == 0) {
        host.data += 8;
        host.len -= 8;
        if (authority_split((char *) host.data, host.len, &len, &port) == 0
            && is_name(host.data, len))
        {
            conf->sign_in_host.data = host.data;
            conf->sign_in_host.len = len;
            return NGX_OK;
        }
    }
    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "POSTERN_IDP_URL (postern_sign_in_url) must be https://, "
                       "a host name in lower case with a dot in it, and a port "
                       "if it is not 443: \"%V\"", url);
    return NGX_ERROR;
}


ngx_uint_t
edge_sign_in_url_is(const edge_ctx_t *ctx)
{
    const ngx_str_t  *host = &edge_conf()->sign_in_host;

    return ctx->host.len == host->len && host->len
           && ngx_memcmp(ctx->host.data, host->data, host->len) == 0;
}
