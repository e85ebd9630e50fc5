/* Another service of the bus that verbs ask while they wait without a worker (waits.h): a
 * connection to each of its copies, which take turns. Only questions that may be asked twice are
 * asked: one of a copy that is gone or says nothing for 2 s, and one for which a copy has no room,
 * goes to another copy, unless that has it already. A silent copy is asked last, until it says
 * something; every 10 s it is tried with a question that another copy has, too. What a copy is only
 * slow with stays there, but for a few. Used by the reactor's thread alone. */
#pragma once

#include <czmq.h>
#include <jansson.h>
#include <stdint.h>

typedef struct neighbour neighbour_t;

/* Called once for each neighbour_ask, never before that returned. code: of proto/errors.def, 0:
 * body is the answer, which is taken over; ERR_MAINTENANCE also where nobody answered in time. */
typedef void (*neighbour_said_fn)(void *context, void *job, int code, const char *why,
                                  json_t *body);

/* endpoints: separated by commas; "": there is none, and nobody answers. 0 | fault. */
int neighbour_new(neighbour_t **ret_self, zloop_t *loop, const char *service, const char *endpoints,
                  const char *curve_dir, neighbour_said_fn said, void *context);
/* Nobody is told of what was asked and not answered. */
void neighbour_destroy(neighbour_t **self_p);

/* Ask, for the sake of that account; body is taken over. id: of the request that it is asked for,
 * whose first 36 bytes the question's own id begins with. until_ms: monotonic. */
void neighbour_ask(neighbour_t *self, const char *id, const char *verb, const char *account,
                   json_t *body, int64_t until_ms, void *job);

/* Prometheus text; returns bytes written. self may be NULL. */
size_t neighbour_metrics(const neighbour_t *self, const char *service, char *out, size_t size);
