#include "services/identity/user_room.h"
#include "common/base/cleanup.h"
#include "common/base/log.h"
#include "services/identity/session.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdio.h>

enum {
    SAMPLE = 200,       /* sessions of an account, whose users are asked how many they have */
    LOOKED_AT = 2000,   /* sessions of users who have equally many, among which is the idlest */
    IN_USE_S = 1800,    /* so long after its last activity a session is in use */
    OLDEST = 1000,      /* of an account, among whom one without a session is looked for */
    TRIES = 8,          /* where the one that was found goes, or signs in, at the same moment */
    NEAR_PERCENT = 90,  /* of the limit: from there on idle users are deleted */
    ACCOUNTS_MAX = 20,  /* of one run */
    BATCH = 100,        /* users that one transaction deletes */
    BATCHES = 10,       /* of one account and run */
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

/* The user's row is locked. 0: it has no session but the one that was found (NULL: none), which
 * was not used since | ERR_NOT_FOUND: somebody has signed in, or come back | fault. */
static int look_again(crud_t *crud, const char *user, const PGresult *sole)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int r =
        pg_exec(crud->pg, &res,
                "SELECT 1 FROM application_session WHERE application_user_id = $1 "
                "AND NOT (id = $2 AND last_active::text = $3) LIMIT 1",
                3, user, sole ? PQgetvalue(sole, 0, 0) : "", sole ? PQgetvalue(sole, 0, 2) : "");

    return r || !PQntuples(res) ? r : ERR_NOT_FOUND;
}

/* In a transaction that has locked the user's row: delete the user, who has no session but sole,
 * of find_sole. 0 | ERR_NOT_FOUND: he has another | fault. */
static int delete_user(crud_t *crud, const char *account, const char *id, const PGresult *sole,
                       problem_t *problem)
{
    session_act_t act;
    int r = look_again(crud, id, sole);

    if (r)
        return r;
    session_act_as(&act, crud, account, id, NULL, SESSION_IDLE);
    r = crud_remove(crud, kind_find("application_user"), id, problem);
    session_act_done(&act);
    return r;
}

/* ---- a choice of sessions ---- */

/* Sessions of an account, in SQL: $1 the account, $2 a random token_hash, $3 SAMPLE. Counting all
 * would take a second where an account has a million; tokens are random, so from whatever token on
 * sessions are a fair choice, in which whoever has thousands is. Behind the last comes the
 * first. */
#define CHOSEN                                                                                     \
    "behind AS MATERIALIZED (SELECT id, application_user_id, last_active "                         \
    "     FROM application_session WHERE account_id = $1 AND token_hash >= $2 "                    \
    "     ORDER BY token_hash LIMIT $3::int), "                                                    \
    "before AS MATERIALIZED (SELECT id, application_user_id, last_active "                         \
    "     FROM application_session WHERE account_id = $1 AND token_hash < $2 "                     \
    "     ORDER BY token_hash LIMIT $3::int - (SELECT count(*) FROM behind)), "                    \
    "chosen AS MATERIALIZED (SELECT * FROM behind UNION ALL SELECT * FROM before) "

/* Who vouches for a user u, and for the newcomer of $5 to $7, in SQL; of SAML by which format of
 * names, which is the first word of name_form: names that are good for one sign-in have one of
 * their own. A user of versions before forms were noted is of the newcomer's whatever his form. */
#define OF_USER                                                                                    \
    "concat_ws(' ', u.identity_provider->>'name', u.provider_url, "                                \
    "split_part(coalesce(u.name_form, ''), ' ', 1))"
#define OF_NEWCOMER                                                                                \
    "(concat_ws(' ', $5::text, $6::text, split_part($7::text, ' ', 1)), "                          \
    "concat_ws(' ', $5::text, $6::text, ''))"

static void random_token(char out[65])
{
    unsigned char random[32];

    randombytes_buf(random, sizeof(random));
    sodium_bin2hex(out, 65, random, sizeof(random));
}

/* Of users who have one session: whose session was idle for longest, among those whom the same
 * provider vouches for that vouches for most of the choice, or else for the newcomer. One that is
 * in use goes only where the former vouches for more than half of all, and another one for the
 * newcomer: so nobody loses a session in use to the names of his own provider, and no provider
 * keeps others out, however many names it gives out. Locks the user's row, but none of who is
 * signing in: that one may wait for this room. */
static int find_sole(crud_t *crud, const char *account, const person_t *newcomer,
                     PGresult **ret_res)
{
    char from[65], most[16], in_use[16];

    random_token(from);
    snprintf(most, sizeof(most), "%d", SAMPLE);
    snprintf(in_use, sizeof(in_use), "%d", IN_USE_S);
    return pg_exec(
        crud->pg, ret_res,
        "WITH " CHOSEN ", vouched AS (SELECT c.*, " OF_USER " AS voucher FROM chosen c "
        "     JOIN application_user u ON u.id = c.application_user_id), "
        "counted AS (SELECT *, count(*) OVER (PARTITION BY voucher) AS n, count(*) OVER () AS "
        "whole "
        "     FROM vouched), "
        "judged AS MATERIALIZED (SELECT *, n = (SELECT max(n) FROM counted) AS is_most, "
        "     voucher IN " OF_NEWCOMER " AS is_own, last_active < now() - $4::int * interval '1 s' "
        "     AS is_idle FROM counted) "
        "SELECT j.id, j.application_user_id, j.last_active FROM judged j "
        "JOIN application_user u ON u.id = j.application_user_id AND u.provider_url IS NOT NULL "
        "WHERE ((j.is_idle AND (j.is_most OR j.is_own)) "
        "     OR (j.is_most AND NOT j.is_own AND 2 * j.n > j.whole)) "
        "AND NOT EXISTS (SELECT 1 FROM application_session o "
        "     WHERE o.application_user_id = j.application_user_id AND o.id <> j.id) "
        "ORDER BY CASE WHEN j.is_idle AND j.is_most THEN 0 WHEN j.is_idle THEN 1 ELSE 2 END, "
        "     j.last_active, j.id LIMIT 1 FOR UPDATE OF u SKIP LOCKED",
        7, account, from, most, in_use, newcomer->provider_name, newcomer->provider_url,
        newcomer->name_form ? newcomer->name_form : "");
}

/* ---- at the limit of users ---- */

static int find_oldest(crud_t *crud, const char *account, PGresult **ret_res)
{
    char most[16];

    snprintf(most, sizeof(most), "%d", OLDEST);
    return pg_exec(crud->pg, ret_res,
                   "SELECT u.id, u.last_login FROM application_user u WHERE u.id IN "
                   "     (SELECT id FROM application_user WHERE account_id = $1 "
                   "     AND provider_url IS NOT NULL ORDER BY last_login, id LIMIT $2::int) "
                   "AND NOT EXISTS (SELECT 1 FROM application_session s "
                   "     WHERE s.application_user_id = u.id) "
                   "ORDER BY u.last_login, u.id LIMIT 1 FOR UPDATE SKIP LOCKED",
                   2, account, most);
}

static int refuse_user(const char *account)
{
    atomic_fetch_add(&refused, 1);
    if (may_complain())
        log_warn("account=%s has as many users as it may have (object-limit), and those who were "
                 "looked at have sessions in use: nobody else can sign in for the first time",
                 account);
    return ERR_LIMIT_EXCEEDED;
}

/* Nobody is without a session: delete who has one that was idle for long, with it. As
 * delete_somebody. */
static int delete_idlest(crud_t *crud, const char *account, const person_t *newcomer,
                         problem_t *problem)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int r = find_sole(crud, account, newcomer, &res);

    if (r || !PQntuples(res))
        return r ? r : ERR_LIMIT_EXCEEDED;
    r = delete_user(crud, account, PQgetvalue(res, 0, 1), res, problem);
    if (r)
        return r;
    atomic_fetch_add(&sessions_ended, 1);
    if (may_complain())
        log_warn("account=%s has as many users as it may have (object-limit), and those who were "
                 "looked at have sessions: %s, who used his only one last at %s, was deleted for "
                 "somebody new",
                 account, PQgetvalue(res, 0, 1), PQgetvalue(res, 0, 2));
    return 0;
}

/* 0 | ERR_NOT_FOUND: the one that was found has signed in meanwhile | ERR_LIMIT_EXCEEDED: there is
 * nobody | fault. */
static int delete_somebody(crud_t *crud, const char *account, const person_t *newcomer,
                           problem_t *problem)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int r = find_oldest(crud, account, &res);

    if (!r && !PQntuples(res))
        return delete_idlest(crud, account, newcomer, problem);
    if (!r)
        r = delete_user(crud, account, PQgetvalue(res, 0, 0), NULL, problem);
    if (!r && may_complain())
        log_warn("account=%s has as many users as it may have (object-limit): who has no session "
                 "and signed in longest ago, at %s, was deleted for somebody new",
                 account, PQgetvalue(res, 0, 1));
    return r;
}

int user_room_begin(crud_t *crud, const char *account)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    char limit[24];
    int r = 0;

    snprintf(limit, sizeof(limit), "%" PRId64, (int64_t)crud->object_limit);
    if (crud->object_limit)
        r = pg_exec(crud->pg, &res,
                    "SELECT 1 FROM object_count WHERE account_id = $1 "
                    "AND kind IN ('application_user', 'application_session') "
                    "GROUP BY kind HAVING sum(n) >= $2::bigint LIMIT 1",
                    2, account, limit);
    return r || !res || !PQntuples(res) ? r : lock_room(crud, account);
}

int user_room_make(crud_t *crud, const char *account, const person_t *newcomer, problem_t *problem)
{
    int r = lock_room(crud, account);

    for (int i = 0; !r && i < TRIES; i++) {
        r = delete_somebody(crud, account, newcomer, problem);
        if (!r) {
            atomic_fetch_add(&made, 1);
            return 0;
        }
        if (r == ERR_NOT_FOUND)
            r = 0;
    }
    return r && r != ERR_LIMIT_EXCEEDED ? r : refuse_user(account);
}

/* ---- at the limit of sessions ---- */

/* Of the users who have most sessions, the one that was idle for longest. Where several have
 * equally many, no more of these are looked at than have LOOKED_AT sessions together. */
static int find_idlest(crud_t *crud, const char *account, PGresult **ret_res)
{
    char from[65], most[16], looked_at[16];

    random_token(from);
    snprintf(most, sizeof(most), "%d", SAMPLE);
    snprintf(looked_at, sizeof(looked_at), "%d", LOOKED_AT);
    return pg_exec(
        crud->pg, ret_res,
        "WITH " CHOSEN ", counted AS MATERIALIZED (SELECT application_user_id, "
        "     (SELECT count(*) FROM application_session o "
        "          WHERE o.application_user_id = users.application_user_id) AS n "
        "     FROM (SELECT DISTINCT application_user_id FROM chosen) users), "
        "most AS MATERIALIZED (SELECT * FROM counted "
        "     WHERE n > 1 AND n = (SELECT max(n) FROM counted) ORDER BY random() "
        "     LIMIT (SELECT greatest($4::int / greatest(max(n), 1), 1) FROM counted)) "
        "SELECT s.id, most.application_user_id, most.n FROM most JOIN application_session s "
        "USING (application_user_id) ORDER BY s.last_active, s.id LIMIT 1",
        4, account, from, most, looked_at);
}

static int refuse_session(const char *account)
{
    atomic_fetch_add(&sessions_refused, 1);
    if (may_complain())
        log_warn("account=%s has as many sessions as it may have (object-limit), and nobody who "
                 "was looked at has more than one, or has not used it for long: nobody else can "
                 "sign in",
                 account);
    return ERR_LIMIT_EXCEEDED;
}

static int end_session(crud_t *crud, const char *account, const PGresult *found, problem_t *problem)
{
    session_act_t act;
    int r;

    session_act_as(&act, crud, account, PQgetvalue(found, 0, 1), NULL, SESSION_IDLE);
    r = crud_remove(crud, kind_find("application_session"), PQgetvalue(found, 0, 0), problem);
    session_act_done(&act);
    return r;
}

/* Nobody has more than one: end one that was idle for long. As end_some_session. */
static int end_sole(crud_t *crud, const char *account, const person_t *newcomer, problem_t *problem)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int r = find_sole(crud, account, newcomer, &res);

    if (r || !PQntuples(res))
        return r ? r : ERR_LIMIT_EXCEEDED;
    r = look_again(crud, PQgetvalue(res, 0, 1), res);
    if (!r)
        r = end_session(crud, account, res, problem);
    if (!r && may_complain())
        log_warn("account=%s has as many sessions as it may have (object-limit), and nobody who "
                 "was looked at has more than one: that of user %s, who used it last at %s, was "
                 "ended for a new one",
                 account, PQgetvalue(res, 0, 1), PQgetvalue(res, 0, 2));
    return r;
}

/* 0 | ERR_NOT_FOUND: another transaction has ended the one that was found | ERR_LIMIT_EXCEEDED:
 * there is none | fault. */
static int end_some_session(crud_t *crud, const char *account, const person_t *newcomer,
                            problem_t *problem)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int r = find_idlest(crud, account, &res);

    if (!r && !PQntuples(res))
        return end_sole(crud, account, newcomer, problem);
    if (!r)
        r = end_session(crud, account, res, problem);
    if (!r && may_complain())
        log_warn("account=%s has as many sessions as it may have (object-limit): one of user %s, "
                 "who has %s, was ended for a new one",
                 account, PQgetvalue(res, 0, 1), PQgetvalue(res, 0, 2));
    return r;
}

int user_room_end_session(crud_t *crud, const char *account, const person_t *newcomer,
                          problem_t *problem)
{
    int r = lock_room(crud, account);

    for (int i = 0; !r && i < TRIES; i++) {
        r = end_some_session(crud, account, newcomer, problem);
        if (!r) {
            atomic_fetch_add(&sessions_ended, 1);
            return 0;
        }
        if (r == ERR_NOT_FOUND)
            r = 0;
    }
    return r && r != ERR_LIMIT_EXCEEDED ? r : refuse_session(account);
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

static int find_idle(crud_t *crud, const char *account, PGresult **ret_res)
{
    char idle[24], most[16];

    snprintf(idle, sizeof(idle), "%" PRId64, idle_s);
    snprintf(most, sizeof(most), "%d", BATCH);
    return pg_exec(crud->pg, ret_res,
                   "SELECT u.id FROM application_user u WHERE u.account_id = $1 "
                   "AND u.provider_url IS NOT NULL "
                   "AND u.last_login < now() - $2::bigint * interval '1 s' "
                   "AND u.last_active < now() - $2::bigint * interval '1 s' "
                   "AND NOT EXISTS (SELECT 1 FROM application_session s "
                   "     WHERE s.application_user_id = u.id) "
                   "ORDER BY u.last_login, u.id LIMIT $3::int FOR UPDATE SKIP LOCKED",
                   3, account, idle, most);
}

static int delete_batch(crud_t *crud, const char *account, reply_t *reply, int *ret_count)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int64_t revision = 0;
    int r = crud_begin(crud);

    *ret_count = 0;
    crud->request_key[0] = '\0';
    if (!r)
        r = find_idle(crud, account, &res);
    for (int i = 0; !r && i < PQntuples(res); i++) {
        r = delete_user(crud, account, PQgetvalue(res, i, 0), NULL, &reply->problem);
        *ret_count += !r;
        if (r == ERR_NOT_FOUND)
            r = 0;
    }
    return crud_end(crud, r, &revision);
}

static int tidy_account(crud_t *crud, const char *account, reply_t *reply)
{
    int count = BATCH, all = 0, r = 0;

    for (int i = 0; !r && count == BATCH && i < BATCHES; i++) {
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

/* What is wrong with one account is no reason to leave out the others, and what comes after. */
int user_room_tidy(crud_t *crud, reply_t *reply)
{
    _cleanup_(pgresult_clear) PGresult *accounts = NULL;
    int r = crud->object_limit ? find_accounts(crud, &accounts) : 0;

    for (int i = 0; !r && accounts && i < PQntuples(accounts); i++) {
        r = tidy_account(crud, PQgetvalue(accounts, i, 0), reply);
        if (!r || r == PG_DOWN)
            continue;
        log_warn("account=%s its idle users cannot be deleted now: %s", PQgetvalue(accounts, i, 0),
                 r == PG_AGAIN || r > 0 ? outcome_name(r) : fault_text());
        problem_done(&reply->problem);
        reply->problem = (problem_t){0};
        r = 0;
    }
    return r;
}
