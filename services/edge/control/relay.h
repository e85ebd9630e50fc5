/* Which copy of postern-identity has which question of a worker's, in the worker's helper. A
 * question goes to the copies in turn that are connected. Where the connection breaks before the
 * answer came, or the copy cannot answer now (BUSY, MAINTENANCE), it goes to another one, under the
 * same id and idempotency key: what it does is noted under that key in its own transaction, which
 * all copies see (proto/WIRE.md), so it is done once. The same after RESEND_MS without an answer,
 * for all but the few questions that a provider would see twice. Every question is answered once,
 * at its time at the latest. Single-threaded; without sockets, clock and nginx: now_ms is any clock
 * that never goes back. */
#pragma once

#include "services/edge/control/ask_packet.h"

enum {
    RELAY_COPIES_MAX = 16,
    RELAY_QUESTIONS_MAX = 256, /* a worker has ASKS_MAX */
    RELAY_RESEND_MS = 1000,    /* without an answer: to another copy, too */
    RELAY_PASS_MS = 3000,      /* a copy that let a question pass is the last choice for so long */
    RELAY_HOPE_MS = 1000,      /* a question waits so long for a copy to be connected */
    RELAY_TICK_MS = 50,
    RELAY_ID_SIZE = 64
};

typedef struct relay relay_t;

/* A question, as it goes to a copy. */
typedef struct relay_question {
    uint64_t number;
    char id[RELAY_ID_SIZE]; /* of the request, and its idempotency key */
    char verb[ASK_VERB_SIZE];
    char account[ASK_ACCOUNT_SIZE];
    char *body;
    size_t len;
} relay_question_t;

typedef enum relay_end {
    RELAY_NOBODY = -1, /* no copy took it and answered */
    RELAY_LATE = -2    /* one took it: perhaps it was done */
} relay_end_t;

typedef struct relay_ports {
    bool (*is_there)(void *context, int copy); /* it is connected, with room for a message */
    /* False: it was not sent. */
    bool (*send)(void *context, int copy, const relay_question_t *question, int64_t left_ms);
    /* A new id of a request, which no other question has had. */
    void (*make_id)(void *context, const ask_head_t *head, char id[RELAY_ID_SIZE]);
    /* The question's answer, told->number is its number; body: len bytes. */
    void (*answer)(void *context, const ask_told_t *told, const void *body, size_t len);
} relay_ports_t;

/* For so many copies; ports and context are borrowed. NULL: no memory. */
relay_t *relay_new(int copies, const relay_ports_t *ports, void *context);
void relay_destroy(relay_t **self_p);

/* A part of a question. The parts of one come in their order, and those of another one after them:
 * what is not whole when another begins is forgotten. */
void relay_take(relay_t *self, const ask_head_t *head, const void *part, size_t len,
                int64_t now_ms);

/* The number of the question with this id, 0: there is none. Something came from the copy, whatever
 * it is. */
uint64_t relay_heard(relay_t *self, int copy, const void *id, size_t len, int64_t now_ms);

/* Answer of the copy to a question that relay_heard found. */
void relay_reply(relay_t *self, int copy, const ask_told_t *told, const void *body, size_t len,
                 int64_t now_ms);

/* The connection to the copy broke: what was on its way is lost. */
void relay_lost(relay_t *self, int copy, int64_t now_ms);

/* See to what is late. To be called every RELAY_TICK_MS at least while questions are under way, and
 * when a copy is connected. */
void relay_tick(relay_t *self, int64_t now_ms);

size_t relay_count(const relay_t *self); /* questions that are under way */
