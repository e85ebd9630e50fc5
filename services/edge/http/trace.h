/* W3C Trace Context (https://www.w3.org/TR/trace-context/): the field by which programs that a
 * request goes through say which trace it belongs to. No nginx in here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum {
    TRACE_ID_LEN = 32,     /* hexadecimal digits of a trace id */
    TRACE_PARENT_LEN = 55, /* "00-", trace id, "-", parent id of 16 digits, "-", flags of 2 */
    TRACE_PARENT_MAX = 512 /* of versions after 00, which may have more behind the flags */
};

/* Is this a traceparent that a receiver may use (section 3.2.2)? Its trace id is then the
 * TRACE_ID_LEN bytes from value + 3. */
bool trace_parent_is_valid(const char *value, size_t len);

/* Write len bytes as twice as many hexadecimal digits in lower case, without an end. */
void trace_hex(const unsigned char *bytes, size_t len, char *out);

/* Write the traceparent of a trace that begins here, TRACE_PARENT_LEN bytes without an end: id has
 * TRACE_ID_LEN digits, parent 8 bytes. */
void trace_begin(const char *id, const unsigned char *parent, bool sampled, char *out);
