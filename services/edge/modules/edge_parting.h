/* How a WebSocket that is converted ends: what each side is told, and when all has been said. */
#pragma once

#include "services/edge/modules/edge_converter.h"

/* nginx's upstream module is about to close the upstream's connection, for whatever reason. */
void edge_parting_on_upstream_end(ngx_http_request_t *r, ngx_int_t rc);
/* Nothing is carried any more: the upstream's connection ends now, and the client's when it has
 * been told the code and the reason. */
void edge_parting_fail(ngx_http_request_t *r, edge_converter_t *self,
                       ngx_uint_t code, const char *reason);
/* The upstream's connection broke. */
void edge_parting_fail_upstream(ngx_http_request_t *r, edge_converter_t *self);
/* Does what follows from the ends that have come so far: FIN to the upstream, a close frame. */
void edge_parting_settle(ngx_http_request_t *r, edge_converter_t *self);
/* Is the upstream done with what the client has sent? */
ngx_uint_t edge_parting_is_delivered(const edge_converter_t *self);
/* Has each side had all that it gets? */
ngx_uint_t edge_parting_is_over(const edge_converter_t *self);
/* End the request when all has been said: the client may still be sending, which nginx reads and
 * throws away, so that no reset destroys what it was told. r may have been freed when this
 * returns. */
void edge_parting_finish(ngx_http_request_t *r, edge_converter_t *self);
/* End the request at once, with or without a reset of the client's connection. r may have been
 * freed when this returns. */
void edge_parting_cut(ngx_http_request_t *r, edge_converter_t *self,
                      ngx_uint_t reset);
/* Log the end of a stream. */
void edge_parting_note(ngx_http_request_t *r, ngx_uint_t code, const char *why);
