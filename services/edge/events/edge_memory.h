/* The memory of the event rings: a file in a tmpfs, which postern-events on the same machine can
 * read, or memory that only this edge's processes have. A slot for each worker, behind a head
 * (common/schema/event_memory.h). */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>

#define EDGE_MEMORY_PREFIX "postern-events-"

/* In the master, before it forks: make it for that many workers, or go on with the file that a
 * killed edge left, which may have more slots. New slots are zeros. NGX_OK | NGX_ERROR, logged. */
ngx_int_t edge_memory_open(size_t slot_bytes, ngx_uint_t workers, ngx_log_t *log);

/* A worker's slot; NULL: there is none of that number. */
void *edge_memory_slot(ngx_uint_t worker);

/* In a worker: its slot is this process's as long as it lives. NGX_ERROR: there is none, or another
 * process has it; errno. */
ngx_int_t edge_memory_claim(ngx_uint_t worker);

/* In the master: cut off the slots beyond those of this edge's workers. */
void edge_memory_shrink(void);

/* Bytes of a slot: counters and ring. */
size_t edge_memory_slot_bytes(void);

/* The file's name, without folder, for others who read it; "": there is none. */
const char *edge_memory_name(void);

/* Where in the file an address within a slot is. */
off_t edge_memory_position(const void *at);

/* In the master, when it ends: remove the file's name. */
void edge_memory_remove(void);

/* ---- of another master ---- */

/* The file of another seat, whose master is gone: mapped until edge_memory_left_close. */
typedef struct {
    u_char *at;
    size_t total, slot_bytes;
    ngx_uint_t slots, seat;
} edge_memory_left_t;

/* NGX_OK | NGX_DECLINED: there is none that can be read. */
ngx_int_t edge_memory_left_open(ngx_uint_t seat, edge_memory_left_t *left);

/* A worker's slot of it; NULL: it has none of that number. */
void *edge_memory_left_slot(const edge_memory_left_t *left, ngx_uint_t worker);

/* Unmap it, and remove the file where it is empty. */
void edge_memory_left_close(edge_memory_left_t *left, ngx_uint_t is_empty);
