#include "services/identity/user_room_choice.h"
#include "common/base/cleanup.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>

enum { IN_USE_S = 1800 /* so long after its last activity a session is in use */ };

/* How many rows are looked at. These are numbers in the text of statements: of a parameter, and of
 * what is left of one, PostgreSQL takes a tenth of the table for the limit, and plans to read all
 * of another table instead of some rows by its index. */
#define TEXT(number)    #number
#define TEXT_OF(number) TEXT(number)

#define SAMPLE     "200"  /* sessions of an account, whose users are asked how many they have */
#define LOOKED_AT  "2000" /* sessions of users who have equally many, among which is the idlest */
#define COUNTED    "100"  /* sessions of a user: more are not told apart */
#define USERS      "1000" /* of an account, among whom some without a session are looked for */
#define CANDIDATES "32" /* of which one is locked: others may have the best of them, in use then */
#define IDLE       "50000" /* idle users, among whom some without a session are looked for */
#define BATCH      TEXT_OF(ROOM_BATCH)

int room_look_again(crud_t *crud, const char *user, const char *session)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int r = pg_exec(crud->pg, &res,
                    "SELECT 1 FROM application_session WHERE application_user_id = $1 "
                    "AND id <> $2 LIMIT 1",
                    2, user, session);

    return r || !PQntuples(res) ? r : ERR_NOT_FOUND;
}

/* ---- users without a session ---- */

/* Has a user of some_users none, in SQL? A subquery with a limit is asked of one user after the
 * other, until there are enough. Without the account PostgreSQL would read the index of all
 * sessions for each. */
#define HAS_NO_SESSION                                                                             \
    "(SELECT 1 FROM application_session s WHERE s.account_id = $1 "                                \
    "     AND s.application_user_id = some_users.id LIMIT 1) IS NULL "

/* Of some_users, in SQL, the one without a session who signed in longest ago. */
#define OLDEST_OF_SOME                                                                             \
    "found AS MATERIALIZED (SELECT id FROM some_users WHERE " HAS_NO_SESSION "LIMIT " CANDIDATES   \
    ") SELECT u.id, u.last_login FROM found JOIN application_user u ON u.id = found.id "           \
    "ORDER BY u.last_login, u.id LIMIT 1 FOR UPDATE OF u SKIP LOCKED"

int room_find_oldest(crud_t *crud, const char *account, PGresult **ret_res)
{
    return pg_exec(crud->pg, ret_res,
                   "WITH some_users AS (SELECT id FROM application_user WHERE account_id = $1 "
                   "     AND provider_url IS NOT NULL ORDER BY last_login, id LIMIT " USERS
                   "), " OLDEST_OF_SOME,
                   1, account);
}

/* Ids begin with a time, so those from some id on came at one time. Their hashes are by chance:
 * from whatever hash on users are a fair choice. Behind the last comes the first. */
int room_find_any(crud_t *crud, const char *account, PGresult **ret_res)
{
    char from[24];
    int64_t random;

    randombytes_buf(&random, sizeof(random));
    snprintf(from, sizeof(from), "%" PRId64, random);
    return pg_exec(crud->pg, ret_res,
                   "WITH behind AS (SELECT id FROM application_user WHERE account_id = $1 "
                   "     AND provider_url IS NOT NULL AND hashtextextended(id, 0) >= $2::bigint "
                   "     ORDER BY hashtextextended(id, 0) LIMIT " USERS "), "
                   "before AS (SELECT id FROM application_user WHERE account_id = $1 "
                   "     AND provider_url IS NOT NULL AND hashtextextended(id, 0) < $2::bigint "
                   "     ORDER BY hashtextextended(id, 0) LIMIT " USERS "), "
                   "some_users AS (SELECT * FROM behind UNION ALL SELECT * FROM before LIMIT " USERS
                   "), " OLDEST_OF_SOME,
                   2, account, from);
}

#define IS_IDLE                                                                                    \
    "last_login < now() - $2::bigint * interval '1 s' "                                            \
    "AND last_active < now() - $2::bigint * interval '1 s' "

int room_find_idle(crud_t *crud, const char *account, int64_t idle_s, PGresult **ret_res)
{
    char idle[24];

    snprintf(idle, sizeof(idle), "%" PRId64, idle_s);
    return pg_exec(
        crud->pg, ret_res,
        "WITH some_users AS (SELECT id FROM application_user WHERE account_id = $1 "
        "     AND provider_url IS NOT NULL AND " IS_IDLE "     ORDER BY last_login, id LIMIT " IDLE
        "), "
        "found AS MATERIALIZED (SELECT id FROM some_users WHERE " HAS_NO_SESSION "     LIMIT " BATCH
        ") "
        "SELECT u.id FROM found JOIN application_user u ON u.id = found.id WHERE " IS_IDLE
        "ORDER BY last_login, u.id FOR UPDATE OF u SKIP LOCKED",
        2, account, idle);
}

/* ---- a choice of sessions ---- */

/* Sessions of an account, in SQL: $1 the account, $2 a random token_hash. Counting all would take a
 * second where an account has a million; tokens are random, so from whatever token on sessions are
 * a fair choice, in which whoever has thousands is. Behind the last comes the first. */
#define CHOSEN                                                                                     \
    "behind AS (SELECT id, application_user_id, last_active FROM application_session "             \
    "     WHERE account_id = $1 AND token_hash >= $2 ORDER BY token_hash LIMIT " SAMPLE "), "      \
    "before AS (SELECT id, application_user_id, last_active FROM application_session "             \
    "     WHERE account_id = $1 AND token_hash < $2 ORDER BY token_hash LIMIT " SAMPLE "), "       \
    "chosen AS MATERIALIZED (SELECT * FROM behind UNION ALL SELECT * FROM before LIMIT " SAMPLE    \
    ") "

/* The rows of a session of best, in SQL: it was not used since it was found. Whoever notes that it
 * was used, or ends it, locks one of them first, and may wait for others, of its user too: so these
 * are locked at once or not at all. */
#define ROWS_OF_BEST                                                                               \
    "JOIN application_session a ON a.id = best.id AND a.last_active = best.last_active "           \
    "JOIN sign_in_session s ON s.session_id = best.id JOIN object o ON o.id = best.id "

/* Who vouches for a user u, and for the newcomer of $4 to $6, in SQL; of SAML by which format of
 * names, which is the first word of name_form: names that are good for one sign-in have one of
 * their own. A user of versions before forms were noted is of the newcomer's whatever his form. */
#define OF_USER                                                                                    \
    "concat_ws(' ', u.identity_provider->>'name', u.provider_url, "                                \
    "split_part(coalesce(u.name_form, ''), ' ', 1))"
#define OF_NEWCOMER                                                                                \
    "(concat_ws(' ', $4::text, $5::text, split_part($6::text, ' ', 1)), "                          \
    "concat_ws(' ', $4::text, $5::text, ''))"

static void random_token(char out[65])
{
    unsigned char random[32];

    randombytes_buf(random, sizeof(random));
    sodium_bin2hex(out, 65, random, sizeof(random));
}

int room_find_sole(crud_t *crud, const char *account, const person_t *newcomer, PGresult **ret_res)
{
    char from[65], in_use[16];

    random_token(from);
    snprintf(in_use, sizeof(in_use), "%d", IN_USE_S);
    return pg_exec(
        crud->pg, ret_res,
        "WITH " CHOSEN ", vouched AS (SELECT c.*, u.provider_url, " OF_USER " AS voucher "
        "     FROM chosen c JOIN application_user u ON u.id = c.application_user_id), "
        "counted AS (SELECT *, count(*) OVER (PARTITION BY voucher) AS n, "
        "     count(*) OVER () AS whole FROM vouched), "
        "judged AS MATERIALIZED (SELECT *, n = (SELECT max(n) FROM counted) AS is_most, "
        "     voucher IN " OF_NEWCOMER " AS is_own, last_active < now() - $3::int * interval '1 s' "
        "     AS is_idle FROM counted), "
        "best AS MATERIALIZED (SELECT j.id, j.application_user_id, j.last_active, "
        "     CASE WHEN j.is_idle AND j.is_most THEN 0 WHEN j.is_idle THEN 1 ELSE 2 END AS turn "
        "     FROM judged j WHERE j.provider_url IS NOT NULL "
        "     AND ((j.is_idle AND (j.is_most OR j.is_own)) "
        "          OR (j.is_most AND NOT j.is_own AND $5::text > '' AND 2 * j.n > j.whole)) "
        "     AND NOT EXISTS (SELECT 1 FROM application_session o "
        "          WHERE o.application_user_id = j.application_user_id AND o.id <> j.id) "
        "     ORDER BY turn, j.last_active, j.id LIMIT " CANDIDATES ") "
        "SELECT best.id, best.application_user_id, best.last_active FROM best "
        "JOIN application_user u ON u.id = best.application_user_id " ROWS_OF_BEST
        "ORDER BY best.turn, best.last_active, best.id LIMIT 1 FOR UPDATE OF u, a, s, o "
        "SKIP LOCKED",
        6, account, from, in_use, newcomer->provider_name, newcomer->provider_url,
        newcomer->name_form ? newcomer->name_form : "");
}

int room_find_idlest(crud_t *crud, const char *account, PGresult **ret_res)
{
    char from[65];

    random_token(from);
    return pg_exec(
        crud->pg, ret_res,
        "WITH " CHOSEN ", counted AS MATERIALIZED (SELECT application_user_id, "
        "     (SELECT count(*) FROM (SELECT 1 FROM application_session o "
        "          WHERE o.application_user_id = users.application_user_id LIMIT " COUNTED
        ") those) "
        "     AS n FROM (SELECT DISTINCT application_user_id FROM chosen) users), "
        "most AS MATERIALIZED (SELECT * FROM counted "
        "     WHERE n > 1 AND n = (SELECT max(n) FROM counted) ORDER BY random() "
        "     LIMIT (SELECT greatest(" LOOKED_AT " / greatest(max(n), 1), 1) FROM counted)), "
        "looked_at AS MATERIALIZED (SELECT s.id, most.application_user_id, most.n, s.last_active "
        "     FROM most JOIN application_session s USING (application_user_id) LIMIT " LOOKED_AT
        "), "
        "best AS MATERIALIZED (SELECT * FROM looked_at ORDER BY last_active, id "
        "     LIMIT " CANDIDATES ") "
        "SELECT best.id, best.application_user_id, best.n FROM best " ROWS_OF_BEST
        "ORDER BY best.last_active, best.id LIMIT 1 FOR UPDATE OF a, s, o SKIP LOCKED",
        2, account, from);
}
