/* Visits to the sign-in host of one worker whose question is asked or waits: how many of an account
 * there may be, and which are slow. Anybody may begin a sign-in at a provider that hangs: such
 * visits do not fill the queue that its account's sessions are asked for in (ask_waits.h), nor,
 * since those of SAML are counted by themselves and wait for nobody but postern-saml, do they keep
 * these out: some of them are not slow. Of all places, and of the short ones, an account has a
 * portion at most (portion.h), and so have a client, whosever hosts it asks for, and the network
 * above it. What an account may have its clients share (within.h). Single-threaded; without
 * sockets, clock and nginx. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    VISITS_MAX = 192,        /* of all accounts, at providers; as many of SAML */
    VISITS_ACCOUNT_MAX = 96, /* the same of an account */
    VISITS_SHORT_MAX = 32,   /* of SAML, those that have a place among short questions */
    VISITS_SHORT_ACCOUNT_MAX = 8
};

/* A visit's place: zero while it asks nothing. account is the caller's, and lasts as long. */
typedef struct visit_place visit_place_t;
struct visit_place {
    visit_place_t *previous, *next;
    const char *account;
    size_t account_len;
    uint32_t client;
    bool taken, saml, slow;
};

/* All zero but for what a client may have, in percent of its portion: there is none. */
typedef struct visits {
    visit_place_t *first;
    uint32_t client_percent;
} visits_t;

/* Whose visit it is, at a route with SAML or another. client: its hash, the same at each
 * account. */
typedef struct visit_who {
    const char *account;
    size_t account_len;
    uint32_t client;
    bool saml;
} visit_who_t;

/* Take a place for a visit; place->slow is whether its question is. False: there are too many. */
bool visits_enter(visits_t *self, visit_place_t *place, const visit_who_t *who);

/* Its question is over, or was not asked; it need not have a place. */
void visits_leave(visits_t *self, visit_place_t *place);
