/* Who gives way in an account that is at a limit: the users and sessions that user_room.c deletes,
 * found and locked. Nothing is waited for: what another transaction has locked is in use, and
 * others are found. Each result has one row (room_find_idle: several), or none where there is
 * nobody; each call returns 0 | fault. */
#pragma once

#include "common/resource/crud.h"
#include "services/identity/person.h"

#define ROOM_BATCH 100 /* idle users that are found at once */

/* Who has no session and signed in longest ago, among the 1,000 of an account who signed in longest
 * ago. Row: id, last_login. */
int room_find_oldest(crud_t *crud, const char *account, PGresult **ret_res);

/* The same among some who have no session, of 1,000 of the account that are chosen at random. */
int room_find_any(crud_t *crud, const char *account, PGresult **ret_res);

/* Up to ROOM_BATCH users who have no session, and neither signed in nor were active for so many
 * seconds, of the 50,000 such users who signed in longest ago. Rows: id. */
int room_find_idle(crud_t *crud, const char *account, int64_t idle_s, PGresult **ret_res);

/* Of users who have one session: whose session was idle for longest, among those whom the same
 * provider vouches for that vouches for most of a choice, or else for the newcomer. One that is in
 * use goes only where the former vouches for more than half of all, and another one for the
 * newcomer: so nobody loses a session in use to the names of his own provider, and no provider
 * keeps others out, however many names it gives out. Nor does one in use where nobody wants to get
 * in: newcomer has the provider "" then. Locks the user, but none of who is signing in:
 * that one may wait for this room. Row: id of the session, of the user, last_active. */
int room_find_sole(crud_t *crud, const char *account, const person_t *newcomer, PGresult **ret_res);

/* Of the users who have most sessions, the session that was idle for longest; 100 are as many as
 * any more. Where several have equally many, no more than 2,000 sessions of theirs are looked at.
 * Row: id of the session, of the user, how many he has (100: or more). */
int room_find_idlest(crud_t *crud, const char *account, PGresult **ret_res);

/* Has the user another session than that one ("": any)? His row is locked. 0: no | ERR_NOT_FOUND:
 * he has signed in meanwhile | fault. */
int room_look_again(crud_t *crud, const char *user, const char *session);
