#include "common/schema/operation.h"

#include <criterion/criterion.h>
#include <string.h>

Test(operation, each_has_a_name_a_bit_and_a_method_of_its_own_at_its_place)
{
    for (const operation_t *row = operation_all(); row->name; row++) {
        cr_expect_eq(operation_row(row->bit), row, "%s", row->name);
        cr_expect(row->places, "%s", row->name);
        for (const operation_t *other = row + 1; other->name; other++) {
            cr_expect_str_neq(row->name, other->name);
            cr_expect(!(row->places & other->places) || strcmp(row->method, other->method),
                      "%s and %s", row->name, other->name);
        }
    }
}

/* The gateway sends no change to a silent service, and waits for one that may have been done until
 * its deadline; what only reads is neither. */
Test(operation, reads_are_those_that_are_asked_for_with_get)
{
    for (const operation_t *row = operation_all(); row->name; row++)
        cr_expect_eq(row->changes, strcmp(row->method, "GET") != 0, "%s", row->name);
    cr_assert_not(operation_row(OPERATION_GET_MODULE)->changes);
    cr_assert_not(operation_row(OPERATION_LIST_MEMBERS)->changes);
    cr_assert_not(operation_row(OPERATION_GET_MEMBER)->changes);
    cr_assert(operation_row(OPERATION_COMMAND)->changes);
}

Test(operation, an_answer_without_a_body_has_status_204_and_no_other_has)
{
    for (const operation_t *row = operation_all(); row->name; row++) {
        cr_expect_eq(row->status == 204, row->answer == ANSWER_NOTHING, "%s", row->name);
        cr_expect(!(row->body && !row->changes), "%s reads, and takes a body", row->name);
    }
}
