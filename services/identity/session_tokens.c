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

/* With the lock. NULL: nothing is kept. */
static kept_t *take_oldest(void)
{
    kept_t *one = first;

    if (!one)
        return NULL;
    first = one->next;
    if (!first)
        last = &first;
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
        kept_t *oldest = take_oldest();

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

int session_tokens_write(crud_t *crud)
{
    int r = 0;

    for (int i = 0; !r && i < WRITE_MAX; i++) {
        kept_t *one;

        pthread_mutex_lock(&lock);
        one = take_oldest();
        pthread_mutex_unlock(&lock);
        if (!one)
            return 0;
        crud->changes = true;
        r = pg_exec(crud->pg, NULL,
                    "UPDATE sign_in_session SET tokens = $3 WHERE session_id = $1 "
                    "AND encode(sha256(convert_to(tokens, 'UTF8')), 'hex') = $2",
                    3, one->session, one->before, one->sealed);
        if (is_away(r))
            put_newest(take(one));
        kept_free(&one);
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
