/* Questions of one worker that have no place among those under way (asks.h), and wait for one: a
 * change of a route makes all its people be asked for within a moment, and each is a question of
 * milliseconds. The oldest that has room goes first. How many may wait is bounded, and how many
 * bytes they have; of both an account, a client, whosever hosts it asks for, and the network above
 * it have a portion at most (http/portion.h), and the first two numbers of their own. What an
 * account may have its clients share (http/within.h). Those about machines' tokens have half of
 * each bound, so that people find room whoever makes up tokens. Single-threaded; without sockets,
 * clock and nginx. */
#pragma once

#include "services/edge/control/asks.h"
#include "services/edge/table/shared_text.h"

enum {
    ASK_WAITS_MAX = 512,
    ASK_WAITS_BYTES_MAX = 16 << 20,    /* of their bodies; what they share counts once */
    ASK_WAITS_ACCOUNT_MAX = 256,       /* of one account, while half of all are free; then */
    ASK_WAITS_ACCOUNT_FEW = 64,        /* so many, but for a client that has none of them yet */
    ASK_WAITS_CLIENT_MAX = 192,        /* of one client: many people may share one */
    ASK_WAITS_ACCOUNT_BYTES = 4 << 20, /* of an account */
    ASK_WAITS_MACHINES = 2             /* the part of each of these that is for machines: a half */
};

/* What is asked: bytes, and behind them those of a text that others have, too; NULL: none. */
typedef struct ask_body {
    const void *bytes;
    size_t len;
    shared_text_t *shared;
} ask_body_t;

/* All of its bytes. */
static inline size_t ask_body_total(const ask_body_t *self)
{
    return self->len + (self->shared ? self->shared->len : 0);
}

/* The part that begins at offset, which is no more than the total, of ASK_PART_MAX bytes at most.
 * *ret_part: in the body, or where it has the end of bytes and the beginning of what is shared, a
 * copy in both. Returns its length. */
size_t ask_body_part(const ask_body_t *self, size_t offset, unsigned char both[ASK_PART_MAX],
                     const unsigned char **ret_part);

/* Whose question it is, and for how long. */
typedef struct ask_who {
    void *whose; /* not NULL */
    const char *account;
    size_t account_len;
    uint32_t client; /* of asks_begin */
    unsigned kind;   /* of asks.h */
    int64_t until_ms;
} ask_who_t;

typedef struct ask_wait ask_wait_t;

struct ask_wait {
    ask_wait_t *next;
    void *whose;
    const char *verb; /* as it was given: it must last */
    char account[ASK_ACCOUNT_SIZE];
    size_t account_len;
    uint32_t client;
    unsigned kind; /* of asks.h */
    int64_t until_ms;
    uint64_t number; /* of ask_waits_take: its place */
    shared_text_t *shared;
    size_t len; /* of body */
    unsigned char body[];
};

/* All zero but for what a client and an account may have, in percent of their portions: none
 * waits. */
typedef struct ask_waits {
    ask_wait_t *first;
    size_t count, bytes;
    uint32_t client_percent, account_percent;
} ask_waits_t;

/* May one more wait, with that body? */
bool ask_waits_have_room(const ask_waits_t *self, const ask_who_t *who, const ask_body_t *body);

/* It waits from now on; the body's bytes are copied, and what is shared is referred to. False:
 * there is no room, or no memory. */
bool ask_waits_add(ask_waits_t *self, const ask_who_t *who, const char *verb,
                   const ask_body_t *body);

/* The oldest for which there is room now: it has a place, number. NULL: none. For ask_wait_free. */
ask_wait_t *ask_waits_take(ask_waits_t *self, asks_t *asks);
void ask_wait_free(ask_wait_t *wait);

/* Who asked does not wait any more, and nothing was asked. */
void ask_waits_leave(ask_waits_t *self, const void *whose);

/* One whose time is over by now: who asked, who does not wait any more; NULL: none. */
void *ask_waits_late(ask_waits_t *self, int64_t now_ms);

/* The time of all is over. */
void ask_waits_expire(ask_waits_t *self);
