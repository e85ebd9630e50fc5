/* Where the edge may connect to: the rules of common/base/address.h, checked against the resolved
 * address just before each connection, so that no host name and no change of DNS gets around
 * them. */
#include "services/edge/http/edge_address.h"
#include "services/edge/events/edge_ring.h"
#include "services/edge/worker/edge_conf.h"
#include "services/edge/table/table.h"


/* Setter of a list directive: joins the items of all its arguments, and of all its occurrences. */
char *
edge_address_directive(ngx_conf_t *cf, ngx_command_t *cmd, void *data)
{
    u_char      *text, *p;
    size_t       len;
    ngx_str_t   *list = (ngx_str_t *) ((char *) data + cmd->offset);
    ngx_str_t   *value = cf->args->elts;
    ngx_uint_t   i;

    len = list->len + 1;
    for (i = 1; i < cf->args->nelts; i++) {
        len += value[i].len + 1;
    }
    text = ngx_pnalloc(cf->pool, len);
    if (text == NULL) {
        return NGX_CONF_ERROR;
    }
    p = list->len ? ngx_cpymem(text, list->data, list->len) : text;
    for (i = 1; i < cf->args->nelts; i++) {
        *p++ = ' ';
        p = ngx_cpymem(p, value[i].data, value[i].len);
    }
    *p = '\0';
    list->data = text;
    list->len = p - text;
    return NGX_CONF_OK;
}


static void
destroy_rules(void *data)
{
    edge_conf_t  *conf = data;

    address_rules_destroy(&conf->addresses);
}


/* Each list by itself, so that a wrong item is told with its setting. */
static ngx_int_t
check_list(ngx_conf_t *cf, const char *setting, const ngx_str_t *list, ngx_uint_t is_own)
{
    int               rc;
    char             *bad, *text = (char *) list->data;
    address_rules_t  *rules;

    rc = address_rules_new(&rules, is_own ? text : NULL, is_own ? NULL : text, NULL, &bad);
    address_rules_destroy(&rules);
    if (rc == 0) {
        return NGX_OK;
    }
    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "\"%s\" in %s is no address or network, with or "
                       "without ports%s", bad ? bad : "", setting,
                       is_own ? ", and no port" : "");
    free(bad);
    return NGX_ERROR;
}


char *
edge_address_init(ngx_conf_t *cf, edge_conf_t *conf)
{
    int                  rc;
    char                *bad;
    ngx_pool_cleanup_t  *cln = ngx_pool_cleanup_add(cf->pool, 0);

    if (cln == NULL
        || check_list(cf, "POSTERN_OWN_SOCKETS (postern_own_sockets)",
                      &conf->own_sockets, 1) != NGX_OK
        || check_list(cf, "POSTERN_DENIED_UPSTREAMS (postern_denied_upstreams)",
                      &conf->denied_upstreams, 0) != NGX_OK
        || check_list(cf, "POSTERN_ALLOWED_UPSTREAMS (postern_allowed_upstreams)",
                      &conf->allowed_upstreams, 0) != NGX_OK
        || check_list(cf, "POSTERN_OUT_ALLOWED (postern_out_allowed)",
                      &conf->out_allowed, 0) != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }
    rc = address_rules_new(&conf->addresses, (char *) conf->own_sockets.data,
                           (char *) conf->denied_upstreams.data,
                           (char *) conf->allowed_upstreams.data, &bad);
    if (rc) {
        free(bad);
        return NGX_CONF_ERROR;
    }
    cln->handler = destroy_rules;
    cln->data = conf;
    return NGX_CONF_OK;
}


ngx_uint_t
edge_address_permits(ngx_http_request_t *r, const backend_t *backend,
    const struct sockaddr *address)
{
    const char     *why;
    static time_t   said;

    why = address_fault(edge_conf()->addresses, address);
    if (why == NULL) {
        return 1;
    }
    edge_ring_counters(ngx_worker)->upstreams_denied++;
    if (said != ngx_time()) {
        said = ngx_time();   /* at most one line a second: clients retry what is denied */
        ngx_log_error(NGX_LOG_WARN, r->connection->log, 0,
                      "postern: backend %s is denied: what %s:%d leads to %s",
                      backend->id, backend->host, (int) backend->port, why);
    }
    return 0;
}
