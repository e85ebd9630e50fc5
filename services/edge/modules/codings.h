/* What compression decides: the content coding that a client asks for (RFC 9110 12.5.3), the types
 * that are worth it, and what header fields say of it. No nginx in here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Content codings that the edge makes, best first: of those that a client wants equally, as
 * browsers want all that they know, the first is used. zstd makes fewer bytes than gzip in
 * less time, br the fewest in as much. id, name, and whether "*" may mean it: who does not
 * name zstd and br may not know them. */
#define CODINGS(X)                                                                                 \
    X(ZSTD, "zstd", false)                                                                         \
    X(BR, "br", false)                                                                             \
    X(GZIP, "gzip", true)                                                                          \
    X(DEFLATE, "deflate", true)

typedef enum {
#define CODING_ID(id, name, any) CODING_##id,
    CODINGS(CODING_ID)
#undef CODING_ID
        CODING_NONE, /* the body goes on as it is */
    CODING_COUNT = CODING_NONE
} coding_t;

/* Names of the codings, as Content-Encoding and events have them. */
extern const char *const coding_names[CODING_COUNT];

/* What all Accept-Encoding lines of one request say. */
typedef struct accepted {
    int16_t weight[CODING_COUNT]; /* thousandths; -1: not named */
    int16_t identity, any;
} accepted_t;

/* No line so far: nothing but identity is acceptable. */
void accepted_init(accepted_t *self);
/* Add a line. The same coding named twice has the lower weight; one whose weight is malformed has
 * 0. The cost grows with len only. */
void accepted_add(accepted_t *self, const char *line, size_t len);
/* The coding to use. CODING_NONE: the client named none, or prefers identity. */
coding_t accepted_best(const accepted_t *self);

/* Does a list (RFC 9110 5.6.1) have this member, in any case of letters? */
bool coding_list_has(const char *list, size_t len, const char *member);
/* Does a Vary line say that the answer depends on Accept-Encoding, by name or by "*"? */
bool coding_is_varied(const char *vary, size_t len);
/* Are bodies of this Content-Type, with or without parameters, worth a coding? */
bool coding_is_worth(const char *type, size_t len);
/* Does a line of If-None-Match have the entity tag, which is strong, in its weak form? */
bool coding_has_weak(const char *line, size_t len, const char *tag, size_t tag_len);

/* Header fields of a response on which it depends whether its body may be encoded, or which change
 * when it is. */
typedef enum {
    FIELD_OTHER,
    FIELD_ACCEPT_RANGES,
    FIELD_CACHE_CONTROL,
    FIELD_CONTENT_ENCODING,
    FIELD_CONTENT_RANGE,
    FIELD_DIGEST, /* of the bytes as they are: Content-Digest, Repr-Digest, Digest, Content-MD5 */
    FIELD_ETAG,
    FIELD_SET_COOKIE,
    FIELD_VARY
} coding_field_t;

coding_field_t coding_field(const char *name, size_t len);
