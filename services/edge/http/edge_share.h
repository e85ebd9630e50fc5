/* Shares of this worker's memory and connections: whose a request is, and who has what. */
#pragma once

#include "services/edge/http/edge_ctx.h"

/* Hash of an account's id. */
uint32_t edge_share_account(const ngx_str_t *account);
/* The same of the request's account, made once. */
uint32_t edge_share_account_of(edge_ctx_t *ctx);
/* Hash of a client of that account, or of none (0): share_client of share.h. Never 0. */
uint32_t edge_share_client(const struct sockaddr *client, uint32_t account);

/* The same, whatever the account, of a request's client; 0: it is a proxy that speaks for many, and
 * has no portion. */
uint32_t edge_share_alone(ngx_http_request_t *r, const struct sockaddr *client);
/* Hash of a request's client at an account; 0: it is a proxy that speaks for many. */
uint32_t edge_share_theirs(ngx_http_request_t *r, const struct sockaddr *client,
                           uint32_t account);
/* The account of what a request has of the memory for requests, and its client there, for something
 * else of which they have portions. */
portion_account_t edge_share_same(const portion_t *part);
/* The same of a request's client that has something asked for at an account's host. It is the same
 * one at each account's; a proxy that speaks for many is another one at each. Never 0. */
uint32_t edge_share_asker(ngx_http_request_t *r, const struct sockaddr *client,
                          const char *account, size_t account_len);

/* Before a request gets a connection to an upstream. 0: few are free, and its account or its client
 * has its share of them, or its client its portion of all connections; counted. */
ngx_uint_t edge_share_take(ngx_http_request_t *r, edge_ctx_t *ctx);

/* May a client, by its hash for no account, have one connection more, which is none of the free
 * ones any more? */
ngx_uint_t edge_share_may_enter(uint32_t client);
/* It may not: is that so because so few are free that no client is let in, and it has none? */
ngx_uint_t edge_share_lets_nobody_in(uint32_t client);
/* A connection of that client was accepted, or is closed. */
share_whose_t edge_share_enter(uint32_t client);
void edge_share_leave(const share_whose_t *whose);

/* Memory of requests under way (postern_request_memory), from the moment when a request's head is
 * read until its memory is freed, whether or not it goes anywhere; the buffer of a body is charged
 * before any of it is there. 0: its client, or ctx's account,
 * has its portion of it: the request gets ERR_EDGE_CROWDED; counted. A request that has been
 * charged, or was refused, is not asked again. */
ngx_uint_t edge_share_charge(ngx_http_request_t *r, edge_ctx_t *ctx);
ngx_uint_t edge_share_charge_account(ngx_http_request_t *r, edge_ctx_t *ctx);
/* The buffer of its body, for which it was charged, takes no more than so many bytes: give the rest
 * back. */
void edge_share_keep_body(edge_ctx_t *ctx, size_t bytes);
/* The same of so many bytes of its body that the edge keeps, of its client and of the account of
 * route (NULL: of none), in place of its buffer. Once for a request. */
ngx_uint_t edge_share_charge_body(ngx_http_request_t *r, edge_ctx_t *ctx, size_t bytes,
                                  const route_t *route);
/* The same of so many bytes of its answer's head, in place of what it was charged for that before;
 * 0: nothing of it any more. Its client, or its account, has its portion: the request gets
 * ERR_EDGE_CROWDED. */
ngx_uint_t edge_share_charge_answer(ngx_http_request_t *r, edge_ctx_t *ctx, size_t bytes);
/* The same of a request that has no context, of a server that is not for accounts' hosts. */
ngx_uint_t edge_share_charge_plain(ngx_http_request_t *r);
/* Memory of a head that is not whole yet: what it takes by now, in place of what *portion has of
 * it. 0: its client has its portion, and *portion is zero; counted. */
ngx_uint_t edge_share_charge_head(ngx_http_request_t *r, portion_t *portion);
void edge_share_give_head(portion_t *portion);
/* The same of what sockets hold for a request beside it, so many bytes: of an answer that has
 * stalled (edge_stall.c), or of what an upstream has not taken (edge_unsent_left.c). 0: its client
 * has its portion, and *part is zero. An account is charged as long as it has no more than a fourth
 * of its percentage allows: the rest is for requests. It alone is for who speaks for many, and has
 * no portion: 0, where it has that. */
ngx_uint_t edge_share_hold(const edge_ctx_t *ctx, portion_t *part, size_t bytes);
void edge_share_let_go(portion_t *part);
/* Bytes of something else of which this worker has `all` and somebody `of` it, on behalf of the
 * client and the account that have the request's portion of the memory for requests. 0: one of
 * them has its portion, and *part is unchanged, which is zero. */
ngx_uint_t edge_share_lend(portions_t *of, size_t all, const edge_ctx_t *ctx, portion_t *part,
                           size_t bytes);
/* May a request that was refused so have a head for its answer? 0: that would have to wait, for a
 * socket that takes nothing or together with those of many others, or of others of its client: it
 * is closed. */
ngx_uint_t edge_share_may_answer(ngx_http_request_t *r, edge_ctx_t *ctx);
/* Its head was passed on: where none of it waits for the client, another may have one. */
void edge_share_note_answered(ngx_http_request_t *r, edge_ctx_t *ctx);
/* May a connection of HTTP/2 go on with a head that was refused, of which nginx keeps what has come
 * until the rest has? 0: its socket takes nothing, or too many others do so, or of its client. A
 * slot that is taken already stays so. */
ngx_uint_t edge_share_keep_head(const ngx_connection_t *c, slots_part_t *slot);
/* The head has come to its end, or the connection to its own: the slot is given back, if it was
 * taken. */
void edge_share_let_head_go(slots_part_t *slot);

/* The request's memory is freed. */
void edge_share_give(edge_ctx_t *ctx);

/* Is this the address of a trusted proxy? It speaks for many clients. */
ngx_uint_t edge_share_is_of_many(const struct sockaddr *address);
