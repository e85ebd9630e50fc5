#include "services/edge/http/edge_share.h"
#include "services/edge/http/edge_answer_memory.h"
#include "services/edge/http/edge_body_memory.h"
#include "services/edge/http/edge_clients.h"
#include "services/edge/http/edge_head_memory.h"
#include "services/edge/http/edge_heads.h"
#include "services/edge/worker/edge_conf.h"
#include "services/edge/worker/edge_vitals.h"
#include "common/base/err.h"

enum {
    REQUEST_BYTES = 20 << 10,   /* of a request without its head and body: its pool, and buffers */
    REQUEST_MOST = 3 << 19,     /* of one with the largest head and body at the API's host */
    PORTION_PART = 10,          /* of all, at most: what a portion is made large enough for */
    HELD_PART = 4,              /* of an account's percentage, for answers that stalled */
    ANSWERS_MAX = 64,           /* of requests that were refused, on their way to clients */
    HEADS_MAX = 64,             /* that were refused, and are still to come to their end */
    LOG_EVERY_S = 60
};

/* of this worker */
static share_t     connections;
static portions_t  memory;
static slots_t    answers, heads;


/* ---- connections ---- */

ngx_uint_t
edge_share_may_enter(uint32_t client)
{
    return share_allows(&connections, client, ngx_cycle->connection_n,
                        ngx_cycle->free_connection_n + 1, edge_conf()->client_portion);
}


ngx_uint_t
edge_share_lets_nobody_in(uint32_t client)
{
    return share_lets_nobody_in(&connections, client, ngx_cycle->connection_n,
                                ngx_cycle->free_connection_n + 1, edge_conf()->client_portion);
}


share_whose_t
edge_share_enter(uint32_t client)
{
    return share_enter(&connections, client, ngx_cycle->connection_n);
}


void
edge_share_leave(const share_whose_t *whose)
{
    share_leave(&connections, whose);
}


static ngx_uint_t
take_connection(share_part_t *part)
{
    size_t  all = ngx_cycle->connection_n, free = ngx_cycle->free_connection_n;

    return free > share_reserve(all)
           && share_take(&connections, part, all, free, edge_conf()->client_portion);
}


/* One line a minute while requests are refused, and none where none is. */
static void
note_over_share(ngx_http_request_t *r)
{
    uint64_t       *refused = &edge_vitals(ngx_worker)->over_share;
    static time_t   said;

    (*refused)++;
    if (said && ngx_time() - said < LOG_EVERY_S) {
        return;
    }
    said = ngx_time();
    ngx_log_error(NGX_LOG_WARN, r->connection->log, 0,
                  "postern: a request is refused: its client, its network or account has its "
                  "portion of the connections, of which %ui are free (number %uL; at most one "
                  "line a minute)",
                  ngx_cycle->free_connection_n, *refused);
}


/* A cleanup of the client's connection that does nothing: it finds what stands there. */
static void
keep_requests(void *data)
{
    (void) data;
}


/* How many requests of the client's connection have a connection to an upstream. NULL: no
 * memory. */
static uint32_t *
requests_of(ngx_http_request_t *r)
{
    ngx_connection_t    *c = r->connection;
    ngx_pool_cleanup_t  *cln;

#if (NGX_HTTP_V2)
    if (r->stream) {
        c = r->stream->connection->connection;
    }
#endif
    for (cln = c->pool->cleanup; cln; cln = cln->next) {
        if (cln->handler == keep_requests) {
            return cln->data;
        }
    }
    cln = ngx_pool_cleanup_add(c->pool, sizeof(uint32_t));
    if (cln == NULL) {
        return NULL;
    }
    cln->handler = keep_requests;
    *(uint32_t *) cln->data = 0;
    return cln->data;
}


ngx_uint_t
edge_share_take(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    share_part_t  *part = &ctx->share;

    if (!part->taken) {
        part->account = edge_share_account_of(ctx);
        part->client = edge_share_theirs(r, ctx->client, part->account);
        part->alone = edge_share_alone(r, ctx->client);
        part->requests = requests_of(r);
        if (part->requests == NULL) {
            return 0;
        }
    }
    if (!share_may_ask(&connections, part->alone, ngx_cycle->connection_n,
                       ngx_cycle->free_connection_n, edge_conf()->client_portion))
    {
        edge_clients_give_up_idle(part->alone);
    }
    if (take_connection(part)) {
        return 1;
    }
    note_over_share(r);
    return 0;
}


/* ---- memory of requests ---- */

static void
note_taken(void)
{
    edge_vitals(ngx_worker)->request_bytes = memory.taken;
}


static void
note_crowded(ngx_http_request_t *r, const char *whose)
{
    uint64_t       *crowded = &edge_vitals(ngx_worker)->crowded;
    static time_t   said;

    (*crowded)++;
    if (said && ngx_time() - said < LOG_EVERY_S) {
        return;
    }
    said = ngx_time();
    ngx_log_error(NGX_LOG_WARN, r->connection->log, 0,
                  "postern: a request is refused: its %s has its portion of the "
                  "memory for requests, of which %uz bytes are taken (number %uL; at "
                  "most one line a minute)", whose, memory.taken, *crowded);
}


/* What one request may need; of an account's host that is with its answer's head. */
static size_t
largest_request(const edge_conf_t *conf)
{
    size_t  with_answer = REQUEST_MOST / 2 + edge_answer_memory_most(conf->response_header_size);

    return ngx_min(ngx_max(REQUEST_MOST, with_answer), conf->request_memory / PORTION_PART);
}


/* Of the memory for requests: no portion is so small that a request never fits. */
static const portion_percents_t *
memory_percents(void)
{
    edge_conf_t                *conf = edge_conf();
    static portion_percents_t   of_memory;

    if (of_memory.client == 0) {
        of_memory = portion_percents(conf->request_memory, largest_request(conf),
                                     conf->client_portion, conf->account_portion);
    }
    return &of_memory;
}


static ngx_uint_t
charge_client(ngx_http_request_t *r, portion_t *part, const struct sockaddr *client,
    size_t bytes)
{
    if (portion_take(&memory, part, edge_conf()->request_memory, memory_percents()->client,
                     edge_share_alone(r, client), bytes))
    {
        note_taken();
        return 1;
    }
    note_crowded(r, "client, or the network above,");
    return 0;
}


static const struct sockaddr *
client_of(ngx_http_request_t *r, const edge_ctx_t *ctx)
{
    return ctx->client ? ctx->client : r->connection->sockaddr;
}


ngx_uint_t
edge_share_charge(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    size_t  body;

    if (!ctx->charged) {
        edge_heads_give(r);
        ctx->charged = 1;
        body = edge_body_memory(r);
        ctx->crowded = !charge_client(r, &ctx->portion, client_of(r, ctx),
                                      REQUEST_BYTES + edge_head_memory(r) + body);
        ctx->body.memory = ctx->crowded ? 0 : body;
    }
    return !ctx->crowded;
}


void
edge_share_keep_body(edge_ctx_t *ctx, size_t bytes)
{
    if (ctx->body.memory <= bytes) {
        return;
    }
    portion_keep(&memory, &ctx->portion, ctx->portion.amount - ctx->body.memory + bytes);
    ctx->body.memory = bytes;
    note_taken();
}


static portion_account_t
account_of(uint32_t account, uint32_t theirs)
{
    return (portion_account_t) {
        .account = account, .theirs = theirs, .percent = memory_percents()->account,
        .client_percent = memory_percents()->theirs
    };
}


portion_account_t
edge_share_same(const portion_t *part)
{
    edge_conf_t  *conf = edge_conf();

    return (portion_account_t) {
        .account = part->account, .theirs = part->theirs, .percent = conf->account_portion,
        .client_percent = conf->client_portion
    };
}


/* Charge what the request's client has to the account, too. */
static ngx_uint_t
charge_account(ngx_http_request_t *r, edge_ctx_t *ctx, portion_t *part, uint32_t account)
{
    portion_account_t  to;

    to = account_of(account, edge_share_theirs(r, client_of(r, ctx), account));
    return portion_charge_account(&memory, part, edge_conf()->request_memory, &to);
}


ngx_uint_t
edge_share_charge_account(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    if (charge_account(r, ctx, &ctx->portion, edge_share_account_of(ctx))) {
        return 1;
    }
    ctx->crowded = 1;
    note_crowded(r, "account, or its client of that,");
    return 0;
}


/* Of both, or of neither. account 0: of the client alone. */
static ngx_uint_t
charge_both(ngx_http_request_t *r, edge_ctx_t *ctx, portion_t *part, size_t bytes,
    uint32_t account)
{
    if (!charge_client(r, part, client_of(r, ctx), bytes)) {
        return 0;
    }
    if (account == 0 || charge_account(r, ctx, part, account)) {
        return 1;
    }
    portion_give(&memory, part);
    note_taken();
    note_crowded(r, "account, or its client of that,");
    return 0;
}


ngx_uint_t
edge_share_charge_body(ngx_http_request_t *r, edge_ctx_t *ctx, size_t bytes,
    const route_t *route)
{
    uint32_t   account = 0;
    ngx_str_t  id;

    if (route) {
        id.len = route->account_id_len;
        id.data = (u_char *) route->account_id;
        account = edge_share_account(&id);
    }
    if (!charge_both(r, ctx, &ctx->body_part, bytes, account)) {
        return 0;
    }
    edge_share_keep_body(ctx, 0);
    return 1;
}


ngx_uint_t
edge_share_charge_answer(ngx_http_request_t *r, edge_ctx_t *ctx, size_t bytes)
{
    portion_give(&memory, &ctx->answer_part);
    note_taken();
    if (bytes == 0
        || charge_both(r, ctx, &ctx->answer_part, bytes, edge_share_account_of(ctx)))
    {
        return 1;
    }
    ctx->crowded = 1;
    ctx->error = ERR_EDGE_CROWDED;
    return 0;
}


static void
give_plain(void *data)
{
    portion_give(&memory, data);
    note_taken();
}


ngx_uint_t
edge_share_charge_plain(ngx_http_request_t *r)
{
    portion_t           *part;
    ngx_pool_cleanup_t  *cln;

    edge_heads_give(r);
    for (cln = r->pool->cleanup; cln; cln = cln->next) {
        if (cln->handler == give_plain) {
            return ((portion_t *) cln->data)->amount > 0;
        }
    }
    cln = ngx_pool_cleanup_add(r->pool, sizeof(portion_t));
    if (cln == NULL) {
        return 0;
    }
    part = cln->data;
    ngx_memzero(part, sizeof(*part));
    cln->handler = give_plain;
    return charge_client(r, part, r->connection->sockaddr,
                         REQUEST_BYTES + edge_head_memory(r) + edge_body_memory(r));
}


ngx_uint_t
edge_share_charge_head(ngx_http_request_t *r, portion_t *portion)
{
    portion_give(&memory, portion);
    return charge_client(r, portion, r->connection->sockaddr,
                         REQUEST_BYTES + edge_head_memory_so_far(r));
}


void
edge_share_give_head(portion_t *portion)
{
    portion_give(&memory, portion);
    note_taken();
}


/* ---- answers that wait for their clients ---- */

ngx_uint_t
edge_share_hold(const edge_ctx_t *ctx, portion_t *part, size_t bytes)
{
    size_t             all = edge_conf()->request_memory;
    portion_account_t  to = account_of(ctx->portion.account, ctx->portion.theirs);

    if (!portion_take(&memory, part, all, memory_percents()->client, ctx->portion.client, bytes)) {
        return 0;
    }
    if (to.account) {
        to.percent /= HELD_PART;
        to.of_left = 1;
        (void) portion_charge_account(&memory, part, all, &to);
    }
    if (part->client == 0 && part->account == 0) {
        portion_give(&memory, part);   /* what is nobody's has no bound */
        return 0;
    }
    note_taken();
    return 1;
}


void
edge_share_let_go(portion_t *part)
{
    portion_give(&memory, part);
    note_taken();
}


ngx_uint_t
edge_share_lend(portions_t *of, size_t all, const edge_ctx_t *ctx, portion_t *part, size_t bytes)
{
    portion_account_t  to = edge_share_same(&ctx->portion);

    if (!portion_take(of, part, all, edge_conf()->client_portion, ctx->portion.client, bytes)) {
        return 0;
    }
    if (to.account && !portion_charge_account(of, part, all, &to)) {
        portion_give(of, part);
        return 0;
    }
    return 1;
}


/* ---- answers to those that are refused ---- */

/* On the connection what is sent now need not wait for the client. */
static ngx_uint_t
take_slot(slots_t *slots, slots_part_t *part, size_t all, const ngx_connection_t *c,
    uint32_t client)
{
    return part->taken
           || (c->write->ready && !c->error
               && slots_take(slots, part, all, edge_conf()->client_portion, client));
}


ngx_uint_t
edge_share_keep_head(const ngx_connection_t *c, slots_part_t *slot)
{
    uint32_t  client = edge_share_is_of_many(c->sockaddr) ? 0 : edge_share_client(c->sockaddr, 0);

    return take_slot(&heads, slot, HEADS_MAX, c, client);
}


void
edge_share_let_head_go(slots_part_t *slot)
{
    slots_give(&heads, slot);
}


ngx_uint_t
edge_share_may_answer(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    ngx_connection_t  *c = r->connection;

#if (NGX_HTTP_V2)
    if (r->stream) {
        c = r->stream->connection->connection;
    }
#endif
    return take_slot(&answers, &ctx->bare, ANSWERS_MAX, c,
                      edge_share_alone(r, client_of(r, ctx)));
}


void
edge_share_note_answered(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    if (!r->connection->buffered) {
        slots_give(&answers, &ctx->bare);
    }
}


void
edge_share_give(edge_ctx_t *ctx)
{
    share_give(&connections, &ctx->share);
    portion_give(&memory, &ctx->portion);
    portion_give(&memory, &ctx->body_part);
    portion_give(&memory, &ctx->answer_part);
    note_taken();
    slots_give(&answers, &ctx->bare);
}
