/* The plain HTTP server. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

/* Its content handler. */
ngx_int_t edge_redirect_handler(ngx_http_request_t *r);
