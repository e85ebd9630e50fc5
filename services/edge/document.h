/* Reading what the config log brings: msgpack documents, in the shapes that the services' tables promise. */
#pragma once

#include <msgpack.h>
#include <stdbool.h>

/* The value of a map's key; NULL: no map, or no such key. */
const msgpack_object *document_get(const msgpack_object *map, const char *key);

/* Copies in the table's memory (slab.h), ended by a NUL; NULL: it is no string. */
char *document_text(const msgpack_object *value);
char *document_str(const msgpack_object *map, const char *key);

bool document_bool(const msgpack_object *map, const char *key);

/* len bytes of text and a NUL. */
char *document_copy(const char *text, size_t len);
