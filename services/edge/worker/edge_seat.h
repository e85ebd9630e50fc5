/* Who of the masters of one edge is who while one replaces another (edge_seat.c). */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>

enum { EDGE_SEATS = 2 };

/* In the master that reads its configuration: can it replace the one whose sockets it has? */
ngx_int_t edge_seat_check(ngx_conf_t *cf);
/* In the master, before it has anything that carries a seat's number. */
ngx_int_t edge_seat_take(ngx_cycle_t *cycle);
/* In a worker, once it serves. */
void edge_seat_say_ready(void);

/* Is there a master that has our sockets, and whose workers all serve? */
ngx_uint_t edge_seat_is_succeeded(void);

/* Has this process, or the master that it is a worker of, a seat? Then it has read its
 * configuration. */
ngx_uint_t edge_seat_is_taken(void);

/* Another one for each master that sits down. */
uint64_t edge_seat_generation(ngx_uint_t seat);

/* 0 or 1; what a seat's files and names have in front of what they are called otherwise. */
ngx_uint_t edge_seat(void);
const char *edge_seat_suffix(ngx_uint_t seat);   /* "" or ".1" */

/* For the operator: how often this edge was replaced, its master, the build of the module that
 * runs, and whether all its workers are ready. */
typedef struct {
    uint64_t     generation;
    ngx_pid_t    master;
    const char  *build;
    ngx_uint_t   ready;
} edge_seat_info_t;

edge_seat_info_t edge_seat_info(void);

/* The other seat while nobody sits there. NGX_OK: it stays so until edge_seat_leave_other |
 * NGX_DECLINED */
ngx_int_t edge_seat_visit_other(void);
void edge_seat_leave_other(void);

/* The state file has one writer: in the helper of worker 0. NGX_OK: it is this one, until
 * edge_seat_write_end, and *taken says that another one wrote before | NGX_DECLINED: another one is
 * | NGX_ERROR, logged. A newer master takes the part of an older one, but not while early. */
ngx_int_t edge_seat_write_begin(ngx_uint_t early, ngx_uint_t *taken);
void edge_seat_write_end(void);
