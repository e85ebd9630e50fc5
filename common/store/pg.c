#include "common/store/pg.h"
#include "common/base/invariant.h"
#include "common/base/cleanup.h"
#include "common/base/err.h"
#include "common/base/log.h"
#include "common/store/stillness.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    PREPARED_MAX = 256,
    QUEUE_MAX = 24,
    LATE_MS = 20, /* a statement may run for so long beyond the deadline */
    /* how long PostgreSQL's last "no room" or "read-only" counts when nothing was tried since */
    TROUBLE_S = 60,
    READ_ONLY_MS = 5000 /* between two attempts to get a session that is not read-only */
};

/* A prepared statement that waits to be sent with the next one. */
typedef struct queued {
    char name[16];
    char *params[PG_PARAMS_MAX];
    int n;
} queued_t;

struct pg {
    PGconn *conn;
    pg_call_t call;       /* what this connection waits for */
    int64_t connected_ms; /* when the connection was made, monotonic ms */
    char *url;
    char schema[64];
    char constraint[80];
    char *prepared[PREPARED_MAX]; /* SQL of the statement that this connection knows as "s<i>" */
    int prepared_count;
    queued_t queue[QUEUE_MAX];
    int queued;
    int64_t deadline_ms; /* monotonic ms; 0: none */
    int64_t timeout_ms;  /* statement_timeout of the current transaction */
};

static int64_t mono_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Before each call of libpq that waits for the server, and behind it. */
static void call_begin(pg_t *self)
{
    pg_call_begin(&self->call, mono_ms());
}

static PGresult *call_end(pg_t *self, PGresult *res)
{
    pg_call_end(&self->call, mono_ms(), PQstatus(self->conn) == CONNECTION_OK);
    return res;
}

static void forget_queue(pg_t *self)
{
    while (self->queued > 0) {
        queued_t *one = &self->queue[--self->queued];

        for (int i = 0; i < one->n; i++)
            free(one->params[i]);
    }
}

int pg_new(pg_t **ret_pg, const char *url, const char *schema)
{
    pg_t *self = calloc(1, sizeof(*self));

    if (!self || !(self->url = strdup(url))) {
        free(self);
        return -ENOMEM;
    }
    snprintf(self->schema, sizeof(self->schema), "%s", schema);
    pg_call_add(&self->call);
    *ret_pg = self;
    return 0;
}

void pg_destroy(pg_t **self_p)
{
    if (!*self_p)
        return;
    pg_drop(*self_p);
    pg_call_remove(&(*self_p)->call);
    free((*self_p)->url);
    free(*self_p);
    *self_p = NULL;
    /* Free what libpq has of OpenSSL in this thread (it proves passwords with it) now: a thread of
     * an actor may outlive its actor, and even main, by a moment. */
    OPENSSL_thread_stop();
}

void pg_drop(pg_t *self)
{
    forget_queue(self);
    pg_call_end(&self->call, mono_ms(), false); /* where one is under way */
    PQfinish(self->conn);
    self->conn = NULL;
    while (self->prepared_count > 0)
        free(self->prepared[--self->prepared_count]);
}

static void ignore_notice(void *context, const char *message)
{
    (void)context;
    (void)message; /* not logged: notices may quote rows */
}

/* Of all connections of the process, as time(); 0: never, or a statement has succeeded since. */
static _Atomic int64_t full_at, read_only_at;

static bool is_fresh(int64_t at)
{
    return at && time(NULL) - at < TROUBLE_S;
}

bool pg_is_read_only(void)
{
    return is_fresh(read_only_at);
}

const char *pg_trouble(void)
{
    if (pg_is_read_only())
        return "PostgreSQL is read-only: nothing can be changed";
    return is_fresh(full_at) ? "PostgreSQL has no room: nothing can be changed" : NULL;
}

/* Is the server a standby, or made read-only by an operator or a provider? PostgreSQL reports both
 * for each session (since 14). */
static bool is_read_only(const pg_t *self)
{
    static const char *const names[] = {"in_hot_standby", "default_transaction_read_only"};

    for (size_t i = 0; i < LEN(names); i++) {
        const char *value = PQparameterStatus(self->conn, names[i]);

        if (value && !strcmp(value, "on"))
            return true;
    }
    return false;
}

static void note_session(pg_t *self)
{
    self->connected_ms = mono_ms();
    read_only_at = is_read_only(self) ? time(NULL) : 0;
}

/* Outside transactions, drop a read-only session from time to time: a connection that only listens
 * would otherwise stay on a former primary. */
static void leave_read_only(pg_t *self)
{
    if (!self->conn || !is_read_only(self))
        return;
    read_only_at = time(NULL);
    if (mono_ms() - self->connected_ms >= READ_ONLY_MS)
        pg_drop(self);
}

int pg_ready(pg_t *self)
{
    char setup[320];
    int r;

    if (self->conn && PQstatus(self->conn) == CONNECTION_OK)
        return 0;
    pg_drop(self);
    /* a path that is dead ends what waits for an answer on it, too */
    const char *const keys[] = {
        "dbname",          "connect_timeout",     "application_name", "tcp_user_timeout",
        "keepalives_idle", "keepalives_interval", "keepalives_count", NULL};
    const char *const values[] = {self->url, "3", self->schema, "5000", "5", "2", "3", NULL};

    call_begin(self);
    self->conn = PQconnectdbParams(keys, values, 1);
    call_end(self, NULL);
    if (!self->conn || PQstatus(self->conn) != CONNECTION_OK) {
        pg_drop(self);
        return fault(PG_DOWN, "connect to PostgreSQL (is DATABASE_URL right and the server up?)");
    }
    PQsetNoticeProcessor(self->conn, ignore_notice, NULL);
    /* Every statement on a table that grows has an index. Without these settings a plan that scans
     * a table, because it was small when the statement was prepared, would be kept while the table
     * grows, and cheap statements would be compiled. */
    snprintf(setup, sizeof(setup),
             "SET search_path = %s; SET TimeZone = 'UTC'; SET statement_timeout = %d;"
             "SET idle_in_transaction_session_timeout = %d; "
             "SET enable_seqscan = off; SET jit = off",
             self->schema, PG_STATEMENT_TIMEOUT_MS, PG_IDLE_TIMEOUT_MS);
    r = pg_script(self, setup);
    if (r)
        pg_drop(self);
    else
        note_session(self);
    return r;
}

/* Does this SQLSTATE mean that the session is to be dropped, because a new one may succeed? */
static bool ends_session(const char *state)
{
    static const char *const states[] = {
        "57P",            /* the server shuts down, or an operator ended the session */
        "08",             /* the connection is broken */
        "0A000", "26000", /* a migration of another copy invalidated a prepared statement */
        "25P03", "25P04", /* idle in transaction for too long: this process was stopped */
    };

    for (size_t i = 0; i < LEN(states); i++)
        if (!strncmp(state, states[i], strlen(states[i])))
            return true;
    return false;
}

static int check_result(pg_t *self, const PGresult *res)
{
    const char *state, *constraint;
    char text[160];

    switch (PQresultStatus(res)) {
    case PGRES_COMMAND_OK:
    case PGRES_TUPLES_OK:
        return 0;
    default:
        break;
    }
    state = PQresultErrorField(res, PG_DIAG_SQLSTATE);
    if (!state || PQstatus(self->conn) != CONNECTION_OK || ends_session(state)) {
        pg_drop(self);
        return fault(PG_DOWN, "PostgreSQL connection lost");
    }
    if (!strcmp(state, "25006")) {
        read_only_at = time(NULL);
        pg_drop(self);
        return fault(PG_DOWN, "PostgreSQL is read-only, SQLSTATE 25006");
    }
    constraint = PQresultErrorField(res, PG_DIAG_CONSTRAINT_NAME);
    snprintf(self->constraint, sizeof(self->constraint), "%s", constraint ? constraint : "");
    if (!strcmp(state, "23505"))
        return PG_DUPLICATE;
    if (!strcmp(state, "23503"))
        return PG_REFERENCED;
    if (!strcmp(state, "57014"))
        return fault(PG_TIMEOUT, "PostgreSQL took too long for a statement");
    if (!strcmp(state, "55P03"))
        return fault(PG_BUSY, "somebody holds a lock that is needed, SQLSTATE 55P03");
    if (!strcmp(state, "40001") || !strcmp(state, "40P01"))
        return PG_AGAIN;
    /* Log the SQLSTATE and the position in our own SQL only: messages quote rows. */
    snprintf(text, sizeof(text), "SQL failed, SQLSTATE %s%s%s", state, *self->constraint ? " " : "",
             self->constraint);
    if (!strcmp(state, "23514"))
        return fault(PG_OVER_LIMIT, text);
    if (!strncmp(state, "53", 2) || !strcmp(state, "58030")) {
        full_at = time(NULL);
        return fault(PG_FULL, text);
    }
    return fault(!strncmp(state, "22", 2) || !strncmp(state, "54", 2) ? PG_IMPOSSIBLE : -EIO, text);
}

/* Prepare the statement if it is new on this connection, because parsing and planning cost as much
 * as running. 1: *ret_name is its name | 0: there are too many, run it unprepared | fault. */
static int prepare_statement(pg_t *self, const char *sql, int n, char ret_name[16])
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int i = 0, r;

    INVARIANT(self->prepared_count <= PREPARED_MAX);
    while (i < self->prepared_count && strcmp(self->prepared[i], sql))
        i++;
    snprintf(ret_name, 16, "s%d", i);
    if (i < self->prepared_count)
        return 1;
    if (i == PREPARED_MAX)
        return 0;
    call_begin(self);
    res = call_end(self, PQprepare(self->conn, ret_name, sql, n, NULL));
    r = check_result(self, res);
    if (r)
        return r;
    self->prepared[i] = strdup(sql);
    if (!self->prepared[i])
        return -ENOMEM;
    self->prepared_count++;
    return 1;
}

/* Read the next statement's result and the NULL behind it. The first error is kept: statements
 * behind it were not run. */
static void read_one(pg_t *self, int *r, PGresult **ret_result)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    PGresult *rest;

    call_begin(self); /* of its own: each statement has its own statement_timeout */
    res = call_end(self, PQgetResult(self->conn));

    if (res && PQresultStatus(res) != PGRES_PIPELINE_ABORTED && !*r)
        *r = check_result(self, res);
    else if (!res && !*r)
        *r = fault(-EIO, "PostgreSQL gave no result");
    if (!self->conn)
        return;
    while ((rest = PQgetResult(self->conn)))
        PQclear(rest);
    if (!*r && ret_result)
        *ret_result = take(res);
}

/* Send all that is queued at once and read the results in order; *ret_result is that of statement
 * `number`. */
static int run_queue(pg_t *self, int number, PGresult **ret_result)
{
    int count = self->queued, r = 0;
    bool sent;

    INVARIANT(count <= QUEUE_MAX && number < count);
    call_begin(self);
    sent = PQenterPipelineMode(self->conn) == 1;
    for (int i = 0; sent && i < count; i++) {
        const queued_t *one = &self->queue[i];

        sent = PQsendQueryPrepared(self->conn, one->name, one->n, (const char *const *)one->params,
                                   NULL, NULL, 0)
               == 1;
    }
    forget_queue(self);
    if (!sent || PQpipelineSync(self->conn) != 1) {
        pg_drop(self);
        return fault(PG_DOWN, "PostgreSQL connection lost");
    }
    for (int i = 0; i < count && self->conn; i++)
        read_one(self, &r, i == number ? ret_result : NULL);
    if (!self->conn)
        return r;
    call_begin(self);
    PQclear(call_end(self, PQgetResult(self->conn))); /* result of the sync */
    if (PQexitPipelineMode(self->conn) != 1) {
        pg_drop(self);
        return fault(PG_DOWN, "PostgreSQL connection lost");
    }
    if (r && ret_result) {
        PQclear(*ret_result);
        *ret_result = NULL;
    }
    return r;
}

/* 0: queued | 1: it cannot be prepared, nothing is queued | fault. */
static int enqueue_one(pg_t *self, const char *sql, int n, const char *const *params)
{
    queued_t *one;
    int r;

    if (!self->conn)
        return fault(PG_DOWN, "not connected to PostgreSQL");
    if (self->queued == QUEUE_MAX) {
        r = run_queue(self, -1, NULL);
        if (r)
            return r;
    }
    INVARIANT(self->queued < QUEUE_MAX && n <= PG_PARAMS_MAX);
    one = &self->queue[self->queued];
    r = prepare_statement(self, sql, n, one->name);
    if (r != 1)
        return r ? r : 1;
    one->n = 0;
    self->queued++;
    for (; one->n < n; one->n++) {
        one->params[one->n] = params[one->n] ? strdup(params[one->n]) : NULL;
        if (params[one->n] && !one->params[one->n]) {
            forget_queue(self);
            return -ENOMEM;
        }
    }
    return 0;
}

/* Send what is queued, then this statement by itself. */
static int run_once(pg_t *self, PGresult **ret_result, const char *sql, int n,
                    const char *const *params)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int r = self->queued ? run_queue(self, -1, NULL) : 0;

    if (r)
        return r;
    if (!self->conn)
        return fault(PG_DOWN, "not connected to PostgreSQL");
    call_begin(self);
    res = call_end(self, PQexecParams(self->conn, sql, n, NULL, params, NULL, NULL, 0));
    r = check_result(self, res);
    if (!r && ret_result)
        *ret_result = take(res);
    return r;
}

void pg_until(pg_t *self, int64_t deadline_ms)
{
    self->deadline_ms = deadline_ms;
}

/* Is there time for one more statement? Within a transaction PostgreSQL is told how much, when that
 * is less than it knows, together with the statement: that costs no round trip. Nothing is sent
 * while there is more time than any statement may take. 0 | PG_TIMEOUT | fault. */
static int watch_deadline(pg_t *self)
{
    int64_t left = self->deadline_ms - mono_ms();
    bool in_transaction =
        self->conn && (self->queued || PQtransactionStatus(self->conn) != PQTRANS_IDLE);
    static const char set_timeout[] = "SELECT set_config('statement_timeout', $1, true)";
    char text[24];
    const char *const params[] = {text};
    int r;

    if (!self->deadline_ms)
        return 0;
    if (left <= 0) {
        forget_queue(self);
        return fault(PG_TIMEOUT, "the time for the request is over");
    }
    if (!in_transaction)
        self->timeout_ms = PG_STATEMENT_TIMEOUT_MS;
    if (!in_transaction || left + LATE_MS >= self->timeout_ms)
        return 0;
    self->timeout_ms = left;
    snprintf(text, sizeof(text), "%d", (int)left);
    r = enqueue_one(self, set_timeout, 1, params);
    return r == 1 ? run_once(self, NULL, set_timeout, 1, params) : r;
}

/* As enqueue_one, within the deadline. */
static int enqueue_in_time(pg_t *self, const char *sql, int n, const char *const *params)
{
    int r = watch_deadline(self);

    return r ? r : enqueue_one(self, sql, n, params);
}

int pg_exec_params(pg_t *self, PGresult **ret_result, const char *sql, int n,
                   const char *const *params)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    char name[16];
    int r;

    r = watch_deadline(self);
    if (r)
        return r;
    if (n > PG_PARAMS_MAX)
        return run_once(self, ret_result, sql, n, params);
    if (self->queued) {
        r = enqueue_one(self, sql, n, params);
        return r == 1  ? run_once(self, ret_result, sql, n, params)
               : r < 0 ? r
                       : run_queue(self, self->queued - 1, ret_result);
    }
    if (!self->conn)
        return fault(PG_DOWN, "not connected to PostgreSQL");
    r = prepare_statement(self, sql, n, name);
    if (r < 0)
        return r;
    if (r == 0)
        return run_once(self, ret_result, sql, n, params);
    call_begin(self);
    res = call_end(self, PQexecPrepared(self->conn, name, n, params, NULL, NULL, 0));
    r = check_result(self, res);
    if (!r && ret_result)
        *ret_result = take(res);
    return r;
}

int pg_exec_once(pg_t *self, PGresult **ret_result, const char *sql, int n,
                 const char *const *params)
{
    int r = watch_deadline(self);

    return r ? r : run_once(self, ret_result, sql, n, params);
}

static void collect_params(const char *params[PG_PARAMS_MAX], int n, va_list args)
{
    INVARIANT(n >= 0 && n <= PG_PARAMS_MAX); /* the statement would read behind the array */
    for (int i = 0; i < n; i++)
        params[i] = va_arg(args, const char *);
}

int pg_defer(pg_t *self, const char *sql, int n, ...)
{
    const char *params[PG_PARAMS_MAX];
    va_list args;
    int r;

    va_start(args, n);
    collect_params(params, n, args);
    va_end(args);
    r = enqueue_in_time(self, sql, n, params);
    return r == 1 ? run_once(self, NULL, sql, n, params) : r;
}

int pg_commit(pg_t *self, PGresult **ret_result, const char *sql, int n, ...)
{
    const char *params[PG_PARAMS_MAX];
    int number = -1, r = 0;
    va_list args;

    va_start(args, n);
    collect_params(params, n, args);
    va_end(args);
    /* leave room for these four: the result of the statement must not be lost */
    if (self->queued > QUEUE_MAX - 4)
        r = run_queue(self, -1, NULL);
    if (!r && sql)
        r = enqueue_in_time(self, sql, n, params);
    if (r == 1)
        r = run_once(self, ret_result, sql, n, params);
    else if (!r && sql)
        number = self->queued - 1;
    if (!r)
        r = enqueue_in_time(self, "COMMIT", 0, NULL);
    if (r == 1)
        r = run_once(self, NULL, "COMMIT", 0, NULL);
    else if (!r)
        r = run_queue(self, number, ret_result);
    if (!r && full_at)
        full_at = 0;
    return r;
}

int pg_allow_idle(pg_t *self, int ms)
{
    char text[16];

    snprintf(text, sizeof(text), "%d", ms);
    return pg_exec(self, NULL, "SELECT set_config('idle_in_transaction_session_timeout', $1, true)",
                   1, text);
}

void pg_rollback(pg_t *self)
{
    forget_queue(self);
    if (self->conn && PQtransactionStatus(self->conn) != PQTRANS_IDLE)
        pg_script(self, "ROLLBACK");
}

int pg_exec(pg_t *self, PGresult **ret_result, const char *sql, int n, ...)
{
    const char *params[PG_PARAMS_MAX];
    va_list args;

    va_start(args, n);
    collect_params(params, n, args);
    va_end(args);
    return pg_exec_params(self, ret_result, sql, n, params);
}

int pg_script(pg_t *self, const char *sql)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;

    int r = self->queued ? run_queue(self, -1, NULL) : 0;

    if (r)
        return r;
    if (!self->conn)
        return fault(PG_DOWN, "not connected to PostgreSQL");
    call_begin(self);
    res = call_end(self, PQexec(self->conn, sql));
    return check_result(self, res);
}

const char *pg_constraint(const pg_t *self)
{
    return self->constraint;
}

const char *pg_schema(const pg_t *self)
{
    return self->schema;
}

int pg_socket(const pg_t *self)
{
    return self->conn ? PQsocket(self->conn) : -1;
}

int pg_notified(pg_t *self)
{
    PGnotify *note;
    int seen = 0;

    leave_read_only(self);
    if (!self->conn)
        return PG_DOWN;
    if (!PQconsumeInput(self->conn)) {
        pg_drop(self);
        return PG_DOWN;
    }
    while ((note = PQnotifies(self->conn))) {
        PQfreemem(note);
        seen = 1;
    }
    return seen;
}

int pg_take_note(pg_t *self, PGnotify **ret_note)
{
    leave_read_only(self);
    if (!self->conn)
        return PG_DOWN;
    if (!PQconsumeInput(self->conn)) {
        pg_drop(self);
        return PG_DOWN;
    }
    *ret_note = PQnotifies(self->conn);
    return *ret_note != NULL;
}
