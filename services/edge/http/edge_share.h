/* Shares of this worker's memory and connections: whose a request is, and who has what. */
#pragma once

#include "services/edge/http/edge_ctx.h"

/* Hash of an account's id. */
uint32_t edge_share_account(const ngx_str_t *account);
/* Hash of a client of that account: its address, of IPv6 the network of a customer (/64). Never
 * 0. */
uint32_t edge_share_client(const struct sockaddr *client, uint32_t account);

/* Before a request gets a connection to an upstream. 0: few are free, and its account or its client
 * has its share of them; counted. */
ngx_uint_t edge_share_take(edge_ctx_t *ctx);
/* The request has ended. */
void edge_share_give(edge_ctx_t *ctx);
