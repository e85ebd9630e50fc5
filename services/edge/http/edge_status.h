/* The operator's status pages. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

/* Content handler: /healthz, /readyz and /metrics. */
ngx_int_t edge_status_handler(ngx_http_request_t *r);
