#include "services/edge/control/edge_socket.h"
#include "services/edge/control/edge_helper.h"
#include "services/edge/worker/edge_conf.h"
#include "common/base/invariant.h"
#include "common/bus/heartbeat.h"
#include "common/codec/pack.h"

enum {
    HWM = 10000,
    RECONNECT_MS = 50,
    BURST = 64
};


/* CURVE: key files as zcert writes them, lines of  public-key = "..." */
static ngx_int_t
read_key(const char *dir, const char *file, const char *name, char out[41])
{
    char    path[NGX_MAX_PATH], line[256], *quote;
    FILE   *in;

    snprintf(path, sizeof(path), "%s/%s", dir, file);
    in = fopen(path, "re");
    if (in == NULL) {
        ngx_log_error(NGX_LOG_EMERG, ngx_cycle->log, ngx_errno,
                      "postern: CURVE key file \"%s\" cannot be read", path);
        return NGX_ERROR;
    }
    out[0] = '\0';
    while (fgets(line, sizeof(line), in)) {
        quote = strchr(line, '"');
        if (strstr(line, name) && quote && strlen(quote) > 41) {
            ngx_cpystrn((u_char *) out, (u_char *) quote + 1, 41);
        }
    }
    fclose(in);
    if (out[0] == '\0') {
        ngx_log_error(NGX_LOG_EMERG, ngx_cycle->log, 0,
                      "postern: no %s in CURVE key file \"%s\"", name, path);
        return NGX_ERROR;
    }
    return NGX_OK;
}


static ngx_int_t
set_keys(void *socket, const char *peer)
{
    char  dir[NGX_MAX_PATH], file[128], secret[41], public[41], server[41];

    ngx_snprintf((u_char *) dir, sizeof(dir), "%V%Z",
                 &edge_conf()->curve_dir);
    if (dir[0] == '\0') {
        ngx_log_error(NGX_LOG_EMERG, ngx_cycle->log, 0,
                      "postern: a tcp:// endpoint needs postern_curve_dir");
        return NGX_ERROR;
    }
    snprintf(file, sizeof(file), "peers/%s.cert", peer);
    if (read_key(dir, "self.cert_secret", "secret-key", secret) != NGX_OK
        || read_key(dir, "self.cert_secret", "public-key", public) != NGX_OK
        || read_key(dir, file, "public-key", server) != NGX_OK)
    {
        return NGX_ERROR;
    }
    zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, server, 41);
    zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, public, 41);
    zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, secret, 41);
    ngx_explicit_memzero(secret, sizeof(secret));
    return NGX_OK;
}


/* Services end a connection whose other end says nothing; the edge must notice, too, and make
 * another one. */
static void
set_heartbeat(void *socket)
{
    static const struct {
        int  option, ms;
    } limits[] = {
        { ZMQ_HEARTBEAT_IVL, HEARTBEAT_MS },
        { ZMQ_HEARTBEAT_TIMEOUT, HEARTBEAT_SILENCE_MS },
        { ZMQ_HEARTBEAT_TTL, HEARTBEAT_SILENCE_MS },
        { ZMQ_HANDSHAKE_IVL, HEARTBEAT_HANDSHAKE_MS },
        { ZMQ_TCP_MAXRT, HEARTBEAT_UNSENT_MS },
        { ZMQ_CONNECT_TIMEOUT, HEARTBEAT_CONNECT_MS },
    };
    size_t  i;

    for (i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        zmq_setsockopt(socket, limits[i].option, &limits[i].ms, sizeof(int));
    }
}


/* A question that was on its way when its connection ended is asked again: the socket itself says
 * nothing of that, as it has another connection soon. */
static ngx_int_t
watch(edge_socket_t *bus, void *context)
{
    char             name[64];
    static unsigned  watched;

    snprintf(name, sizeof(name), "inproc://connections-%u", ++watched);
    if (zmq_socket_monitor(bus->socket, name,
                           ZMQ_EVENT_DISCONNECTED|ZMQ_EVENT_HANDSHAKE_SUCCEEDED))
    {
        return NGX_ERROR;
    }
    bus->monitor = zmq_socket(context, ZMQ_PAIR);
    return bus->monitor && zmq_connect(bus->monitor, name) == 0 ? NGX_OK : NGX_ERROR;
}


ngx_int_t
edge_socket_open(edge_socket_t *bus, void **context, const ngx_str_t *endpoint,
    const char *peer)
{
    int      one = 1, linger = EDGE_LINGER_MS, hwm = HWM, ivl = RECONNECT_MS;
    int      unbounded = 0; /* as every socket that sends heartbeats: common/bus/heartbeat.h */
    char     address[512];
    int64_t  max = PACK_BYTES_MAX;

    if (*context == NULL) {
        *context = zmq_ctx_new();
    }
    bus->socket = *context ? zmq_socket(*context, ZMQ_DEALER) : NULL;
    if (bus->socket == NULL) {
        return NGX_ERROR;
    }
    /* IMMEDIATE: messages are queued for connections that there are, only. PROBE_ROUTER: a peer
     * that was restarted learns of us at once, and asks who we are; one that takes requests would
     * take it for one. */
    zmq_setsockopt(bus->socket, ZMQ_IMMEDIATE, &one, sizeof(one));
    if (bus->kind != LINK_ASK) {
        zmq_setsockopt(bus->socket, ZMQ_PROBE_ROUTER, &one, sizeof(one));
    }
    zmq_setsockopt(bus->socket, ZMQ_LINGER, &linger, sizeof(linger));
    zmq_setsockopt(bus->socket, ZMQ_SNDHWM, &hwm, sizeof(hwm));
    zmq_setsockopt(bus->socket, ZMQ_RCVHWM, &unbounded, sizeof(unbounded));
    zmq_setsockopt(bus->socket, ZMQ_RECONNECT_IVL, &ivl, sizeof(ivl));
    zmq_setsockopt(bus->socket, ZMQ_MAXMSGSIZE, &max, sizeof(max));
    set_heartbeat(bus->socket);
    ngx_snprintf((u_char *) address, sizeof(address), "%V%Z", endpoint);
    /* over ipc:// the service may be of a version before keys: they are used where they are
     * configured */
    if ((edge_conf()->curve_dir.len
         || ngx_strncmp(address, "tcp://", 6) == 0)
        && set_keys(bus->socket, peer) != NGX_OK)
    {
        return NGX_ERROR;
    }
    if (bus->kind == LINK_ASK && watch(bus, *context) != NGX_OK) {
        return NGX_ERROR;
    }
    if (zmq_connect(bus->socket, address)) {
        ngx_log_error(NGX_LOG_EMERG, ngx_cycle->log, 0,
                      "postern: cannot connect to %s: %s", address,
                      zmq_strerror(zmq_errno()));
        return NGX_ERROR;
    }
    return NGX_OK;
}


/* An event is a number and a value, and the endpoint in a frame of its own. */
ngx_uint_t
edge_socket_has_ended(edge_socket_t *bus)
{
    u_char      event[6], endpoint[1];
    uint16_t    number;
    ngx_uint_t  ended = 0;

    while (bus->monitor && zmq_recv(bus->monitor, event, sizeof(event), ZMQ_DONTWAIT) == 6) {
        ngx_memcpy(&number, event, sizeof(number));
        bus->is_connected = number == ZMQ_EVENT_HANDSHAKE_SUCCEEDED;
        ended |= !bus->is_connected;
        (void) zmq_recv(bus->monitor, endpoint, sizeof(endpoint), ZMQ_DONTWAIT);
    }
    return ended;
}


void
edge_socket_close(edge_socket_t *bus)
{
    if (bus->monitor) {
        zmq_socket_monitor(bus->socket, NULL, 0);
        zmq_close(bus->monitor);
    }
    if (bus->socket) {
        zmq_close(bus->socket);
    }
}


ngx_uint_t
edge_socket_is_ready(const edge_socket_t *bus, int direction)
{
    int     flags = 0;
    size_t  size = sizeof(flags);

    return zmq_getsockopt(bus->socket, ZMQ_EVENTS, &flags, &size) == 0
           && flags & direction;
}


ngx_int_t
edge_socket_send(edge_socket_t *bus, const ngx_str_t *frames, ngx_uint_t n)
{
    ngx_uint_t  i;

    for (i = 0; i < n; i++) {
        if (zmq_send(bus->socket, frames[i].data, frames[i].len,
                     ZMQ_DONTWAIT | (i + 1 < n ? ZMQ_SNDMORE : 0)) < 0)
        {
            return NGX_DECLINED;
        }
    }
    return NGX_OK;
}


ngx_uint_t
edge_socket_receive(edge_socket_t *bus, zmq_msg_t *parts, ngx_str_t *frames)
{
    int         more = 1;
    size_t      size = sizeof(more);
    zmq_msg_t   beyond, *part;
    ngx_uint_t  n = 0;

    while (more) {
        part = n < LINK_FRAMES_MAX ? &parts[n] : &beyond;
        zmq_msg_init(part);
        if (zmq_msg_recv(part, bus->socket, ZMQ_DONTWAIT) < 0) {
            zmq_msg_close(part);
            break;
        }
        zmq_getsockopt(bus->socket, ZMQ_RCVMORE, &more, &size);
        if (part == &beyond) {
            zmq_msg_close(part);
            continue;
        }
        frames[n].data = zmq_msg_data(part);
        frames[n++].len = zmq_msg_size(part);
    }
    return n;
}


ngx_int_t
edge_socket_drain(edge_socket_t *bus, edge_socket_take_t take, void *context)
{
    ngx_int_t   rc = NGX_OK;
    zmq_msg_t   parts[LINK_FRAMES_MAX];
    ngx_str_t   frames[LINK_FRAMES_MAX];
    ngx_uint_t  burst, n;

    for (burst = 0; burst < BURST && rc == NGX_OK
                    && edge_socket_is_ready(bus, ZMQ_POLLIN); burst++)
    {
        n = edge_socket_receive(bus, parts, frames);
        INVARIANT(n <= LINK_FRAMES_MAX);
        rc = take(context, bus, frames, n);
        while (n > 0) {
            zmq_msg_close(&parts[--n]);
        }
    }
    return rc;
}
