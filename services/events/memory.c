#include "services/events/memory.h"
#include "common/bus/bus.h"
#include "common/base/cleanup.h"
#include "common/schema/event_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Files whose names begin otherwise are never opened. */
static const char PREFIX[] = "postern-events-";

static bool name_ok(const char *name)
{
    return !strncmp(name, PREFIX, strlen(PREFIX))
           && strspn(name + strlen(PREFIX), "0123456789abcdef") == strlen(name + strlen(PREFIX));
}

static int open_memory(const char *dir, const char *name)
{
    char path[512];
    struct stat st;
    int fd;

    if (!dir || !*dir || !name_ok(name)
        || snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path))
        return -EACCES;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return -EACCES;
    /* Other users may make files in that directory too, under the name of an edge that is not
     * running. */
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_uid != geteuid()
        || (st.st_mode & (S_IWGRP | S_IWOTH))) {
        close(fd);
        return -EACCES;
    }
    return fd;
}

/* Is the file of the producer's edge? A file begins with its edge's name, and producers are
 * edge/worker/boot: without the check one edge could have another's events published as its own. */
static bool is_of(int fd, const char *producer)
{
    event_memory_head_t head;
    size_t len;

    if (pread(fd, &head, sizeof(head), 0) != (ssize_t)sizeof(head)
        || strncmp(head.magic, EVENT_MEMORY_MAGIC, sizeof(head.magic)))
        return false;
    len = strnlen(head.name, sizeof(head.name));
    if (!len || strncmp(producer, head.name, len) || producer[len] != '/')
        return false;
    producer = strchr(producer + len + 1, '/');
    return producer && !strchr(producer + 1, '/');
}

/* Read a number that another process may be writing: until two readings agree. */
static int read_number(int fd, int64_t at, uint64_t *ret_value)
{
    uint64_t value = 0;

    for (int i = 0; i < 100; i++) {
        if (pread(fd, ret_value, sizeof(*ret_value), at) != (ssize_t)sizeof(*ret_value))
            return -ESTALE;
        if (i && *ret_value == value)
            return 0;
        value = *ret_value;
    }
    return -ESTALE;
}

int memory_fetch(const char *dir, const batch_t *batch, zframe_t **ret_body)
{
    _cleanup_(zframe_destroy) zframe_t *body = NULL;
    uint64_t tail;
    int r, fd;

    if (batch->len < 0 || batch->len > BUS_BATCH_MAX || batch->body < 0 || batch->tail < 0)
        return -ESTALE;
    body = zframe_new(NULL, (size_t)batch->len);
    fd = open_memory(dir, batch->memory);
    if (fd < 0)
        return fd;
    if (!is_of(fd, batch->producer)) {
        close(fd);
        return -EPERM;
    }
    r = pread(fd, zframe_data(body), (size_t)batch->len, batch->body) == (ssize_t)batch->len
            ? 0
            : -ESTALE;
    if (!r)
        r = read_number(fd, batch->tail, &tail);
    close(fd);
    if (!r && tail > (uint64_t)batch->at)
        r = -ESTALE; /* the edge freed the body meanwhile, and may have overwritten it */
    if (r)
        return r;
    *ret_body = take(body);
    return 0;
}
