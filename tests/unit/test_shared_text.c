/* Texts that several questions share: one memory, and one place in the bounds of each list. */
#include "services/edge/table/shared_text.h"

#include <criterion/criterion.h>

Test(shared_text, it_is_there_as_long_as_somebody_refers_to_it)
{
    shared_text_t *self = shared_text_new("abc", 3), *other = shared_text_ref(self),
                  *nothing = NULL;

    cr_assert_str_eq(self->at, "abc");
    shared_text_unref(&self);
    cr_assert_null(self);
    cr_assert_eq(other->len, 3);
    shared_text_unref(&other);
    shared_text_unref(&nothing);
    cr_assert_null(shared_text_ref(NULL));
}

Test(shared_text, it_counts_once_in_a_list_and_each_that_holds_it_for_a_part)
{
    shared_text_t *self = shared_text_new("0123456789", 10);

    cr_assert_eq(shared_text_part(self, SHARED_WAITS), 0);
    cr_assert_eq(shared_text_enter(self, SHARED_WAITS), 10);
    cr_assert_eq(shared_text_part(self, SHARED_WAITS), 10);
    cr_assert_eq(shared_text_cost(self, SHARED_WAITS), 0);
    cr_assert_eq(shared_text_cost(self, SHARED_UNSENT), 10, "another list");
    cr_assert_eq(shared_text_enter(self, SHARED_WAITS), 0);
    cr_assert_eq(shared_text_enter(self, SHARED_WAITS), 0);
    cr_assert_eq(shared_text_part(self, SHARED_WAITS), 4, "never less than all of it");
    cr_assert_eq(shared_text_leave(self, SHARED_WAITS), 0);
    cr_assert_eq(shared_text_leave(self, SHARED_WAITS), 0);
    cr_assert_eq(shared_text_leave(self, SHARED_WAITS), 10);
    shared_text_unref(&self);
}

Test(shared_text, none_costs_nothing)
{
    cr_assert_eq(shared_text_enter(NULL, SHARED_UNSENT) + shared_text_part(NULL, SHARED_UNSENT)
                     + shared_text_leave(NULL, SHARED_UNSENT),
                 0);
}
