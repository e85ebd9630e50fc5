/* Who may search now. A search of a header by expressions may take milliseconds, and one packet of
 * HTTP/2 brings a hundred headers: so the searches of one turn of the event loop have a budget of
 * processor time. Once it is spent requests wait in line, an account's in a line of its own, and
 * the lines go on in turn: whoever asks for many long searches delays their own account. The
 * budget can be exceeded by the one search that spends it. Nothing in here allocates; no nginx and
 * no clock in here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SEARCHES_TURN_US = 2000, /* of searches in one turn */
    SEARCHES_LINES = 1024    /* accounts whose hashes fall together have one line */
};

/* A request's place in its line; all zero: it does not wait. */
typedef struct search_wait {
    struct search_wait *before, *after;
    uint32_t line;
    bool waits;
} search_wait_t;

/* Requests of accounts with this hash, in the order in which they came. */
typedef struct search_line {
    search_wait_t *first, *last;
    struct search_line *before, *after; /* of those in which somebody waits */
} search_line_t;

/* All zero: nobody waits, and nothing is spent. */
typedef struct searches {
    uint64_t spent_us; /* in this turn */
    search_line_t *first, *last;
    search_line_t lines[SEARCHES_LINES];
} searches_t;

/* May somebody who did not wait search at once? No: the turn's budget is spent, or others wait. */
bool searches_may(const searches_t *self);
/* A search took so long. True: it was the first of this turn that took any time. */
bool searches_spend(searches_t *self, uint64_t us);
/* A new turn of the event loop: it has the whole budget. */
void searches_begin_turn(searches_t *self);

/* A request that does not wait yet goes to the end of its account's line; account is a hash. */
void searches_wait(searches_t *self, search_wait_t *wait, uint32_t account);
/* A request waits no more, whether or not it did. */
void searches_leave(searches_t *self, search_wait_t *wait);
/* Whose turn it is: taken out of its line, which goes behind the others. NULL: nobody waits, or
 * the turn's budget is spent. */
search_wait_t *searches_next(searches_t *self);
/* Does anybody wait? */
bool searches_are_awaited(const searches_t *self);
