/* Bodies of requests and responses: what is read, thrown away and counted of them. */
#pragma once

#include "services/edge/http/edge_ctx.h"

void edge_body_install(void);
void edge_body_begin(ngx_http_request_t *r, edge_ctx_t *ctx); /* when nothing has been read */
/* Read and thrown away, in place of ngx_http_discard_request_body: its bytes are counted, unless ctx is NULL. What is no body
 * ends the connection: NGX_OK or a status. */
ngx_int_t edge_body_discard(ngx_http_request_t *r, edge_ctx_t *ctx);
size_t edge_body_continued(ngx_http_request_t *r,
                           edge_ctx_t *ctx); /* bytes of a 100 that went before the answer */
void edge_body_end(edge_ctx_t *ctx);         /* with the request: the connection may have another */
off_t edge_body_received(ngx_http_request_t *r, edge_ctx_t *ctx);
off_t edge_body_sent(ngx_http_request_t *r, edge_ctx_t *ctx);
