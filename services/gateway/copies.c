#include "services/gateway/copies.h"
#include "common/base/memory.h"
#include "common/bus/bus.h"
#include "common/base/cleanup.h"
#include "common/base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum {
    UNANSWERED_MAX =
        2 /* asks; with the one after them a silent copy is left out after 500 to 750 ms */
};

static int connect_one(copies_t *self, const char *endpoint, const char *service, const char *curve)
{
    copy_t *copy = &self->list[self->count];

    if (self->count == COPIES_MAX)
        return fault(-E2BIG, "a service has more than 16 endpoints");
    copy->service = service;
    copy->endpoint = memory_copy(endpoint, "an endpoint");
    copy->sock = bus_connect_peer(endpoint, curve, service);
    self->count++;
    if (!copy->sock)
        return -ENOTCONN;
    zsock_set_sndtimeo(copy->sock, 0);
    return 0;
}

int copies_new(copies_t **ret_self, const char *service, const char *endpoints, const char *curve)
{
    copies_t *self = memory_new(sizeof(*self), "copies of a service");
    _cleanup_(free_mem) char *list = memory_copy(endpoints, "endpoints");
    char *save = NULL;
    int r = 0;

    *ret_self = self;
    self->made_ms = bus_mono_ms();
    for (char *one = strtok_r(list, ", ", &save); !r && one; one = strtok_r(NULL, ", ", &save))
        r = connect_one(self, one, service, curve);
    if (!r && self->count == 0)
        r = fault(-EINVAL, "a service has no endpoint");
    return r;
}

void copies_destroy(copies_t **self_p)
{
    copies_t *self = *self_p;

    if (!self)
        return;
    for (int i = 0; i < self->count; i++) {
        zsock_destroy(&self->list[i].sock);
        free(self->list[i].endpoint);
    }
    free(self);
    *self_p = NULL;
}

copy_t *copies_find(copies_t *self, const zsock_t *sock)
{
    for (int i = 0; i < self->count; i++)
        if (self->list[i].sock == sock)
            return &self->list[i];
    return NULL;
}

bool copy_is_connected(const copy_t *copy)
{
    return zsock_events(copy->sock) & ZMQ_POLLOUT;
}

copy_t *copies_next(copies_t *self)
{
    copy_t *other = NULL;

    for (int n = 0; n < self->count; n++) {
        int i = (self->next + n) % self->count;
        copy_t *copy = &self->list[i];

        if (!copy_is_connected(copy))
            continue;
        if (copy->answers) {
            self->next = i + 1;
            return copy;
        }
        if (!other)
            other = copy;
    }
    if (other)
        self->next = (int)(other - self->list) + 1;
    return other;
}

copy_t *copies_other(copies_t *self, const copy_t *copy)
{
    for (int n = 0; n < self->count; n++) {
        int i = (self->next + n) % self->count;
        copy_t *other = &self->list[i];

        if (other != copy && other->answers && copy_is_connected(other)) {
            self->next = i + 1;
            return other;
        }
    }
    return copies_next(self);
}

unsigned copies_bit(const copies_t *self, const copy_t *copy)
{
    return 1u << (copy - self->list);
}

unsigned copies_answering(const copies_t *self)
{
    unsigned set = 0;

    for (int i = 0; i < self->count; i++)
        if (self->list[i].answers)
            set |= 1u << i;
    return set;
}

const copy_t *copies_of(const copies_t *self, unsigned set)
{
    for (int i = 0; i < self->count; i++)
        if (self->list[i].answers && set & 1u << i)
            return &self->list[i];
    return NULL;
}

bool copies_answer(const copies_t *self)
{
    return copies_answering(self) != 0;
}

int64_t copies_silent_ms(const copies_t *self, int64_t now_ms)
{
    int64_t since_ms = self->made_ms;

    for (int i = 0; i < self->count; i++) {
        if (self->list[i].answers)
            return 0;
        if (self->list[i].lost_ms > since_ms)
            since_ms = self->list[i].lost_ms;
    }
    return now_ms > since_ms ? now_ms - since_ms : 1;
}

bool copies_were_heard(const copies_t *self)
{
    for (int i = 0; i < self->count; i++)
        if (self->list[i].answers || self->list[i].lost_ms)
            return true;
    return false;
}

static void leave_out(copies_t *self, copy_t *copy, const char *why)
{
    if (!copy->answers)
        return;
    copy->answers = false;
    copy->lost_ms = bus_mono_ms();
    self->left_out++;
    log_warn("a copy of %s is left out, %s: %s", copy->service, why, copy->endpoint);
}

void copies_heard(copies_t *self, copy_t *copy)
{
    copy->unanswered = 0;
    if (copy->answers)
        return;
    copy->answers = true;
    if (copy->lost_ms) {
        self->back++;
        log_info("a copy of %s answers again after %" PRId64 " ms: %s", copy->service,
                 bus_mono_ms() - copy->lost_ms, copy->endpoint);
    }
}

void copies_ask(copy_t *copy)
{
    char epoch[24], clock[24];

    snprintf(epoch, sizeof(epoch), "%" PRId64, copy->epoch);
    snprintf(clock, sizeof(clock), "%" PRId64, bus_mono_ms());
    /* best effort: without it there is no lease */
    zstr_sendx(copy->sock, "lease", epoch, clock, NULL);
}

void copies_ask_all(copies_t *self)
{
    int64_t now = bus_mono_ms();
    /* the gateway itself stood still: it asked nobody, so silence means nothing */
    bool stopped = now - self->asked_ms > 2 * COPIES_ASK_MS;

    self->asked_ms = now;
    for (int i = 0; i < self->count; i++) {
        copy_t *copy = &self->list[i];

        if (stopped)
            copy->unanswered = 0;
        if (copy->unanswered > UNANSWERED_MAX)
            leave_out(self, copy, "it does not answer");
        copy->unanswered++;
        copies_ask(copy);
    }
}

void copies_check(copies_t *self)
{
    for (int i = 0; i < self->count; i++)
        if (self->list[i].answers && !copy_is_connected(&self->list[i]))
            leave_out(self, &self->list[i], "its connection broke");
}

size_t copies_metrics(const copies_t *self, char *out, size_t size)
{
    const char *service = self->list[0].service;
    int answering = 0;

    for (int i = 0; i < self->count; i++)
        answering += self->list[i].answers;
    return (size_t)snprintf(out, size,
                            "postern_gateway_copies{service=\"%s\"} %d\n"
                            "postern_gateway_copies_answering{service=\"%s\"} %d\n"
                            "postern_gateway_copies_left_out_total{service=\"%s\"} %" PRIu64 "\n"
                            "postern_gateway_copies_back_total{service=\"%s\"} %" PRIu64 "\n",
                            service, self->count, service, answering, service, self->left_out,
                            service, self->back);
}
