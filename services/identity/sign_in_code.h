/* The code that takes a proven sign-in from the sign-in host to the route's host: a row for 30
 * s, by the code's hash. */
#pragma once

#include "services/identity/sign_in_run.h"

enum { SIGN_IN_CODE_SECONDS = 30, SIGN_IN_NONCES_MAX = 32 /* that a browser shows */ };

/* What stands before a code in a URL: edges know theirs by it, where an application has a path that
 * ends the same, too (services/edge/http/edge_sign_in_answer.h). */
#define SIGN_IN_CODE_MARK "postern-"

/* Store one of the flow's person. 0 | ERR_SIGN_IN_PROVIDER: what vouches for the person was used
 * before | fault. */
int sign_in_code_make(crud_t *crud, const run_t *run, const person_t *person,
                      char out[WORDS_TOKEN_LEN + 1]);

/* What a code stood for. */
typedef struct proven {
    person_t person;
    char target[WORDS_TARGET_MAX + 1];
    char proven_at[48]; /* by PostgreSQL's clock, as it writes it: person_proven_ms */
} proven_t;
/* Wipe and free what it owns. */
void proven_done(proven_t *self);

/* In a transaction, which must be committed also where this is refused: take the code, which is
 * gone then. 0: *out is for proven_done | ERR_SIGN_IN_CODE: there was none, or it is too late,
 * or of another route, host or browser (nonce), or the route has another provider now, or asks it
 * other things | fault. */
int sign_in_code_take(crud_t *crud, const sealed_t *sealed, const request_t *request,
                      proven_t *out);
