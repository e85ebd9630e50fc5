/* What a sign-in remembers before anybody has proved who he is, sealed and carried by the
 * browser: the ticket from the route's host to the sign-in host, and the flow's cookie there.
 * Nothing of it is stored, so anonymous requests fill nothing. Each is sealed for its own
 * purpose: one is never taken for the other. No clock, no database. */
#pragma once

#include "common/base/secret.h"
#include "services/identity/sign_in_words.h"

#include <stdint.h>

enum {
    STATE_SECONDS = 900,     /* from the first click to the provider's answer */
    STATE_NAME_LEN = 6,      /* characters of a flow's state that its cookie is named by */
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

/* Seal it into the cookie that is its own at the sign-in host, of at most STATE_COOKIE_MAX bytes: a
 * target that has no room becomes "/". Browsers have one for each flow, because the answers to
 * several requests that they send at once would else replace each other's. The caller frees it.
 * NULL: no memory. */
char *flow_seal(const secret_key_t *key, const flow_t *flow);
/* Open the cookie of the flow of that state and route. 0 | ERR_SIGN_IN_STATE: it is none of ours,
 * or of another flow, or too late | -ENOMEM. */
int flow_open(const secret_key_t *key, const char *sealed, int64_t now_s, const char *route,
              const char *state, flow_t *ret_flow);
