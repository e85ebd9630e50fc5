#include "common/bus/transit.h"
#include "common/base/invariant.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The bytes of all connections of one key; shared by their courses. */
typedef struct account {
    _Atomic int refs; /* held by courses */
    _Atomic int64_t bytes;
} account_t;

/* One connection. Its bytes are numbered from the first one sent: left is how many of them the
 * kernel has taken. */
typedef struct course {
    _Atomic int refs; /* held by the connection and by each message in libzmq's queue */
    _Atomic int64_t left;
    account_t *account;
} course_t;

struct transit {
    course_t *course;
    int64_t sent;
    bool open; /* the last message had weight, and the kernel may not have taken it yet */
    bool full;
};

/* Hint of the first frame behind the identity: libzmq calls its free function when it is done with
 * the frame, in an I/O thread. */
typedef struct notice {
    course_t *course;
    int64_t before; /* number of bytes that were sent before this message */
    unsigned char data[];
} notice_t;

transit_t *transit_new(const transit_t *like)
{
    transit_t *self = calloc(1, sizeof(*self));
    course_t *course = calloc(1, sizeof(*course));
    account_t *account = like ? like->course->account : calloc(1, sizeof(*account));

    if (!self || !course || !account) {
        free(self);
        free(course);
        if (!like)
            free(account);
        return NULL;
    }
    account->refs++;
    course->account = account;
    course->refs = 1;
    self->course = course;
    return self;
}

static void transit_release(course_t *course)
{
    int refs = --course->refs, users;

    INVARIANT(refs >= 0);
    if (refs > 0)
        return;
    users = --course->account->refs;
    INVARIANT(users >= 0);
    if (users == 0)
        free(course->account);
    free(course);
}

static void transit_advance(course_t *course, int64_t left)
{
    int64_t was = course->left;

    while (was < left)
        if (atomic_compare_exchange_weak(&course->left, &was, left)) {
            course->account->bytes -= left - was;
            return;
        }
}

void transit_destroy(transit_t **self_p)
{
    transit_t *self = *self_p;

    if (!self)
        return;
    transit_advance(self->course, self->sent);
    transit_release(self->course);
    free(self);
    *self_p = NULL;
}

static void on_done(void *data, void *hint)
{
    notice_t *notice = hint;

    (void)data;
    transit_advance(notice->course, notice->before);
    transit_release(notice->course);
    free(notice);
}

/* The notice counts the bytes before it only after the message was sent, because sending may fail.
 * NULL: no memory. */
static notice_t *make_first(course_t *course, const transit_frame_t *from, zmq_msg_t *ret_frame)
{
    notice_t *notice = malloc(sizeof(*notice) + from->len);

    if (!notice)
        return NULL;
    notice->course = course;
    notice->before = 0;
    memcpy(notice->data, from->data, from->len);
    if (zmq_msg_init_data(ret_frame, notice->data, from->len, on_done, notice)) {
        free(notice);
        return NULL;
    }
    course->refs++;
    return notice;
}

static int send_frame(void *socket, const transit_frame_t *frame, bool more)
{
    int flags = ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0);

    return zmq_send(socket, frame->data, frame->len, flags) < 0 ? -errno : 0;
}

int transit_send(transit_t *self, zsock_t *router, const transit_frame_t *identity,
                 const transit_frame_t *frames, size_t n, size_t weight)
{
    void *socket = zsock_resolve(router);
    zmq_msg_t first;
    notice_t *notice;
    int r;

    INVARIANT(n > 0); /* the first frame has the notice */
    notice = make_first(self->course, &frames[0], &first);
    r = notice ? send_frame(socket, identity, true) : -ENOMEM;
    if (r == -EHOSTUNREACH)
        transit_advance(self->course, self->sent);
    self->full = r == -EAGAIN;
    if (r) { /* with the identity a ROUTER takes the whole message or nothing */
        if (notice)
            zmq_msg_close(&first);
        return r;
    }
    INVARIANT(self->sent >= self->course->left); /* the kernel takes nothing that was not sent */
    notice->before = self->sent;
    self->sent += (int64_t)weight;
    self->course->account->bytes += (int64_t)weight;
    self->open = weight > 0;
    if (zmq_msg_send(&first, socket, ZMQ_DONTWAIT | (n > 1 ? ZMQ_SNDMORE : 0)) < 0)
        r = -errno;
    for (size_t i = 1; !r && i < n; i++)
        r = send_frame(socket, &frames[i], i + 1 < n);
    return r;
}

size_t transit_bytes(const transit_t *self)
{
    int64_t bytes = self->sent - self->course->left;

    return bytes > 0 ? (size_t)bytes : 0;
}

size_t transit_key_bytes(const transit_t *self)
{
    int64_t bytes = self->course->account->bytes;

    return bytes > 0 ? (size_t)bytes : 0;
}

bool transit_is_full(const transit_t *self)
{
    return self->full;
}

bool transit_needs_probe(const transit_t *self)
{
    return self->full || (self->open && transit_bytes(self) > 0);
}
