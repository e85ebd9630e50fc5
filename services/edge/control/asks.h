/* Questions of one worker to postern-identity that are under way: whose they are, until when, and
 * how many there may be. Slow ones wait for a server that somebody else runs, an identity provider,
 * and anybody who may begin a sign-in can have them asked: they get half of the places, of all and
 * of each account, so that questions which identity answers by itself find room. Those about tokens
 * that machines bring have a share of their own, since anybody can make up tokens, and half of all
 * places, too. Of all places, of slow ones and of machines' an account has a portion at most
 * (http/portion.h), and so have a client, whosever hosts it asks for, and its network: the less is
 * left, the less may anybody have, and who has none may have the last one. What an account may have
 * its clients, and their networks, share (http/within.h). Single-threaded; without sockets, clock
 * and nginx: now_ms is any clock that never goes back. */
#pragma once

#include "services/edge/control/ask_packet.h"

enum {
    ASKS_MAX = 128,               /* under way at once, of all accounts */
    ASKS_ACCOUNT_MAX = 32,        /* and of one: what its portion is while half of all are free */
    ASKS_SLOW_MAX = ASKS_MAX / 2, /* the same of slow ones */
    ASKS_ACCOUNT_SLOW_MAX = ASKS_ACCOUNT_MAX / 2,
    ASKS_MACHINES_MAX = ASKS_MAX / 2, /* about tokens that are not known yet */
    ASKS_CLIENT_MAX = 8,      /* of one client, of those of its account; slow ones by themselves */
    ASKS_CLIENT_SLOW_FEW = 2, /* slow ones, once its account has half of what it may */
    ASKS_ACCOUNT_MACHINES_MAX = 8, /* the same of an account */
    ASKS_CLIENT_MACHINES_MAX = 4,  /* of these, one client's */
    ASKS_TIMEOUT_MAX_MS = 60000    /* a question that asks for more has so long */
};

/* What kind of question it is: 0, or any of these. */
enum {
    ASK_SLOW = 1,    /* identity may have to ask a server that somebody else runs */
    ASK_MACHINE = 2, /* about a token that a machine brought, which may be made up */
    ASK_KINDS = 4    /* how many combinations there are */
};

/* All zero but for client_percent: none is under way. */
typedef struct asks {
    struct {
        uint64_t number; /* 0: free */
        void *whose;     /* NULL: who asked has left */
        int64_t until_ms;
        char account[ASK_ACCOUNT_SIZE];
        uint32_t client;
        unsigned kind;
    } list[ASKS_MAX];
    uint64_t begun;
    size_t count;
    uint32_t client_percent; /* of its portion that a client may have */
} asks_t;

/* One more: its number, or 0: there is no room. whose is not NULL. client: a hash of who had it
 * asked, the same at each account (edge_share_asker); 0: nobody in particular. */
uint64_t asks_begin(asks_t *self, void *whose, const char *account, size_t account_len,
                    uint32_t client, unsigned kind, int64_t until_ms);

/* Is there room for one of the account's, and of that client's? */
bool asks_have_room(const asks_t *self, const char *account, size_t account_len, uint32_t client,
                    unsigned kind);

/* Who asked does not wait any more. The question keeps its place until it is over, so those who
 * come and go do not ask more at once than those who stay. */
void asks_leave(asks_t *self, uint64_t number);

/* It is over: who asked it, NULL: nobody who waits, or there is no such question. */
void *asks_end(asks_t *self, uint64_t number);

/* One whose time is over by now, 0: none. INT64_MAX: any. */
uint64_t asks_late(const asks_t *self, int64_t now_ms);
