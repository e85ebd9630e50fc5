/* What each owner of connections has of the gateway. */
#include "services/gateway/owners.h"

#include <criterion/criterion.h>
#include <stdio.h>

enum { ALL = 1024 };

static size_t begin_all(owners_t *owners, owner_t *owner)
{
    size_t n = 0;

    while (owners_begin_call(owners, owner))
        n++;
    return n;
}

Test(owners, one_alone_has_half_of_the_calls)
{
    owners_t *owners = owners_new(ALL);
    owner_t *one = owners_join(owners, "ac_1");

    cr_assert_eq(begin_all(owners, one), ALL / 2);
    owners_end_call(owners, one);
    cr_assert_eq(begin_all(owners, one), 1);
    for (int i = 0; i < ALL / 2; i++)
        owners_end_call(owners, one);
    owners_leave(owners, &one);
    owners_destroy(&owners);
}

Test(owners, who_comes_new_always_finds_a_place_for_a_call)
{
    owners_t *owners = owners_new(ALL);
    owner_t *many[8];
    char name[16];

    for (int i = 0; i < 8; i++) {
        snprintf(name, sizeof(name), "ac_%d", i);
        many[i] = owners_join(owners, name);
        cr_assert_gt(begin_all(owners, many[i]), 0, "the %d. one", i);
    }
    for (int i = 0; i < 8; i++) {
        while (many[i]->calls)
            owners_end_call(owners, many[i]);
        owners_leave(owners, &many[i]);
    }
    owners_destroy(&owners);
}

Test(owners, of_one_name_are_one)
{
    owners_t *owners = owners_new(ALL);
    owner_t *one = owners_join(owners, "ac_1"), *again = owners_join(owners, "ac_1"),
            *other = owners_join(owners, "127.0.0.1");

    cr_assert_eq(one, again);
    cr_assert_neq(one, other);
    owners_add_unread(owners, one, 100);
    owners_add_unread(owners, other, 7);
    cr_assert_eq(again->unread, 100);
    cr_assert_eq(owners_unread(owners), 107);
    owners_leave(owners, &again);
    owners_take_unread(owners, one, 100);
    owners_leave(owners, &one);
    one = owners_join(owners, "ac_1");
    cr_assert_eq(one->unread, 0);
    owners_take_unread(owners, other, 7);
    owners_leave(owners, &one);
    owners_leave(owners, &other);
    owners_destroy(&owners);
}
