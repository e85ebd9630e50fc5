/* A whole answer of the edge's own: status, type and a text. */
#pragma once

#include "services/edge/http/edge_ctx.h"

/* Send it, behind the fields that headers_out has already. type and text stay until all is sent;
 * type NULL: none. Without a text, and with a status that has none (204, 304), the head alone.
 * What a content handler is to return, which has discarded the request's body. */
ngx_int_t edge_text_send(ngx_http_request_t *r, ngx_uint_t status, const char *type, u_char *text,
                         size_t len);
