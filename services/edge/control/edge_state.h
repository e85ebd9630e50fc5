/* The last configuration on disk, read (record.h has its records; edge_store.c writes them). */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>

/* In the master before it forks: read it in a child first, as often as it takes until one
 * survives. Whoever dies of it is not the master. */
void edge_state_try(ngx_cycle_t *cycle);

/* In the master: read the file; in a worker: read what was appended since. NGX_OK, also without
 * a file | NGX_ERROR: there is no key, logged. */
ngx_int_t edge_state_load(ngx_cycle_t *cycle);

/* Not all of it could be read. */
ngx_uint_t edge_state_is_cut(void);
