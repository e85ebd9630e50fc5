/* The life of a process that has a loop and no database. */
#include "common/bus/reactor.h"
#include "common/base/cleanup.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* What was called, in letters: (s)tart, (l)oop, (d)rain, sto(p). */
typedef struct toy {
    char calls[16];
    int fails; /* what start returns */
    long answer;
    zloop_t *loop;
} toy_t;

static const setting_t settings[] = {
    {"answer", SETTING_INT, "42", 0, 100, "a setting of its own"},
    {NULL, SETTING_STR, NULL, 0, 0, NULL},
};

static int on_timer(zloop_t *loop, int timer, void *context)
{
    toy_t *self = context;

    (void)loop;
    (void)timer;
    strcat(self->calls, "l");
    raise(SIGTERM);
    return 0;
}

static int toy_start(void *context, zloop_t *loop, const config_t *config)
{
    toy_t *self = context;

    strcat(self->calls, "s");
    self->loop = loop;
    self->answer = config_int(config, "answer");
    zloop_timer(loop, 1, 1, on_timer, self);
    return self->fails;
}

static void toy_drain(void *context)
{
    toy_t *self = context;

    strcat(self->calls, "d");
    zloop_timer(self->loop, 1, 1, on_timer, self); /* it is there still */
}

static void toy_stop(void *context)
{
    strcat(((toy_t *)context)->calls, "p");
}

static size_t toy_metrics(void *context, char *out, size_t size)
{
    (void)context;
    return (size_t)snprintf(out, size, "postern_toy_things 7\n");
}

static bool toy_is_ready(void *context, char *why, size_t size)
{
    (void)context;
    snprintf(why, size, "it is a toy");
    return false;
}

static const reactor_spec_t toy = {
    .name = "toy",
    .about = "postern-toy: nothing",
    .settings = (const setting_t *const[]){settings, NULL},
    .start = toy_start,
    .drain = toy_drain,
    .stop = toy_stop,
    .metrics = toy_metrics,
    .is_ready = toy_is_ready,
};

Test(reactor, a_service_starts_runs_until_it_is_told_to_stop_drains_and_ends)
{
    char *argv[] = {"postern-toy", "--answer=43", NULL};
    toy_t self = {0};

    cr_assert_eq(reactor_main(&toy, &self, 2, argv), EXIT_SUCCESS);
    cr_assert_str_eq(self.calls, "sldp");
    cr_assert_eq(self.answer, 43);
}

Test(reactor, one_that_cannot_start_frees_what_it_has_and_fails)
{
    char *argv[] = {"postern-toy", NULL};
    toy_t self = {.fails = -1};

    cr_assert_eq(reactor_main(&toy, &self, 1, argv), EXIT_FAILURE);
    cr_assert_str_eq(self.calls, "sdp");
}

Test(reactor, wrong_settings_start_nothing, .init = cr_redirect_stdout)
{
    char *argv[] = {"postern-toy", "--answer=101", NULL};
    char *help[] = {"postern-toy", "--help", NULL};
    toy_t self = {0};

    cr_assert_eq(reactor_main(&toy, &self, 2, argv), EXIT_FAILURE);
    cr_assert_eq(reactor_main(&toy, &self, 2, help), EXIT_SUCCESS);
    cr_assert_str_eq(self.calls, "");
}

/* ---- health ---- */

/* A port that was free a moment ago. */
static int free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    cr_assert_eq(bind(fd, (struct sockaddr *)&address, len), 0);
    getsockname(fd, (struct sockaddr *)&address, &len);
    close(fd);
    return ntohs(address.sin_port);
}

typedef struct client {
    int port;
    char ready[1024], metrics[4096];
} client_t;

static void get(int port, const char *path, char *out, size_t size)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char request[64];
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    size_t len = 0;
    ssize_t n;

    snprintf(request, sizeof(request), "GET %s HTTP/1.0\r\n\r\n", path);
    if (!connect(fd, (struct sockaddr *)&address, sizeof(address))
        && write(fd, request, strlen(request)) > 0)
        while (len + 1 < size && (n = read(fd, out + len, size - 1 - len)) > 0)
            len += (size_t)n;
    out[len] = '\0';
    close(fd);
}

static void client_actor(zsock_t *pipe, void *context)
{
    client_t *self = context;

    zsock_signal(pipe, 0);
    get(self->port, "/readyz", self->ready, sizeof(self->ready));
    get(self->port, "/metrics", self->metrics, sizeof(self->metrics));
    kill(getpid(), SIGTERM);
}

/* Its client runs as soon as the loop does. */
static client_t client;
static zactor_t *client_thread;

static int on_first_turn(zloop_t *loop, int timer, void *context)
{
    (void)loop;
    (void)timer;
    (void)context;
    client_thread = zactor_new(client_actor, &client);
    return 0;
}

static int start_with_client(void *context, zloop_t *loop, const config_t *config)
{
    (void)context;
    (void)config;
    zloop_timer(loop, 1, 1, on_first_turn, NULL);
    return 0;
}

static void stop_client(void *context)
{
    (void)context;
    zactor_destroy(&client_thread);
}

Test(reactor, says_whether_it_is_ready_and_what_it_counts, .timeout = 30)
{
    reactor_spec_t spec = toy;
    char port[32];
    char *argv[] = {"postern-toy", port, NULL};
    toy_t self = {0};

    client.port = free_port();
    snprintf(port, sizeof(port), "--health-port=%d", client.port);
    spec.start = start_with_client;
    spec.drain = stop_client;
    cr_assert_eq(reactor_main(&spec, &self, 2, argv), EXIT_SUCCESS);
    cr_assert(strstr(client.ready, "503"), "%s", client.ready);
    cr_assert(strstr(client.ready, "it is a toy\n"));
    cr_assert(strstr(client.metrics, "postern_toy_things 7\n"), "%s", client.metrics);
    cr_assert(strstr(client.metrics, "postern_toy_files_open "), "%s", client.metrics);
}
