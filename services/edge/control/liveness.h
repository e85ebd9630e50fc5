/* Is a worker's helper process alive? It is asked at each of the worker's beats, and one that says
 * nothing is told to be absent at once, but it is taken for dead only where it cannot answer any
 * more: when it was stopped, when it sleeps for seconds though it is asked, or when it has done
 * something else for much longer. One that only waits for a processor, or for a disk, will answer;
 * its successor would wait for the same, and would have to begin anew. A beat that comes late says
 * that the worker itself had no processor, and nothing of the helper. No nginx, clock and files in
 * here. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
    LIVENESS_BEAT_MS = 250,
    LIVENESS_LATE_MS = 2 * LIVENESS_BEAT_MS, /* after the one before: a beat that says nothing */
    LIVENESS_ABSENT_BEATS = 1,               /* without a word of the helper's: it is absent */
    LIVENESS_STOPPED_BEATS = 2, /* of one that is stopped: its successor says hello before the
                                   writer gives this worker up (1 s) */
    LIVENESS_IDLE_BEATS = 3000 / LIVENESS_BEAT_MS, /* of one that sleeps, and has not run */
    LIVENESS_HUNG_BEATS = 12000 / LIVENESS_BEAT_MS /* of any */
};

/* What the kernel says of its main thread. */
typedef struct liveness_sight {
    char state;   /* of proc_pid_stat(5): R, S, D, T, ..; NUL: not known */
    uint64_t ran; /* ticks for which it has run */
} liveness_sight_t;

/* All zero: it has begun, or was heard just now. */
typedef struct liveness {
    unsigned unheard; /* beats since then */
    unsigned timely;  /* of these, those that were not late */
    unsigned idle;    /* of these, the last ones in which it slept and had not run */
    uint64_t ran;
    bool has_ran; /* ran is of the beat before */
    int64_t beat_ms;
} liveness_t;

typedef enum liveness_verdict { LIVENESS_THERE, LIVENESS_ABSENT, LIVENESS_DEAD } liveness_verdict_t;

/* It said something. */
void liveness_heard(liveness_t *self);

/* Is the next beat one at which the sight counts? Before, it may be all zero. */
bool liveness_needs_sight(const liveness_t *self);

/* A beat; now_ms is of any clock that never goes back. */
liveness_verdict_t liveness_beat(liveness_t *self, int64_t now_ms, const liveness_sight_t *sight);

/* The text of /proc/PID/task/PID/stat, with a NUL at its end. A text that is none is a sight of
 * which nothing is known. */
liveness_sight_t liveness_sight_read(const char *stat);
