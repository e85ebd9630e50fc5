#include "services/edge/http/sign_out_share.h"

#include <criterion/criterion.h>
#include <string.h>

/* Logout tokens, of which each is an account's and a client's. */
typedef struct {
    int account;
    uint32_t client;
} token_t;

typedef struct {
    token_t tokens[LOGOUTS_WAITING_MAX];
    size_t n;
} list_t;

static within_part_t count(const list_t *self, token_t one)
{
    within_part_t out = {.all = 0};

    for (size_t i = 0; i < self->n; i++)
        within_count(&out, self->tokens[i].account == one.account,
                     self->tokens[i].client == one.client,
                     portion_same_network(self->tokens[i].client, one.client));
    return out;
}

static bool take_one(list_t *self, token_t one, bool (*may)(const within_part_t *))
{
    const within_part_t has = count(self, one);

    if (!may(&has))
        return false;
    self->tokens[self->n++] = one;
    return true;
}

static bool wait_one(list_t *self, int account, uint32_t client)
{
    return take_one(self, (token_t){account, client}, sign_out_may_wait);
}

static bool begin_one(list_t *self, int account, uint32_t client)
{
    return take_one(self, (token_t){account, client}, sign_out_may_begin);
}

/* How many come in of very many. */
static size_t wait_all(list_t *self, int account, uint32_t client)
{
    size_t n = 0;

    while (wait_one(self, account, client))
        n++;
    return n;
}

enum { PROVIDER = 0x10001, NETWORK = 0x10000, OTHERS = 0x20000 };

Test(sign_out_share, a_provider_signs_out_a_hundred_people_at_once)
{
    list_t list = {.n = 0};
    size_t n = wait_all(&list, 1, PROVIDER);

    cr_assert(n >= 97 && n <= 110, "%zu", n);
}

Test(sign_out_share, accounts_with_a_provider_in_common_do_not_keep_each_other_out)
{
    list_t list = {.n = 0};

    for (int account = 1; account <= 40; account++) {
        cr_assert(wait_one(&list, account, PROVIDER), "account %d", account);
        wait_all(&list, account, PROVIDER);
    }
    cr_assert(list.n < LOGOUTS_WAITING_MAX - LOGOUTS_WAITING_MAX / 16);
}

Test(sign_out_share, beside_one_account_each_other_begins_at_once)
{
    list_t list = {.n = 0};

    for (int i = 0; i < 99; i++)
        begin_one(&list, 1, PROVIDER);
    cr_assert_eq(list.n, LOGOUTS_PAIR_MAX);
    for (int account = 2; account < 15; account++)
        cr_assert(begin_one(&list, account, PROVIDER), "account %d", account);
}

Test(sign_out_share, floods_of_many_clients_leave_some_to_an_accounts_own_provider)
{
    list_t list = {.n = 0};

    for (int round = 0; round < 300; round++)
        for (uint32_t i = 0; i < 24; i++)
            wait_one(&list, 1, OTHERS + (i % 10 + 1) * NETWORK + i);
    cr_assert(wait_one(&list, 1, PROVIDER), "%zu wait", list.n);
    cr_assert(wait_one(&list, 2, PROVIDER), "%zu wait", list.n);
}

Test(sign_out_share, a_network_of_many_clients_has_its_portion_whatever_the_accounts)
{
    list_t list = {.n = 0};

    for (int account = 1; account <= 28; account++)
        for (uint32_t i = 1; i < 64; i++)
            wait_one(&list, account, OTHERS + i);
    cr_assert(list.n <= 200, "%zu wait", list.n);
    cr_assert(wait_one(&list, 1, PROVIDER));
    cr_assert(wait_one(&list, 2, PROVIDER));
}

Test(sign_out_share, the_last_ones_are_for_who_has_none_anywhere)
{
    list_t list = {.n = 0};
    int account = 0;

    while (begin_one(&list, ++account, PROVIDER))
        ;
    cr_assert_eq(list.n, LOGOUTS_MAX - LOGOUTS_MAX / LOGOUTS_KEPT);
    cr_assert(begin_one(&list, account, OTHERS + 1));
}
