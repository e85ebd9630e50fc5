/* How many files and connections the process may have open. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* The limit for a service with listening sockets: libzmq 4.3.4 aborts when it reaches the limit
 * while it accepts a connection on a local socket. */
enum { FILES_SERVICE = 65536 };

/* Open files and their limit, as files_look saw them last; all zero: not yet. are_short is set at
 * nine tenths of the limit and cleared below eight tenths. At the limit nobody can connect, not
 * even to ask for /readyz. */
typedef struct files_watch {
    long open, limit;
    bool are_short;
} files_watch_t;

/* Count them, and log when they begin to run short and when that is over. */
void files_look(files_watch_t *self);

/* Prometheus text of the last look; returns bytes written. */
size_t files_metrics(const files_watch_t *self, const char *service, char *out, size_t size);

enum { FILES_LOOK_MS = 5000 };

/* Raise the limit to count, or as far as the system allows. */
void files_raise(unsigned long count);
