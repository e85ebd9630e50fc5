/* Of an upstream's head there are, until its request ends: a copy of it, with the names once more
 * in lower case (of HTTP/2 what HPACK makes of it), and nginx's own copy of the status line;
 * nginx's entry for each field in the list of what came, and in that of what goes to the client;
 * what is written for the client, of HTTP/2 also room for the largest field while that is coded. So
 * a head of 60 KB in 900 fields takes four times its length, one of a single field three times, one
 * of 4 KB in a thousand fields 30 times, and a reason phrase of 60 KB, with the buffer in which it
 * came, four times its length. */
#include "services/edge/http/edge_answer_memory.h"
#include "services/edge/http/edge_share.h"

enum {
    ORDINARY = 16 << 10,   /* of 4 KB in 60 fields: it is not charged beside its request */
    INTERIM_MOST = 16 << 10,   /* edge_interim.c's buffer: of 8 KB in as many fields as may be */
    LISTS = 2,             /* that have an entry for each field */
    HPACK_FIELD = 9        /* around name and value */
};


static size_t
memory_of(const ngx_http_request_t *r, size_t kept, size_t sent, size_t fields, size_t largest)
{
    size_t  bytes = kept + sent + fields * LISTS * sizeof(ngx_table_elt_t);

#if (NGX_HTTP_V2)
    if (r->stream) {
        bytes += fields * HPACK_FIELD + largest;
    }
#else
    (void) r;
    (void) largest;
#endif
    return bytes;
}


size_t
edge_answer_head(const ngx_http_request_t *r, const head_t *head)
{
    return memory_of(r, head->len + head->names + head->fields + head->status_line, head->len,
                     head->fields, head->largest);
}


/* nginx takes 8/5 of what comes in Huffman's code, however little comes out of it (RFC 7541 B). */
size_t
edge_answer_block(const ngx_http_request_t *r, const h2_fields_t *fields, size_t coded)
{
    return memory_of(r, ngx_max(fields->bytes, coded * 8 / 5), fields->bytes, fields->count,
                     fields->largest);
}


size_t
edge_answer_memory_most(size_t bytes)
{
    return INTERIM_MOST + 5 * bytes   /* names or status line, twice; of one field; buffer */
           + HEAD_FIELDS_MAX * (LISTS * sizeof(ngx_table_elt_t) + HPACK_FIELD + 1);
}


ngx_uint_t
edge_answer_charge(ngx_http_request_t *r, edge_ctx_t *ctx, size_t bytes)
{
    const ngx_buf_t  *interim = ctx->head.interim;

    bytes += interim ? (size_t) (interim->end - interim->start) : 0;
    if (bytes <= ORDINARY) {
        bytes = 0;
    }
    return bytes == ctx->answer_part.amount || edge_share_charge_answer(r, ctx, bytes);
}
