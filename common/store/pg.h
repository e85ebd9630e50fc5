/* One PostgreSQL connection: parameters only, timeouts always, SQLSTATE as errno. */
#pragma once

#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct pg pg_t;

/* For _cleanup_. */
static inline void pgresult_clear(PGresult **p)
{
    PQclear(*p);
    *p = NULL;
}

enum {
    PG_STATEMENT_TIMEOUT_MS = 5000,
    PG_IDLE_TIMEOUT_MS =
        2000, /* a process that stands still in a transaction holds its locks so long */
    PG_PARAMS_MAX = 16
};

/* Faults that callers tell apart. */
#define PG_DOWN  (-107) /* ENOTCONN: the connection is gone */
#define PG_AGAIN (-11)  /* EAGAIN: serialization failure or deadlock, try the transaction again */
#define PG_TIMEOUT                                                                                 \
    (-110) /* ETIMEDOUT: a statement took longer than PG_STATEMENT_TIMEOUT_MS, or than pg_until's */
#define PG_IMPOSSIBLE                                                                              \
    (-33) /* EDOM: data exception, or beyond what PostgreSQL can do (classes 22, 54) */
#define PG_FULL                                                                                    \
    (-28) /* ENOSPC: it has no room: disk, memory, connections (class 53), or an I/O error */
#define PG_DUPLICATE  (-17) /* EEXIST: unique_violation */
#define PG_REFERENCED (-39) /* ENOTEMPTY: foreign_key_violation */

/* Remember where to connect; schema becomes the search path. Connects at the first pg_ready. */
int pg_new(pg_t **ret_pg, const char *url, const char *schema);
void pg_destroy(pg_t **self_p);

/* Connect when needed. 0 | PG_DOWN. */
int pg_ready(pg_t *self);

/* From now on no statement begins behind deadline_ms (monotonic), and none of a transaction goes on much longer, waiting for a lock
 * either: PG_TIMEOUT. 0: whenever. What nobody waits for any more must not be done: something else may have been meanwhile. */
void pg_until(pg_t *self, int64_t deadline_ms);

/* Forget a broken connection: the next pg_ready makes a new one. */
void pg_drop(pg_t *self);

/* Run one statement with n text parameters. *ret_result may be NULL when no rows are wanted; the
 * caller clears it. 0 | PG_* | -EIO. */
int pg_exec(pg_t *self, PGresult **ret_result, const char *sql, int n, ...);
int pg_exec_params(pg_t *self, PGresult **ret_result, const char *sql, int n,
                   const char *const *params);

/* The same for a statement whose text depends on what somebody asked for: it is not kept prepared. */
int pg_exec_once(pg_t *self, PGresult **ret_result, const char *sql, int n,
                 const char *const *params);

/* A statement whose result nobody needs: it is sent with the next one, which also says whether it failed. Only inside
 * a transaction, whose BEGIN may be the first of them. 0 | -ENOMEM | what pg_exec says. */
int pg_defer(pg_t *self, const char *sql, int n, ...);

/* What is deferred, this statement (NULL: none) and COMMIT, in one go. */
int pg_commit(pg_t *self, PGresult **ret_result, const char *sql, int n, ...);

/* End the transaction, if there is one, and forget what is deferred. */
void pg_rollback(pg_t *self);

/* Several statements without parameters (migrations). */
int pg_script(pg_t *self, const char *sql);

/* Why nothing can be changed: what PostgreSQL told this process within a minute, and nothing has contradicted since. NULL: it can. */
const char *pg_trouble(void);

/* Is that because it is read-only? A statement that it refuses for this ends the session (PG_DOWN): the next one may lead elsewhere. */
bool pg_is_read_only(void);

/* Name of the constraint of the last PG_DUPLICATE or PG_REFERENCED; "" when none. */
const char *pg_constraint(const pg_t *self);

/* The schema whose name pg_new was given; borrowed. */
const char *pg_schema(const pg_t *self);

/* The socket to poll for notifications; -1 when not connected. */
int pg_socket(const pg_t *self);

/* Consume waiting notifications: 1 when there were any | 0 | PG_DOWN, also when a session that is read-only is given up, every 5 s: who
 * listens on a server that is not the primary any more would hear nothing new for ever. Ask before polling the socket: a
 * statement that ran meanwhile may have read them from it, and then it does not become readable. */
int pg_notified(pg_t *self);

/* The same, one by one in the order in which they were committed: 1: PQfreemem it | 0: there are no more | PG_DOWN. */
int pg_take_note(pg_t *self, PGnotify **ret_note);
