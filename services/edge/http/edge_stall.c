/* While a client takes nothing of an answer, its upstream is not read. What the upstream has sent
 * stands in sockets meanwhile: in the edge's own, and, where the application is on this machine, up
 * to 4 MB in the application's (net.ipv4.tcp_wmem). A thousand such answers put the machine's TCP
 * under pressure, and everybody's connections get small buffers. So an answer whose client took
 * fewer than FLOW_BYTES in STALLED_MS (taken.h), while its upstream has more, has stalled. That is
 * a rate of its own: postern_client_take_min is for as long as send_timeout, and says nothing of
 * seconds. Of the FEW first ones that a client has nothing is said. Each other costs the client,
 * and the account, what the edge's own sockets hold of it when it stalls, HELD_BYTES at least, of
 * their portion of the memory for requests until it flows or ends.
 *
 * A proxy that speaks for many and names nobody is no client: its answers, of whoever they are,
 * cost the account alone, as long as that has something left for it.
 *
 * A client whose portion is used up can have new answers stall that were under way before. While
 * one of these cannot be charged, the client's oldest stalled answers end as soon as it has taken
 * that little for EARLY_MS, but never the last FEW: one slow download is not hurt by others of the
 * same address.
 *
 * An answer that waits is looked at once in LOOK_MS, and stands in the line of its client while it
 * has stalled. */
#include "services/edge/http/edge_stall.h"
#include "services/edge/http/edge_looks.h"
#include "services/edge/http/edge_pace.h"
#include "services/edge/http/edge_share.h"
#include "services/edge/http/edge_taken.h"

#include <sys/ioctl.h>

enum {
    FLOW_BYTES = 4 << 10,
    LOOK_MS = 1000,
    STALLED_MS = 3000,
    EARLY_MS = 5000,
    HELD_BYTES = 512 << 10,
    FEW = 8
};

/* Stalled answers of a client, the oldest first; clients whose hashes fall together have one. Of
 * who speaks for many there is none. */
typedef struct {
    ngx_queue_t  answers;   /* next NULL: there was none yet */
    ngx_uint_t   count;
} line_t;

static line_t       lines[PORTION_CLIENTS];
static ngx_queue_t  over;
static ngx_uint_t   over_count;


/* NULL: it is of somebody who speaks for many. */
static line_t *
line_of(const edge_stall_t *self)
{
    line_t  *line = &lines[self->client % PORTION_CLIENTS];

    if (self->client == 0) {
        return NULL;
    }
    if (line->answers.next == NULL) {
        ngx_queue_init(&line->answers);
    }
    return line;
}


static void
leave_over(edge_stall_t *self)
{
    if (self->over.next) {
        ngx_queue_remove(&self->over);
        self->over.next = NULL;
        over_count--;
    }
}


/* What the client has by the last measurement is enough for now. */
static void
begin_time(edge_ctx_t *ctx)
{
    ctx->stall.since = ngx_current_msec;
    ctx->stall.taken = taken_bytes(&ctx->pace.taken);
}


static void
leave_line(edge_stall_t *self)
{
    line_t  *line = line_of(self);

    if (!self->stalled) {
        return;
    }
    if (line) {
        ngx_queue_remove(&self->link);
        line->count--;
    }
    self->stalled = 0;
    leave_over(self);
    edge_share_let_go(&self->held);
}


void
edge_stall_end(edge_ctx_t *ctx)
{
    if (look_is_watched(&ctx->stall.look)) {
        looks_forget(&ctx->stall.look);
        leave_line(&ctx->stall);
    }
}


/* Does the upstream have more, or may it have? Else what there is stands in the edge's own memory,
 * which is charged by other means. */
static ngx_uint_t
has_more(const ngx_http_request_t *r)
{
    return r->upstream && r->upstream->peer.connection && r->upstream->length != 0;
}


/* Bytes of it that stand in the edge's socket to the client, by the last measurement, and in the
 * one to the upstream. */
static size_t
held_bytes(const edge_ctx_t *ctx)
{
    int                        unread = 0;
    const ngx_http_request_t  *r = ctx->pace.request;

    if (has_more(r)) {
        (void) ioctl(r->upstream->peer.connection->fd, FIONREAD, &unread);
    }
    return (size_t) ngx_max(unread, 0) + (size_t) ctx->pace.taken.own;
}


static ngx_uint_t
flows(edge_ctx_t *ctx)
{
    return edge_taken_measure(ctx) - ctx->stall.taken >= FLOW_BYTES;
}


static ngx_uint_t
is_older(const edge_ctx_t *ctx, ngx_msec_t ms)
{
    return (ngx_msec_int_t) (ngx_current_msec - ctx->stall.since) >= (ngx_msec_int_t) ms;
}


static void
charge_answer(edge_ctx_t *ctx)
{
    size_t         bytes = held_bytes(ctx);
    edge_stall_t  *self = &ctx->stall;

    if (edge_share_hold(ctx, &self->held, ngx_max(bytes, HELD_BYTES)) || self->client == 0) {
        leave_over(self);
        return;
    }
    if (self->over.next == NULL) {
        ngx_queue_insert_tail(&over, &self->over);
        over_count++;
    }
}


static void
stall(edge_ctx_t *ctx)
{
    line_t        *line;
    edge_stall_t  *self = &ctx->stall;

    self->client = ctx->portion.client;
    self->stalled = 1;
    line = line_of(self);
    if (line) {
        ngx_queue_insert_tail(&line->answers, &self->link);
        line->count++;
    }
    if (line == NULL || line->count > FEW) {
        charge_answer(ctx);
    }
}


static void
flow_again(edge_ctx_t *ctx)
{
    leave_line(&ctx->stall);
    begin_time(ctx);
}


static void
look_at(look_t *look)
{
    edge_ctx_t  *ctx = (edge_ctx_t *) ((char *) look - offsetof(edge_ctx_t, stall.look));

    if (flows(ctx)) {
        flow_again(ctx);
    } else if (!ctx->stall.stalled && is_older(ctx, STALLED_MS)
               && has_more(ctx->pace.request))
    {
        stall(ctx);
    }
}


/* The oldest of a client that is over its portion ends, if it takes next to nothing. That may end
 * others, too. */
static void
end_oldest(line_t *line)
{
    edge_ctx_t  *ctx;

    if (line->count <= FEW) {
        return;
    }
    ctx = ngx_queue_data(ngx_queue_head(&line->answers), edge_ctx_t, stall.link);
    if (!is_older(ctx, EARLY_MS)) {
        return;
    }
    if (flows(ctx)) {
        flow_again(ctx);
    } else {
        edge_pace_cut(ctx->pace.request, ctx, FLOW_BYTES, EARLY_MS);
    }
}


/* Each is charged as soon as there is room for it; until then another of its client may end. Are
 * there any left? */
static ngx_uint_t
look_at_over(void)
{
    edge_ctx_t   *ctx;
    ngx_uint_t    left = over_count;
    ngx_queue_t  *link;

    while (left-- && !ngx_queue_empty(&over)) {
        link = ngx_queue_head(&over);
        ctx = ngx_queue_data(link, edge_ctx_t, stall.over);
        ngx_queue_remove(link);
        ngx_queue_insert_tail(&over, link);
        charge_answer(ctx);
        if (ctx->stall.over.next) {
            end_oldest(line_of(&ctx->stall));
        }
    }
    return !ngx_queue_empty(&over);
}


static edge_looks_t  looks = { .look_at = look_at, .rest = look_at_over };


void
edge_stall_sent(edge_ctx_t *ctx, ngx_uint_t waits)
{
    if (!waits) {
        edge_stall_end(ctx);
    } else if (!look_is_watched(&ctx->stall.look) && ctx->portion.amount) {
        begin_time(ctx);
        edge_looks_watch(&looks, &ctx->stall.look);
    }
}


void
edge_stall_start(ngx_cycle_t *cycle)
{
    ngx_queue_init(&over);
    edge_looks_start(&looks, cycle, LOOK_MS);
}
