/* What is around the XML of a message on its way through a browser (SAML bindings 3.4 and 3.5):
 * base64, for the redirect binding DEFLATE below it and URL encoding above it. */
#pragma once

#include "common/base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    ENVELOPE_TEXT_MAX = 64 << 10, /* bytes of base64 */
    ENVELOPE_XML_MAX = 256 << 10  /* bytes of what it becomes */
};

/* The XML in a message: base64, in which white space is passed over, and DEFLATE (RFC 1951) where
 * is_deflated. *ret_xml is the caller's and ends with NUL. 0 | ERR_SAML_MESSAGE. */
int envelope_open(const char *text, bool is_deflated, char **ret_xml, size_t *ret_len,
                  problem_t *problem);

/* Decode base64 (RFC 4648), passing over white space; the padding must be right, and there is room
 * for a byte behind the last one. The caller frees
 * *ret_bytes. False: it is none. */
bool base64_decode(const char *text, size_t len, unsigned char **ret_bytes, size_t *ret_len);

/* Decode %XX and +, which is a space, into size bytes with a NUL. False: a broken escape, a NUL in
 * it, or it does not fit. */
bool url_decode(const char *text, char *out, size_t size);
