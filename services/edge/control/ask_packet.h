/* What a worker and its helper say to each other about questions to postern-identity (LINK_ASK).
 * Both are one program, so it is structures; a question's body comes in parts, since a worker must
 * not wait until its helper has taken a long one. No sockets and no nginx in here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ASK_BODY_MAX = 1 << 20, /* of a question, and of an answer */
    ASK_PART_MAX = 48000,   /* of a body; with its head one packet of the link */
    ASK_VERB_SIZE = 64,     /* with its end, like those below */
    ASK_ACCOUNT_SIZE = 64,
    ASK_REQUEST_SIZE = 40, /* of an id that edge_trace_id made */
    ASK_MSG_SIZE = 512
};

/* The first frame of a question; the second is the part of the body that begins at offset. */
typedef struct ask_head {
    uint64_t number; /* comes back with the answer; above 0 */
    int64_t left_ms; /* so long the worker waits */
    uint32_t total;  /* bytes of the whole body */
    uint32_t offset;
    char verb[ASK_VERB_SIZE];
    char account[ASK_ACCOUNT_SIZE];
    char request[ASK_REQUEST_SIZE]; /* the client's request that it is asked for; "": for none */
} ask_head_t;

/* The first frame of an answer; the second is its body, a map in msgpack, where code is 0. */
typedef struct ask_told {
    uint64_t number;
    int32_t code; /* 0, a code of proto/errors.def, or ASK_.. of edge_ask.h */
    char msg[ASK_MSG_SIZE];
} ask_told_t;

/* For no request. False: the verb or the account has no place there. */
bool ask_head_init(ask_head_t *self, uint64_t number, const char *verb, const char *account,
                   size_t account_len, size_t total);

/* Copy what came in a frame. False: it is none. */
bool ask_head_read(ask_head_t *out, const void *frame, size_t len, size_t part_len);
bool ask_told_read(ask_told_t *out, const void *frame, size_t len);

/* msg may be longer than there is room for: it is cut between characters. */
void ask_told_init(ask_told_t *self, uint64_t number, int code, const char *msg, size_t msg_len);
