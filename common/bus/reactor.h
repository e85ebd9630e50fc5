/* The main program of every service: settings, log, priority, limit of open files, one zloop,
 * signals, health, readiness, metrics, orderly stop. The service adds its sockets and timers.
 *
 *     start, loop until SIGTERM or SIGINT, drain, free the loop, stop */
#pragma once

#include "common/base/config.h"

#include <czmq.h>
#include <stdbool.h>

typedef struct reactor_spec {
    const char *name;  /* log tag, and in metrics: postern_<name>_... */
    const char *about; /* for --help */
    /* Settings tables, each ended by a row with a NULL name; the list is ended by NULL. The reactor
     * adds health-host and health-port. */
    const setting_t *const *settings;
    unsigned long files; /* open files needed, see files_raise(); 0: leave the system's limit */

    /* Open sockets, put readers and timers into the loop. config lives until stop has returned.
     * 0 | fault, which is logged; drain and stop are called also then, and must accept a service
     * that is only partly set up. */
    int (*start)(void *self, zloop_t *loop, const config_t *config);
    /* Text for the log line "ready"; may be NULL. */
    void (*describe)(void *self, char *out, size_t size);
    /* The loop has ended but is not freed: finish requests in progress, and answer those that
     * wait. */
    void (*drain)(void *self);
    /* The loop has been freed: close and free the rest. May be NULL. */
    void (*stop)(void *self);

    /* Prometheus text for /metrics, returns bytes written; the reactor adds its own. */
    size_t (*metrics)(void *self, char *out, size_t size);
    /* Is the service ready for traffic (/readyz)? If not, why gets a line. */
    bool (*is_ready)(void *self, char *why, size_t size);
} reactor_spec_t;

/* Run a service. Returns the exit status: EXIT_FAILURE for wrong settings or a failed start. */
int reactor_main(const reactor_spec_t *spec, void *self, int argc, char **argv);
