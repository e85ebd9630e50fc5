/* How many files and connections the process may have open. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Enough for a service whose sockets strangers may connect to: libzmq 4.3.4 aborts where a local one cannot accept. */
enum { FILES_SERVICE = 65536 };

/* How many there are, and whether they run short: from nine tenths of the limit on, until there are fewer than eight. At the limit
 * nobody can connect, not even who asks whether the process is ready. All zero: nobody has looked. */
typedef struct files_watch {
    long open, limit;
    bool are_short;
} files_watch_t;

/* Counts them, and logs when they begin to run short and when that is over. */
void files_look(files_watch_t *self);

/* Prometheus text of the last look; returns bytes written. */
size_t files_metrics(const files_watch_t *self, const char *service, char *out, size_t size);

enum { FILES_LOOK_MS = 5000 };

/* Raise the limit to so many, or to what the system allows. */
void files_raise(unsigned long count);
