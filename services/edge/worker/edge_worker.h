/* The configuration that a worker serves. Owns the table in force with its log id and revision, the
 * table that an arriving snapshot builds beside it, and tables that are being freed. Messages of
 * the config log and records of the state file are both applied by edge_worker_take(). */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>

#include "services/edge/streams/touched.h"
#include "services/edge/table/table.h"
#include "services/edge/worker/follow.h"

/* Callbacks of this process's tables, set before the first table is made: backend_added for each
 * new backend; free_parsed for a certificate that a handshake has parsed; touched for each change
 * of the table in force, with the key of open streams that the change may end; route_added for each
 * version of a route, route_gone for one that goes from the table in force, in_force for a table
 * that takes the place of another. */
typedef struct {
    void (*backend_added)(backend_t *backend);
    void (*free_parsed)(void *parsed);
    touched_fn touched;
    void (*route_added)(route_t *route);
    void (*route_gone)(const route_t *route);
    void (*in_force)(const table_t *table);
} edge_worker_hooks_t;

/* Make the first, empty table, unless there is one. hooks are copied. */
void edge_worker_init(const edge_worker_hooks_t *hooks);

/* The table in force; not NULL after edge_worker_init. Entries are valid until the next message is
 * taken; to keep one for longer, take a reference (refs). */
table_t *edge_worker_table(void);

/* Log id and revision of the table in force, and whether a snapshot is arriving. */
const follow_t *edge_worker_at(void);

/* Take a message of the config log, or a record of the state file, and apply its body as follow.h
 * decides. Returns that decision, or FOLLOW_FAILED: the body is not an array of entries, nothing of
 * it is in force, and the next hello asks for a snapshot. */
follow_step_t edge_worker_take(const follow_message_t *message, const void *body, size_t len,
                               ngx_log_t *log);

/* Call before a request or handshake uses the table: a worker that was stopped for a while first
 * catches up, in the handler that was set. */
void edge_worker_refresh(void);
void edge_worker_set_refresh(void (*handler)(void));

/* Make the next hello ask for a snapshot. */
void edge_worker_want_all(void);

/* Discard a snapshot that is arriving; at_once: free its table before this returns. */
void edge_worker_drop_arriving(ngx_uint_t at_once);

/* Before another state file is read: the table in force stays, but older revisions are accepted
 * again. */
void edge_worker_reread(void);

/* Free at most that many objects of retired tables. Is there more to free? */
ngx_uint_t edge_worker_free_some(size_t objects);
