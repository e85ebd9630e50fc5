/* Tokens that PostgreSQL has not taken yet: they wait in memory, and not without bounds. */
#include "common/base/cleanup.h"
#include "services/identity/session_tokens.h"
#include "services/identity/sign_in_run.h"

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

Test(session_tokens, a_turn_is_given_back_with_them_or_alone)
{
    _cleanup_(secret_key_destroy) secret_key_t *key = a_key();
    crud_t crud = {.key = key};

    cr_assert_not(session_tokens_has("app_sess_1"));
    keep(&crud, 1, &(person_t){.refresh_token = (char *)"r"});
    cr_assert(session_tokens_has("app_sess_1"));
    session_tokens_give_turn("app_sess_1", "1000");
    cr_assert_eq(session_tokens_count(), 1);
    session_tokens_give_turn("app_sess_2", "1000");
    cr_assert_eq(session_tokens_count(), 2);
    cr_assert(session_tokens_has("app_sess_2"));
    for (int i = 0; i < SESSION_TOKENS_MAX + 10; i++) {
        char session[ID_MAX];

        snprintf(session, sizeof(session), "app_sess_%d", 10 + i);
        session_tokens_give_turn(session, "1000");
    }
    cr_assert_eq(session_tokens_count(), SESSION_TOKENS_MAX, "turns are bounded, too");
    cr_assert(session_tokens_has("app_sess_1"), "tokens are worth more than turns");
    cr_assert_not(session_tokens_has("app_sess_2"));
}

Test(session_tokens, a_turn_finds_no_room_where_there_are_tokens_alone)
{
    _cleanup_(secret_key_destroy) secret_key_t *key = a_key();
    crud_t crud = {.key = key};

    for (int i = 0; i < SESSION_TOKENS_MAX; i++)
        keep(&crud, i, &(person_t){.refresh_token = (char *)"r"});
    session_tokens_give_turn("app_sess_x", "1000");
    cr_assert_not(session_tokens_has("app_sess_x"));
    cr_assert(session_tokens_has("app_sess_0"));
}

Test(session_tokens, a_run_that_ends_with_its_turn_gives_it_back)
{
    run_t *run = run_new();

    snprintf(run->session, sizeof(run->session), "app_sess_1");
    run_free(&run);
    cr_assert_not(session_tokens_has("app_sess_1"), "it had none");
    run = run_new();
    snprintf(run->session, sizeof(run->session), "app_sess_1");
    snprintf(run->turn, sizeof(run->turn), "1000");
    run_free(&run);
    cr_assert(session_tokens_has("app_sess_1"));
}
