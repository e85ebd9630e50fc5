/* Sockets of the bus. Messages are in bus_message.c. */
#include "common/bus/bus.h"
#include "common/base/cleanup.h"
#include "common/bus/cert.h"
#include "common/bus/heartbeat.h"
#include "common/base/id.h"

#include <errno.h>
#include <string.h>
#include <time.h>

enum {
    DRAIN_MAX = 100000,
    MARK = 1000,
    HANDSHAKE_MS = 3000, /* a connection that has not shown a key by then is closed */
    BACKLOG = 1024
};

static zcert_t *load_cert(const char *dir, const char *name)
{
    char path[4096], text[4200];
    zcert_t *cert = NULL;
    int r;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    r = cert_load(&cert, path);
    snprintf(text, sizeof(text),
             r == -EBADMSG ? "%s holds no CURVE key" : "CURVE key %s cannot be read", path);
    if (r)
        fault(r == -EBADMSG ? -EINVAL : r, text);
    return cert;
}

/* Keys are required for ipc:// too: permission to open the socket's file does not say which role
 * the peer has. */
static int check_keys(const char *endpoint, const char *dir)
{
    char text[300];

    if (*dir || !strncmp(endpoint, "inproc://", 9))
        return 0;
    snprintf(text, sizeof(text),
             "%.150s needs CURVE keys: set curve-dir (postern curve-keys makes them)", endpoint);
    return fault(-EPERM, text);
}

/* Sets the server side of CURVE. Fails closed: without the ZAP handler, or for a domain that it
 * does not know, libzmq refuses every peer. */
static int apply_server_keys(zsock_t *sock, const char *dir, socket_id_t id)
{
    zcert_t *cert = load_cert(dir, "self.cert_secret");
    char domain[64];
    int r = cert ? peer_start(dir) : -ENOENT;

    if (!r) {
        zcert_apply(cert, sock);
        zsock_set_curve_server(sock, 1);
        zsock_set_zap_domain(sock, socket_domain(id, domain, sizeof(domain)));
        zsock_set_zap_enforce_domain(sock, 1);
    }
    zcert_destroy(&cert);
    return r;
}

static int apply_client_keys(zsock_t *sock, const char *dir, const char *peer)
{
    zcert_t *self = load_cert(dir, "self.cert_secret"), *server = NULL;
    char name[256];
    int r = -ENOENT;

    snprintf(name, sizeof(name), "peers/%s.cert", peer);
    if (self)
        server = load_cert(dir, name);
    if (self && server) {
        zcert_apply(self, sock);
        zsock_set_curve_serverkey(sock, zcert_public_txt(server));
        r = 0;
    }
    zcert_destroy(&self);
    zcert_destroy(&server);
    return r;
}

/* Limit of a received frame, envelope and handshake included. libzmq buffers all frames of a
 * message before it hands over the first one, so a larger limit would cost memory. */
static int frame_max(socket_id_t id)
{
    enum { PREFIX = 512, WORDS = 1024, ENVELOPE = 1024 };

    if (!strcmp(socket_row(id).name, "rpc"))
        return BUS_REQUEST_MAX + ENVELOPE;
    if (!strcmp(socket_row(id).name, "config_log")) /* peers send only names and numbers */
        return WORDS;
    switch (id) {
    case SOCKET_PUB: /* a subscription: prefix of an event type; handshakes take over 276 bytes */
        return PREFIX;
    case SOCKET_INTAKE:
        return BUS_BATCH_MAX + ENVELOPE;
    default:
        return BUS_FRAME_MAX;
    }
}

static void set_limits(zsock_t *sock, int bytes)
{
    zsock_set_maxmsgsize(sock, bytes);
    zsock_set_linger(sock, 300);
    zsock_set_handshake_ivl(sock, HEARTBEAT_HANDSHAKE_MS);
    zsock_set_tcp_maxrt(sock, HEARTBEAT_UNSENT_MS);
    zsock_set_tcp_keepalive(sock, 1);
    zsock_set_tcp_keepalive_idle(sock, HEARTBEAT_KEEPALIVE_S);
    zsock_set_tcp_keepalive_intvl(sock, HEARTBEAT_KEEPALIVE_S);
    zsock_set_tcp_keepalive_cnt(sock, HEARTBEAT_KEEPALIVE_TRIES);
}

/* A socket has a receive high-water mark or sends heartbeats, never both (heartbeat.h). */
static void set_marks(zsock_t *sock, bus_marks_t marks)
{
    zsock_set_sndhwm(sock, marks.send);
    zsock_set_rcvhwm(sock, marks.receive);
    if (marks.receive)
        return;
    zsock_set_heartbeat_ivl(sock, HEARTBEAT_MS);
    zsock_set_heartbeat_timeout(sock, marks.silence_ms ? marks.silence_ms : HEARTBEAT_SILENCE_MS);
}

zsock_t *bus_bind_marked(int type, bus_marks_t marks, const char *endpoint, const char *curve_dir,
                         socket_id_t id)
{
    zsock_t *sock = zsock_new(type);
    char text[300];
    int r;

    if (!sock)
        return NULL;
    set_limits(sock, frame_max(id));
    set_marks(sock, marks);
    zsock_set_handshake_ivl(sock, HANDSHAKE_MS);
    zsock_set_backlog(sock, BACKLOG);
    r = check_keys(endpoint, curve_dir);
    if (!r && *curve_dir)
        r = apply_server_keys(sock, curve_dir, id);
    if (!r && zsock_bind(sock, "%s", endpoint) < 0) {
        snprintf(text, sizeof(text), "bind %.200s", endpoint);
        r = fault(-errno, text);
    }
    if (r)
        zsock_destroy(&sock);
    else if (!strncmp(endpoint, "ipc://", 6))
        chmod(endpoint + 6, 0660);
    return sock;
}

zsock_t *bus_bind(int type, const char *endpoint, const char *curve_dir, socket_id_t id)
{
    return bus_bind_marked(type, (bus_marks_t){MARK, MARK, 0}, endpoint, curve_dir, id);
}

zsock_t *bus_bind_intake(const char *endpoint, const char *curve_dir)
{
    return bus_bind_marked(ZMQ_ROUTER, (bus_marks_t){MARK, 0, 0}, endpoint, curve_dir,
                           SOCKET_INTAKE);
}

/* A socket that receives the results of sock's handshakes; the caller destroys it. NULL: failed. */
static zsock_t *watch_handshakes(zsock_t *sock)
{
    static _Atomic unsigned count; /* a new name each time: libzmq frees the last one late */
    char endpoint[64];

    snprintf(endpoint, sizeof(endpoint), "inproc://handshakes-%u", count++);
    if (zmq_socket_monitor(zsock_resolve(sock), endpoint,
                           ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH
                               | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL))
        return NULL;
    return zsock_new_pair(endpoint);
}

/* A monitor's message has two frames: event and value, and the endpoint. 0: a peer accepted our key
 * | -EACCES: refused | -ETIMEDOUT. */
static int await_handshake(zsock_t *watch, int wait_ms)
{
    int64_t deadline = bus_mono_ms() + wait_ms;
    int r = -ETIMEDOUT;

    while (r == -ETIMEDOUT && bus_mono_ms() < deadline) {
        zframe_t *event;
        zmsg_t *msg;
        uint16_t number = 0;

        zsock_set_rcvtimeo(watch, (int)(deadline - bus_mono_ms()) + 1);
        msg = zmsg_recv(watch);
        if (!msg)
            break; /* timed out or interrupted */
        event = zmsg_first(msg);
        if (event && zframe_size(event) >= sizeof(number))
            memcpy(&number, zframe_data(event), sizeof(number));
        if (number)
            r = number == ZMQ_EVENT_HANDSHAKE_SUCCEEDED ? 0 : -EACCES;
        zmsg_destroy(&msg);
    }
    return r;
}

static zsock_t *connect_all(int type, bus_marks_t marks, bool immediate, const char *endpoints,
                            const char *curve_dir, const char *peer, zsock_t **ret_watch)
{
    zsock_t *sock = zsock_new(type);
    char *list = strdup(endpoints), *save = NULL;
    int r = 0;

    if (!sock || !list) {
        free(list);
        return sock;
    }
    set_limits(sock, BUS_FRAME_MAX);
    set_marks(sock, marks);
    zsock_set_immediate(sock, immediate);
    zsock_set_reconnect_ivl(sock, 50);
    zsock_set_reconnect_ivl_max(sock, 500);
    zsock_set_connect_timeout(sock, HEARTBEAT_CONNECT_MS);
    if (!marks.receive)
        zsock_set_heartbeat_ttl(sock, HEARTBEAT_SILENCE_MS);
    r = check_keys(endpoints, curve_dir);
    if (!r && *curve_dir)
        r = apply_client_keys(sock, curve_dir, peer);
    if (!r && ret_watch)
        *ret_watch = watch_handshakes(sock);
    for (char *one = strtok_r(list, ",", &save); !r && one; one = strtok_r(NULL, ",", &save))
        if (zsock_connect(sock, "%s", one) < 0) {
            char text[300];

            snprintf(text, sizeof(text), "connect to %.200s", one);
            r = fault(-errno, text);
        }
    free(list);
    if (r)
        zsock_destroy(&sock);
    return sock;
}

zsock_t *bus_connect(int type, const char *endpoints, const char *curve_dir, const char *peer)
{
    return connect_all(type, (bus_marks_t){MARK, 0, 0}, false, endpoints, curve_dir, peer, NULL);
}

zsock_t *bus_connect_marked(int type, bus_marks_t marks, const char *endpoints,
                            const char *curve_dir, const char *peer)
{
    return connect_all(type, marks, false, endpoints, curve_dir, peer, NULL);
}

zsock_t *bus_connect_peer(const char *endpoint, const char *curve_dir, const char *peer)
{
    return connect_all(ZMQ_DEALER, (bus_marks_t){MARK, 0, 0}, true, endpoint, curve_dir, peer,
                       NULL);
}

zsock_t *bus_connect_known(int type, bus_marks_t marks, const char *endpoints,
                           const char *curve_dir, const char *peer, int wait_ms)
{
    zsock_t *watch = NULL;
    zsock_t *sock = connect_all(type, marks, false, endpoints, curve_dir, peer, &watch);
    char text[400];

    if (sock && watch && await_handshake(watch, wait_ms) == -EACCES) {
        snprintf(text, sizeof(text),
                 "%.150s does not take the key in %.150s: its role has no business there",
                 endpoints, curve_dir);
        fault(-EACCES, text);
        zsock_destroy(&sock);
    }
    if (sock)
        zmq_socket_monitor(zsock_resolve(sock), NULL, 0);
    zsock_destroy(&watch);
    return sock;
}

void bus_drain(zsock_t *sock)
{
    zsock_set_rcvtimeo(sock, 0);
    for (int i = 0; i < DRAIN_MAX; i++) {
        zmsg_t *msg = zmsg_recv(sock);

        if (!msg)
            return;
        zmsg_destroy(&msg);
    }
}

int64_t bus_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t bus_mono_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int bus_call(zsock_t *dealer, const char *verb, const char *account, int timeout_ms, json_t *body,
             json_t **ret_outcome, json_t **ret_body)
{
    zpoller_t *poller = zpoller_new(dealer, NULL);
    int64_t deadline = bus_mono_ms() + timeout_ms;
    char id[ID_MAX], got[64] = "";
    zmsg_t *msg;
    int r = -ETIMEDOUT;

    id_make("op", id);
    msg = request_encode(verb, id, NULL, account, timeout_ms, NULL, body);
    if (!msg || zmsg_send(&msg, dealer))
        r = -EBADMSG;
    while (r == -ETIMEDOUT && bus_mono_ms() < deadline) {
        if (!zpoller_wait(poller, (int)(deadline - bus_mono_ms())))
            continue;
        msg = zmsg_recv(dealer);
        if (!msg)
            break;
        r = reply_decode(msg, got, ret_outcome, ret_body);
        zmsg_destroy(&msg);
        if (!r && strcmp(got, id)) {
            /* Callers free what is set, also when this call fails. */
            json_decref(*ret_outcome);
            json_decref(*ret_body);
            *ret_outcome = *ret_body = NULL;
            r = -ETIMEDOUT; /* the reply to an earlier call: go on waiting */
        }
    }
    zpoller_destroy(&poller);
    return r;
}
