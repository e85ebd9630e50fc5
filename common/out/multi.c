#include "common/out/multi.h"
#include "common/base/err.h"

#include <errno.h>

enum { RETRY_MS = 100 };

struct multi {
    zloop_t *loop;
    CURLM *curl;
    int timer; /* -1: none is set */
    multi_done_fn on_done;
    void *context;
};

/* A callback may start and stop transfers, which changes libcurl's list of messages: so libcurl is
 * asked for the next message after each callback. */
static void report_ended(multi_t *self)
{
    CURLMsg *message;
    int left;

    while ((message = curl_multi_info_read(self->curl, &left))) {
        CURL *easy = message->easy_handle;
        CURLcode result = message->data.result;

        if (message->msg != CURLMSG_DONE)
            continue;
        curl_multi_remove_handle(self->curl, easy);
        self->on_done(self->context, easy, result);
    }
}

static int on_timer(zloop_t *loop, int timer, void *context);

/* CURLMOPT_TIMERFUNCTION. libcurl must not be called from here, so 0 ms is a timer, too. */
static int set_timer(CURLM *curl, long timeout_ms, void *context)
{
    multi_t *self = context;

    (void)curl;
    if (self->timer >= 0)
        zloop_timer_end(self->loop, self->timer);
    self->timer = -1;
    if (timeout_ms < 0)
        return 0;
    self->timer = zloop_timer(self->loop, (size_t)timeout_ms, 1, on_timer, self);
    return self->timer < 0 ? -1 : 0;
}

static void multi_act(multi_t *self, curl_socket_t fd, int events)
{
    int running;

    if (curl_multi_socket_action(self->curl, fd, events, &running))
        set_timer(self->curl, RETRY_MS,
                  self); /* out of memory: try again later, or the transfers would stall */
    report_ended(self);
}

static int on_ready(zloop_t *loop, zmq_pollitem_t *item, void *context)
{
    int events = (item->revents & ZMQ_POLLIN ? CURL_CSELECT_IN : 0)
                 | (item->revents & ZMQ_POLLOUT ? CURL_CSELECT_OUT : 0)
                 | (item->revents & ZMQ_POLLERR ? CURL_CSELECT_ERR : 0);

    (void)loop;
    multi_act(context, item->fd, events);
    return 0;
}

static int on_timer(zloop_t *loop, int timer, void *context)
{
    multi_t *self = context;

    (void)loop;
    if (timer == self->timer)
        self->timer = -1;
    multi_act(self, CURL_SOCKET_TIMEOUT, 0);
    return 0;
}

/* CURLMOPT_SOCKETFUNCTION */
static int watch_socket(CURL *easy, curl_socket_t fd, int what, void *context, void *unused)
{
    multi_t *self = context;
    zmq_pollitem_t item = {.fd = fd};

    (void)easy;
    (void)unused;
    zloop_poller_end(self->loop, &item);
    item.events =
        (short)((what & CURL_POLL_IN ? ZMQ_POLLIN : 0) | (what & CURL_POLL_OUT ? ZMQ_POLLOUT : 0));
    if (what == CURL_POLL_REMOVE || !item.events)
        return 0;
    if (zloop_poller(self->loop, &item, on_ready, self))
        return -1;
    /* after an error zloop would drop the poller; but libcurl decides when a socket is removed */
    zloop_poller_set_tolerant(self->loop, &item);
    return 0;
}

int multi_new(multi_t **ret_multi, zloop_t *loop, multi_done_fn on_done, void *context)
{
    multi_t *self;

    *ret_multi = NULL;
    if (curl_global_init(CURL_GLOBAL_DEFAULT))
        return fault(-ENOMEM, "libcurl");
    self = calloc(1, sizeof(*self));
    if (!self)
        return fault(-ENOMEM, "libcurl's transfers");
    *self = (multi_t){loop, curl_multi_init(), -1, on_done, context};
    if (!self->curl) {
        multi_destroy(&self);
        return fault(-ENOMEM, "libcurl's transfers");
    }
    curl_multi_setopt(self->curl, CURLMOPT_SOCKETFUNCTION, watch_socket);
    curl_multi_setopt(self->curl, CURLMOPT_SOCKETDATA, self);
    curl_multi_setopt(self->curl, CURLMOPT_TIMERFUNCTION, set_timer);
    curl_multi_setopt(self->curl, CURLMOPT_TIMERDATA, self);
    signal(SIGPIPE, SIG_IGN); /* with CURLOPT_NOSIGNAL libcurl does not do this itself */
    *ret_multi = self;
    return 0;
}

void multi_destroy(multi_t **self_p)
{
    multi_t *self = *self_p;

    *self_p = NULL;
    if (!self)
        return;
    if (self->curl)
        curl_multi_cleanup(self->curl); /* closes idle connections, whose pollers then end */
    if (self->timer >= 0)
        zloop_timer_end(self->loop, self->timer);
    free(self);
    curl_global_cleanup();
}

int multi_start(multi_t *self, CURL *easy)
{
    return curl_multi_add_handle(self->curl, easy) ? fault(-ENOMEM, "start a transfer") : 0;
}

void multi_stop(multi_t *self, CURL *easy)
{
    curl_multi_remove_handle(self->curl, easy);
}
