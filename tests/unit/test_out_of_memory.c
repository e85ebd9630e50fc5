/* Small allocations of our own: zeroed, or the end of the process with a line that says what for.
 */
#include "common/base/memory.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>

Test(out_of_memory, new_memory_is_zeroed)
{
    unsigned char *memory = memory_new(100, "a test");

    for (int i = 0; i < 100; i++)
        cr_assert_eq(memory[i], 0);
    free(memory);
}

Test(out_of_memory, a_copy_is_the_callers)
{
    char *copy = memory_copy("text", "a test");

    cr_assert_str_eq(copy, "text");
    free(copy);
}

Test(out_of_memory, a_null_pointer_ends_the_process, .signal = SIGABRT)
{
    memory_need(NULL, "a test");
}

Test(out_of_memory, what_is_large_is_not_asked_for_here, .signal = SIGABRT)
{
    free(memory_zeroed(MEMORY_SMALL + 1, "a test"));
}

Test(out_of_memory, json_works_under_the_guard)
{
    json_t *value;
    char *text;

    memory_guard_json();
    value = json_pack("{s:s, s:[i, i]}", "a", "b", "c", 1, 2);
    text = json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS);
    cr_assert_str_eq(text, "{\"a\":\"b\",\"c\":[1,2]}");
    free(text);
    json_decref(value);
}
