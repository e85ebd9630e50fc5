#pragma once

#include <ngx_config.h>
#include <ngx_core.h>

#include "services/edge/streams/touched.h"
#include "services/edge/table/table.h"

/* Is this an array of entries? Cheap: the entries themselves are not checked. */
ngx_uint_t edge_apply_can_read(const void *body, size_t len);

/* Apply an array of entries, [kind, id, document]..., to a table. An entry that cannot be applied
 * is logged, and what it configures answers 503; the others apply. NGX_OK | NGX_ERROR: not an array
 * of entries, nothing is in force. touched is called for open streams that a change may end; NULL:
 * the table is not in force. */
ngx_int_t edge_apply(table_t *table, const void *body, size_t len, ngx_log_t *log,
                     touched_fn touched);
