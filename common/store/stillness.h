/* Does PostgreSQL answer? statement_timeout ends a statement that takes too long, but only the
 * server looks at it: where the server stands still, with its disk or its host, libpq waits for
 * ever. Each connection says when it began to wait, and one thread looks at all of them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* One connection's call. since_ms, of monotonic time: a call is under way; 0: none is. */
typedef struct pg_call {
    _Atomic int64_t since_ms;
    struct pg_call *next;
} pg_call_t;

/* Calls are looked at between these two. */
void pg_call_add(pg_call_t *self);
void pg_call_remove(pg_call_t *self);

/* PostgreSQL is asked for something: one statement, or a connection. */
void pg_call_begin(pg_call_t *self, int64_t now_ms);

/* is_answered: it said something, if only what is wrong. Else there is no connection: until one of
 * the process gets an answer PostgreSQL counts as silent since this call began. */
void pg_call_end(pg_call_t *self, int64_t now_ms, bool is_answered);

/* What the last look found, of a process; all zero at first. */
typedef struct stillness {
    int64_t looked_ms; /* when; 0: never */
    int64_t awake_ms;  /* this process itself stood still until then */
    int64_t since_ms;  /* since when PostgreSQL has not answered; 0: it answers */
} stillness_t;

/* Look, at least once a second, and log when PostgreSQL begins to stand still and when that is
 * over. */
void stillness_look(stillness_t *self, int64_t now_ms);

/* For how many seconds PostgreSQL has not answered, as of the last look; 0: it answers. */
int stillness_seconds(const stillness_t *self);
