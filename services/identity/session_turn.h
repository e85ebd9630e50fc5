/* The turn to ask the provider of a session: one call has it at a time, of all copies, until its
 * own deadline, should its process die. One that ends without giving it back (run_free) leaves that
 * to whoever writes what is kept of sessions (session_tokens.h). */
#pragma once

#include "services/identity/sign_in_run.h"

/* Take it, to ask with the tokens that are stored: not with those that were when the session was
 * read, which another call may have used up. 0: it is the run's, or with run->turn "" another
 * call's, or was another's meanwhile | fault. */
int session_turn_take(crud_t *crud, const session_t *session, run_t *run);

/* The provider did not answer: the turn is given back, and nobody asks it for a while for the same
 * session. 0 | fault. */
int session_turn_put_off(crud_t *crud, run_t *run);

/* What the provider said is of no use here, because newer rules came while it was asked: who asks
 * next need not wait until this call's turn is over. is_doubted: it vouches for the session no
 * more, so rules that have not judged it yet must not do so by what it said before. outcome |
 * fault. */
int session_turn_give_back(crud_t *crud, run_t *run, bool is_doubted, int outcome);

/* The row says already that it is the run's no more. */
void session_turn_over(run_t *run);
