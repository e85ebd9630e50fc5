/* A bound on lines of the log that somebody outside can cause as often as they like, with a share
 * for each kind of line on behalf of each account: who makes up cookies for one account's routes
 * hides neither the lines of another one, nor those that say why its people cannot sign in. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    LOG_BOUND_MS = 60000,
    LOG_BOUND_SETS = 64, /* of shares; which set a kind's is in is chance */
    LOG_BOUND_WAYS = 16  /* shares of a set; beyond them one is for all others */
};

typedef struct log_share {
    uint64_t key;     /* a hash of what it is for, which is not anybody's choice */
    int64_t until_ms; /* the end of the time that lines are counted in; 0: none was logged */
    unsigned lines;   /* of that time */
    uint64_t left_out;
} log_share_t;

/* All zero but for the lock, PTHREAD_MUTEX_INITIALIZER: nothing was logged yet. */
typedef struct log_bound {
    pthread_mutex_t lock;
    log_share_t shares[LOG_BOUND_SETS][LOG_BOUND_WAYS];
} log_bound_t;

/* May a line of that kind be logged now (monotonic ms)? kind: what it says on whose behalf, as
 * texts that nobody outside chooses; most: how many there may be in LOG_BOUND_MS. *ret_left_out:
 * how many lines were left out before in the share that it has; 0 also where it may not. From any
 * thread. */
bool log_bound_admits(log_bound_t *self, const char *kind, unsigned most, int64_t now_ms,
                      uint64_t *ret_left_out);
