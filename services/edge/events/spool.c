#include "services/edge/events/spool.h"

#include "common/base/invariant.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

/* The head of a batch that is whole in a file of end bytes. 1 | 0: there is none | -errno */
static int read_at(int file, off_t at, off_t end, ring_spooled_t *ret_head)
{
    ssize_t n;

    if (at > end - (off_t)sizeof(*ret_head))
        return 0;
    n = pread(file, ret_head, sizeof(*ret_head), at);
    if (n < 0)
        return -errno;
    return n == (ssize_t)sizeof(*ret_head) && ring_spooled_is_batch(ret_head)
           && spool_behind(at, ret_head) <= end;
}

int spool_read(const spool_t *self, off_t at, ring_spooled_t *ret_head)
{
    return read_at(self->file, at, self->end, ret_head);
}

off_t spool_behind(off_t at, const ring_spooled_t *head)
{
    return at + (off_t)(sizeof(*head) + head->len);
}

int spool_attach(spool_t *self, int file, unsigned owner, off_t *ret_cut)
{
    ring_spooled_t head;
    off_t size = lseek(file, 0, SEEK_END), at = 0;
    int r;

    *ret_cut = 0;
    if (size < 0)
        return -errno;
    while ((r = read_at(file, at, size, &head)) > 0)
        at = spool_behind(at, &head);
    if (r < 0)
        return r;
    if (at < size && ftruncate(file, at))
        return -errno;
    *ret_cut = size - at;
    *self = (spool_t){.file = file, .end = at, .owner = owner};
    return 0;
}

int spool_trim(spool_t *self)
{
    INVARIANT(self->acked <= self->sent);
    if (self->acked >= self->end)
        self->end = self->sent = self->acked = 0;
    return ftruncate(self->file, self->end) ? -errno : 0;
}

unsigned spool_worker(const spool_t *self, const ring_spooled_t *head)
{
    return ring_spooled_worker(head, self->owner);
}

int spool_append(spool_t *self, const ring_spooled_t *head, unsigned worker, const void *data,
                 off_t max)
{
    ring_spooled_t own = *head;
    const struct iovec parts[] = {{&own, sizeof(own)}, {(void *)data, head->len}};
    off_t end = spool_behind(self->end, head);
    ssize_t n;

    if (end > max)
        return -EFBIG;
    own.count = ring_spooled_count(head);
    if (worker != self->owner)
        ring_spooled_set_worker(&own, worker);
    INVARIANT(ring_spooled_is_batch(&own)); /* another would hide all that is behind it */
    n = pwritev(self->file, parts, 2, self->end);
    if (n == end - self->end) {
        self->end = end;
        return 0;
    }
    if (n < 0)
        return -errno;
    /* a part of it found room, which the next one may use */
    return ftruncate(self->file, self->end) ? -errno : -ENOSPC;
}

int spool_copy(spool_t *self, int from, unsigned owner, off_t *at, off_t max)
{
    ring_spooled_t head;
    void *data;
    int r = read_at(from, *at, lseek(from, 0, SEEK_END), &head);

    if (r <= 0)
        return r;
    INVARIANT(head.len <= RING_SPOOL_BYTES);
    data = malloc(head.len);
    if (!data)
        return -ENOMEM;
    r = pread(from, data, head.len, *at + (off_t)sizeof(head)) == (ssize_t)head.len
            ? spool_append(self, &head, ring_spooled_worker(&head, owner), data, max)
            : -EIO;
    free(data);
    if (r)
        return r;
    *at = spool_behind(*at, &head);
    return 1;
}
