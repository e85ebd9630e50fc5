/* nginx searches each request's User-Agent up to six times for names of browsers: for work-arounds
 * for Internet Explorer 6 and Safari of 2008, which have no TLS that the edge speaks, and for the
 * size of pages that the edge does not send. That was 4 % of what a request costs without what the
 * kernel does. Here the first such header is noted, and nothing else. */
#include "services/edge/http/edge_agent.h"


static ngx_int_t
note_agent(ngx_http_request_t *r, ngx_table_elt_t *h, ngx_uint_t offset)
{
    (void) offset;
    if (r->headers_in.user_agent == NULL) {   /* the first one counts */
        r->headers_in.user_agent = h;
    }
#if (nginx_version >= 1023000)
    h->next = NULL;
#endif
    return NGX_OK;
}


/* The hash is the cycle's own; what it points to is nginx's, and stays as it is. */
ngx_int_t
edge_agent_install(ngx_conf_t *cf)
{
    ngx_uint_t                  key;
    ngx_hash_t                 *hash;
    ngx_hash_elt_t             *elt;
    const ngx_http_header_t    *known;
    ngx_http_core_main_conf_t  *conf;
    static u_char               name[] = "user-agent";
    static ngx_http_header_t    agent;

    conf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);
    hash = &conf->headers_in_hash;
    key = ngx_hash_key(name, sizeof(name) - 1);
    known = ngx_hash_find(hash, key, name, sizeof(name) - 1);
    if (known == NULL) {
        return NGX_ERROR;
    }
    agent = *known;
    agent.handler = note_agent;
    elt = hash->buckets[key % hash->size];
    while (elt->value != known) {
        elt = (ngx_hash_elt_t *) ngx_align_ptr(&elt->name[0] + elt->len, sizeof(void *));
    }
    elt->value = &agent;
    return NGX_OK;
}
