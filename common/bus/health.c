#include "common/bus/health.h"
#include "common/base/err.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <string.h>

struct health {
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
        MHD_OPTION_CONNECTION_LIMIT, 32u, MHD_OPTION_CONNECTION_TIMEOUT, 5u,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)16384, MHD_OPTION_END);
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
