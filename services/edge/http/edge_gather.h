/* What the responses on one connection of HTTP/2 send in one turn of the event loop goes out
 * together. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

/* Around a call of the next filter of a response, header or body. */
void edge_gather_begin(ngx_http_request_t *r);
void edge_gather_end(void);
