/* Whether a client takes an answer fast enough, by what was measured (taken.h) a few times in each
 * period: in each of these it must take some bytes of it. Without clock and nginx.
 *
 * With HTTP/2 an answer that was let through by its own window may have to wait for what others
 * have put into the connection's socket: it has more periods then, as long as the connection as a
 * whole carries that much. So has what is left of an answer that was cut off, which its connection
 * has to carry as well. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
    PACE_LATE = 7,  /* periods more for an answer whose frames stand behind others' */
    PACE_ENDED = 8, /* periods in which the rest of an answer that was cut must have gone */
};

typedef struct {
    int64_t period_ms;
    int64_t least; /* bytes */
} pace_rule_t;

/* What was measured now; times are milliseconds of any clock that never goes back. */
typedef struct {
    int64_t now_ms;
    int64_t taken;   /* bytes of the answer */
    int64_t carried; /* of all that its connection carries */
    bool behind;     /* its frames wait for what others have written to that */
} pace_look_t;

/* All zero: nothing of the answer waits for its client. */
typedef struct {
    int64_t since_ms; /* when the period began */
    int64_t had;      /* bytes of the answer that the client had by then */
    int64_t carried;  /* and of its connection */
    int64_t ended_ms;
    unsigned late;
    bool waits; /* something has waited for the client since then, all the time */
    bool ended; /* it was cut off, and frames of it wait for the client all the same */
} pace_t;

/* Bits of a verdict. */
enum {
    PACE_GOES_ON = 0,
    PACE_CUT = 1,  /* the answer is to be cut off: its client takes too little */
    PACE_FORCE = 2 /* the connection is to end, of which that is as true */
};

/* Judge an answer of which something waits for its client, or that was cut off. A verdict to cut it
 * has to be followed by pace_end. */
unsigned pace_judge(pace_t *self, const pace_look_t *look, const pace_rule_t *rule);
/* Nothing of it waits for the client any more. */
void pace_rest(pace_t *self);
/* The answer is cut off now. */
void pace_end(pace_t *self, const pace_look_t *look);
/* Of an answer that its client has given up only frames are left: may the connection have more time
 * for these, because it carries enough? */
bool pace_may_wait(pace_t *self, const pace_look_t *look, const pace_rule_t *rule);
