/* Seats: they tell an edge's two masters apart while one replaces the other (edge_seat.c). */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>

enum { EDGE_SEATS = 2 };

/* In a master, while the configuration is read: may it replace the master whose sockets it has
 * inherited? NGX_OK | NGX_ERROR, logged. */
ngx_int_t edge_seat_check(ngx_conf_t *cf);

/* Take a seat; in the master, before anything that is named after the seat is made. NGX_OK |
 * NGX_ERROR, logged. */
ngx_int_t edge_seat_take(ngx_cycle_t *cycle);

/* Tell the other master that this worker serves. */
void edge_seat_say_ready(void);

/* Is there a newer master with our sockets whose workers all serve? */
ngx_uint_t edge_seat_is_succeeded(void);

/* Has this process, or the master that it is a worker of, a seat? Then it has read its
 * configuration. */
ngx_uint_t edge_seat_is_taken(void);

/* The generation of a seat's master: one more for each master that takes a seat. */
uint64_t edge_seat_generation(ngx_uint_t seat);

/* This process's seat: 0 or 1. */
ngx_uint_t edge_seat(void);
/* The suffix of file names that belong to a seat: "" or ".1". */
const char *edge_seat_suffix(ngx_uint_t seat);

/* For the operator's status page: how many masters took a seat so far, the master's pid, the build
 * id of the module, and whether all workers are ready. */
typedef struct {
    uint64_t     generation;
    ngx_pid_t    master;
    const char  *build;
    ngx_uint_t   ready;
} edge_seat_info_t;

/* The above of this process's master. */
edge_seat_info_t edge_seat_info(void);

/* Keep the other seat from being taken. NGX_OK: it is free and stays so until edge_seat_leave_other
 * | NGX_DECLINED: it is taken. */
ngx_int_t edge_seat_visit_other(void);
void edge_seat_leave_other(void);

/* Lock the state file's page as its writer; called in the helper of worker 0. NGX_OK: this master
 * writes, until edge_seat_write_end; *taken: another one wrote before | NGX_DECLINED: another
 * master is the writer | NGX_ERROR, logged. A newer master takes over from an older one, unless
 * early. */
ngx_int_t edge_seat_write_begin(ngx_uint_t early, ngx_uint_t *taken);
void edge_seat_write_end(void);
