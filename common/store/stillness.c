#include "common/store/stillness.h"
#include "common/base/log.h"
#include "common/store/pg.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

enum {
    STILL_MS = PG_STATEMENT_TIMEOUT_MS + 1000, /* no query takes so long if the server runs */
    ANSWERED_MS = 500,                         /* so exactly the last answer is known */
    AWAKE_MS = 2000 /* between two looks: more, and it was this process that stood still */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the list */
static pg_call_t *calls;

/* When the first call began that ended without an answer; 0: there has been an answer since. */
static _Atomic int64_t lost_ms;

/* The last answer, to any connection: about. */
static _Atomic int64_t answered_ms;

void pg_call_add(pg_call_t *self)
{
    pthread_mutex_lock(&lock);
    self->next = calls;
    calls = self;
    pthread_mutex_unlock(&lock);
}

void pg_call_remove(pg_call_t *self)
{
    pthread_mutex_lock(&lock);
    for (pg_call_t **at = &calls; *at; at = &(*at)->next)
        if (*at == self) {
            *at = self->next;
            break;
        }
    pthread_mutex_unlock(&lock);
}

void pg_call_begin(pg_call_t *self, int64_t now_ms)
{
    self->since_ms = now_ms;
}

/* Since when a connection waits while no other one is answered either: what hangs is its own way to
 * the server, which pg.c gives up by itself. */
static int64_t silent_since(const pg_call_t *call)
{
    int64_t answered = answered_ms;

    return call->since_ms && call->since_ms < answered ? answered : call->since_ms;
}

void pg_call_end(pg_call_t *self, int64_t now_ms, bool is_answered)
{
    int64_t since = silent_since(self), none = 0; /* of others' answers it says nothing */

    self->since_ms = 0;
    if (is_answered) {
        if (lost_ms) /* not written for each statement: other threads read them */
            lost_ms = 0;
        if (now_ms - answered_ms >= ANSWERED_MS)
            answered_ms = now_ms;
    } else if (since) {
        atomic_compare_exchange_strong(&lost_ms, &none, since);
    }
}

/* The earliest of both, where 0 is none. */
static int64_t earlier_time(int64_t a, int64_t b)
{
    return !a || (b && b < a) ? b : a;
}

void stillness_look(stillness_t *self, int64_t now_ms)
{
    int64_t since = lost_ms;
    int seconds = stillness_seconds(self);
    bool was_still = self->since_ms;

    pthread_mutex_lock(&lock);
    for (const pg_call_t *call = calls; call; call = call->next)
        since = earlier_time(since, silent_since(call));
    pthread_mutex_unlock(&lock);
    /* Whoever stood still cannot say whether PostgreSQL would have answered meanwhile. */
    if (!was_still && self->looked_ms && now_ms - self->looked_ms > AWAKE_MS)
        self->awake_ms = now_ms;
    self->looked_ms = now_ms;
    if (since && since < self->awake_ms)
        since = self->awake_ms;
    self->since_ms = since && now_ms - since > STILL_MS ? since : 0;
    if (self->since_ms && !was_still)
        log_warn("PostgreSQL has not answered for %d s (is it up? its disk, its host?): what needs "
                 "it waits, and this service is not ready",
                 stillness_seconds(self));
    else if (was_still && !self->since_ms)
        log_info("PostgreSQL answers again, after %d s", seconds);
}

int stillness_seconds(const stillness_t *self)
{
    return self->since_ms ? (int)((self->looked_ms - self->since_ms) / 1000) : 0;
}
