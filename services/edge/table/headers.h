/* Headers to add and to remove, as a route's modules and http_response backends have them. No nginx
 * in here. */
#pragma once

#include <msgpack.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct header {
    char *name, *lower, *value; /* value NULL: remove */
    size_t name_len, value_len;
    uintptr_t hash; /* ngx_hash_key of lower */
} header_t;

typedef struct headers {
    header_t *add, *remove;
    size_t add_count, remove_count;
} headers_t;

/* Read add, a map of names to values, and remove, a list of names, into out, which is all zero;
 * either may be NULL. *bad is set where one is no header of RFC 9110 5.1 and 5.5: it could end a
 * header's line or begin another. headers_done frees what out holds, also then. */
void headers_parse(headers_t *out, const msgpack_object *add, const msgpack_object *remove,
                   bool *bad);
void headers_done(headers_t *self);

/* The hooks parse and free of module.h, for modules whose document is {add, remove}: a
 * headers_t. */
void *headers_module_parse(const msgpack_object *document, bool *bad);
void headers_module_free(void *config);
/* The hook beyond of module.h: true if a value holds ${...}, an expression, which the edge cannot
 * evaluate yet. */
bool headers_module_beyond(const void *config);

/* nginx's hash of a header name in lower case (ngx_hash_key). */
uintptr_t header_hash(const char *name);
