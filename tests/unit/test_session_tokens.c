/* Tokens that PostgreSQL has not taken yet: they wait in memory, and not without bounds. */
#include "common/base/cleanup.h"
#include "services/identity/session_tokens.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static secret_key_t *a_key(void)
{
    char folder[] = "/tmp/postern-tokens-XXXXXX", file[64];
    secret_key_t *key;

    cr_assert(mkdtemp(folder));
    snprintf(file, sizeof(file), "%s/key", folder);
    cr_assert_eq(secret_key_load(&key, file), 0);
    unlink(file);
    rmdir(folder);
    return key;
}

static void keep(crud_t *crud, int n, const person_t *tokens)
{
    char session[ID_MAX];

    snprintf(session, sizeof(session), "app_sess_%d", n);
    cr_assert_eq(session_tokens_keep(crud, session, "", &(person_t){0}, tokens), 0);
}

Test(session_tokens, are_kept_without_a_database_and_the_oldest_go_where_there_are_too_many)
{
    _cleanup_(secret_key_destroy) secret_key_t *key = a_key();
    crud_t crud = {.key = key};

    cr_assert_eq(session_tokens_count(), 0);
    for (int i = 0; i < SESSION_TOKENS_MAX + 10; i++)
        keep(&crud, i, &(person_t){.refresh_token = (char *)"r"});
    cr_assert_eq(session_tokens_count(), SESSION_TOKENS_MAX);
}

Test(session_tokens, are_bounded_in_bytes)
{
    _cleanup_(secret_key_destroy) secret_key_t *key = a_key();
    crud_t crud = {.key = key};
    size_t len = 1 << 20;
    _cleanup_(free_mem) char *large = calloc(1, len + 1);

    memset(large, 'r', len);
    for (int i = 0; i < 40; i++)
        keep(&crud, i, &(person_t){.refresh_token = large});
    cr_assert_leq(session_tokens_count(), SESSION_TOKENS_BYTES / len);
    cr_assert_gt(session_tokens_count(), SESSION_TOKENS_BYTES / len / 2);
}
