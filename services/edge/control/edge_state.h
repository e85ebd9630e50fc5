/* The last configuration on disk, read (edge_store.h has its records), and bodies of entries applied to a table. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>

#include "services/edge/table/table.h"

ngx_int_t edge_state_load(ngx_cycle_t *cycle); /* in the master, and the rest in a worker */
void edge_state_try(
    ngx_cycle_t *cycle); /* in the master, before that: whoever dies of it is not the master */
ngx_uint_t edge_state_is_cut(void); /* not all of it could be read */
/* prefix and 32 digits that only edges with this state key have */
void edge_state_name(const char *prefix, char *out, size_t size);
/* A key of 32 bytes for another purpose than the state file: the caller wipes it. */
void edge_state_derive(const char *purpose, u_char *out);
/* Apply a body of entries ([kind, id, document]...) to a table. Those that cannot be applied are answered 503, by
 * themselves, and logged. NGX_OK | NGX_ERROR: it is no such body, and what it says is not in force. */
ngx_int_t edge_apply(table_t *table, const void *body, size_t len, ngx_log_t *log);
table_t *edge_table_new(void);
void edge_swap(table_t *fresh);
void edge_retire(table_t *table);
