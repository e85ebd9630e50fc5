#include "services/identity/session_tokens.h"
#include "common/base/cleanup.h"
#include "common/base/log.h"
#include "common/base/memory.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { WRITE_MAX = 64 /* in one go */ };

typedef struct kept {
    char session[ID_MAX], before[WORDS_HEX_SIZE]; /* SHA-256 of the tokens that these replace */
    char *sealed;
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

/* The oldest of that session, or of any: NULL. With the lock. NULL: nothing is kept. */
static kept_t *take_oldest(const char *session)
{
    kept_t **place = &first, *one;

    while (*place && session && strcmp((*place)->session, session) != 0)
        place = &(*place)->next;
    one = *place;
    if (!one)
        return NULL;
    *place = one->next;
    if (!one->next)
        last = place;
    one->next = NULL;
    count--;
    bytes -= strlen(one->sealed);
    return one;
}

static void put_newest(kept_t *one)
{
    pthread_mutex_lock(&lock);
    *last = one;
    last = &one->next;
    count++;
    bytes += strlen(one->sealed);
    while (count > SESSION_TOKENS_MAX || bytes > SESSION_TOKENS_BYTES) {
        kept_t *oldest = take_oldest(NULL);

        log_warn("session=%s its new tokens are lost: PostgreSQL has not taken them in time",
                 oldest->session);
        kept_free(&oldest);
    }
    pthread_mutex_unlock(&lock);
}

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
    put_newest(one);
    return 0;
}

/* May the same statement do better later? */
static bool is_away(int r)
{
    return r == PG_DOWN || r == PG_AGAIN || r == PG_TIMEOUT || r == PG_FULL;
}

static kept_t *take_one(const char *session)
{
    kept_t *one;

    pthread_mutex_lock(&lock);
    one = take_oldest(session);
    pthread_mutex_unlock(&lock);
    return one;
}

/* For a session, or for any: NULL. One that may do better later is kept on. *ret_kept: it is. */
static int write_one(crud_t *crud, kept_t *one, const char *session, bool *ret_kept)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int r;

    crud->changes = true;
    /* whose row somebody holds is not waited for on behalf of others */
    r = pg_exec(crud->pg, &res,
                session ? "UPDATE sign_in_session SET tokens = $3 WHERE session_id = $1 "
                          "AND encode(sha256(convert_to(tokens, 'UTF8')), 'hex') = $2"
                        : "WITH free AS MATERIALIZED (SELECT session_id AS id, "
                          "     encode(sha256(convert_to(tokens, 'UTF8')), 'hex') = $2 AS is_same "
                          "     FROM sign_in_session WHERE session_id = $1 "
                          "     FOR UPDATE SKIP LOCKED), "
                          "written AS (UPDATE sign_in_session SET tokens = $3 FROM free "
                          "     WHERE session_id = free.id AND is_same) "
                          "SELECT 1 FROM sign_in_session WHERE session_id = $1 "
                          "AND NOT EXISTS (SELECT FROM free)",
                3, one->session, one->before, one->sealed);
    *ret_kept = is_away(r) || (!r && !session && PQntuples(res));
    if (*ret_kept)
        put_newest(take(one));
    kept_free(&one);
    return r;
}

int session_tokens_write(crud_t *crud)
{
    size_t most = session_tokens_count();
    bool is_kept;
    int r = 0;

    for (size_t i = 0; !r && i < most && i < WRITE_MAX; i++) {
        kept_t *one = take_one(NULL);

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
    while (!r && !is_kept && (one = take_one(session))) {
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
