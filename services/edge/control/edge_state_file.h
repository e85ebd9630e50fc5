/* The files of the last configuration, for who writes them (edge_store.c): the one in use, and a
 * snapshot that replaces it when it is complete. What fails is logged here, once. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>

#include "services/edge/control/record.h"
#include "services/edge/worker/follow.h"

/* Open the one in use, and cut it behind its last whole record: which log and revision that has.
 * Nobody else may be writing. */
void edge_state_file_open(follow_t *at);

/* A part of a snapshot: the first one begins a new file, the end puts it in place. NGX_OK |
 * NGX_ERROR: there is none any more. */
ngx_int_t edge_state_file_snapshot(const record_t *record);
void edge_state_file_drop_snapshot(void);

/* A change behind what is there. NGX_OK | NGX_ERROR: the file is broken. */
ngx_int_t edge_state_file_change(const record_t *record);

/* Is what was written last still there, and nothing behind it? NGX_OK | NGX_ERROR: the file is
 * broken. */
ngx_int_t edge_state_file_check(void);

/* It is older than what is in force: nothing is written to it before it is replaced. */
void edge_state_file_break(const char *what);
ngx_uint_t edge_state_file_is_broken(void);

ngx_uint_t edge_state_file_is_there(void);
ngx_uint_t edge_state_file_is_replacing(void); /* by a snapshot in the making */

/* Of the file in use: its snapshot, and the changes behind that. */
off_t edge_state_file_snapshot_bytes(void);
off_t edge_state_file_change_bytes(void);

/* Is there as much as was too little the last time? */
ngx_uint_t edge_state_file_has_room(void);
