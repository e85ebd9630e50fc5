#include "headers.h"

#include "document.h"
#include "slab.h"

#include <ctype.h>
#include <string.h>

static char *lower(const char *text)
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
    out->lower = lower(name);
    out->hash = header_hash(out->lower);
    out->name_len = strlen(name);
    out->value = value;
    out->value_len = value ? strlen(value) : 0;
}

void headers_parse(headers_t *out, const msgpack_object *add, const msgpack_object *remove)
{
    if (add && add->type == MSGPACK_OBJECT_MAP && add->via.map.size) {
        out->add = slab_alloc(add->via.map.size * sizeof(*out->add));
        for (uint32_t i = 0; i < add->via.map.size; i++) {
            char *name = document_text(&add->via.map.ptr[i].key);
            char *value = document_text(&add->via.map.ptr[i].val);

            if (name && value)
                set_header(&out->add[out->add_count++], name, value);
            else
                slab_free(name), slab_free(value);
        }
    }
    if (remove && remove->type == MSGPACK_OBJECT_ARRAY && remove->via.array.size) {
        out->remove = slab_alloc(remove->via.array.size * sizeof(*out->remove));
        for (uint32_t i = 0; i < remove->via.array.size; i++) {
            char *name = document_text(&remove->via.array.ptr[i]);

            if (name)
                set_header(&out->remove[out->remove_count++], name, NULL);
        }
    }
}

void *headers_module_parse(const msgpack_object *document)
{
    headers_t *self = slab_alloc(sizeof(*self));

    headers_parse(self, document_get(document, "add"), document_get(document, "remove"));
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
