/* The edge workers of the other copies of a service, with their acknowledged revisions, as these
 * copies report them in notifications (proto/WIRE.md, "Several copies"). No sockets and no clock in
 * here. Used by one thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct roster roster_t;

/* own: the name of this copy, whose notifications come back to it. NULL: no memory. */
roster_t *roster_new(const char *own);
void roster_destroy(roster_t **self_p);

typedef struct roster_worker {
    const char *name;
    int64_t acked;
    /* its connection broke, but it has not been given up: replies wait for it, unless another copy
     * hears it */
    bool lost;
} roster_worker_t;

/* Limit of one notification; PostgreSQL's is 8,000 bytes. */
enum { ROSTER_BYTES = 7900 };
/* Sends one notification; nonzero ends roster_write. */
typedef int (*roster_say_fn)(void *context, const char *text);
/* Write this copy's list of workers as one or more notifications, and call say for each. Names that
 * are not UTF-8 are left out; replog_words.c admits none. 0 | -ENOMEM | the first nonzero result of
 * say. */
int roster_write(const char *own, int64_t number, const char *log_id,
                 const roster_worker_t *workers, int count, roster_say_fn say, void *context);

/* Take a notification. 1: of a new copy | 0 | -EBADMSG: malformed | -ESTALE: a replay. */
int roster_take(roster_t *self, const char *text, int64_t now_ms);

/* Forget copies that were last heard before before_ms. True: there were some. */
bool roster_expire(roster_t *self, int64_t before_ms);

/* Treat all copies as heard at now_ms: this process was stopped for a while. */
void roster_spare(roster_t *self, int64_t now_ms);

/* How many other copies are known. */
int roster_copies(const roster_t *self);

/* Is there a copy that does not hear this worker? */
bool roster_lacks(const roster_t *self, const char *name);

/* Does another copy hear this worker? *ret_acked: the lowest revision of this log that those copies
 * report, since one of them may still report a former process of the same name; 0: one reports
 * none. */
bool roster_hears(const roster_t *self, const char *log_id, const char *name, int64_t *ret_acked);

typedef void (*roster_fn)(void *context, const roster_worker_t *worker);
/* Call tell once for each worker that another copy hears, and for those that one has lost and none
 * hears. */
void roster_each(const roster_t *self, const char *log_id, roster_fn tell, void *context);
