/* Tokens that a provider has given in place of others, until they are in PostgreSQL. The ones
 * before may be void: whoever sent them again would have the grant taken back (RFC 9700 4.14). So
 * nothing that comes after the provider's answer may lose them, be it a database that is away or a
 * request whose deadline has passed. In memory, of all workers of this process; bounded, and where
 * there is no room the oldest goes. With them goes the turn to ask the provider of a call that has
 * ended without giving it back, perhaps because the database was away: whoever asks next need not
 * wait for that call's deadline. */
#pragma once

#include "services/identity/session.h"

enum { SESSION_TOKENS_MAX = 1024, SESSION_TOKENS_BYTES = 16 << 20, SESSION_TURN_SIZE = 24 };

/* Keep new tokens for a session, with those of `old` that it has beside them. before: SHA-256 of
 * the session's tokens as they were stored. Needs no database. 0 | -ENOMEM. */
int session_tokens_keep(crud_t *crud, const char *session, const char *before, const person_t *old,
                        const person_t *tokens);

/* Give a session's turn back, with what is kept of it, or alone. turn: checking_until_ms as the
 * call had it. Needs no database. */
void session_tokens_give_turn(const char *session, const char *turn);

/* Is there something of the session that is not written yet, or being written? Then its tokens as
 * they were read may be void. */
bool session_tokens_has(const char *session);

/* Write what is kept, some of it, not inside a transaction. Whoever changed a session's tokens
 * meanwhile knew later ones. Those whose session's row somebody holds are kept on, and not waited
 * for. 0 | as pg_exec of a database that is away: it is kept on. */
int session_tokens_write(crud_t *crud);
/* The same for that session alone, whose row is waited for, as far as no other worker writes for
 * it. *ret_written: there was something. */
int session_tokens_write_own(crud_t *crud, const char *session, bool *ret_written);

/* How many are kept. */
size_t session_tokens_count(void);
