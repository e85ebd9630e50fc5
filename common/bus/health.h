/* /healthz, /readyz and /metrics of a service, served from its reactor. */
#pragma once

#include <czmq.h>
#include <stdbool.h>

typedef struct health health_t;

/* Writes Prometheus text (each line "name value\n") into out; returns bytes written. */
typedef size_t (*health_metrics_fn)(void *context, char *out, size_t size);

/* Is the service ready? why gets a line otherwise. */
typedef bool (*health_ready_fn)(void *context, char *why, size_t size);

/* Serve on host:port; port 0: nowhere (then *ret_health is NULL and 0 returned). 0 | fault. */
int health_new(health_t **ret_health, zloop_t *loop, const char *host, int port,
               health_metrics_fn metrics, health_ready_fn ready, void *context);

/* Stop serving. *self_p may be NULL. */
void health_destroy(health_t **self_p);
