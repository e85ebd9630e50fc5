/* Places that did not answer a moment ago: they are not asked for a while, so that whoever can
 * have them asked does not tie up calls by that. One request finds out then whether a place
 * answers again; until its time is over, or it was answered, there is no other. A place is no
 * larger than what was tried: a server that cannot be connected to, or one URL of a server that
 * was asked and said nothing. Of an account: what one account says about a place is no other's
 * business. Bounded, in all and of an account; without a clock. Used by one thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SILENCE_PLACE_SIZE = 384,
    SILENCES_MAX = 1024,
    SILENCES_ACCOUNT_MAX = 64,
    SILENCE_MS = 2000,        /* so long it is not asked */
    SILENCE_LEAST_MS = 5000,  /* what had less time than that says nothing about its place */
    SILENCE_FORGET_MS = 10000 /* after that, nothing is known */
};

/* All zero: every place answers. */
typedef struct silences {
    struct {
        char place[SILENCE_PLACE_SIZE]; /* "": free */
        int64_t until_ms;               /* monotonic */
    } list[SILENCES_MAX];
} silences_t;

/* A request of timeout_ms was not answered. place: the account, a space, and the server or the
 * URL's hash; the oldest of the account's, or of all, is forgotten where there is no room. */
void silences_note(silences_t *self, const char *place, int64_t now_ms, unsigned timeout_ms);

/* It is not to be asked now. False: it is; where it was silent, the caller is the one who finds
 * out, in timeout_ms. */
bool silences_has(silences_t *self, const char *place, int64_t now_ms, unsigned timeout_ms);

/* Whoever was to find out did not ask: the next one is to. */
void silences_unasked(silences_t *self, const char *place, int64_t now_ms);

/* It has answered, or refused. */
void silences_clear(silences_t *self, const char *place);
