/* Names of backends to addresses, off the request path. One resolver in each worker; the master
 * has the names of the table that it reads, and asks for none. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>

#include "services/edge/control/resolve.h"
#include "services/edge/table/table.h"

/* Once the table from disk is there: ask for its names. on_answers is called after answers came. */
void edge_resolve_start(ngx_cycle_t *cycle, void (*on_answers)(void));

/* names: the worker's end of a new helper's link for names, the resolver's from now on. NGX_OK |
 * NGX_ERROR: it is closed, and nothing is asked until there is another. */
ngx_int_t edge_resolve_connect(int names, ngx_log_t *log);

/* The worker ends: nothing is asked any more. */
void edge_resolve_stop(void);

/* A backend of a table has a name: sets backend->name and backend->forget_name, which the table
 * calls when it frees the backend. */
void edge_resolve_add(backend_t *backend);

/* Where a static backend is right now, with its port. The length of *ret_address; 0: it is unset,
 * its name has no address (yet). */
socklen_t edge_resolve_address(const backend_t *backend, struct sockaddr_storage *ret_address);

/* Block until each name had an answer, timeout milliseconds at most. Only before the worker
 * answers requests. */
void edge_resolve_wait(ngx_msec_t timeout);

/* An acknowledgement that waits for names, by counted references (resolve_waits.h). */
typedef resolve_wait_t edge_wait_t;

/* The caller has the only reference. */
edge_wait_t *edge_resolve_wait_new(void);

/* Until this is called with NULL, wait waits for each name that is added and was never tried. Takes
 * no reference. */
void edge_resolve_wait_for(edge_wait_t *wait);

/* Names that are still waited for; 0 for NULL. */
ngx_uint_t edge_resolve_wait_pending(const edge_wait_t *wait);

/* Give a reference back; NULL: nothing. */
void edge_resolve_wait_drop(edge_wait_t *wait);

/* At each beat: names of accounts that have held up acknowledgements for too long are waited for no
 * more. */
void edge_resolve_release_spent(void);
