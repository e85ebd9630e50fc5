#include "services/edge/http/edge_share.h"
#include "services/edge/worker/edge_vitals.h"

#include <sodium.h>

static share_t  upstreams;   /* of this worker */


static const unsigned char *
worker_key(void)
{
    static ngx_uint_t     is_made;
    static unsigned char  key[SHARE_KEY_BYTES];

    if (!is_made) {
        randombytes_buf(key, sizeof(key));
        is_made = 1;
    }
    return key;
}


uint32_t
edge_share_account(const ngx_str_t *account)
{
    return share_hash(worker_key(), account->data, account->len, 0);
}


uint32_t
edge_share_client(const struct sockaddr *client, uint32_t account)
{
    const void  *address = client->sa_data;
    size_t       len = 1;   /* no address: all of these are one */

    if (client->sa_family == AF_INET) {
        address = &((const struct sockaddr_in *) client)->sin_addr;
        len = 4;
#if (NGX_HAVE_INET6)
    } else if (client->sa_family == AF_INET6) {
        address = &((const struct sockaddr_in6 *) client)->sin6_addr;
        len = IN6_IS_ADDR_V4MAPPED((const struct in6_addr *) address) ? 16 : 8;
#endif
    }
    return share_hash(worker_key(), address, len, account);
}


ngx_uint_t
edge_share_take(edge_ctx_t *ctx)
{
    share_part_t  *part = &ctx->share;

    if (!part->taken) {
        part->account = edge_share_account(&ctx->account_id);
        part->client = edge_share_client(ctx->client, part->account);
    }
    if (share_take(&upstreams, part, ngx_cycle->connection_n, ngx_cycle->free_connection_n)) {
        return 1;
    }
    edge_vitals(ngx_worker)->over_share++;
    return 0;
}


void
edge_share_give(edge_ctx_t *ctx)
{
    share_give(&upstreams, &ctx->share);
}
