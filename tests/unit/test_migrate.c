#include "common/store/migrate.h"

#include <criterion/criterion.h>
#include <string.h>

static const migration_t list[] = {
    {"common/schema", 1, "CREATE TABLE a ()"},
    {"routes/0009_new", 0, "CREATE TABLE b ()"},
    {NULL, 0, NULL},
};

Test(migrate, a_row_with_the_sum_of_the_file_is_applied)
{
    char sum[MIGRATION_SUM_HEX + 1];

    migration_sum(&list[1], sum);
    cr_assert_eq(strlen(sum), MIGRATION_SUM_HEX);
    cr_assert_eq(migration_judge(list, "routes/0009_new", sum), MIGRATION_APPLIED);
}

Test(migrate, a_row_without_a_sum_is_applied)
{
    cr_assert_eq(migration_judge(list, "common/schema", ""), MIGRATION_APPLIED);
}

Test(migrate, a_row_with_another_sum_is_of_a_file_that_was_changed)
{
    char sum[MIGRATION_SUM_HEX + 1];

    migration_sum(&list[0], sum);
    cr_assert_eq(migration_judge(list, "routes/0009_new", sum), MIGRATION_CHANGED);
}

Test(migrate, a_name_that_the_list_does_not_have_is_of_a_newer_version)
{
    cr_assert_eq(migration_judge(list, "routes/0010_newer", "x"), MIGRATION_UNKNOWN);
    cr_assert_eq(migration_judge(list, "0009_new", ""), MIGRATION_UNKNOWN);
}
