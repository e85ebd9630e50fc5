#include "common/bus/work.h"
#include "common/base/invariant.h"

#include <errno.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { RETRY_US = 10000 };

struct work {
    pthread_mutex_t mutex; /* held for a few instructions only */
    pthread_cond_t more;
    shares_t *queue;
    size_t max;
    int fd; /* eventfd, readable while messages wait; -1: not polled */
    bool stopped;
};

static void destroy_msg(void **item)
{
    zmsg_destroy((zmsg_t **)item);
}

work_t *work_new(size_t max, bool polled)
{
    work_t *self = calloc(1, sizeof(*self));

    if (!self)
        return NULL;
    self->queue = shares_new(destroy_msg);
    self->fd = polled ? eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC) : -1;
    if (!self->queue || (polled && self->fd < 0)) {
        shares_destroy(&self->queue);
        if (self->fd >= 0)
            close(self->fd);
        free(self);
        return NULL;
    }
    self->max = max;
    pthread_mutex_init(&self->mutex, NULL);
    pthread_cond_init(&self->more, NULL);
    return self;
}

int work_put_of(work_t *self, const char *owner, const shares_bounds_t *bounds, size_t bytes,
                zmsg_t **msg)
{
    bool first;
    int r;

    INVARIANT(*msg);
    pthread_mutex_lock(&self->mutex);
    first = !shares_waiting(self->queue);
    r = shares_put(self->queue, owner, bounds, bytes, *msg);
    pthread_mutex_unlock(&self->mutex);
    if (r)
        return r;
    *msg = NULL;
    if (self->fd < 0)
        pthread_cond_signal(&self->more);
    else if (first)
        (void)eventfd_write(self->fd, 1);
    return 0;
}

int work_put(work_t *self, zmsg_t **msg)
{
    const shares_bounds_t bounds = {
        .own = SIZE_MAX, .own_bytes = SIZE_MAX, .all = self->max, .all_bytes = SIZE_MAX};

    return work_put_of(self, "", &bounds, 0, msg);
}

static bool is_stopped(work_t *self)
{
    bool stopped;

    pthread_mutex_lock(&self->mutex);
    stopped = self->stopped;
    pthread_mutex_unlock(&self->mutex);
    return stopped;
}

bool work_put_wait(work_t *self, zmsg_t **msg)
{
    while (work_put(self, msg)) {
        if (is_stopped(self))
            return false;
        usleep(RETRY_US);
    }
    return true;
}

zmsg_t *work_take(work_t *self)
{
    zmsg_t *msg = NULL;

    INVARIANT(self->fd < 0); /* a polled queue signals nobody who waits here */
    pthread_mutex_lock(&self->mutex);
    while (!self->stopped && !(msg = shares_take(self->queue)))
        pthread_cond_wait(&self->more, &self->mutex);
    pthread_mutex_unlock(&self->mutex);
    return msg;
}

int work_fd(const work_t *self)
{
    return self->fd;
}

zmsg_t *work_poll(work_t *self)
{
    zmsg_t *msg;
    eventfd_t count;

    INVARIANT(self->fd >= 0);
    pthread_mutex_lock(&self->mutex);
    msg = shares_take(self->queue);
    if (!shares_waiting(self->queue))
        (void)eventfd_read(self->fd,
                           &count); /* reset before a message that is put now sets it again */
    pthread_mutex_unlock(&self->mutex);
    return msg;
}

void work_stop(work_t *self)
{
    pthread_mutex_lock(&self->mutex);
    self->stopped = true;
    pthread_mutex_unlock(&self->mutex);
    pthread_cond_broadcast(&self->more);
}

size_t work_waiting(work_t *self)
{
    size_t n;

    pthread_mutex_lock(&self->mutex);
    n = shares_waiting(self->queue);
    pthread_mutex_unlock(&self->mutex);
    return n;
}

void work_destroy(work_t **self_p)
{
    work_t *self = *self_p;

    if (!self)
        return;
    shares_destroy(&self->queue);
    if (self->fd >= 0)
        close(self->fd);
    pthread_cond_destroy(&self->more);
    pthread_mutex_destroy(&self->mutex);
    free(self);
    *self_p = NULL;
}
