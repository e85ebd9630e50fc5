/* A database of postern-routes that was put back from a backup has modules of lower revisions than
 * those by which sessions were judged since. Rules in force look then like those of an edge that is
 * behind, which may not judge what is due: before a check says so it asks postern-routes, and what
 * that has no more is lost, and counts no longer (rules_newest.h). */
#pragma once

#include "services/identity/session.h"
#include "services/identity/sign_in_run.h"

/* Ask which rules are in force, where nobody has a moment ago. VERB_WAITS: the run, which is taken
 * over, goes on with the answer | ERR_SESSION_STALE | fault. */
int rules_restored_ask(crud_t *crud, const session_t *session, run_t *run, run_t **run_p);

/* Note what came of that. */
void rules_restored_take(run_t *run, const wait_answer_t *came);

/* Have lost rules judged the session last? Then it is as if these had, whose digest is another one.
 * 0 | fault. */
int rules_restored_apply(crud_t *crud, session_t *session, const sealed_t *sealed);
