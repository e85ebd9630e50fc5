/* Checks of a request before anything of it is sent (outbound.h): its method, URL and headers may
 * come from a tenant. */
#pragma once

#include "common/out/outbound.h"

#include <curl/curl.h>
#include <stdbool.h>

enum {
    REQUEST_URL_MAX = 8192,
    REQUEST_HEADERS_MAX = 32768,
    REQUEST_TIMEOUT_MS_MAX = 60000,
    REQUEST_BYTES_MAX = 16 * 1024 * 1024
};

/* Check owner, method and bounds. 0 | -EINVAL. */
int request_check(const outbound_request_t *request);

/* Parse an absolute http or https URL without user name and password. *ret_is_plain: it is http.
 * 0 | -EINVAL | -ENOMEM; the caller owns *ret_url. */
int request_url(CURLU **ret_url, const char *text, bool may_be_plain, bool *ret_is_plain);

/* Is the URL's host an IP address, so that nothing is resolved? */
bool request_is_numeric(CURLU *url);

/* The request's headers as a list for libcurl. Framing and connection headers are set by libcurl
 * only (RFC 9110 7.6.1, RFC 9112 6). 0 | -EINVAL: not a header field, one that the caller must not
 * set, or too many bytes | -ENOMEM; the caller owns *ret_headers. */
int request_headers(struct curl_slist **ret_headers, const outbound_request_t *request);

/* Wipe and free the headers: they may hold secrets. */
void request_headers_free(struct curl_slist **headers_p);
