/* What a sign-in remembers before anybody has proved who he is, sealed and carried by the
 * browser: the ticket from the route's host to the sign-in host, and the login cookie there.
 * Nothing of it is stored, so anonymous requests fill nothing. Each is sealed for its own
 * purpose: one is never taken for the other. No clock, no database. */
#pragma once

#include "common/base/secret.h"
#include "services/identity/sign_in_words.h"

#include <stdint.h>

enum {
    STATE_SECONDS = 900,     /* from the first click to the provider's answer */
    STATE_FLOWS = 4,         /* sign-ins that one browser has under way: tabs */
    STATE_COOKIE_MAX = 3800, /* bytes of the cookie's value */
    STATE_TICKET_MAX = 4096
};

/* What began at the route's host. */
typedef struct ticket {
    char route[ID_MAX], host[WORDS_HOST_MAX + 1], target[WORDS_TARGET_MAX + 1];
    char nonce_hash[WORDS_HEX_SIZE]; /* of the cookie that the browser has at that host */
    int64_t expires_s;
    int64_t asked_ms; /* when the browser was sent to the provider, or earlier; 0: nobody was */
    bool force;       /* the provider asks anew who it is */
} ticket_t;

/* Seal it; the caller frees it. NULL: no memory. */
char *ticket_seal(const secret_key_t *key, const ticket_t *ticket);
/* Open one. 0 | ERR_SIGN_IN_STATE: it is none of ours, or too late | -ENOMEM. */
int ticket_open(const secret_key_t *key, const char *sealed, int64_t now_s, ticket_t *ret_ticket);

/* One sign-in that waits for its provider. */
typedef struct flow {
    ticket_t ticket;
    char state[WORDS_STATE_LEN + 1];                                /* of the provider's answer */
    char verifier[WORDS_TOKEN_LEN + 1], nonce[WORDS_TOKEN_LEN + 1]; /* PKCE, OpenID Connect */
} flow_t;

/* The cookie at the sign-in host. */
typedef struct login {
    char browser[WORDS_STATE_LEN + 1];
    int count;
    flow_t flows[STATE_FLOWS]; /* the newest first */
} login_t;

/* Open a cookie. What is none of ours, and NULL, is a browser that has no flow; flows that are too
 * late are left out. 0 | -ENOMEM. */
int login_open(const secret_key_t *key, const char *sealed, int64_t now_s, login_t *ret_login);
/* Add a flow; the oldest goes where there is no room. */
void login_add(login_t *self, const flow_t *flow);
/* Take the flow of that state and route out. False: it has none. */
bool login_take(login_t *self, const char *route, const char *state, flow_t *ret_flow);
/* Seal it into at most STATE_COOKIE_MAX bytes: old flows are left out, and a target that has no
 * room becomes "/". The caller frees it. NULL: no memory. */
char *login_seal(const secret_key_t *key, login_t *self);
