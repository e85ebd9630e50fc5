/* The setting that sends connections for a host elsewhere (outbound.h). */
#pragma once

#include <curl/curl.h>

/* Append the items of text to *ret_list, as CURLOPT_CONNECT_TO takes them; the caller frees it in
 * any case. NULL: none. 0 | -EINVAL: *ret_bad is the invalid item, which the caller frees |
 * -ENOMEM. */
int connect_to_read(struct curl_slist **ret_list, const char *text, char **ret_bad);
