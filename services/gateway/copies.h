/* The copies of one service: a connection to each, and which of them answer. Each copy is asked for
 * a lease four times a second (common/bus/lease.h), which is also its sign of life: a copy that
 * answers none of three asks, or whose connection broke, is left out of the requests until it is
 * heard again. Used by the reactor's thread alone. */
#pragma once

#include <czmq.h>
#include <stdint.h>

enum {
    COPIES_MAX = 16, /* copies of one service */
    COPIES_ASK_MS = 250
};

typedef struct copy {
    zsock_t *sock;
    const char *service;
    char *endpoint;
    bool answers;    /* it is heard, so requests go to it */
    int unanswered;  /* asks since it was heard last */
    int64_t lost_ms; /* monotonic ms when it was left out; 0: it never answered */
    /* Its lease: the epoch it was granted for, and until when (monotonic ms) this copy's answers
     * may be remembered. */
    int64_t epoch, until_ms;
} copy_t;

typedef struct copies {
    copy_t list[COPIES_MAX];
    int count, next;
    int64_t made_ms, asked_ms;
    uint64_t left_out, back;
} copies_t;

/* Connect to each of the endpoints, separated by commas. 0 | fault. Call copies_destroy also after
 * a fault. */
int copies_new(copies_t **ret_self, const char *service, const char *endpoints, const char *curve);
void copies_destroy(copies_t **self_p);

/* The copy that owns this socket; NULL: none does. */
copy_t *copies_find(copies_t *self, const zsock_t *sock);

/* The copy that gets the next request: those that answer take turns; where none answers, those that
 * are connected. NULL: none is connected. */
copy_t *copies_next(copies_t *self);

/* As copies_next, but another copy than this one where another one answers. copy may be NULL. */
copy_t *copies_other(copies_t *self, const copy_t *copy);

/* Sets of copies, one bit for each: the bit of one copy; the set of those that answer; a copy of
 * the set that answers, or NULL. */
unsigned copies_bit(const copies_t *self, const copy_t *copy);
unsigned copies_answering(const copies_t *self);
const copy_t *copies_of(const copies_t *self, unsigned set);

/* Does any copy answer? For how many ms has none answered; 0: one does. */
bool copies_answer(const copies_t *self);
int64_t copies_silent_ms(const copies_t *self, int64_t now_ms);
/* Has any of them ever answered? */
bool copies_were_heard(const copies_t *self);

/* Is a peer connected, with room for a message to it in the socket's queue? */
bool copy_is_connected(const copy_t *copy);

/* Note that a message of this copy came: it is in use again. */
void copies_heard(copies_t *self, copy_t *copy);

/* Ask one copy for a lease; ask all of them, and leave out who did not answer the last asks. */
void copies_ask(copy_t *copy);
void copies_ask_all(copies_t *self);

/* Leave out the copies whose connection broke. */
void copies_check(copies_t *self);

/* Write Prometheus text; returns its bytes. */
size_t copies_metrics(const copies_t *self, char *out, size_t size);
