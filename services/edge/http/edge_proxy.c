/* The PROXY protocol, at listeners of its own. Only addresses of postern_proxy_protocol_from may
 * connect there: others are closed before a byte of them is read. Each connection must begin with
 * a header (proxy_header.h). The address that it names is the connection's own from then on, for
 * all that comes later: handshake, modules, trusted proxies, logs, events. nginx's realip sets it
 * once a request is read, and its "listen ... proxy_protocol" refuses a header that comes in two
 * parts, and with 1.22 one of more than 107 bytes. */
#include "services/edge/http/edge_proxy.h"
#include "services/edge/http/edge_clients.h"
#include "services/edge/http/edge_heads.h"
#include "services/edge/http/proxy_header.h"
#include "services/edge/worker/edge_vitals.h"

enum { LOG_EVERY_S = 60 };

static void read_header(ngx_event_t *rev);


/* ---- configuration ---- */

char *
edge_proxy_ports_directive(ngx_conf_t *cf, ngx_command_t *cmd, void *data)
{
    ngx_int_t     port;
    ngx_str_t    *value = cf->args->elts;
    ngx_uint_t    i, *to;
    edge_conf_t  *conf = data;

    (void) cmd;
    if (conf->proxy_ports) {
        return "is duplicate";
    }
    conf->proxy_ports = ngx_array_create(cf->pool, 2, sizeof(ngx_uint_t));
    for (i = 1; conf->proxy_ports && i < cf->args->nelts; i++) {
        port = ngx_atoi(value[i].data, value[i].len);
        if (port < 1 || port > 65535) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "postern_proxy_protocol_ports must be ports "
                               "from 1 to 65535: \"%V\"", &value[i]);
            return NGX_CONF_ERROR;
        }
        to = ngx_array_push(conf->proxy_ports);
        if (to == NULL) {
            return NGX_CONF_ERROR;
        }
        *to = port;
    }
    return conf->proxy_ports ? NGX_CONF_OK : NGX_CONF_ERROR;
}


ngx_int_t
edge_proxy_check(ngx_conf_t *cf, edge_conf_t *conf)
{
    ngx_http_core_srv_conf_t   **servers;
    ngx_http_core_main_conf_t   *cmcf;

    if ((conf->proxy_ports == NULL) != (conf->proxy_from == NULL)) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "postern_proxy_protocol_ports and "
                           "postern_proxy_protocol_from belong together");
        return NGX_ERROR;
    }
    cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);
    if (cmcf->servers.nelts) {
        servers = cmcf->servers.elts;
        conf->proxy_timeout = servers[0]->client_header_timeout;
    }
    return NGX_OK;
}


/* ---- refused connections ---- */

/* A line a minute of each kind: whoever may connect to the port decides how many there are. */
static void
refuse(ngx_connection_t *c, uint64_t *counter, time_t *said, const char *why)
{
    (*counter)++;
    if (*said == 0 || ngx_time() - *said >= LOG_EVERY_S) {
        *said = ngx_time();
        ngx_log_error(NGX_LOG_WARN, c->log, 0,
                      "postern: a connection of %V to a listener of the PROXY "
                      "protocol is closed: %s (number %uL of this kind; at "
                      "most one line a minute)", &c->addr_text, why, *counter);
    }
    ngx_http_close_connection(c);
}


static void
refuse_stranger(ngx_connection_t *c)
{
    static time_t  said;

    refuse(c, &edge_vitals(ngx_worker)->proxy_strangers, &said,
           "its address is not in postern_proxy_protocol_from");
}


static void
refuse_header(ngx_connection_t *c, const char *why)
{
    static time_t  said;

    refuse(c, &edge_vitals(ngx_worker)->proxy_headers, &said, why);
}


/* ---- the header ---- */

static ngx_int_t
take_client(ngx_connection_t *c, const proxy_header_t *header)
{
    u_char           *text;
    struct sockaddr  *client;

    if (!header->names_client) {
        return NGX_OK;
    }
    client = ngx_palloc(c->pool, header->client_len);
    text = ngx_pnalloc(c->pool, NGX_SOCKADDR_STRLEN);
    if (client == NULL || text == NULL) {
        return NGX_ERROR;
    }
    ngx_memcpy(client, &header->client, header->client_len);
    c->sockaddr = client;
    c->socklen = header->client_len;
    c->addr_text.len = ngx_sock_ntop(client, header->client_len, text,
                                     NGX_SOCKADDR_STRLEN, 0);
    c->addr_text.data = text;
    return NGX_OK;
}


/* Takes the header out of the socket, and hands the connection to nginx as if it came from the
 * client. That what follows is there is said so that nginx looks: where it is not, the timer goes
 * on that began with the connection, instead of another one. */
static void
begin_client(ngx_connection_t *c, const proxy_header_t *header)
{
    u_char  bytes[PROXY_HEADER_MAX];

    if (c->recv(c, bytes, header->length) != (ssize_t) header->length
        || take_client(c, header) != NGX_OK)
    {
        ngx_http_close_connection(c);
        return;
    }
    if (header->names_client && !edge_clients_admit(c)) {
        return;
    }
    if (edge_heads_watch(c) != NGX_OK) {
        ngx_http_close_connection(c);
        return;
    }
    c->read->ready = 1;
    ngx_http_init_connection(c);
}


static void
wait_for_more(ngx_connection_t *c)
{
    c->read->ready = 0;
    if (ngx_handle_read_event(c->read, 0) != NGX_OK) {
        ngx_http_close_connection(c);
    }
}


/* The header is left in the socket until it is whole: so nothing is kept for a connection that has
 * not sent it, and nothing behind it is read. */
static void
read_header(ngx_event_t *rev)
{
    u_char             bytes[PROXY_HEADER_MAX];
    ssize_t            n;
    ngx_err_t          err;
    proxy_header_t     header;
    ngx_connection_t  *c = rev->data;

    if (c->close) {
        ngx_http_close_connection(c);
        return;
    }
    if (rev->timedout) {
        refuse_header(c, "its header does not come in time");
        return;
    }
    n = recv(c->fd, bytes, sizeof(bytes), MSG_PEEK);
    err = ngx_socket_errno;
    if (n == -1 && err == NGX_EAGAIN) {
        wait_for_more(c);
        return;
    }
    if (n <= 0) {
        ngx_http_close_connection(c);   /* looked whether somebody is here */
        return;
    }
    switch (proxy_header_read(bytes, n, &header)) {
    case PROXY_HEADER_WHOLE:
        begin_client(c, &header);
        return;
    case PROXY_HEADER_CUT:
        if (!rev->pending_eof) {
            wait_for_more(c);
            return;
        }
        refuse_header(c, "it ends within its header");
        return;
    default:
        refuse_header(c, "it does not begin with a header of the protocol");
    }
}


static void
ignore_write(ngx_event_t *wev)
{
    (void) wev;
}


/* In place of ngx_http_init_connection, which comes when the header is there. */
static void
accept_connection(ngx_connection_t *c)
{
    edge_conf_t  *conf = edge_conf();

    if (ngx_cidr_match(c->sockaddr, conf->proxy_from) != NGX_OK) {
        refuse_stranger(c);
        return;
    }
    if (!edge_clients_has_room(c)) {
        return;
    }
    c->log->connection = c->number;
    c->log_error = NGX_ERROR_INFO;
    c->read->handler = read_header;
    c->write->handler = ignore_write;
    ngx_add_timer(c->read, conf->proxy_timeout);
    ngx_reusable_connection(c, 1);
    if (c->read->ready) {
        ngx_post_event(c->read, &ngx_posted_events);
    } else if (ngx_handle_read_event(c->read, 0) != NGX_OK) {
        ngx_http_close_connection(c);
    }
}


ngx_int_t
edge_proxy_install(ngx_cycle_t *cycle)
{
    ngx_uint_t        i, n, found, *port;
    edge_conf_t      *conf = edge_conf();
    ngx_listening_t  *ls = cycle->listening.elts;

    if (conf->proxy_ports == NULL) {
        return NGX_OK;
    }
    port = conf->proxy_ports->elts;
    for (n = 0; n < conf->proxy_ports->nelts; n++) {
        found = 0;
        for (i = 0; i < cycle->listening.nelts; i++) {
            if (ls[i].handler == ngx_http_init_connection
                && ngx_inet_get_port(ls[i].sockaddr) == port[n])
            {
                ls[i].handler = accept_connection;
                found = 1;
            }
        }
        if (!found) {
            ngx_log_error(NGX_LOG_EMERG, cycle->log, 0,
                          "postern: nothing listens on port %ui of "
                          "postern_proxy_protocol_ports", port[n]);
            return NGX_ERROR;
        }
    }
    return NGX_OK;
}
