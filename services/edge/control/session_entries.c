#include "services/edge/control/session_entries.h"

#include "common/codec/pack.h"

#include <msgpack.h>
#include <string.h>

static int digit_of(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool is_text(const msgpack_object *object, const char *text, size_t len)
{
    return object->type == MSGPACK_OBJECT_STR && object->via.str.size == len
           && (!text || !memcmp(object->via.str.ptr, text, len));
}

/* The hash of an entry that says that a session ended. */
static bool read_entry(const msgpack_object *entry, unsigned char hash[SESSION_ENTRY_HASH])
{
    static const char kind[] = "application_session";
    const msgpack_object *items = entry->via.array.ptr;

    if (entry->type != MSGPACK_OBJECT_ARRAY || entry->via.array.size != 3
        || !is_text(&items[0], kind, sizeof(kind) - 1)
        || !is_text(&items[1], NULL, SESSION_ENTRY_HEX) || items[2].type != MSGPACK_OBJECT_NIL)
        return false;
    for (size_t i = 0; i < SESSION_ENTRY_HASH; i++) {
        int high = digit_of(items[1].via.str.ptr[2 * i]);
        int low = digit_of(items[1].via.str.ptr[2 * i + 1]);

        if (high < 0 || low < 0)
            return false;
        hash[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

bool session_entries_read(const void *body, size_t len, session_ended_fn ended, size_t *ret_others)
{
    msgpack_unpacked unpacked;
    size_t at = 0;
    bool is_array = false;

    *ret_others = 0;
    if (pack_check(body, len))
        return false;
    msgpack_unpacked_init(&unpacked);
    if (msgpack_unpack_next(&unpacked, body, len, &at) == MSGPACK_UNPACK_SUCCESS && at == len
        && unpacked.data.type == MSGPACK_OBJECT_ARRAY) {
        const msgpack_object_array *entries = &unpacked.data.via.array;

        is_array = true;
        for (uint32_t i = 0; i < entries->size; i++) {
            unsigned char hash[SESSION_ENTRY_HASH];

            if (read_entry(&entries->ptr[i], hash))
                ended(hash, entries->ptr[i].via.array.ptr[1].via.str.ptr);
            else
                ++*ret_others;
        }
    }
    msgpack_unpacked_destroy(&unpacked);
    return is_array;
}
