#include "common/work.h"

#include <errno.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { RETRY_US = 10000 };

struct work {
    pthread_mutex_t mutex; /* held for a few instructions only */
    pthread_cond_t more;
    zlistx_t *queue;
    size_t max;
    int fd; /* -1: nobody polls */
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
    self->queue = zlistx_new();
    self->fd = polled ? eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC) : -1;
    if (!self->queue || (polled && self->fd < 0)) {
        zlistx_destroy(&self->queue);
        if (self->fd >= 0)
            close(self->fd);
        free(self);
        return NULL;
    }
    zlistx_set_destructor(self->queue, destroy_msg);
    self->max = max;
    pthread_mutex_init(&self->mutex, NULL);
    pthread_cond_init(&self->more, NULL);
    return self;
}

int work_put(work_t *self, zmsg_t **msg)
{
    int r = -EAGAIN;
    bool first;

    pthread_mutex_lock(&self->mutex);
    first = !zlistx_size(self->queue);
    if (zlistx_size(self->queue) < self->max)
        r = zlistx_add_end(self->queue, *msg) ? 0 : -ENOMEM;
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

    pthread_mutex_lock(&self->mutex);
    while (!self->stopped && !zlistx_size(self->queue))
        pthread_cond_wait(&self->more, &self->mutex);
    if (!self->stopped)
        msg = zlistx_detach(self->queue, NULL);
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

    pthread_mutex_lock(&self->mutex);
    msg = zlistx_detach(self->queue, NULL);
    if (!zlistx_size(self->queue))
        (void)eventfd_read(self->fd, &count); /* before the next is put */
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
    n = zlistx_size(self->queue);
    pthread_mutex_unlock(&self->mutex);
    return n;
}

void work_destroy(work_t **self_p)
{
    work_t *self = *self_p;

    if (!self)
        return;
    zlistx_destroy(&self->queue);
    if (self->fd >= 0)
        close(self->fd);
    pthread_cond_destroy(&self->more);
    pthread_mutex_destroy(&self->mutex);
    free(self);
    *self_p = NULL;
}
