/* Whose a request or a connection is: hashes of its account and its client, by a key that this
 * worker alone knows. */
#include "services/edge/http/edge_share.h"
#include "services/edge/http/known.h"
#include "services/edge/worker/edge_conf.h"

#include <sodium.h>

static known_t  known;   /* hashes by this worker's key */


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
    return known_account(&known, worker_key(), account->data, account->len);
}


uint32_t
edge_share_account_of(edge_ctx_t *ctx)
{
    if (ctx->account == 0) {
        ctx->account = edge_share_account(&ctx->account_id);
    }
    return ctx->account;
}


uint32_t
edge_share_client(const struct sockaddr *client, uint32_t account)
{
    return known_client(&known, worker_key(), client, account);
}


ngx_uint_t
edge_share_is_of_many(const struct sockaddr *address)
{
    ngx_array_t  *trusted = edge_conf()->trusted;

    return trusted
           && ngx_cidr_match((struct sockaddr *) address, trusted) == NGX_OK;
}


uint32_t
edge_share_alone(ngx_http_request_t *r, const struct sockaddr *client)
{
    if (client == r->connection->sockaddr && edge_share_is_of_many(client)) {
        return 0;
    }
    return edge_share_client(client, 0);
}


uint32_t
edge_share_theirs(ngx_http_request_t *r, const struct sockaddr *client, uint32_t account)
{
    return edge_share_alone(r, client) ? edge_share_client(client, account) : 0;
}


uint32_t
edge_share_asker(ngx_http_request_t *r, const struct sockaddr *client, const char *account,
    size_t account_len)
{
    uint32_t   alone = edge_share_alone(r, client);
    ngx_str_t  text = { account_len, (u_char *) account };

    return alone ? alone : edge_share_client(client, edge_share_account(&text));
}
