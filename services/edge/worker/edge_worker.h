/* What a worker of the edge serves: the table in force and of which revision of which log it is,
 * the one that a snapshot builds beside it, and those that are being freed. This unit alone owns
 * them. Messages of the config log and records of the state file come in by one door,
 * edge_worker_take(). */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>

#include "services/edge/table/table.h"
#include "services/edge/worker/follow.h"

/* What tables of this process call: for each backend that they get, and to free what the
 * handshakes made of a certificate. Set before the first table is made. */
typedef struct {
    void (*backend_added)(backend_t *backend);
    void (*free_parsed)(void *parsed);
} edge_worker_hooks_t;

void edge_worker_init(const edge_worker_hooks_t *hooks);

/* In force; never NULL behind edge_worker_init. Its entries are valid until the next message is
 * taken, but for what is counted. */
table_t *edge_worker_table(void);

/* Of which log and revision that is, and whether a snapshot is arriving. */
const follow_t *edge_worker_at(void);

/* Judge a message of the config log, or a record of the state file, and apply its body where it
 * is to be. What the reader decided, or FOLLOW_FAILED: the body is no body of entries, nothing
 * of it is in force, and the next hello asks for everything. */
follow_step_t edge_worker_take(const follow_message_t *message, const void *body, size_t len,
                               ngx_log_t *log);

/* Before the table is asked for a request or a handshake: a worker that stood still learns what
 * is in force, from the handler that was set. */
void edge_worker_refresh(void);
void edge_worker_set_refresh(void (*handler)(void));

/* The next hello asks for everything. */
void edge_worker_want_all(void);

/* A snapshot that is arriving is void; at_once: freed before this returns. */
void edge_worker_drop_arriving(ngx_uint_t at_once);

/* What is in force stays, and what is read from now on may be older: another state file. */
void edge_worker_reread(void);

/* Free so many objects of tables that are not in force any more. Is there more? */
ngx_uint_t edge_worker_free_some(size_t objects);
