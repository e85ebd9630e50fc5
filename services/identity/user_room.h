/* Room for users and their sessions: whoever signs in for the first time becomes a user, each
 * sign-in makes a session, and an account has a limit of both (object-limit). Users who have no
 * session make room, and who has most sessions loses one to a new one. Where everybody has one, it
 * is those whom the same provider vouches for as for most others that give way, by what they have
 * not used for long. */
#pragma once

#include "common/base/config.h"
#include "common/resource/crud.h"
#include "services/identity/person.h"

/* The setting that says who is idle; once, before requests. */
void user_room_setup(const config_t *config);

/* In a transaction that may need room in the account, before it changes anything: where the account
 * is at a limit, nobody else makes room there until the transaction is over. Who waited for that
 * with rows or counts of his own would keep out whoever makes room. 0 | fault. */
int user_room_begin(crud_t *crud, const char *account);

/* In a transaction, where the account has as many users as it may have: the one without a session
 * who signed in longest ago is deleted, whenever that was; where those who were looked at have
 * sessions, one who has a single one, with it: the one that was idle for longest of the provider
 * that vouches for most of a choice at random. It is not in use, unless that provider vouches for
 * more than half of them, and another one for the newcomer. 0 | ERR_LIMIT_EXCEEDED: there is nobody
 * | fault. */
int user_room_make(crud_t *crud, const char *account, const person_t *newcomer, problem_t *problem);

/* In a transaction, where the account has as many sessions as it may have: of the users who have
 * most of them, among those of some that are chosen at random, the one that was idle for longest
 * ends; where none of them has more than one, the one that user_room_make would choose. The same
 * holds of others. 0 | ERR_LIMIT_EXCEEDED: there is none | fault. */
int user_room_end_session(crud_t *crud, const char *account, const person_t *newcomer,
                          problem_t *problem);

/* Delete some of the users who have been idle for the setting's time, of accounts that are near
 * their limit. What goes wrong with one account is logged. 0 | fault. */
int user_room_tidy(crud_t *crud, reply_t *reply);

/* Prometheus text; returns bytes written. */
size_t user_room_metrics(char *out, size_t size);
