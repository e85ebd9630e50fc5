/* Reading what the config log brings: msgpack documents, in the shapes that the services' tables
 * promise. */
#pragma once

#include <msgpack.h>
#include <stdbool.h>

/* The value of a map's key; NULL: no map, or no such key. */
const msgpack_object *document_get(const msgpack_object *map, const char *key);

/* Values of a document, which is not trusted: a field that is missing or nil is NULL or false; one
 * of another type, or a text with a NUL in it, sets *bad and is NULL or false, too. *bad is never
 * cleared, so that callers read all fields and look at it once. Texts are the caller's copies in
 * the table's memory (slab.h), ended by a NUL. */
char *document_text(const msgpack_object *value, bool *bad);
char *document_str(const msgpack_object *map, const char *key, bool *bad);
bool document_bool(const msgpack_object *map, const char *key, bool *bad);

/* A whole number from min to max; absent, where there is none or *bad is set. */
unsigned document_number(const msgpack_object *map, const char *key, unsigned min, unsigned max,
                         unsigned absent, bool *bad);

/* A copy of len bytes of text, with a NUL behind them; the caller frees it with slab_free. */
char *document_copy(const char *text, size_t len);
