/* The program that reads messages (postern-xml): started, asked, and started again when it ends.
 * Used by the reactor's thread alone. */
#pragma once

#include <czmq.h>
#include <jansson.h>
#include <msgpack.h>
#include <stdbool.h>

typedef struct reader reader_t;

/* Called once for each reader_ask that returned 0, never before that returned: {code, msg, body},
 * which stays the reader's; NULL: whoever read the message ended without an answer, or took too
 * long. */
typedef void (*reader_answered_fn)(void *context, void *job, const json_t *answer);

/* Start it; program is its path. At most max questions at once. 0 | fault. */
int reader_new(reader_t **ret_reader, zloop_t *loop, const char *program, int max,
               reader_answered_fn answered, void *context);

/* End it. Questions that have no answer get NULL. */
void reader_destroy(reader_t **self_p);

/* May a question be asked now? */
bool reader_has_room(const reader_t *self);

/* Does the program run? */
bool reader_runs(const reader_t *self);

/* Ask; job is handed back with the answer. 0 | fault: it was not asked. */
int reader_ask(reader_t *self, const msgpack_sbuffer *question, void *job);

/* Prometheus text; returns bytes written. */
size_t reader_metrics(const reader_t *self, char *out, size_t size);
