/* The last configuration on disk: records of what the config log said. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>

#include "services/edge/control/follow.h"

enum {
    STATE_SNAPSHOT = FOLLOW_SNAPSHOT, /* all of it begins */
    STATE_MORE = FOLLOW_MORE,
    STATE_END = FOLLOW_SNAPSHOT_END,  /* and is in force */
    STATE_DELTA = FOLLOW_DELTA        /* what changed since previous */
};

typedef struct {
    int        type;
    char       log_id[64];   /* RECORD_LOG_BYTES of record.h */
    int64_t    previous, revision;
    ngx_str_t  body;
} state_record_t;

/* edge_state.c. Sealed, with its length in front: free it. NULL: no memory. */
u_char *edge_state_seal(const state_record_t *record, size_t *len);
/* The record at *at, which moves behind it; record->body is valid until the result is freed. NULL:
 * no record, or one that is torn or sealed with another key. */
u_char *edge_state_read(ngx_fd_t file, off_t *at, state_record_t *record);
void edge_state_free(u_char *plain); /* wiped */
/* NGX_OK: *at moved behind a record | NGX_DONE: nothing there, or it is torn. */
ngx_int_t edge_state_skip(ngx_fd_t file, off_t *at);

/* edge_store.c, in the helper of worker 0. Finds where the file ends. */
void edge_store_open(void);
/* A message of the config log, before the worker hears of it. */
void edge_store_message(const ngx_str_t *frames, ngx_uint_t n);
/* Would a restart serve what the worker was told last? Another edge's file counts as kept. */
typedef enum {
    STORE_UNKNOWN,   /* nothing was told to this helper yet */
    STORE_KEPT,
    STORE_BEHIND
} store_standing_t;
store_standing_t edge_store_standing(void);
/* The file has grown, or is behind and there is room: all of the configuration again, please. */
ngx_uint_t edge_store_wants_snapshot(void);
