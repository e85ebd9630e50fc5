#include "services/edge/table/headers.h"

#include "services/edge/table/document.h"
#include "common/base/invariant.h"
#include "services/edge/table/slab.h"

#include <ctype.h>
#include <string.h>

static char *copy_lower(const char *text)
{
    char *out = document_copy(text, strlen(text));

    for (char *c = out; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    return out;
}

void headers_done(headers_t *self)
{
    for (size_t i = 0; i < self->add_count; i++) {
        slab_free(self->add[i].name);
        slab_free(self->add[i].lower);
        slab_free(self->add[i].value);
    }
    for (size_t i = 0; i < self->remove_count; i++) {
        slab_free(self->remove[i].name);
        slab_free(self->remove[i].lower);
    }
    slab_free(self->add);
    slab_free(self->remove);
    memset(self, 0, sizeof(*self));
}

uintptr_t header_hash(const char *name)
{
    uintptr_t hash = 0;

    for (; *name; name++)
        hash = hash * 31 + (unsigned char)*name;
    return hash;
}

static void set_header(header_t *out, char *name, char *value)
{
    out->name = name;
    out->lower = copy_lower(name);
    out->hash = header_hash(out->lower);
    out->name_len = strlen(name);
    out->value = value;
    out->value_len = value ? strlen(value) : 0;
}

/* RFC 9110 5.6.2 */
static bool is_token(const char *name)
{
    if (!*name)
        return false;
    for (; *name; name++)
        if (!isalnum((unsigned char)*name) && !strchr("!#$%&'*+-.^_`|~", *name))
            return false;
    return true;
}

/* RFC 9110 5.5; a NUL was refused before. */
static bool is_value(const char *value)
{
    return !strpbrk(value, "\r\n");
}

static bool is_absent(const msgpack_object *value, msgpack_object_type type, bool *bad)
{
    if (!value || value->type == MSGPACK_OBJECT_NIL)
        return true;
    if (value->type != type)
        *bad = true;
    return value->type != type;
}

static void add_headers(headers_t *out, const msgpack_object_map *map, bool *bad)
{
    out->add = slab_alloc((map->size + 1) * sizeof(*out->add));
    for (uint32_t i = 0; i < map->size; i++) {
        char *name = document_text(&map->ptr[i].key, bad);
        char *value = document_text(&map->ptr[i].val, bad);

        if (name && value && is_token(name) && is_value(value)) {
            set_header(&out->add[out->add_count++], name, value);
        } else {
            *bad = true;
            slab_free(name);
            slab_free(value);
        }
    }
}

void headers_parse(headers_t *out, const msgpack_object *add, const msgpack_object *remove,
                   bool *bad)
{
    INVARIANT(!out->add && !out->remove);
    if (!is_absent(add, MSGPACK_OBJECT_MAP, bad))
        add_headers(out, &add->via.map, bad);
    if (is_absent(remove, MSGPACK_OBJECT_ARRAY, bad))
        return;
    out->remove = slab_alloc((remove->via.array.size + 1) * sizeof(*out->remove));
    for (uint32_t i = 0; i < remove->via.array.size; i++) {
        char *name = document_text(&remove->via.array.ptr[i], bad);

        if (name && is_token(name)) {
            set_header(&out->remove[out->remove_count++], name, NULL);
        } else {
            *bad = true;
            slab_free(name);
        }
    }
}

void *headers_module_parse(const msgpack_object *document, bool *bad)
{
    headers_t *self = slab_alloc(sizeof(*self));

    headers_parse(self, document_get(document, "add"), document_get(document, "remove"), bad);
    return self;
}

bool headers_module_beyond(const void *config)
{
    const headers_t *self = config;

    for (size_t i = 0; i < self->add_count; i++)
        if (strstr(self->add[i].value, "${"))
            return true;
    return false;
}

void headers_module_free(void *config)
{
    headers_done(config);
    slab_free(config);
}
