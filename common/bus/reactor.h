/* The life of a service's process, whatever the service does and with or without a database:
 * settings, log, priority, limit of files, one zloop, signals, health, readiness and metrics,
 * orderly stop. What is put into the loop is the service's own.
 *
 *     start, loop until SIGTERM or SIGINT, drain, loop is freed, stop */
#pragma once

#include "common/base/config.h"

#include <czmq.h>
#include <stdbool.h>

typedef struct reactor_spec {
    const char *name;  /* log tag, and in metrics: postern_<name>_... */
    const char *about; /* for --help */
    /* Lists that end with a NULL name, ended by NULL; the reactor adds its own: health-host,
     * health-port. */
    const setting_t *const *settings;
    unsigned long
        files; /* descriptors that it may need, see files_raise(); 0: as many as the system gives */

    /* Open sockets, put readers and timers into the loop. config lives until stop has returned.
     * 0 | fault, which is logged; drain and stop are called also then, so they free whatever
     * half there is. */
    int (*start)(void *self, zloop_t *loop, const config_t *config);
    /* What stands behind "ready" in the log; may be NULL. */
    void (*describe)(void *self, char *out, size_t size);
    /* The loop has ended and is there still: finish what is under way, and tell who waits. */
    void (*drain)(void *self);
    /* The loop is gone: close and free the rest. May be NULL. */
    void (*stop)(void *self);

    /* Prometheus text for /metrics, returns bytes written; the reactor adds its own. */
    size_t (*metrics)(void *self, char *out, size_t size);
    /* May traffic come (/readyz)? When not, why gets a line. */
    bool (*is_ready)(void *self, char *why, size_t size);
} reactor_spec_t;

/* Run one. Returns the exit status: EXIT_FAILURE for wrong settings and for a start that failed. */
int reactor_main(const reactor_spec_t *spec, void *self, int argc, char **argv);
