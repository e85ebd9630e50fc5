/* The head of a call of gRPC as nginx has written it for the upstream: what is changed in it. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

/* :scheme, as an index of the static table (RFC 7541 A). */
enum { GRPC_SCHEME_HTTP = 0x86, GRPC_SCHEME_HTTPS = 0x87 };

/* nginx sends the host as a field named host; clients of HTTP/2 send it as :authority (RFC 9113
 * 8.3.1), and some servers of gRPC look nowhere else: rename it. Where nginx has written something
 * else it stays. */
void edge_grpc_name_authority(ngx_buf_t *b);

/* The byte that is the :scheme; NULL: nginx wrote it otherwise. */
u_char *edge_grpc_find_scheme(const ngx_buf_t *b);
