#include "document.h"

#include "slab.h"

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

char *document_text(const msgpack_object *value)
{
    return value && value->type == MSGPACK_OBJECT_STR
               ? document_copy(value->via.str.ptr, value->via.str.size)
               : NULL;
}

char *document_str(const msgpack_object *map, const char *key)
{
    return document_text(document_get(map, key));
}

bool document_bool(const msgpack_object *map, const char *key)
{
    const msgpack_object *value = document_get(map, key);

    return value && value->type == MSGPACK_OBJECT_BOOLEAN && value->via.boolean;
}
