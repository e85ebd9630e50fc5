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

/* Of one sign-in, in all its tries. Begin with the first two and zeros. */
typedef struct user_room {
    const char *account;
    const person_t *newcomer; /* who signs in, from user_room_begin on */
    /* the rest is user_room.c's */
    const kind_t *full;       /* what the last try was refused for */
    bool is_over;             /* the account has more of that than it may have */
    bool was_locked;          /* that try had the room for itself */
    bool wants_lock;          /* the next one shall, whatever it finds */
    bool is_locked;           /* the transaction has */
    bool is_cut[2];           /* room was made of sessions, of users, before the sign-in */
    unsigned users, sessions; /* that the transaction deleted */
    char line[256];           /* about the first of them */
} user_room_t;

/* In the transaction of a try, before it changes anything that others count or wait for: where the
 * account is at a limit, or a try without that was refused, nobody else makes room there until the
 * transaction is over. 0 | fault. */
int user_room_begin(crud_t *crud, user_room_t *room);

/* In that transaction: crud_add of a user or a session, with room made for it where the account has
 * as many as it may have.
 *
 * For a user the one without a session who signed in longest ago is deleted, whenever that was;
 * where those who were looked at have sessions, one who has a single one, with it: the one that was
 * idle for longest of the provider that vouches for most of a choice at random. It is not in use,
 * unless that provider vouches for more than half of them, and another one for the newcomer.
 *
 * For a session, of the users who have most of them, among those of some that are chosen at random,
 * the one that was idle for longest ends; where none of them has more than one, the one that would
 * go for a user.
 *
 * 0 | ERR_LIMIT_EXCEEDED: roll back, and ask user_room_widen | as crud_add. */
int user_room_add(crud_t *crud, user_room_t *room, const kind_t *kind, json_t *document,
                  problem_t *problem, json_t **ret_row);

/* The end of that transaction: crud_end, and what went is counted, if it did. */
int user_room_end(crud_t *crud, user_room_t *room, int r, int64_t *ret_revision);

/* After a try that ended with ERR_LIMIT_EXCEEDED, outside a transaction: what more can be done?
 * Where the account has more than it may have, as after bursts or with a lower limit, some of that
 * is deleted in a transaction of its own, and stays so whatever becomes of the sign-in. 0: try
 * again, which happens three times at most | ERR_LIMIT_EXCEEDED: nothing | fault. */
int user_room_widen(crud_t *crud, user_room_t *room, problem_t *problem);

/* Delete some of the users who have been idle for the setting's time, of accounts that are near
 * their limit; and of those that are over one, some of what is beyond it, by the rules of
 * user_room_add, but no session in use that is somebody's only one. What goes wrong with one
 * account is logged. 0 | fault. */
int user_room_tidy(crud_t *crud, reply_t *reply);

/* Prometheus text; returns bytes written. */
size_t user_room_metrics(char *out, size_t size);
