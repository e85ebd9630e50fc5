#include "services/identity/user_room.h"
#include "common/base/cleanup.h"
#include "common/base/log.h"
#include "services/identity/session.h"
#include "services/identity/user_room_choice.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

enum {
    TRIES = 8,          /* where the one that was found goes, or signs in, at the same moment */
    PLACES_MAX = 8,     /* that one sign-in makes together with its user and session: sign-ins that
                           came at once may have made more than the limit, because none of them sees
                           the others' */
    CUT_MAX = 32,       /* that one transaction makes where the account is over its limit */
    NEAR_PERCENT = 90,  /* of the limit: from there on idle users are deleted */
    ACCOUNTS_MAX = 20,  /* of one run */
    BATCHES = 10,       /* of ROOM_BATCH users, of one account and run */
    CUTS = 100,         /* of CUT_MAX, of one account, kind and run, */
    CUTS_MS = 5000,     /* and for so long, of all */
    COMPLAIN_MS = 60000 /* between two lines in the log */
};

/* Set once, before the workers start. */
static int64_t idle_s;
static _Atomic uint64_t made, tidied, refused, sessions_ended, sessions_refused;
static _Atomic int64_t complain_ms;

void user_room_setup(const config_t *config)
{
    idle_s = config_int(config, "user-idle-seconds");
}

size_t user_room_metrics(char *out, size_t size)
{
    int n = snprintf(out, size,
                     "postern_identity_users_idle_deleted_total %" PRIu64 "\n"
                     "postern_identity_users_deleted_for_room_total %" PRIu64 "\n"
                     "postern_identity_users_refused_total %" PRIu64 "\n"
                     "postern_identity_sessions_ended_for_room_total %" PRIu64 "\n"
                     "postern_identity_sessions_refused_total %" PRIu64 "\n",
                     atomic_load(&tidied), atomic_load(&made), atomic_load(&refused),
                     atomic_load(&sessions_ended), atomic_load(&sessions_refused));

    return n > 0 && (size_t)n < size ? (size_t)n : 0;
}

/* Is a line due? One a minute says it for all accounts. */
static bool may_complain(void)
{
    int64_t now = bus_mono_ms(), due = atomic_load(&complain_ms);

    return now >= due && atomic_compare_exchange_strong(&complain_ms, &due, now + COMPLAIN_MS);
}

/* Whoever makes room in an account does so alone until the transaction is over: two at once would
 * take both sessions of somebody who has two, and all that come at once would choose the same
 * one. */
static int lock_room(crud_t *crud, const char *account)
{
    return pg_exec(crud->pg, NULL, "SELECT pg_advisory_xact_lock(hashtextextended($1, 22))", 1,
                   account);
}

static bool is_user(const kind_t *kind)
{
    return kind == kind_find("application_user");
}

/* What the log says when the transaction is committed: of the first place that it made. */
__attribute__((format(printf, 2, 3))) static void note_place(user_room_t *room, const char *format,
                                                             ...)
{
    va_list args;

    if (*room->line)
        return;
    va_start(args, format);
    vsnprintf(room->line, sizeof(room->line), format, args);
    va_end(args);
}

/* In a transaction that has locked the user's row: delete the user, who has no session but that one
 * ("": none). 0 | ERR_NOT_FOUND: he has another | fault. */
static int delete_user(crud_t *crud, const char *account, const char *id, const char *session,
                       problem_t *problem)
{
    session_act_t act;
    int r = room_look_again(crud, id, session);

    if (r)
        return r;
    session_act_as(&act, crud, account, id, NULL, SESSION_IDLE);
    r = crud_remove(crud, kind_find("application_user"), id, problem);
    session_act_done(&act);
    return r;
}

/* ---- at the limit of users ---- */

/* Nobody is without a session: delete who has one that was idle for long, with it. As
 * delete_somebody. */
static int delete_idlest(crud_t *crud, user_room_t *room, problem_t *problem)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int r = room_find_sole(crud, room->account, room->newcomer, &res);

    if (r || !PQntuples(res))
        return r ? r : ERR_LIMIT_EXCEEDED;
    r = delete_user(crud, room->account, PQgetvalue(res, 0, 1), PQgetvalue(res, 0, 0), problem);
    if (r)
        return r;
    room->users++;
    room->sessions++;
    note_place(room,
               "has as many users as it may have (object-limit), and those who were looked at have "
               "sessions: %s, who used his only one last at %s, was deleted for somebody new",
               PQgetvalue(res, 0, 1), PQgetvalue(res, 0, 2));
    return 0;
}

/* 0 | ERR_NOT_FOUND: the one that was found has signed in meanwhile | ERR_LIMIT_EXCEEDED: there is
 * nobody | fault. */
static int delete_somebody(crud_t *crud, user_room_t *room, problem_t *problem)
{
    _cleanup_(pgresult_clear) PGresult *oldest = NULL;
    _cleanup_(pgresult_clear) PGresult *any = NULL;
    const PGresult *res;
    int r = room_find_oldest(crud, room->account, &oldest);

    if (!r && !PQntuples(oldest))
        r = room_find_any(crud, room->account, &any);
    if (r)
        return r;
    res = PQntuples(oldest) ? oldest : any;
    if (!PQntuples(res))
        return delete_idlest(crud, room, problem);
    r = delete_user(crud, room->account, PQgetvalue(res, 0, 0), "", problem);
    if (r)
        return r;
    room->users++;
    note_place(room,
               "has as many users as it may have (object-limit): %s, who has no session and signed "
               "in last at %s, was deleted for somebody new",
               PQgetvalue(res, 0, 0), PQgetvalue(res, 0, 1));
    return 0;
}

/* ---- at the limit of sessions ---- */

/* One that was found, whose rows are locked. */
static int end_session(crud_t *crud, user_room_t *room, const PGresult *found, problem_t *problem)
{
    session_act_t act;
    int r;

    session_act_as(&act, crud, room->account, PQgetvalue(found, 0, 1), NULL, SESSION_IDLE);
    r = crud_remove(crud, kind_find("application_session"), PQgetvalue(found, 0, 0), problem);
    session_act_done(&act);
    room->sessions += !r;
    return r;
}

/* Nobody has more than one: end one that was idle for long. As end_some_session. */
static int end_sole(crud_t *crud, user_room_t *room, problem_t *problem)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int r = room_find_sole(crud, room->account, room->newcomer, &res);

    if (r || !PQntuples(res))
        return r ? r : ERR_LIMIT_EXCEEDED;
    r = room_look_again(crud, PQgetvalue(res, 0, 1), PQgetvalue(res, 0, 0));
    if (!r)
        r = end_session(crud, room, res, problem);
    if (!r)
        note_place(room,
                   "has as many sessions as it may have (object-limit), and nobody who was looked "
                   "at has more than one: that of user %s, who used it last at %s, was ended for a "
                   "new one",
                   PQgetvalue(res, 0, 1), PQgetvalue(res, 0, 2));
    return r;
}

/* 0 | ERR_NOT_FOUND: the user of the one that was found has signed in meanwhile |
 * ERR_LIMIT_EXCEEDED: there is none | fault. */
static int end_some_session(crud_t *crud, user_room_t *room, problem_t *problem)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int r = room_find_idlest(crud, room->account, &res);

    if (!r && !PQntuples(res))
        return end_sole(crud, room, problem);
    if (!r)
        r = end_session(crud, room, res, problem);
    if (!r)
        note_place(room,
                   "has as many sessions as it may have (object-limit): one of user %s, who has %s "
                   "(100: or more), was ended for a new one",
                   PQgetvalue(res, 0, 1), PQgetvalue(res, 0, 2));
    return r;
}

/* ---- a sign-in ---- */

/* How many objects of the kind the account has beyond its limit. 0 | fault. */
static int count_over(crud_t *crud, const char *account, const kind_t *kind, int64_t *ret_over)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int r = pg_exec(crud->pg, &res,
                    "SELECT coalesce(sum(n), 0) FROM object_count WHERE account_id = $1 "
                    "AND kind = $2",
                    2, account, kind->name);

    *ret_over = r ? 0 : strtoll(PQgetvalue(res, 0, 0), NULL, 10) - crud->object_limit;
    return r;
}

int user_room_begin(crud_t *crud, user_room_t *room)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    char limit[24];
    int r = 0;

    snprintf(limit, sizeof(limit), "%" PRId64, (int64_t)crud->object_limit);
    if (!room->wants_lock && crud->object_limit)
        r = pg_exec(crud->pg, &res,
                    "SELECT 1 FROM object_count WHERE account_id = $1 "
                    "AND kind IN ('application_user', 'application_session') "
                    "GROUP BY kind HAVING sum(n) >= $2::bigint LIMIT 1",
                    2, room->account, limit);
    if (!r && (room->wants_lock || (res && PQntuples(res)))) {
        r = lock_room(crud, room->account);
        room->is_locked = !r;
    }
    return r;
}

/* 0 | ERR_LIMIT_EXCEEDED: there is nobody to give way | fault. */
static int make_place(crud_t *crud, user_room_t *room, const kind_t *kind, problem_t *problem)
{
    int r = ERR_NOT_FOUND;

    for (int i = 0; r == ERR_NOT_FOUND && i < TRIES; i++)
        r = is_user(kind) ? delete_somebody(crud, room, problem)
                          : end_some_session(crud, room, problem);
    return r == ERR_NOT_FOUND ? ERR_LIMIT_EXCEEDED : r;
}

/* What a limit has said does not matter any more. */
static void forget_problem(problem_t *problem)
{
    problem_done(problem);
    *problem = (problem_t){0};
}

int user_room_add(crud_t *crud, user_room_t *room, const kind_t *kind, json_t *document,
                  problem_t *problem, json_t **ret_row)
{
    int64_t over = 0;
    int r = crud_add(crud, kind, document, problem, ret_row), fault;

    if (r != ERR_LIMIT_EXCEEDED)
        return r;
    room->full = kind;
    room->was_locked = room->is_locked;
    fault = room->is_locked ? count_over(crud, room->account, kind, &over) : 0;
    room->is_over = over > (room->is_cut[is_user(kind)] ? PLACES_MAX - 1 : 0);
    if (fault || !room->is_locked || room->is_over)
        return fault ? fault : r;
    for (int i = 0; r == ERR_LIMIT_EXCEEDED && i < PLACES_MAX; i++) {
        int place = make_place(crud, room, kind, problem);

        if (place)
            return place;
        forget_problem(problem);
        r = crud_add(crud, kind, document, problem, ret_row);
    }
    return r;
}

int user_room_end(crud_t *crud, user_room_t *room, int r, int64_t *ret_revision)
{
    r = crud_end(crud, r, ret_revision);
    if (!r) {
        atomic_fetch_add(&made, room->users);
        atomic_fetch_add(&sessions_ended, room->sessions);
    }
    if (!r && *room->line && may_complain())
        log_warn("account=%s %s", room->account, room->line);
    room->users = room->sessions = 0;
    *room->line = '\0';
    room->is_locked = false;
    return r;
}

/* Make the places by which the account is over its limit, some of them where there are many, and
 * keep them, whatever becomes of the sign-in: else all sign-ins would make the first of them again,
 * and nobody got in. *ret_more: there were more than those. 0 | ERR_LIMIT_EXCEEDED: there is nobody
 * to give way | fault. */
static int cut_down(crud_t *crud, user_room_t *room, const kind_t *kind, problem_t *problem,
                    bool *ret_more)
{
    int64_t over = 0, revision = 0;
    int r = crud_begin(crud), count = 0;

    room->is_cut[is_user(kind)] = true;
    if (!r)
        r = lock_room(crud, room->account);
    if (!r)
        r = count_over(crud, room->account, kind, &over);
    while (!r && count < over && count < CUT_MAX) {
        r = make_place(crud, room, kind, problem);
        count += !r;
    }
    *ret_more = !r && count < over;
    if (r == ERR_LIMIT_EXCEEDED && count)
        r = 0;
    return user_room_end(crud, room, r, &revision);
}

static int refuse(const user_room_t *room)
{
    bool user = is_user(room->full);

    atomic_fetch_add(user ? &refused : &sessions_refused, 1);
    if (!may_complain())
        return ERR_LIMIT_EXCEEDED;
    if (room->is_over)
        log_warn("account=%s has more %s than it may have (object-limit): room is made for %d of "
                 "them with each sign-in, and nobody gets in before it is enough",
                 room->account, user ? "users" : "sessions", CUT_MAX);
    else if (user)
        log_warn("account=%s has as many users as it may have (object-limit), and those who were "
                 "looked at have sessions in use: nobody else can sign in for the first time",
                 room->account);
    else
        log_warn("account=%s has as many sessions as it may have (object-limit), and nobody who "
                 "was looked at has more than one, or has not used it for long: nobody else can "
                 "sign in",
                 room->account);
    return ERR_LIMIT_EXCEEDED;
}

int user_room_widen(crud_t *crud, user_room_t *room, problem_t *problem)
{
    bool more;
    int r = 0;

    if (!room->full) /* the limit is none of these two */
        return ERR_LIMIT_EXCEEDED;
    if (room->was_locked && !room->is_over)
        return refuse(room);
    if (room->is_over)
        r = room->is_cut[is_user(room->full)] ? ERR_LIMIT_EXCEEDED
                                              : cut_down(crud, room, room->full, problem, &more);
    if (r)
        return r == ERR_LIMIT_EXCEEDED ? refuse(room) : r;
    forget_problem(problem);
    room->wants_lock = true;
    room->full = NULL;
    room->is_over = false;
    return 0;
}

/* ---- near the limit of users ---- */

static int find_accounts(crud_t *crud, PGresult **ret_res)
{
    char near[24], most[16];

    snprintf(near, sizeof(near), "%" PRId64, (int64_t)crud->object_limit * NEAR_PERCENT / 100);
    snprintf(most, sizeof(most), "%d", ACCOUNTS_MAX);
    return pg_exec(crud->pg, ret_res,
                   "SELECT account_id FROM object_count WHERE kind = 'application_user' "
                   "GROUP BY account_id HAVING sum(n) >= $1::bigint ORDER BY sum(n) DESC "
                   "LIMIT $2::int",
                   2, near, most);
}

static int delete_batch(crud_t *crud, const char *account, reply_t *reply, int *ret_count)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int64_t revision = 0;
    int r = crud_begin(crud);

    *ret_count = 0;
    crud->request_key[0] = '\0';
    if (!r)
        r = room_find_idle(crud, account, idle_s, &res);
    for (int i = 0; !r && i < PQntuples(res); i++) {
        r = delete_user(crud, account, PQgetvalue(res, i, 0), "", &reply->problem);
        *ret_count += !r;
        if (r == ERR_NOT_FOUND)
            r = 0;
    }
    return crud_end(crud, r, &revision);
}

static int tidy_account(crud_t *crud, const char *account, reply_t *reply)
{
    int count = ROOM_BATCH, all = 0, r = 0;

    for (int i = 0; !r && count == ROOM_BATCH && i < BATCHES; i++) {
        r = delete_batch(crud, account, reply, &count);
        if (!r)
            all += count;
    }
    atomic_fetch_add(&tidied, (uint64_t)all);
    if (all)
        log_warn("account=%s is near the users that it may have (object-limit): %d who had no "
                 "session, and were not seen for %" PRId64 " s, were deleted",
                 account, all, idle_s);
    return r;
}

/* What is wrong with one account is no reason to leave out the others, and what comes after. r, or
 * 0: it was logged. */
static int pass_over(const char *account, int r, reply_t *reply)
{
    if (!r || r == PG_DOWN)
        return r;
    log_warn("account=%s its idle users and sessions cannot be deleted now: %s", account,
             r == PG_AGAIN || r > 0 ? outcome_name(r) : fault_text());
    forget_problem(&reply->problem);
    return 0;
}

/* ---- over a limit ---- */

static int find_over(crud_t *crud, PGresult **ret_res)
{
    char limit[24], most[16];

    snprintf(limit, sizeof(limit), "%" PRId64, (int64_t)crud->object_limit);
    snprintf(most, sizeof(most), "%d", ACCOUNTS_MAX);
    return pg_exec(crud->pg, ret_res,
                   "SELECT account_id, kind FROM object_count "
                   "WHERE kind IN ('application_user', 'application_session') "
                   "GROUP BY account_id, kind HAVING sum(n) > $1::bigint ORDER BY random() "
                   "LIMIT $2::int",
                   2, limit, most);
}

/* Nobody needs a place now, so no session in use goes that is somebody's only one. */
static int tidy_over(crud_t *crud, const char *account, const kind_t *kind, int64_t until_ms,
                     reply_t *reply)
{
    const person_t nobody = {.provider_name = "", .provider_url = ""};
    user_room_t room = {.account = account, .newcomer = &nobody};
    bool more = true;
    int r = 0;

    for (int i = 0; !r && more && i < CUTS && bus_mono_ms() < until_ms; i++) {
        crud->request_key[0] = '\0';
        r = cut_down(crud, &room, kind, &reply->problem, &more);
    }
    if (r != ERR_LIMIT_EXCEEDED)
        return r;
    forget_problem(&reply->problem);
    return 0; /* those that were looked at are in use, each somebody's only one */
}

int user_room_tidy(crud_t *crud, reply_t *reply)
{
    _cleanup_(pgresult_clear) PGresult *accounts = NULL;
    _cleanup_(pgresult_clear) PGresult *over = NULL;
    int64_t until_ms;
    int r = crud->object_limit ? find_accounts(crud, &accounts) : 0;

    for (int i = 0; !r && accounts && i < PQntuples(accounts); i++) {
        const char *account = PQgetvalue(accounts, i, 0);

        r = pass_over(account, tidy_account(crud, account, reply), reply);
    }
    if (!r && crud->object_limit)
        r = find_over(crud, &over);
    until_ms = bus_mono_ms() + CUTS_MS;
    for (int i = 0; !r && over && i < PQntuples(over); i++) {
        const char *account = PQgetvalue(over, i, 0);
        const kind_t *kind = kind_find(PQgetvalue(over, i, 1));

        r = pass_over(account, tidy_over(crud, account, kind, until_ms, reply), reply);
    }
    return r;
}
