/* HTTP/1 framing of a request (RFC 9112): head and chunks, no sockets. Strict: whatever two readers could
 * understand differently is refused, so that no proxy before this server sees other requests than it does. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HEAD_MAX = 32768, HEADERS_MAX = 100 };

typedef struct head {
    const char *method;
    char *target; /* origin form, path and query; "*" */
    int minor;    /* of HTTP/1 */
    size_t header_count;
    struct {
        const char *name, *value;
    } headers[HEADERS_MAX];
    bool chunked, closes, expects_continue;
    uint64_t content_length;
} head_t;

/* Look at the bytes that have come, on from *at, which the caller sets to 0 at the head's beginning. *ret_len: bytes of the
 * head with its empty line; 0: there is more to come. What is wrong is found as early as it is there.
 * 0 | ERR_MALFORMED | ERR_HTTP_VERSION | ERR_METHOD_UNKNOWN | ERR_HEAD_TOO_LARGE; *ret_why says what is wrong. */
int framing_scan(const char *data, size_t len, size_t *at, size_t *ret_len, const char **ret_why);

/* Take a whole head apart, in place: the result points into data. The same outcomes, and ERR_EXPECTATION. */
int framing_parse(char *data, size_t len, head_t *ret_head, const char **ret_why);

/* The value of a header, the first of several; NULL. */
const char *framing_get(const head_t *self, const char *name);

/* host or host:port as RFC 3986 3.2.2 writes it, without user information. */
bool framing_is_authority(const char *text, size_t len);

/* ---- a chunked body ---- */

typedef struct chunks {
    int state;
    unsigned digits;
    uint64_t left;   /* of the chunk */
    size_t overhead; /* bytes of extensions and trailers, which are bounded */
} chunks_t;

/* Decode in place: *ret_body bytes of content are at the beginning of data, *ret_used bytes were looked at.
 * *ret_done: the body has ended. 0 | ERR_MALFORMED. */
int chunks_take(chunks_t *self, char *data, size_t len, size_t *ret_used, size_t *ret_body,
                bool *ret_done, const char **ret_why);
