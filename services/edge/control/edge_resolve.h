/* Names of backends to addresses, off the request path. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>

#include "services/edge/table/table.h"

/* on_answer is called when names were answered for. */
void edge_resolve_start(ngx_cycle_t *cycle, void (*on_answer)(void));
ngx_int_t edge_resolve_connect(int names, ngx_log_t *log);
void edge_resolve_stop(void);
void edge_resolve_add(backend_t *backend);
/* Where a static backend is right now: its length, 0: its name has no address (yet). */
socklen_t edge_resolve_address(const backend_t *backend, struct sockaddr_storage *out);
void edge_resolve_wait(ngx_msec_t timeout);
/* Names that nobody has asked for before, which come with what is applied from now on until it
 * is NULL. */
typedef struct edge_wait edge_wait_t;
edge_wait_t *edge_resolve_wait_new(void);
void edge_resolve_wait_for(edge_wait_t *wait);
ngx_uint_t edge_resolve_wait_pending(const edge_wait_t *wait); /* NULL: none */
void edge_resolve_wait_drop(edge_wait_t *wait);                /* NULL: nothing */
/* Names of accounts that have held up others for long enough are waited for no more. */
void edge_resolve_release_spent(void);
