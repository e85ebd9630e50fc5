/* One PostgreSQL connection: parameters always apart from SQL, a timeout for every statement,
 * SQLSTATE as errno. */
#pragma once

#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct pg pg_t;

/* For _cleanup_(pgresult_clear). */
static inline void pgresult_clear(PGresult **p)
{
    PQclear(*p);
    *p = NULL;
}

enum {
    PG_STATEMENT_TIMEOUT_MS = 5000,
    PG_IDLE_TIMEOUT_MS =
        2000, /* a process that is stopped in a transaction holds its locks for so long at most */
    PG_PARAMS_MAX = 16
};

/* Faults that callers tell apart: ENOTCONN, the connection is gone; EAGAIN, serialization failure
 * or deadlock: try the transaction again; ETIMEDOUT, a statement took longer than
 * PG_STATEMENT_TIMEOUT_MS or than pg_until allows; EBUSY, somebody held a lock longer than
 * lock_timeout, which only migrations set; EDOM, data exception, or beyond what PostgreSQL
 * can do (classes 22, 54); ENOSPC, PostgreSQL has no room: disk, memory, connections (class 53), or
 * an I/O error; EEXIST, unique_violation; ENOTEMPTY, foreign_key_violation; EDQUOT,
 * check_violation, as triggers raise that keep a bound (pg_constraint says which). */
#define PG_DOWN       (-107)
#define PG_AGAIN      (-11)
#define PG_TIMEOUT    (-110)
#define PG_IMPOSSIBLE (-33)
#define PG_FULL       (-28)
#define PG_BUSY       (-16)
#define PG_DUPLICATE  (-17)
#define PG_REFERENCED (-39)
#define PG_OVER_LIMIT (-122)

/* Note where to connect; schema becomes the search path. The first pg_ready connects. 0 |
 * -ENOMEM. */
int pg_new(pg_t **ret_pg, const char *url, const char *schema);
void pg_destroy(pg_t **self_p);

/* Connect if there is no connection. 0 | PG_DOWN. */
int pg_ready(pg_t *self);

/* Set the deadline of the work that follows (monotonic ms; 0: none). No statement begins after it,
 * and those of a transaction, waits for locks too, end soon after it: PG_TIMEOUT. Work that nobody
 * waits for any more must not be done, because something else may have happened meanwhile. */
void pg_until(pg_t *self, int64_t deadline_ms);

/* Within a transaction: from here on it may be idle for so long, because its process computes. The
 * longest that locks are held where the process is stopped meanwhile. 0 | fault. */
int pg_allow_idle(pg_t *self, int ms);

/* Drop a broken connection: the next pg_ready makes a new one. */
void pg_drop(pg_t *self);

/* Run one statement with n text parameters. *ret_result may be NULL when no rows are wanted; the
 * caller clears it. 0 | PG_* | -EIO. */
int pg_exec(pg_t *self, PGresult **ret_result, const char *sql, int n, ...);
int pg_exec_params(pg_t *self, PGresult **ret_result, const char *sql, int n,
                   const char *const *params);

/* As pg_exec, for a statement whose text depends on a request: it is not kept prepared. */
int pg_exec_once(pg_t *self, PGresult **ret_result, const char *sql, int n,
                 const char *const *params);

/* Queue a statement whose result is not needed: it is sent with the next one, which also reports
 * its failure. Only inside a transaction; BEGIN may be the first. 0 | -ENOMEM | as pg_exec. */
int pg_defer(pg_t *self, const char *sql, int n, ...);

/* Send what is deferred, this statement (NULL: none) and COMMIT at once. Results as pg_exec. */
int pg_commit(pg_t *self, PGresult **ret_result, const char *sql, int n, ...);

/* End the transaction, if there is one, and drop what is deferred. */
void pg_rollback(pg_t *self);

/* Run several statements without parameters (migrations). 0 | as pg_exec. */
int pg_script(pg_t *self, const char *sql);

/* Why nothing can be changed now, as PostgreSQL told this process within the last minute; NULL: it
 * can, as far as is known. */
const char *pg_trouble(void);

/* Is the reason that it is read-only? A statement that PostgreSQL refuses for this ends the session
 * (PG_DOWN): a new one may lead to another server. */
bool pg_is_read_only(void);

/* Constraint of the last PG_DUPLICATE, PG_REFERENCED or PG_OVER_LIMIT; "" when there was none. */
const char *pg_constraint(const pg_t *self);

/* The schema that pg_new was given; borrowed. */
const char *pg_schema(const pg_t *self);

/* The socket to poll for notifications; -1 when not connected. */
int pg_socket(const pg_t *self);

/* Consume waiting notifications. 1: there were some | 0 | PG_DOWN, also when a read-only session is
 * given up, every 5 s: a listener on a server that is no longer the primary would never hear
 * anything again. Call it before polling the socket: a statement in between may have read
 * notifications from the socket, which then does not become readable. */
int pg_notified(pg_t *self);

/* As pg_notified, one at a time in the order of their commits. 1: *ret_note is to be freed with
 * PQfreemem | 0: there are no more | PG_DOWN. */
int pg_take_note(pg_t *self, PGnotify **ret_note);
