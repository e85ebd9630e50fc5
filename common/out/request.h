/* What a request may say before anything is sent of it (outbound.h): a tenant may have written its
 * method, its URL and its headers. */
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

/* Owner, method and bounds. 0 | -EINVAL. */
int request_check(const outbound_request_t *request);

/* An absolute http or https URL without a name or a password. 0 | -EINVAL | -ENOMEM; the caller
 * owns *ret_url. */
int request_url(CURLU **ret_url, const char *text, bool may_be_plain, bool *ret_is_plain);

/* Is its host an address, so that no resolver is asked? */
bool request_is_numeric(CURLU *url);

/* As libcurl takes them. Fields that say where a message ends or what becomes of the connection are
 * libcurl's own (RFC 9110 7.6.1, RFC 9112 6). 0 | -EINVAL: one is no header, or not the caller's to
 * set | -ENOMEM; the caller owns *ret_headers. */
int request_headers(struct curl_slist **ret_headers, const outbound_request_t *request);

/* Wiped first: they may hold secrets. */
void request_headers_free(struct curl_slist **headers_p);
