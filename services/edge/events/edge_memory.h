/* What the rings lie in. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>

#define EDGE_MEMORY_PREFIX "postern-events-"
ngx_int_t edge_memory_open(size_t slot_bytes, ngx_uint_t slots, ngx_log_t *log);
void *edge_memory_slot(ngx_uint_t worker); /* NULL: no such slot */
/* In a worker: its slot is this process's as long as it lives. NGX_ERROR: there is none, or another
 * process has it; errno. */
ngx_int_t edge_memory_claim(ngx_uint_t worker);
/* In the master: the slots of workers that are no more go. */
void edge_memory_shrink(void);
size_t edge_memory_slot_bytes(void); /* of which the ring is a part */
const char *edge_memory_name(void);  /* of the file others may read; "": there is none */
off_t edge_memory_position(const void *at);
void edge_memory_remove(void); /* the file's name */
/* The file of another seat, whose master is gone. NGX_OK | NGX_DECLINED: there is none. */
typedef struct {
    u_char *at;
    size_t total, slot_bytes;
    ngx_uint_t slots, seat;
} edge_memory_left_t;
ngx_int_t edge_memory_left_open(ngx_uint_t seat, edge_memory_left_t *left);
void *edge_memory_left_slot(const edge_memory_left_t *left,
                            ngx_uint_t worker);                             /* NULL: no such slot */
void edge_memory_left_close(edge_memory_left_t *left, ngx_uint_t is_empty); /* then it goes */
