/* Schedules which streams are judged again, a few at a time. Each change gets a number and asks for
 * the streams with one key; a stream is returned once for all changes that wait for it. sweeps_done
 * tells up to which number all streams have been judged. */
#pragma once

#include "services/edge/streams/registry.h"

enum {
    SWEEPS_MAX = 64, /* keys that wait at once; with more, every stream is judged */
    SWEEPS_KEY_BYTES = 128,
    SWEEPS_NO_LOG = -1
};

/* A change: the caller's number of its log, and its revision there. */
typedef struct sweep_change {
    int log; /* SWEEPS_NO_LOG: the caller found out by itself */
    int64_t revision;
} sweep_change_t;

/* One walk over all streams with a key. Changes that arrive during a pass are served by a second
 * pass, so that a steady flow of changes does not delay the first. */
typedef struct sweep_pass {
    uint64_t since, asked; /* first and last number of its changes; 0: no pass */
    sweep_change_t last;   /* of these changes that a log had */
} sweep_pass_t;

typedef struct sweep {
    stream_kind_t kind;
    size_t len;
    char text[SWEEPS_KEY_BYTES];
    sweep_pass_t now, again;
    bool begun;
    size_t left; /* streams left in the running pass */
} sweep_t;

typedef struct sweeps {
    registry_t *registry;
    uint64_t number; /* of the newest change */
    sweep_t list[SWEEPS_MAX];
    int count;
} sweeps_t;

/* Initialise; *self must be all zeros. */
void sweeps_init(sweeps_t *self, registry_t *registry);

/* Request that streams with the key are judged again, for that change. Returns its number. */
uint64_t sweeps_ask(sweeps_t *self, const stream_key_t *key, sweep_change_t change);

/* The next stream to judge, with the change for which it is judged; it is marked as judged by all
 * changes so far. Each stream that is visited costs one of *budget. NULL: nothing is left, or the
 * budget is spent. The caller may add and remove any streams. */
stream_t *sweeps_next(sweeps_t *self, unsigned *budget, sweep_change_t *ret_change);

/* Is nothing left to be judged? */
bool sweeps_are_done(const sweeps_t *self);
/* The highest number up to which all requested streams have been judged. */
uint64_t sweeps_done(const sweeps_t *self);
