#include "common/bus/health.h"
#include "common/base/err.h"
#include "common/base/memory.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum {
    CONNECTIONS_MAX = 64,
    ADDRESS_MAX = CONNECTIONS_MAX / 2, /* of one address */
    LIFE_S = 5 /* of a connection, however slowly its bytes trickle in: libmicrohttpd bounds only
                * the time between two of them */
};

/* One open connection. */
typedef struct client {
    struct client *next, *previous;
    int64_t since_ms;
    int fd;
} client_t;

struct health {
    client_t *clients; /* the newest first */
    zloop_t *loop;
    struct MHD_Daemon *daemon;
    zmq_pollitem_t poll;
    int timer;
    health_metrics_fn metrics;
    health_ready_fn ready;
    void *context;
};

static enum MHD_Result health_respond(struct MHD_Connection *connection, unsigned status,
                                      const char *text)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(strlen(text), (void *)text, MHD_RESPMEM_MUST_COPY);
    enum MHD_Result r;

    MHD_add_response_header(response, "Content-Type", "text/plain; version=0.0.4");
    /* a connection ends LIFE_S after it began: no client is to begin another request just then */
    MHD_add_response_header(response, "Connection", "close");
    r = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return r;
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *size, void **state)
{
    static int seen;
    health_t *self = context;
    char text[16384] = "";

    (void)version;
    (void)data;
    (void)size;
    if (!*state) {
        *state = &seen;
        return MHD_YES;
    }
    if (strcmp(method, "GET") && strcmp(method, "HEAD"))
        return health_respond(connection, 405, "only GET\n");
    if (!strcmp(url, "/healthz"))
        return health_respond(connection, 200, "ok\n");
    if (!strcmp(url, "/readyz")) {
        bool ready = self->ready(self->context, text, sizeof(text) - 2);

        snprintf(text + strlen(text), sizeof(text) - strlen(text), "\n");
        return health_respond(connection, ready ? 200 : 503, ready ? "ready\n" : text);
    }
    if (!strcmp(url, "/metrics")) {
        size_t n = self->metrics(self->context, text, sizeof(text));

        text[n < sizeof(text) ? n : sizeof(text) - 1] = '\0';
        return health_respond(connection, 200, text);
    }
    return health_respond(connection, 404, "not found\n");
}

static void on_connection(void *context, struct MHD_Connection *connection, void **socket_context,
                          enum MHD_ConnectionNotificationCode code)
{
    health_t *self = context;
    client_t *client = *socket_context;

    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        client = memory_new(sizeof(*client), "a connection of the health port");
        client->since_ms = zclock_mono();
        client->fd =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        client->next = self->clients;
        if (self->clients)
            self->clients->previous = client;
        self->clients = client;
        *socket_context = client;
    } else if (client) {
        if (client->previous)
            client->previous->next = client->next;
        else
            self->clients = client->next;
        if (client->next)
            client->next->previous = client->previous;
        free(client);
        *socket_context = NULL;
    }
}

/* End the connections that have had their time. libmicrohttpd closes them when it sees their
 * end. */
static void end_old_connections(const health_t *self)
{
    for (const client_t *one = self->clients; one; one = one->next)
        if (zclock_mono() - one->since_ms > LIFE_S * 1000)
            shutdown(one->fd, SHUT_RDWR);
}

static int on_event(zloop_t *loop, zmq_pollitem_t *item, void *context)
{
    health_t *self = context;

    (void)loop;
    (void)item;
    MHD_run(self->daemon);
    return 0;
}

static int on_timer(zloop_t *loop, int timer, void *context)
{
    (void)timer;
    end_old_connections(context);
    return on_event(loop, NULL, context);
}

int health_new(health_t **ret_health, zloop_t *loop, const char *host, int port,
               health_metrics_fn metrics, health_ready_fn ready, void *context)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    const union MHD_DaemonInfo *info;
    char text[128];
    health_t *self;

    *ret_health = NULL;
    if (!port)
        return 0;
    if (inet_pton(AF_INET, host, &address.sin_addr) != 1)
        return fault(-EINVAL, "health-host must be an IPv4 address");
    self = calloc(1, sizeof(*self));
    if (!self)
        return -ENOMEM;
    self->loop = loop;
    self->metrics = metrics;
    self->ready = ready;
    self->context = context;
    self->daemon = MHD_start_daemon(
        MHD_USE_EPOLL, (uint16_t)port, NULL, NULL, on_request, self, MHD_OPTION_SOCK_ADDR, &address,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
        (unsigned)ADDRESS_MAX, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)LIFE_S,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, self, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)16384, MHD_OPTION_END);
    if (!self->daemon) {
        free(self);
        snprintf(text, sizeof(text), "listen for health checks on %s:%d (is the port taken?)", host,
                 port);
        return fault(-EADDRINUSE, text);
    }
    info = MHD_get_daemon_info(self->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    self->poll.fd = info->epoll_fd;
    self->poll.events = ZMQ_POLLIN;
    zloop_poller(loop, &self->poll, on_event, self);
    zloop_poller_set_tolerant(loop, &self->poll);
    self->timer = zloop_timer(loop, 1000, 0, on_timer, self);
    *ret_health = self;
    return 0;
}

void health_destroy(health_t **self_p)
{
    health_t *self = *self_p;

    if (!self)
        return;
    zloop_poller_end(self->loop, &self->poll);
    zloop_timer_end(self->loop, self->timer);
    MHD_stop_daemon(self->daemon);
    free(self);
    *self_p = NULL;
}
