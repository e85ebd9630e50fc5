/* Cache of authentication and admission. Asking identity whose key it is, and routes whether the
 * address may call, costs two bus calls per request. The answers are cached only while every copy
 * of both services has given a lease (common/bus/lease.h), until one of them announces a change,
 * and for at most five seconds. Without leases every request asks. Only positive answers are
 * cached, under the hash of the token. No sockets and no clock in here: now_ms is monotonic. */
#pragma once

#include "services/gateway/copies.h"

#include <jansson.h>
#include <stdbool.h>

enum {
    ADMISSION_ENTRIES_MAX = 4096,
    ADMISSION_REMEMBER_MS = 5000, /* delay of changes that are made directly in the database */
    ADMISSION_MARGIN_MS = 200     /* a lease ends earlier here than at the service */
};

typedef struct admission admission_t;

/* The gateway's copies of both services, borrowed. 0 | -ENOMEM. */
int admission_new(admission_t **ret_self, const copies_t *identity, const copies_t *routes);
void admission_destroy(admission_t **self_p);

/* Take a message about leases: "lease", epoch, our clock when we asked | "revoke", epoch, "0".
 * True: the epoch is new and the cache was dropped; acknowledge that by asking for a lease
 * again. */
bool admission_take(admission_t *self, copy_t *copy, const char *word, const char *epoch_text,
                    const char *clock);

/* True: this token may call from this address; *ret_actor is a new reference, account its id. */
bool admission_recall(admission_t *self, const char *token, const char *ip, int64_t now_ms,
                      char account[64], json_t **ret_actor);

/* A number that changes whenever the cache is dropped; read it before the services are asked. */
uint64_t admission_generation(const admission_t *self);

/* Cache that both services allowed the call; ignored if the cache was dropped since generation. */
void admission_remember(admission_t *self, uint64_t generation, const char *token, const char *ip,
                        int64_t now_ms, const char *account, json_t *actor);

/* Prometheus text; returns bytes written. */
size_t admission_metrics(const admission_t *self, int64_t now_ms, char *out, size_t size);
