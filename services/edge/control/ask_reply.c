#include "services/edge/control/ask_reply.h"
#include "common/base/err.h"
#include "common/codec/pack.h"

#include <errno.h>
#include <string.h>

enum { BUS_VERSION = 1, OUTCOME_MAX = 64 * 1024, CODE_MAX = 999 };

static bool is_key(const msgpack_object_kv *kv, const char *name)
{
    return kv->key.type == MSGPACK_OBJECT_STR && kv->key.via.str.size == strlen(name)
           && memcmp(kv->key.via.str.ptr, name, kv->key.via.str.size) == 0;
}

/* False: it has no code. */
static bool read_outcome(const msgpack_object *map, uint64_t number, ask_told_t *out)
{
    const msgpack_object *code = NULL, *msg = NULL;

    if (map->type != MSGPACK_OBJECT_MAP)
        return false;
    for (uint32_t i = 0; i < map->via.map.size; i++) {
        const msgpack_object_kv *kv = &map->via.map.ptr[i];

        if (is_key(kv, "code"))
            code = &kv->val;
        else if (is_key(kv, "msg"))
            msg = &kv->val;
    }
    if (!code || code->type != MSGPACK_OBJECT_POSITIVE_INTEGER || code->via.u64 > CODE_MAX)
        return false;
    if (msg && msg->type == MSGPACK_OBJECT_STR)
        ask_told_init(out, number, (int)code->via.u64, msg->via.str.ptr,
                      strnlen(msg->via.str.ptr, msg->via.str.size));
    else
        ask_told_init(out, number, (int)code->via.u64, "", 0);
    return true;
}

static bool is_map(const unsigned char *body, size_t len)
{
    return len && len <= ASK_BODY_MAX
           && ((body[0] & 0xf0) == 0x80 || body[0] == 0xde || body[0] == 0xdf)
           && pack_check(body, len) == 0;
}

void ask_reply_read(ask_told_t *out, uint64_t number, const void *outcome, size_t outcome_len,
                    const void *body, size_t body_len)
{
    msgpack_unpacked read;
    bool good;

    msgpack_unpacked_init(&read);
    good = outcome_len <= OUTCOME_MAX && pack_check(outcome, outcome_len) == 0
           && msgpack_unpack_next(&read, outcome, outcome_len, NULL) == MSGPACK_UNPACK_SUCCESS
           && read_outcome(&read.data, number, out) && (out->code || is_map(body, body_len));
    msgpack_unpacked_destroy(&read);
    if (!good)
        ask_told_init(out, number, ERR_INTERNAL, "", 0);
}

static void pack_text(msgpack_packer *packer, const char *text)
{
    msgpack_pack_str_with_body(packer, text, strlen(text));
}

/* No "clock": that is of use to who holds leases only. */
int ask_header_pack(msgpack_sbuffer *out, const char *id, const char *account, int64_t left_ms,
                    const char *edge)
{
    msgpack_packer packer;
    size_t before = out->size;

    msgpack_packer_init(&packer, out, msgpack_sbuffer_write);
    msgpack_pack_map(&packer, 6);
    pack_text(&packer, "v");
    msgpack_pack_int(&packer, BUS_VERSION);
    pack_text(&packer, "id");
    pack_text(&packer, id);
    pack_text(&packer, "key");
    pack_text(&packer, id);
    pack_text(&packer, "account");
    pack_text(&packer, account);
    pack_text(&packer, "left");
    msgpack_pack_int64(&packer, left_ms);
    pack_text(&packer, "actor");
    msgpack_pack_map(&packer, 2);
    pack_text(&packer, "source");
    pack_text(&packer, "edge");
    pack_text(&packer, "subject");
    pack_text(&packer, edge);
    /* what did not go in for want of memory leaves the map shorter than it says */
    return out->size > before && pack_check(out->data + before, out->size - before) == 0 ? 0
                                                                                         : -ENOMEM;
}
