#include "common/base/memory.h"
#include "common/base/invariant.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* One write and no allocation: log_line could need memory. */
static void end_process(const char *what, size_t size)
{
    char line[256];

    if (size)
        snprintf(line, sizeof(line), "out of memory: %zu bytes for %s\n", size, what);
    else
        snprintf(line, sizeof(line), "out of memory: %s\n", what);
    setvbuf(stderr, NULL, _IONBF, 0);
    fputs(line, stderr);
    abort();
}

void *memory_zeroed(size_t size, const char *what)
{
    void *memory;

    INVARIANT(size <= MEMORY_SMALL);
    memory = calloc(1, size);
    if (!memory)
        end_process(what, size);
    return memory;
}

char *memory_copy(const char *text, const char *what)
{
    char *copy = strdup(text);

    if (!copy)
        end_process(what, strlen(text) + 1);
    return copy;
}

void *memory_need(void *pointer, const char *what)
{
    if (!pointer)
        end_process(what, 0);
    return pointer;
}

static __thread struct {
    bool is_outside; /* between memory_json_begin_outside and its end */
    int failed;      /* 0 | why an allocation returned NULL since the beginning */
    size_t left;     /* bytes that may still be asked for */
} json_decoding;

static void *allocate_json(size_t size)
{
    void *memory = NULL;

    if (json_decoding.is_outside && size > json_decoding.left) {
        json_decoding.failed = -EMSGSIZE;
        return NULL;
    }
    memory = malloc(size);
    if (json_decoding.is_outside) {
        json_decoding.left -= size;
        if (!memory)
            json_decoding.failed = -ENOMEM;
    } else if (!memory && size <= MEMORY_SMALL) {
        end_process("a JSON value", size);
    }
    return memory;
}

void memory_json_begin_outside(size_t bytes)
{
    INVARIANT(!json_decoding.is_outside);
    json_decoding.is_outside = true;
    json_decoding.failed = 0;
    json_decoding.left = bytes;
}

int memory_json_end_outside(void)
{
    INVARIANT(json_decoding.is_outside);
    json_decoding.is_outside = false;
    return json_decoding.failed;
}

/* As jansson 2.14 has them, with what malloc takes beside. */
enum { WEIGHT_OBJECT = 240, WEIGHT_MEMBER = 72, WEIGHT_ITEM = 16, WEIGHT_VALUE = 64 };

size_t memory_json_weight(const json_t *value)
{
    size_t weight = value ? WEIGHT_VALUE + json_string_length(value) : 0, i;
    const char *name;
    json_t *item;

    if (json_is_object(value))
        weight += WEIGHT_OBJECT;
    json_object_foreach((json_t *)value, name, item)
    {
        weight += WEIGHT_MEMBER + strlen(name) + memory_json_weight(item);
    }
    json_array_foreach(value, i, item)
    {
        weight += WEIGHT_ITEM + memory_json_weight(item);
    }
    return weight;
}

void memory_guard_json(void)
{
    json_set_alloc_funcs(allocate_json, free);
}
