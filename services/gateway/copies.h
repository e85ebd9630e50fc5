/* The copies of a service: a connection of its own to each, and which of them answer. Each is asked for a lease four times
 * a second (common/bus/lease.h), which is also how it shows that it works: one that says nothing to three in a row, or whose
 * connection broke, is left out until it is heard again. Used by the reactor alone. */
#pragma once

#include <czmq.h>
#include <stdint.h>

enum {
    COPIES_MAX = 16, /* of one service */
    COPIES_ASK_MS = 250
};

typedef struct copy {
    zsock_t *sock;
    const char *service;
    char *endpoint;
    bool answers;    /* requests go to it */
    int unanswered;  /* asks since it was heard */
    int64_t lost_ms; /* when it was left out; 0: it never answered */
    /* The lease: until when what this copy said may be remembered, and what it calls that. */
    int64_t epoch, until_ms;
} copy_t;

typedef struct copies {
    copy_t list[COPIES_MAX];
    int count, next;
    int64_t made_ms, asked_ms;
    uint64_t left_out, back;
} copies_t;

/* Connect to each of the endpoints, comma-separated. 0 | fault; copies_destroy also then. */
int copies_new(copies_t **ret_self, const char *service, const char *endpoints, const char *curve);
void copies_destroy(copies_t **self_p);

/* The copy that has this socket; NULL. */
copy_t *copies_find(copies_t *self, const zsock_t *sock);

/* Where a request goes: to those that answer in turn, where none does to any that is connected. NULL: nobody is there. */
copy_t *copies_next(copies_t *self);

/* The same, but another than this one, where there is one that answers. copy may be NULL. */
copy_t *copies_other(copies_t *self, const copy_t *copy);

/* Sets of copies, a bit each: one of them, and those that answer. One of the set that answers; NULL: there is none. */
unsigned copies_bit(const copies_t *self, const copy_t *copy);
unsigned copies_answering(const copies_t *self);
const copy_t *copies_of(const copies_t *self, unsigned set);

/* Does any of them answer? And for how long has none; 0: one does. */
bool copies_answer(const copies_t *self);
int64_t copies_silent_ms(const copies_t *self, int64_t now_ms);

/* Is there a peer, and room for a message to it? */
bool copy_is_connected(const copy_t *copy);

/* A message of this copy's came. */
void copies_heard(copies_t *self, copy_t *copy);

/* Ask one, or all and leave out who did not answer. */
void copies_ask(copy_t *copy);
void copies_ask_all(copies_t *self);

/* Leave out those whose connection broke. */
void copies_check(copies_t *self);

size_t copies_metrics(const copies_t *self, char *out, size_t size);
