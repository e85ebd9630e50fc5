/* Which edge workers the other copies of a service hear, and what those acknowledged: what they
 * say of that in notifications (proto/WIRE.md, "Several copies"). No sockets and no clock in
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
    /* its connection broke, and it was not given up yet: it is waited for unless another copy
     * hears it */
    bool lost;
} roster_worker_t;

/* What one copy hears, as notifications of at most so many bytes; PostgreSQL takes 8,000. Calls
 * say for each; the first that it returns nonzero for ends that. A name that is no text is left
 * out: replog.c admits none. 0 | -ENOMEM | what say says. */
enum { ROSTER_BYTES = 7900 };
typedef int (*roster_say_fn)(void *context, const char *text);
int roster_write(const char *own, int64_t number, const char *log_id,
                 const roster_worker_t *workers, int count, roster_say_fn say, void *context);

/* A notification came. 1: of a copy that was not known | 0 | -EBADMSG: it is none that can be
 * read | -ESTALE: that copy said it before. */
int roster_take(roster_t *self, const char *text, int64_t now_ms);

/* Forget copies that were not heard since. True: there were some. */
bool roster_expire(roster_t *self, int64_t before_ms);

/* As if all of them had been heard just now: this process stood still. */
void roster_spare(roster_t *self, int64_t now_ms);

int roster_copies(const roster_t *self);

/* Is there a copy that does not hear this worker? */
bool roster_lacks(const roster_t *self, const char *name);

/* Does any hear it? *ret_acked: the revision of this log that it acknowledged to all of those,
 * else 0: one of them may not have noticed yet that another process has its name. */
bool roster_hears(const roster_t *self, const char *log_id, const char *name, int64_t *ret_acked);

/* Every worker that some copy hears, once, and those that some lost and none hears. */
typedef void (*roster_fn)(void *context, const roster_worker_t *worker);
void roster_each(const roster_t *self, const char *log_id, roster_fn tell, void *context);
