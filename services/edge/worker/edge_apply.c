#include "services/edge/worker/edge_apply.h"
#include "services/edge/worker/edge_vitals.h"
#include "common/base/invariant.h"
#include "common/codec/pack.h"


/* Count of a MessagePack array's elements; *at: offset of the first. 0 with *at 0: not an array. */
static uint32_t
array_head(const u_char *data, size_t len, size_t *at)
{
    *at = 0;
    if (len >= 1 && (data[0] & 0xf0) == 0x90) {
        *at = 1;
        return data[0] & 0x0f;
    }
    if (len >= 3 && data[0] == 0xdc) {
        *at = 3;
        return (uint32_t) data[1] << 8 | data[2];
    }
    if (len >= 5 && data[0] == 0xdd) {
        *at = 5;
        return (uint32_t) data[1] << 24 | data[2] << 16 | data[3] << 8
               | data[4];
    }
    return 0;
}


/* Applies one entry, [kind, id, document]; bytes: the entry's encoded form, for its hash. */
static void
apply_entry(table_t *table, const msgpack_object *entry, const ngx_str_t *bytes,
    ngx_log_t *log, touched_fn touched)
{
    trust_t          trust;
    ngx_str_t        kind = ngx_string("?"), id = ngx_string("?");
    ngx_int_t        rc = NGX_ERROR;
    msgpack_object  *items = entry->via.array.ptr;

    if (entry->type == MSGPACK_OBJECT_ARRAY && entry->via.array.size == 3
        && items[0].type == MSGPACK_OBJECT_STR
        && items[1].type == MSGPACK_OBJECT_STR)
    {
        kind.data = (u_char *) items[0].via.str.ptr;
        kind.len = items[0].via.str.size;
        id.data = (u_char *) items[1].via.str.ptr;
        id.len = items[1].via.str.size;
        trust = edge_vitals_begin(&kind, &id, bytes, log);
        rc = touched_apply(table, (char *) kind.data, kind.len,
                           (char *) id.data, id.len, &items[2], trust, touched);
        edge_vitals_end();
    }
    if (rc != 0) {
        ngx_log_error(NGX_LOG_ERR, log, 0,
                      "postern: %V %V cannot be applied: what it stands for "
                      "answers 503", &kind, &id);
    }
}


ngx_uint_t
edge_apply_can_read(const void *body, size_t len)
{
    size_t  at;

    if (pack_check(body, len)) {
        return 0;
    }
    (void) array_head(body, len, &at);
    return at > 0;
}


ngx_int_t
edge_apply(table_t *table, const void *body, size_t len, ngx_log_t *log,
    touched_fn touched)
{
    size_t            at, from;
    uint32_t          left;
    ngx_str_t         bytes;
    msgpack_unpacked  unpacked;

    if (!edge_apply_can_read(body, len)) {
        return NGX_ERROR;
    }
    left = array_head(body, len, &at);
    msgpack_unpacked_init(&unpacked);
    for ( ; left > 0; left--) {
        from = at;
        if (msgpack_unpack_next(&unpacked, body, len, &at)
            != MSGPACK_UNPACK_SUCCESS)
        {
            break;
        }
        INVARIANT(from < at && at <= len);
        bytes.data = (u_char *) body + from;
        bytes.len = at - from;
        apply_entry(table, &unpacked.data, &bytes, log, touched);
    }
    msgpack_unpacked_destroy(&unpacked);
    return left == 0 ? NGX_OK : NGX_ERROR;
}
