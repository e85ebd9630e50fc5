/* A packet is a byte that says whether more of its message follows, and a part of the message,
 * which frames.h describes. */
#include "services/edge/control/edge_link.h"
#include "common/base/invariant.h"
#include "common/codec/pack.h"

enum { PART_MAX = 60000, MESSAGE_MAX = PACK_BYTES_MAX + 4096 };


static ngx_int_t
send_packet(link_t *link, struct iovec *iov, ngx_uint_t n, int flags)
{
    ssize_t        sent;
    struct msghdr  msg;

    ngx_memzero(&msg, sizeof(msg));
    msg.msg_iov = iov;
    msg.msg_iovlen = n;
    do {
        sent = sendmsg(link->fd, &msg, flags | MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    if (sent >= 0) {
        return NGX_OK;
    }
    return errno == EAGAIN ? NGX_AGAIN : NGX_ERROR;
}


static ngx_int_t
send_parts(link_t *link, const struct iovec *iov, ngx_uint_t n, size_t total)
{
    u_char        *whole, *last, more;
    size_t         at, len;
    ngx_int_t      rc = NGX_OK;
    ngx_uint_t     i;
    struct iovec   part[2];

    whole = malloc(total);
    if (whole == NULL) {
        return NGX_ERROR;
    }
    last = whole;
    for (i = 0; i < n; i++) {
        last = ngx_cpymem(last, iov[i].iov_base, iov[i].iov_len);
    }
    INVARIANT((size_t) (last - whole) == total);
    for (at = 0; at < total && rc == NGX_OK; at += len) {
        len = ngx_min(total - at, (size_t) PART_MAX);
        more = at + len < total;
        part[0].iov_base = &more;
        part[0].iov_len = 1;
        part[1].iov_base = whole + at;
        part[1].iov_len = len;
        rc = send_packet(link, part, 2, 0);
    }
    free(whole);
    return rc;
}


ngx_int_t
link_send(link_t *link, link_kind_t kind, const ngx_str_t *frames, ngx_uint_t n,
    int flags)
{
    frames_head_t  head;
    u_char         more = 0;
    size_t         total = sizeof(head);
    ngx_uint_t     i;
    struct iovec   iov[2 + LINK_FRAMES_MAX];

    if (link->fd < 0 || n > LINK_FRAMES_MAX) {
        return NGX_ERROR;
    }
    ngx_memzero(&head, sizeof(head));
    head.kind = kind;
    head.n = n;
    iov[0].iov_base = &more;
    iov[0].iov_len = 1;
    iov[1].iov_base = &head;
    iov[1].iov_len = sizeof(head);
    for (i = 0; i < n; i++) {
        if (frames[i].len > PACK_BYTES_MAX) {
            return NGX_ERROR;
        }
        head.lens[i] = frames[i].len;
        total += frames[i].len;
        iov[2 + i].iov_base = frames[i].data;
        iov[2 + i].iov_len = frames[i].len;
    }
    if (total <= PART_MAX) {
        return send_packet(link, iov, 2 + n, flags);
    }
    if (total > MESSAGE_MAX || flags & MSG_DONTWAIT) {
        return NGX_ERROR;
    }
    return send_parts(link, iov + 1, 1 + n, total);
}


static ngx_int_t
make_room(link_t *link)
{
    size_t   size = link->used + PART_MAX;
    u_char  *grown;

    if (link->size >= size) {
        return NGX_OK;
    }
    if (size > MESSAGE_MAX + PART_MAX) {
        return NGX_ERROR;
    }
    size = ngx_max(size, 2 * link->size);
    grown = realloc(link->buffer, size);
    if (grown == NULL) {
        return NGX_ERROR;
    }
    link->buffer = grown;
    link->size = size;
    INVARIANT(link->size - link->used >= PART_MAX);
    return NGX_OK;
}


static ngx_int_t
read_frames(link_t *link, link_message_t *message)
{
    frame_t        frames[FRAMES_MAX];
    ngx_uint_t     i;
    frames_head_t  head;

    if (!frames_read(link->buffer, link->used, &head, frames)) {
        return NGX_ERROR;
    }
    message->kind = head.kind;
    message->n = head.n;
    for (i = 0; i < head.n; i++) {
        message->frames[i].data = frames[i].data;
        message->frames[i].len = frames[i].len;
    }
    return NGX_OK;
}


ngx_int_t
link_receive(link_t *link, link_message_t *message, int flags)
{
    u_char         more;
    ssize_t        n;
    ngx_int_t      rc;
    struct iovec   iov[2];
    struct msghdr  msg;

    for ( ;; ) {
        if (link->fd < 0 || make_room(link) != NGX_OK) {
            return NGX_ERROR;
        }
        iov[0].iov_base = &more;
        iov[0].iov_len = 1;
        iov[1].iov_base = link->buffer + link->used;
        iov[1].iov_len = PART_MAX;
        ngx_memzero(&msg, sizeof(msg));
        msg.msg_iov = iov;
        msg.msg_iovlen = 2;
        n = recvmsg(link->fd, &msg, flags);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && errno == EAGAIN) {
            return NGX_AGAIN;   /* what came of a message is kept */
        }
        if (n <= 0 || msg.msg_flags & MSG_TRUNC) {
            return NGX_ERROR;
        }
        link->used += n - 1;
        if (!more) {
            rc = read_frames(link, message);
            link->used = 0;
            return rc;
        }
    }
}


ngx_int_t
link_watch(link_t *link, int fd, ngx_event_handler_pt handler, ngx_log_t *log)
{
    ngx_connection_t  *connection = ngx_get_connection(fd, log);

    link->fd = fd;
    link->connection = connection;
    if (connection) {
        connection->read->handler = handler;
        connection->read->log = log;
    }
    if (connection == NULL
        || ngx_add_event(connection->read, NGX_READ_EVENT, NGX_LEVEL_EVENT)
           != NGX_OK)
    {
        link_close(link);
        return NGX_ERROR;
    }
    return NGX_OK;
}


void
link_close(link_t *link)
{
    if (link->connection) {
        ngx_del_event(link->connection->read, NGX_READ_EVENT, 0);
        ngx_free_connection(link->connection);
        link->connection->fd = (ngx_socket_t) -1;   /* closed here, not by nginx */
    }
    if (link->fd >= 0) {
        close(link->fd);
    }
    free(link->buffer);
    ngx_memzero(link, sizeof(*link));
    link->fd = -1;
}
