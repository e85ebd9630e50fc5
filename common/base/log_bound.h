/* A bound on lines of the log that somebody outside can cause as often as they like, with its share
 * for each of those on whose behalf: who makes up tokens for one account's routes does not hide the
 * lines of another one. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    LOG_BOUND_MS = 60000,
    LOG_BOUND_LINES = 60, /* of one share in that time */
    LOG_BOUND_SHARES = 64 /* accounts with the same hash have one share */
};

/* All zero but for the lock, PTHREAD_MUTEX_INITIALIZER: nothing was logged yet. */
typedef struct log_bound {
    pthread_mutex_t lock;
    struct {
        int64_t until_ms; /* the end of the time that lines are counted in; 0: none was logged */
        unsigned lines;   /* of that time */
        uint64_t left_out;
    } shares[LOG_BOUND_SHARES];
} log_bound_t;

/* May a line be logged now (monotonic ms) for this account, "" for none? *ret_left_out: how many
 * lines of its share were left out since the last one that might; 0 also where it may not. From any
 * thread. */
bool log_bound_admits(log_bound_t *self, const char *account, int64_t now_ms,
                      uint64_t *ret_left_out);
