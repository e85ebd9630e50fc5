/* The file of the last configuration, written in the helper of worker 0 (edge_store.c). */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>

/* Find where the file ends. */
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
