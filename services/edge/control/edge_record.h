/* Records of the state file (record.h) where they lie in it. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>

#include "services/edge/control/record.h"

/* The record at *at, which moves behind it; record->body is valid until the result is freed. NULL:
 * no record, or one that is torn or sealed with another key. */
u_char *edge_record_read(ngx_fd_t file, off_t *at, record_t *record);
void edge_record_free(u_char *plain); /* wiped */

/* NGX_OK: *at moved behind a record | NGX_DONE: nothing there, or it is torn. */
ngx_int_t edge_record_skip(ngx_fd_t file, off_t *at);
