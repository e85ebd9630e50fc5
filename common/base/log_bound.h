/* A bound on lines of the log that somebody outside can cause as often as they like, with a share
 * for each kind of line on behalf of each account: who makes up cookies for one account's routes
 * hides neither the lines of another one, nor those that say why its people cannot sign in. Kinds
 * of different bounds have a log_bound_t each, so that the share that those beyond a set's ways
 * have together has one bound, too. Whatever is left out is said under the kind that it was of. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    LOG_BOUND_MS = 60000,
    LOG_BOUND_LOOK_MS = 1000, /* how often shares are looked through for what they have left out */
    LOG_BOUND_SETS = 64,      /* of shares; which set a kind's is in is chance */
    LOG_BOUND_WAYS = 16,      /* shares of a set; beyond them one is for all others */
    LOG_BOUND_SHARES = LOG_BOUND_SETS * LOG_BOUND_WAYS,
    LOG_BOUND_KIND_SIZE = 120 /* with its end; of a longer one that is said so far */
};

#define LOG_BOUND_OTHERS "(others)" /* the kind of lines that had no share of their own */

typedef struct log_share {
    uint64_t key;     /* a hash of what it is for, which is not anybody's choice */
    int64_t until_ms; /* the end of the time that lines are counted in; 0: none was logged */
    unsigned lines;   /* of that time */
    uint64_t left_out, untold; /* of that time, and of those before */
    char kind[LOG_BOUND_KIND_SIZE];
} log_share_t;

/* All zero but for the lock, PTHREAD_MUTEX_INITIALIZER, and most, how many lines of a kind there
 * may be in LOG_BOUND_MS: nothing was logged yet. */
typedef struct log_bound {
    pthread_mutex_t lock;
    unsigned most;
    unsigned telling; /* how many shares have something to tell, now or once their time is over */
    unsigned at;      /* the share that is looked at next */
    int64_t look_ms;  /* not before */
    log_share_t shares[LOG_BOUND_SHARES];
} log_bound_t;

/* Lines that were left out in a time that is over, and what kind they were of. */
typedef struct log_left_out {
    uint64_t lines;
    char kind[LOG_BOUND_KIND_SIZE];
} log_left_out_t;

/* May a line of that kind be logged now (monotonic ms)? kind: what it says on whose behalf, as
 * texts that nobody outside chooses. From any thread. */
bool log_bound_admits(log_bound_t *self, const char *kind, int64_t now_ms);

/* The next kind of which lines were left out, once the time that they are of is over. It is said
 * once. False: none, or it was looked for a moment ago. From any thread, as often as one likes. */
bool log_bound_left_out(log_bound_t *self, int64_t now_ms, log_left_out_t *ret_left_out);
