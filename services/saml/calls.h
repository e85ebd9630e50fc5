/* Requests on the bus: who may ask, how many wait, and their answers. Used by the reactor's thread
 * alone. */
#pragma once

#include "common/base/config.h"

#include <czmq.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct calls calls_t;

/* Bind the socket, and start the program that reads. config outlives it. 0 | fault; *ret_calls is
 * set also then. */
int calls_new(calls_t **ret_calls, zloop_t *loop, const config_t *config, const char *program);

/* Answer what waits, or is being read, with SAML_READER, and close. */
void calls_destroy(calls_t **self_p);

/* As in reactor_spec_t. */
size_t calls_metrics(const calls_t *self, char *out, size_t size);
bool calls_are_served(const calls_t *self, char *why, size_t size);
