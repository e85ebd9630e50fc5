#include "services/edge/modules/edge_held.h"
#include "services/edge/http/edge_share.h"

enum {
    HELD_MAX = 64 << 20,   /* of one worker */
    LITTLE = 4 << 10,      /* what is read at once by who has its portion of that */
    FRAME = 16             /* more than what is read comes to, at most: a frame's head */
};

static portions_t  held;   /* in this worker */


size_t
edge_held_room(const edge_ctx_t *ctx, size_t max)
{
    portion_t  part = {0};

    if (!edge_share_lend(&held, HELD_MAX, ctx, &part, max + FRAME)) {
        return ngx_min(max, LITTLE);
    }
    portion_give(&held, &part);
    return max;
}


/* Sends from *pos on, which moves. */
static ngx_int_t
send_from(edge_held_t *self, ngx_connection_t *c, u_char **pos, u_char *last)
{
    ssize_t  n;

    while (*pos < last) {
        if (!c->write->ready) {
            return NGX_AGAIN;
        }
        n = c->send(c, *pos, last - *pos);
        if (n == NGX_AGAIN || n == 0) {
            return NGX_AGAIN;
        }
        if (n < 0) {
            return NGX_ERROR;
        }
        *pos += n;
        self->moved = 1;
    }
    return NGX_OK;
}


ngx_int_t
edge_held_send(edge_held_t *self, const edge_ctx_t *ctx, ngx_connection_t *c, u_char *bytes,
    size_t len)
{
    size_t      left;
    u_char     *pos = bytes;
    ngx_int_t   rc = send_from(self, c, &pos, bytes + len);

    if (rc != NGX_AGAIN) {
        return rc;
    }
    left = bytes + len - pos;
    self->start = ngx_alloc(left, c->log);
    if (self->start == NULL) {
        return NGX_ERROR;
    }
    self->pos = self->start;
    self->last = ngx_cpymem(self->start, pos, left);
    (void) edge_share_lend(&held, HELD_MAX, ctx, &self->portion, left);
    return NGX_AGAIN;
}


ngx_int_t
edge_held_flush(edge_held_t *self, ngx_connection_t *c)
{
    ngx_int_t  rc;

    if (self->start == NULL) {
        return NGX_OK;
    }
    rc = send_from(self, c, &self->pos, self->last);
    if (rc == NGX_OK) {
        edge_held_drop(self);
    }
    return rc;
}


size_t
edge_held_left(const edge_held_t *self)
{
    return self->start ? (size_t) (self->last - self->pos) : 0;
}


void
edge_held_drop(edge_held_t *self)
{
    if (self->start) {
        portion_give(&held, &self->portion);
        ngx_free(self->start);
        self->start = NULL;
    }
}


/* A write that TLS could not finish is repeated from where the bytes are held: by itself OpenSSL
 * insists on the same address. And it says how far it came: by itself a write of several records
 * is all or nothing. */
void
edge_held_prepare(ngx_connection_t *c)
{
    if (c->ssl) {
        SSL_set_mode(c->ssl->connection,
                     SSL_MODE_ENABLE_PARTIAL_WRITE
                     | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    }
}
