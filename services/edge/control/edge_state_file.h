/* The files of the last configuration, for edge_store.c, which writes them: the one in use, and a
 * snapshot that replaces it when it is complete. Each kind of failure is logged here, once. */
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

/* Remove the snapshot that is being written, if there is one. */
void edge_state_file_drop_snapshot(void);

/* Append a change to the file in use. NGX_OK | NGX_ERROR: the file is broken. */
ngx_int_t edge_state_file_change(const record_t *record);

/* Is what was written last still there, and nothing behind it? NGX_OK | NGX_ERROR: the file is
 * broken. */
ngx_int_t edge_state_file_check(void);

/* It is older than what is in force: nothing is written to it before it is replaced. */
void edge_state_file_break(const char *what);
ngx_uint_t edge_state_file_is_broken(void);

/* Is there a file in use? And is a snapshot being written that is to replace it? */
ngx_uint_t edge_state_file_is_there(void);
ngx_uint_t edge_state_file_is_replacing(void);

/* Bytes of the file in use: of its snapshot, and of the changes behind that. */
off_t edge_state_file_snapshot_bytes(void);
off_t edge_state_file_change_bytes(void);

/* Has the disk room for what did not fit the last time? */
ngx_uint_t edge_state_file_has_room(void);
