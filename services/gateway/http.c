/* HTTP through libmicrohttpd, driven by the gateway's reactor: external epoll, a connection is
 * suspended while services work. Traps: MHD_stop_daemon with a suspended connection aborts, and a
 * suspended connection is not polled, so every call has its own deadline. */
#include "common/cleanup.h"
#include "common/log.h"
#include "services/gateway/gateway.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/socket.h>

enum { RUNS_MAX = 64 };

typedef struct peer {
    int fd;
    int64_t deadline_ms; /* to have sent a whole request; 0: it has, or sends none */
} peer_t;

/* ---- answering ---- */

static void add_cors(call_t *call, struct MHD_Response *response)
{
    if (!call->origin)
        return;
    MHD_add_response_header(response, "Access-Control-Allow-Origin", call->origin);
    MHD_add_response_header(response, "Access-Control-Allow-Credentials", "true");
    MHD_add_response_header(response, "Vary", "Origin");
    MHD_add_response_header(response, "Access-Control-Expose-Headers",
                            "Postern-Operation-Id, Postern-Revision, Postern-Edges");
    if (strcmp(call->method, "OPTIONS"))
        return;
    MHD_add_response_header(response, "Access-Control-Allow-Methods",
                            "GET, POST, PUT, PATCH, DELETE");
    MHD_add_response_header(response, "Access-Control-Max-Age", "600");
    if (call->request_headers)
        MHD_add_response_header(response, "Access-Control-Allow-Headers", call->request_headers);
}

/* The text belongs to the response. */
static struct MHD_Response *make_response(const call_t *call, char *text)
{
    if (call->file)
        return MHD_create_response_from_buffer(strlen(call->file->text), (char *)call->file->text,
                                               MHD_RESPMEM_PERSISTENT);
    if (text)
        return MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE);
    return MHD_create_response_from_buffer(0, (char *)"", MHD_RESPMEM_PERSISTENT);
}

static enum MHD_Result send_answer(call_t *call)
{
    char wait[16];
    bool is_json = call->text_is_json || call->answer, has_text = call->text || call->answer;
    char *text = call->text     ? take(call->text)
                 : call->answer ? json_dumps(call->answer, JSON_COMPACT)
                                : NULL;
    struct MHD_Response *response = make_response(call, text);
    unsigned status_class = call->status / 100;
    enum MHD_Result r;

    if (!response) {
        free(text);
        return MHD_NO;
    }
    if (has_text)
        MHD_add_response_header(response, "Content-Type",
                                is_json ? "application/json" : "text/plain; version=0.0.4");
    if (call->file) {
        MHD_add_response_header(response, "Content-Type", call->file->type);
        MHD_add_response_header(response, "Content-Security-Policy", docs_policy);
    }
    MHD_add_response_header(response, "Postern-Operation-Id", call->operation_id);
    MHD_add_response_header(response, "Ngrok-Operation-Id",
                            call->operation_id); /* clients read it */
    MHD_add_response_header(response, "Cache-Control", "no-store");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    if (*call->revision)
        MHD_add_response_header(response, "Postern-Revision", call->revision);
    if (*call->edges)
        MHD_add_response_header(response, "Postern-Edges", call->edges);
    if (call->allow)
        MHD_add_response_header(response, "Allow", call->allow);
    if (call->status == 401)
        MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
    if (*call->etag)
        MHD_add_response_header(response, "ETag", call->etag);
    if (call->status == 429 || call->status == 503) {
        snprintf(wait, sizeof(wait), "%d", call->retry_after ? call->retry_after : 1);
        MHD_add_response_header(response, "Retry-After", wait);
    }
    add_cors(call, response);
    r = MHD_queue_response(call->connection, call->status, response);
    MHD_destroy_response(response);
    call->gateway->metrics.answers[status_class < 6 ? status_class : 5]++;
    return r;
}

static void log_call(const call_t *call)
{
    char path[300];

    if (call->status == 200 && (!strcmp(call->path, "/readyz") || !strcmp(call->path, "/healthz")))
        return; /* every few seconds: noise */
    log_quote(call->path, strlen(call->path), path, sizeof(path));
    log_info("method=%s path=\"%s\" status=%u op=%s account=%s ms=%" PRId64, call->method, path,
             call->status, call->operation_id, *call->account ? call->account : "-",
             bus_mono_ms() - call->started_ms);
}

/* ---- reading ---- */

static peer_t *peer_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    return info ? info->socket_context : NULL;
}

static char *copy_header(struct MHD_Connection *connection, const char *name)
{
    const char *value = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);

    return value && strlen(value) < 1024 ? strdup(value) : NULL;
}

static void set_ip(call_t *call)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(call->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr_in *address = info ? (const void *)info->client_addr : NULL;

    if (address && address->sin_family == AF_INET)
        inet_ntop(AF_INET, &address->sin_addr, call->ip, sizeof(call->ip));
}

static call_t *call_new(gateway_t *gateway, struct MHD_Connection *connection, const char *method,
                        const char *url)
{
    call_t *call = calloc(1, sizeof(*call));

    if (!call)
        return NULL;
    call->gateway = gateway;
    call->connection = connection;
    call->started_ms = bus_mono_ms();
    call->path = strdup(url);
    set_ip(call);
    id_make("op", call->operation_id);
    snprintf(call->method, sizeof(call->method), "%.15s", method);
    path_match(call->method, call->path, &call->target);
    call->origin = copy_header(connection, "Origin");
    call->request_headers = copy_header(connection, "Access-Control-Request-Headers");
    return call;
}

static void take_body(call_t *call, const char *data, size_t *size)
{
    char *grown;

    if (call->body_len + *size > BODY_MAX) {
        call->body_too_large = true; /* read on, or the client never sees the answer */
    } else if (!call->body_too_large) {
        grown = realloc(call->body, call->body_len + *size);
        if (!grown) {
            call->body_too_large = true;
        } else {
            call->body = grown;
            memcpy(call->body + call->body_len, data, *size);
            call->body_len += *size;
        }
    }
    *size = 0;
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *size, void **state)
{
    gateway_t *self = context;
    call_t *call = *state;
    peer_t *peer = peer_of(connection);

    (void)version;
    if (!call) {
        *state = call = call_new(self, connection, method, url);
        self->metrics.requests++;
        return call ? MHD_YES : MHD_NO;
    }
    if (*size) {
        take_body(call, data, size);
        return MHD_YES;
    }
    if (peer)
        peer->deadline_ms = 0;
    if (call->state == READING) {
        call_begin(call);
        if (call->state != ANSWERED) {
            call->suspended = true;
            MHD_suspend_connection(connection);
            return MHD_YES;
        }
    }
    return call->state == ANSWERED ? send_answer(call) : MHD_YES;
}

static void on_completed(void *context, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode why)
{
    gateway_t *self = context;
    call_t *call = *state;
    peer_t *peer = peer_of(connection);

    (void)why;
    if (peer)
        peer->deadline_ms = bus_mono_ms() + READ_DEADLINE_MS;
    if (!call)
        return;
    if (self->calls)
        zhashx_delete(self->calls, call->operation_id);
    log_call(call);
    call_destroy(&call);
    *state = NULL;
}

static void on_connection(void *context, struct MHD_Connection *connection, void **socket_context,
                          enum MHD_ConnectionNotificationCode code)
{
    gateway_t *self = context;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    char key[32];

    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        peer_t *peer = calloc(1, sizeof(*peer));

        if (!peer)
            return;
        peer->fd = info->connect_fd;
        peer->deadline_ms = bus_mono_ms() + READ_DEADLINE_MS;
        *socket_context = peer;
        snprintf(key, sizeof(key), "%p", (void *)peer);
        zhashx_insert(self->connections, key, peer);
    } else if (*socket_context) {
        snprintf(key, sizeof(key), "%p", *socket_context);
        zhashx_delete(self->connections, key);
        free(*socket_context);
        *socket_context = NULL;
    }
}

/* Whoever dribbles a request for longer than READ_DEADLINE_MS is cut off: libmicrohttpd's own
 * timeout starts anew with every byte. */
static int on_deadlines(zloop_t *loop, int timer, void *context)
{
    gateway_t *self = context;
    int64_t now = bus_mono_ms();

    (void)loop;
    (void)timer;
    for (peer_t *peer = zhashx_first(self->connections); peer;
         peer = zhashx_next(self->connections))
        if (peer->deadline_ms && now > peer->deadline_ms) {
            shutdown(peer->fd, SHUT_RDWR);
            peer->deadline_ms = 0;
            self->metrics.cut_off++;
        }
    rate_purge(self);
    http_run(self);
    return 0;
}

void http_resume(call_t *call)
{
    zhashx_delete(call->gateway->calls, call->operation_id);
    if (call->suspended) {
        call->suspended = false;
        MHD_resume_connection(call->connection);
    }
}

/* A timeout of zero means that libmicrohttpd has more to do than its descriptors show: a resumed
 * connection, or a request that came in one piece with the one before. */
void http_run(gateway_t *self)
{
    MHD_UNSIGNED_LONG_LONG timeout;

    for (int i = 0; i < RUNS_MAX; i++) {
        MHD_run(self->daemon);
        if (MHD_get_timeout(self->daemon, &timeout) != MHD_YES || timeout > 0)
            return;
    }
}

static int on_readable(zloop_t *loop, zmq_pollitem_t *item, void *context)
{
    (void)loop;
    (void)item;
    http_run(context);
    return 0;
}

/* ---- lifecycle ---- */

/* %XX in place; an escaped control character stays as it is written, so that %00 cannot cut a path
 * short and nothing unprintable gets past the path table. */
static size_t unescape(void *context, struct MHD_Connection *connection, char *text)
{
    char *out = text;

    (void)context;
    (void)connection;
    for (const char *in = text; *in;) {
        unsigned value;

        if (*in == '%' && isxdigit((unsigned char)in[1]) && isxdigit((unsigned char)in[2])
            && sscanf(in + 1, "%2x", &value) == 1 && value >= 0x20 && value != 0x7f) {
            *out++ = (char)value;
            in += 3;
        } else {
            *out++ = *in++;
        }
    }
    *out = '\0';
    return (size_t)(out - text);
}

int http_start(gateway_t *self)
{
    const char *host = config_str(&self->config, "http-host");
    uint16_t port = (uint16_t)config_int(&self->config, "http-port");
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    char text[160];

    if (inet_pton(AF_INET, host, &address.sin_addr) != 1)
        return fault(-EINVAL, "http-host must be an IPv4 address");
    self->connections = zhashx_new();
    self->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, port, NULL, NULL, on_request, self,
        MHD_OPTION_SOCK_ADDR, &address, MHD_OPTION_LISTENING_ADDRESS_REUSE, 1u,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT, 60u,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)32768, MHD_OPTION_NOTIFY_COMPLETED,
        on_completed, self, MHD_OPTION_NOTIFY_CONNECTION, on_connection, self,
        MHD_OPTION_UNESCAPE_CALLBACK, unescape, self, MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_END);
    if (!self->daemon) {
        snprintf(text, sizeof(text), "listen on %s:%d (is the port taken?)", host, port);
        return fault(-EADDRINUSE, text);
    }
    self->poll.fd = MHD_get_daemon_info(self->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    self->poll.events = ZMQ_POLLIN;
    zloop_poller(self->loop, &self->poll, on_readable, self);
    zloop_poller_set_tolerant(self->loop, &self->poll);
    zloop_timer(self->loop, 1000, 0, on_deadlines, self);
    return 0;
}

void http_stop(gateway_t *self)
{
    if (!self->daemon)
        return;
    zloop_poller_end(self->loop, &self->poll);
    MHD_quiesce_daemon(self->daemon);
    while (zhashx_size(self->calls)) {
        call_t *call = zhashx_first(self->calls);

        call_refuse(call, ERR_MAINTENANCE, NULL, NULL);
        http_resume(call);
    }
    MHD_run(self->daemon);
    MHD_stop_daemon(self->daemon);
    self->daemon = NULL;
    zhashx_destroy(&self->connections);
    zhashx_destroy(&self->rates);
}
