/* Whose turn it is to encode. Encoding takes a worker milliseconds a turn, and who asks for many
 * large bodies at a time keeps it busy for as long as it likes. So turns go round the accounts, and
 * an account's round its clients: who asks for much delays what is its own. Whatever waits, each of
 * these takes the same time, and nothing in here allocates. No nginx in here. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
    ENCODER_ACCOUNTS = 1024, /* accounts whose hashes fall together have one line */
    ENCODER_CLIENTS = 8192   /* and so have clients, in the line of whose account waited first */
};

/* A body's place in the line of its client; all zero: it does not wait. */
typedef struct encoder_turn {
    struct encoder_turn *before, *after;
    uint32_t client; /* its line */
    bool waits;
} encoder_turn_t;

/* Bodies of a client of an account, in the order in which they came. */
typedef struct encoder_client {
    encoder_turn_t *first, *last;
    struct encoder_client *before, *after; /* of the same account, in which something waits */
    uint32_t account;                      /* whose line it is in while it is in any */
} encoder_client_t;

/* Clients of an account of whose bodies one waits. */
typedef struct encoder_account {
    encoder_client_t *first, *last;
    struct encoder_account *before, *after; /* in which something waits */
} encoder_account_t;

/* All zero: nothing waits. */
typedef struct {
    encoder_account_t *first, *last;
    encoder_account_t accounts[ENCODER_ACCOUNTS];
    encoder_client_t clients[ENCODER_CLIENTS];
} encoder_turns_t;

/* A body that does not wait goes to the end of its client's line; account is a hash, and so is
 * client, of a client within its account. */
void encoder_turns_wait(encoder_turns_t *self, encoder_turn_t *turn, uint32_t account,
                        uint32_t client);
/* A body waits no more, whether or not it did. */
void encoder_turns_leave(encoder_turns_t *self, encoder_turn_t *turn);
/* Whose turn it is; borrowed, and it keeps its place. NULL: nothing waits. */
encoder_turn_t *encoder_turns_first(const encoder_turns_t *self);
/* The same, taken out of its line: what else its client has waits behind its account's other
 * clients, and what else the account has behind the others. */
encoder_turn_t *encoder_turns_next(encoder_turns_t *self);
