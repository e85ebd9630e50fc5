#include "services/edge/table/document.h"

#include "services/edge/table/slab.h"

#include <string.h>

const msgpack_object *document_get(const msgpack_object *map, const char *key)
{
    size_t len = strlen(key);

    if (!map || map->type != MSGPACK_OBJECT_MAP)
        return NULL;
    for (uint32_t i = 0; i < map->via.map.size; i++) {
        const msgpack_object *name = &map->via.map.ptr[i].key;

        if (name->type == MSGPACK_OBJECT_STR && name->via.str.size == len
            && !memcmp(name->via.str.ptr, key, len))
            return &map->via.map.ptr[i].val;
    }
    return NULL;
}

char *document_copy(const char *text, size_t len)
{
    char *out = slab_alloc(len + 1);

    memcpy(out, text, len);
    out[len] = '\0';
    return out;
}

static bool is_absent(const msgpack_object *value)
{
    return !value || value->type == MSGPACK_OBJECT_NIL;
}

char *document_text(const msgpack_object *value, bool *bad)
{
    if (is_absent(value))
        return NULL;
    if (value->type != MSGPACK_OBJECT_STR
        || memchr(value->via.str.ptr, '\0', value->via.str.size)) {
        *bad = true;
        return NULL;
    }
    return document_copy(value->via.str.ptr, value->via.str.size);
}

char *document_str(const msgpack_object *map, const char *key, bool *bad)
{
    return document_text(document_get(map, key), bad);
}

bool document_bool(const msgpack_object *map, const char *key, bool *bad)
{
    const msgpack_object *value = document_get(map, key);

    if (is_absent(value))
        return false;
    if (value->type != MSGPACK_OBJECT_BOOLEAN)
        *bad = true;
    return value->type == MSGPACK_OBJECT_BOOLEAN && value->via.boolean;
}

unsigned document_number(const msgpack_object *map, const char *key, unsigned min, unsigned max,
                         unsigned absent, bool *bad)
{
    const msgpack_object *value = document_get(map, key);

    if (is_absent(value))
        return absent;
    if (value->type != MSGPACK_OBJECT_POSITIVE_INTEGER || value->via.u64 < min
        || value->via.u64 > max) {
        *bad = true;
        return absent;
    }
    return (unsigned)value->via.u64;
}
