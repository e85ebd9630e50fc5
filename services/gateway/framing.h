/* HTTP/1 framing of a request (RFC 9112): head and chunks, no sockets. Strict against request
 * smuggling: input that a proxy in front of this server could understand differently is refused. */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HEAD_MAX = 32768, HEADERS_MAX = 100 };

typedef struct head {
    const char *method;
    char *target; /* origin form, path and query; "*" */
    int minor;    /* of HTTP/1.x */
    size_t header_count;
    struct {
        const char *name, *value;
    } headers[HEADERS_MAX];
    bool chunked, closes, expects_continue;
    uint64_t content_length;
} head_t;

/* Scan the bytes that have come. *at is where to go on, which the caller sets to 0 at the beginning
 * of a head. *ret_len is the length of the head with its empty line, or 0: more bytes are needed. A
 * fault is reported as soon as its bytes are there. 0 | ERR_MALFORMED | ERR_HTTP_VERSION |
 * ERR_METHOD_UNKNOWN | ERR_HEAD_TOO_LARGE; *ret_why says what is wrong. */
int framing_scan(const char *data, size_t len, size_t *at, size_t *ret_len, const char **ret_why);

/* Parse a whole head in place: the result points into data. Outcomes as of framing_scan, and
 * ERR_EXPECTATION. */
int framing_parse(char *data, size_t len, head_t *ret_head, const char **ret_why);

/* The value of a header, the first of several; NULL: there is none. */
const char *framing_get(const head_t *self, const char *name);

/* The address of the client as a proxy says it: one X-Forwarded-For with one IPv4 or IPv6
 * address and nothing else, in its usual spelling; an IPv4-mapped IPv6 address is the IPv4
 * address (RFC 4291 2.5.5.2), as rules about it are (CVE-2024-24790). False: there is none, or
 * more than one. */
bool framing_client(const head_t *self, char out[INET6_ADDRSTRLEN]);

/* host or host:port as RFC 3986 3.2.2 writes it, without user information. */
bool framing_is_authority(const char *text, size_t len);

/* ---- a chunked body ---- */

typedef struct chunks {
    int state;
    unsigned digits;
    uint64_t left;   /* bytes of the current chunk that are still to come */
    size_t overhead; /* bytes of chunk extensions and trailers so far: they are bounded */
} chunks_t;

/* Decode a chunked body in place. *ret_body bytes of content are at the beginning of data,
 * *ret_used bytes were read; *ret_done: the body has ended. 0 | ERR_MALFORMED. */
int chunks_take(chunks_t *self, char *data, size_t len, size_t *ret_used, size_t *ret_body,
                bool *ret_done, const char **ret_why);
