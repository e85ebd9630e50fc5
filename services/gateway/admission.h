/* Who may call. Asking identity whose key it is and routes whether the address may call costs two
 * bus calls a request, so the answers are remembered: only while every copy of both services has
 * given a lease (common/bus/lease.h), until one of them says that something changed, and never
 * longer than five seconds. Without leases each request asks. Only what was allowed is remembered,
 * under the hash of the token. No sockets and no clock in here: now_ms is monotonic. */
#pragma once

#include "services/gateway/copies.h"

#include <jansson.h>
#include <stdbool.h>

enum {
    ADMISSION_ENTRIES_MAX = 4096,
    ADMISSION_REMEMBER_MS = 5000, /* bounds what is changed behind the services' backs, with psql */
    ADMISSION_MARGIN_MS = 200     /* a lease ends here before it ends there */
};

typedef struct admission admission_t;

/* The gateway's copies of both services, borrowed. 0 | -ENOMEM. */
int admission_new(admission_t **ret_self, const copies_t *identity, const copies_t *routes);
void admission_destroy(admission_t **self_p);

/* What a copy said of its lease: "lease", its epoch, our clock when we asked | "revoke", its epoch,
 * "0". True: the epoch is a new one, everything was forgotten, and the copy is to be told by asking
 * again. */
bool admission_take(admission_t *self, copy_t *copy, const char *word, const char *epoch_text,
                    const char *clock);

/* True: this token may call from this address; *ret_actor is a new reference, account its id. */
bool admission_recall(admission_t *self, const char *token, const char *ip, int64_t now_ms,
                      char account[64], json_t **ret_actor);

/* Changes whenever something is forgotten: the number to ask for before the services are asked. */
uint64_t admission_generation(const admission_t *self);

/* Both services allowed it, having been asked at that generation; of an older one nothing is kept.
 */
void admission_remember(admission_t *self, uint64_t generation, const char *token, const char *ip,
                        int64_t now_ms, const char *account, json_t *actor);

/* Prometheus text; returns bytes written. */
size_t admission_metrics(const admission_t *self, int64_t now_ms, char *out, size_t size);
