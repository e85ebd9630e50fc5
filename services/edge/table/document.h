/* Reading what the config log brings: msgpack documents, in the shapes that the services' tables
 * promise. */
#pragma once

#include <msgpack.h>
#include <stdbool.h>

/* The value of a map's key; NULL: no map, or no such key. */
const msgpack_object *document_get(const msgpack_object *map, const char *key);

/* What an entry says, read as if a stranger had sent it. A field that is missing or nil is NULL or
 * false; one of another type, or a text with a NUL in it, sets *bad, which is looked at once all
 * fields are read. Texts are copies in the table's memory (slab.h), ended by a NUL. */
char *document_text(const msgpack_object *value, bool *bad);
char *document_str(const msgpack_object *map, const char *key, bool *bad);
bool document_bool(const msgpack_object *map, const char *key, bool *bad);

/* A whole number from min to max; absent, where there is none. */
unsigned document_number(const msgpack_object *map, const char *key, unsigned min, unsigned max,
                         unsigned absent, bool *bad);

/* len bytes of text and a NUL. */
char *document_copy(const char *text, size_t len);
