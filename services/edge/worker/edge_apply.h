#pragma once

#include <ngx_config.h>
#include <ngx_core.h>

#include "services/edge/table/table.h"

/* Is it a body of entries, as far as that can be told without applying it? */
ngx_uint_t edge_apply_can_read(const void *body, size_t len);

/* Apply a body of entries, [kind, id, document]..., to a table. Those that cannot be applied are
 * answered 503, by themselves, and logged. NGX_OK | NGX_ERROR: it is no such body, and what it
 * says is not in force. */
ngx_int_t edge_apply(table_t *table, const void *body, size_t len, ngx_log_t *log);
