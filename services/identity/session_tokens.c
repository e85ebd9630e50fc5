#include "services/identity/session_tokens.h"
#include "common/base/cleanup.h"
#include "common/base/log.h"
#include "common/base/memory.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { WRITE_MAX = 64 /* in one go */ };

/* What a session's row is to have: new tokens, its turn back (session_check.c), or both. */
typedef struct kept {
    char session[ID_MAX], before[WORDS_HEX_SIZE]; /* SHA-256 of the tokens that these replace */
    char *sealed;                                 /* NULL: no tokens */
    char turn[SESSION_TURN_SIZE]; /* as stored, of a call that has ended; "": its call goes on */
    bool is_written;              /* a worker writes it now, and alone may take it away */
    struct kept *next;
} kept_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static kept_t *first, **last = &first;
static size_t count, bytes;

static void kept_free(kept_t **self_p)
{
    kept_t *self = take(*self_p);

    if (self)
        free(self->sealed);
    free(self);
}

static size_t kept_bytes(const kept_t *one)
{
    return one->sealed ? strlen(one->sealed) : 0;
}

/* All of the following are called with the lock. */

static void append_one(kept_t *one)
{
    one->next = NULL;
    *last = one;
    last = &one->next;
    count++;
    bytes += kept_bytes(one);
}

static void remove_one(const kept_t *one)
{
    kept_t **place = &first;

    while (*place != one)
        place = &(*place)->next;
    *place = one->next;
    if (!one->next)
        last = place;
    count--;
    bytes -= kept_bytes(one);
}

/* The oldest of that session, or with `free` one that nobody writes. NULL: there is none. */
static kept_t *find_one(const char *session, bool is_free)
{
    kept_t *one = first;

    while (one && (strcmp(one->session, session) != 0 || (is_free && one->is_written)))
        one = one->next;
    return one;
}

static bool is_being_written(const char *session)
{
    for (const kept_t *one = first; one; one = one->next)
        if (one->is_written && !strcmp(one->session, session))
            return true;
    return false;
}

/* The oldest that nobody writes, with tokens or without. NULL: there is none. */
static kept_t *find_oldest(bool has_tokens)
{
    kept_t *one = first;

    while (one && (one->is_written || (one->sealed != NULL) != has_tokens))
        one = one->next;
    return one;
}

/* Beyond the bounds the oldest goes that nobody writes, a turn alone before tokens: the turn ends
 * by itself. False: all are being written, which are as many as there are workers. */
static bool drop_oldest(void)
{
    kept_t *oldest = count > SESSION_TOKENS_MAX ? find_oldest(false) : NULL;

    if (!oldest)
        oldest = find_oldest(true);
    if (!oldest)
        return false;
    if (oldest->sealed)
        log_warn("session=%s its new tokens are lost: PostgreSQL has not taken them in time",
                 oldest->session);
    remove_one(oldest);
    kept_free(&oldest);
    return true;
}

static void put_newest(kept_t *one)
{
    append_one(one);
    while ((count > SESSION_TOKENS_MAX || bytes > SESSION_TOKENS_BYTES) && drop_oldest())
        ;
}

/* ---- what is kept ---- */

int session_tokens_keep(crud_t *crud, const char *session, const char *before, const person_t *old,
                        const person_t *tokens)
{
    _cleanup_(json_clear_ref) json_t *had = person_tokens(old);
    _cleanup_(json_clear_ref) json_t *has = person_tokens(tokens);
    _cleanup_(person_done) person_t both = {0};
    kept_t *one = memory_new(sizeof(*one), "tokens of a session");

    person_add_tokens(&both, has);
    person_add_tokens(&both, had);
    snprintf(one->session, sizeof(one->session), "%s", session);
    snprintf(one->before, sizeof(one->before), "%s", before);
    one->sealed = session_seal_tokens(crud, &both);
    if (!one->sealed) {
        kept_free(&one);
        return -ENOMEM;
    }
    pthread_mutex_lock(&lock);
    put_newest(one);
    pthread_mutex_unlock(&lock);
    return 0;
}

void session_tokens_give_turn(const char *session, const char *turn)
{
    kept_t *one;
    bool is_new;

    pthread_mutex_lock(&lock);
    one = find_one(session, true);
    is_new = !one;
    if (is_new) {
        one = memory_new(sizeof(*one), "the turn of a session");
        snprintf(one->session, sizeof(one->session), "%s", session);
    }
    snprintf(one->turn, sizeof(one->turn), "%s", turn);
    if (is_new)
        put_newest(one); /* where all are worth more than this one, it goes at once */
    pthread_mutex_unlock(&lock);
}

bool session_tokens_has(const char *session)
{
    bool has;

    pthread_mutex_lock(&lock);
    has = find_one(session, false) != NULL;
    pthread_mutex_unlock(&lock);
    return has;
}

/* ---- writing it ---- */

/* May the same statement do better later? */
static bool is_away(int r)
{
    return r == PG_DOWN || r == PG_AGAIN || r == PG_TIMEOUT || r == PG_FULL;
}

/* The oldest of that session, or of any, to be written: it stays where it is meanwhile, so that
 * whoever asks finds it there. What a worker writes for a session comes before what else there is
 * of it. NULL: there is nothing to be written. */
static kept_t *begin_one(const char *session)
{
    kept_t *one;

    pthread_mutex_lock(&lock);
    for (one = first; one; one = one->next)
        if ((!session || !strcmp(one->session, session)) && !is_being_written(one->session))
            break;
    if (one)
        one->is_written = true;
    pthread_mutex_unlock(&lock);
    return one;
}

/* is_kept: it may do better later, after the others. */
static void end_one(kept_t *one, bool is_kept)
{
    pthread_mutex_lock(&lock);
    one->is_written = false;
    remove_one(one);
    if (is_kept)
        append_one(one);
    else
        kept_free(&one);
    pthread_mutex_unlock(&lock);
}

/* New tokens where those that they replace are still there, and the turn where it is still the
 * call's. NO_TURN: nobody's. */
#define NO_TURN        "-1"
#define HASH_OF_TOKENS "encode(sha256(convert_to(tokens, 'UTF8')), 'hex')"
#define SET_KEPT                                                                                   \
    "SET tokens = CASE WHEN $3 > '' AND " HASH_OF_TOKENS " = $2 THEN $3 ELSE tokens END, "         \
    "checking_until_ms = CASE WHEN checking_until_ms = $4::bigint THEN 0 "                         \
    "     ELSE checking_until_ms END "
#define IS_KEPTS "(($3 > '' AND " HASH_OF_TOKENS " = $2) OR checking_until_ms = $4::bigint) "

/* For a session, or for any. One that may do better later is kept on. *ret_kept: it is. */
static int write_one(crud_t *crud, kept_t *one, const char *session, bool *ret_kept)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int r;

    crud->changes = true;
    /* whose row somebody holds is not waited for on behalf of others */
    r = pg_exec(crud->pg, &res,
                session ? "UPDATE sign_in_session " SET_KEPT "WHERE session_id = $1 AND " IS_KEPTS
                        : "WITH free AS MATERIALIZED (SELECT session_id AS id, " IS_KEPTS
                          "     AS is_same FROM sign_in_session WHERE session_id = $1 "
                          "     FOR UPDATE SKIP LOCKED), "
                          "written AS (UPDATE sign_in_session " SET_KEPT "FROM free "
                          "     WHERE session_id = free.id AND is_same) "
                          "SELECT 1 FROM sign_in_session WHERE session_id = $1 "
                          "AND NOT EXISTS (SELECT FROM free)",
                4, one->session, one->before, one->sealed ? one->sealed : "",
                *one->turn ? one->turn : NO_TURN);
    *ret_kept = is_away(r) || (!r && !session && PQntuples(res));
    end_one(one, *ret_kept);
    return r;
}

int session_tokens_write(crud_t *crud)
{
    size_t most = session_tokens_count();
    bool is_kept;
    int r = 0;

    for (size_t i = 0; !r && i < most && i < WRITE_MAX; i++) {
        kept_t *one = begin_one(NULL);

        if (!one)
            return 0;
        r = write_one(crud, one, NULL, &is_kept);
    }
    return r;
}

int session_tokens_write_own(crud_t *crud, const char *session, bool *ret_written)
{
    bool is_kept = false;
    kept_t *one;
    int r = 0;

    *ret_written = false;
    while (!r && !is_kept && (one = begin_one(session))) {
        r = write_one(crud, one, session, &is_kept);
        *ret_written = true;
    }
    return r;
}

size_t session_tokens_count(void)
{
    size_t n;

    pthread_mutex_lock(&lock);
    n = count;
    pthread_mutex_unlock(&lock);
    return n;
}
