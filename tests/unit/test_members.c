#include "common/base/cleanup.h"
#include "common/resource/members.h"

#include <criterion/criterion.h>
#include <string.h>

static const field_t *sources(void)
{
    return kind_members(kind_find("event_subscription"), "sources");
}

static json_t *a_list(void)
{
    return json_pack("[{s:s, s:n}, {s:s, s:n}]", "type", "vault_created.v0", "filter", "type",
                     "secret_created.v0", "filter");
}

Test(members, are_found_by_their_key)
{
    _cleanup_(json_clear_ref) json_t *list = a_list();

    cr_assert_str_eq(sources()->key, "type");
    cr_assert_eq(members_find(list, sources(), "vault_created.v0"), 0);
    cr_assert_eq(members_find(list, sources(), "secret_created.v0"), 1);
    cr_assert_eq(members_find(list, sources(), "secret_created"), -1);
    cr_assert_eq(members_find(list, sources(), ""), -1);
    cr_assert_eq(members_find(list, sources(), NULL), -1);
    cr_assert_eq(members_find(NULL, sources(), "vault_created.v0"), -1);
}

Test(members, a_new_one_stands_at_the_end_complete_with_defaults)
{
    _cleanup_(json_clear_ref) json_t *list = a_list();
    _cleanup_(json_clear_ref) json_t *document = json_pack("{s:s}", "type", "vault_deleted.v0");
    problem_t problem = {0};
    const json_t *item;

    cr_assert_eq(members_add(sources(), list, document, &problem, &item), 0, "%s", problem.msg);
    cr_assert_eq(json_array_size(list), 3);
    cr_assert_eq(json_array_get(list, 2), item);
    cr_assert(json_is_null(json_object_get(item, "fields")));
    cr_assert(json_is_null(json_object_get(item, "filter")));
    problem_done(&problem);
}

Test(members, a_full_list_takes_no_other_and_a_bad_one_leaves_it_as_it_was)
{
    _cleanup_(json_clear_ref) json_t *list = json_array();
    _cleanup_(json_clear_ref) json_t *bad = json_pack("{s:i}", "type", 1);
    _cleanup_(json_clear_ref) json_t *good = json_pack("{s:s}", "type", "vault_deleted.v0");
    problem_t problem = {0};
    const json_t *item;

    cr_assert_eq(members_add(sources(), list, bad, &problem, &item), ERR_INVALID_FIELD);
    cr_assert_eq(json_array_size(list), 0);
    problem_done(&problem);
    problem = (problem_t){0};
    for (int i = 0; i < (int)sources()->max; i++)
        cr_assert_eq(members_add(sources(), list, good, &problem, &item), 0, "%d", i);
    cr_assert_eq(members_add(sources(), list, good, &problem, &item), sources()->outcome);
    cr_assert_eq(json_array_size(list), (size_t)sources()->max);
    problem_done(&problem);
}

Test(members, a_change_is_of_one_and_of_what_it_says)
{
    _cleanup_(json_clear_ref) json_t *list = a_list();
    _cleanup_(json_clear_ref) json_t *other = json_deep_copy(json_array_get(list, 0));
    _cleanup_(json_clear_ref) json_t *change = json_pack("{s:s}", "filter", "ev.x == 1");
    _cleanup_(json_clear_ref) json_t *bad = json_pack("{s:i}", "no_such_field", 1);
    problem_t problem = {0};

    cr_assert_eq(members_update(sources(), list, 1, change, &problem), 0, "%s", problem.msg);
    cr_assert_str_eq(json_string_value(json_object_get(json_array_get(list, 1), "filter")),
                     "ev.x == 1");
    cr_assert_str_eq(json_string_value(json_object_get(json_array_get(list, 1), "type")),
                     "secret_created.v0");
    cr_assert(json_equal(json_array_get(list, 0), other));
    cr_assert_eq(members_update(sources(), list, 0, bad, &problem), ERR_UNKNOWN_FIELD);
    cr_assert(json_equal(json_array_get(list, 0), other));
    problem_done(&problem);
}
