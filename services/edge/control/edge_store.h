/* The file of the last configuration, written in the helper of worker 0 (edge_store.c). */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>

/* At the helper's start: open the file and find where its last whole record ends. */
void edge_store_open(void);

/* Write a message of the config log (its frames, proto/WIRE.md), before the worker hears of it.
 * Messages of other kinds are ignored. */
void edge_store_message(const ngx_str_t *frames, ngx_uint_t n);

/* Would a restart serve what the worker was told last? A file that another master's helper writes
 * counts as kept. */
typedef enum {
    STORE_UNKNOWN,   /* nothing was told to this helper yet */
    STORE_KEPT,
    STORE_BEHIND
} store_standing_t;

/* After the last message. */
store_standing_t edge_store_standing(void);

/* Should the config log send everything again? The file has grown, or is behind and the disk has
 * room again. */
ngx_uint_t edge_store_wants_snapshot(void);
