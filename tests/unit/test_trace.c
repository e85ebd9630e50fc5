#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdlib.h>
#include <string.h>

#include "services/edge/http/trace.h"

#define ID     "4bf92f3577b34da6a3ce929d0e0e4736"
#define PARENT "00f067aa0ba902b7"

/* From a copy of that size: a byte that is read beyond it is found. */
static bool valid(const char *value, size_t len)
{
    char *copy = malloc(len ? len : 1);
    bool is;

    memcpy(copy, value, len);
    is = trace_parent_is_valid(copy, len);
    free(copy);
    return is;
}

struct parent {
    char value[80];
    bool valid;
};

ParameterizedTestParameters(trace, what_a_receiver_may_use)
{
    static struct parent all[] = {
        {"00-" ID "-" PARENT "-01", true},
        {"00-" ID "-" PARENT "-00", true},
        {"00-" ID "-" PARENT "-ff", true},
        {"01-" ID "-" PARENT "-01", true},
        {"fe-" ID "-" PARENT "-01-more", true},
        {"01-" ID "-" PARENT "-01-", true},
        {"00-" ID "-" PARENT "-01-more", false},
        {"00-" ID "-" PARENT "-01-", false},
        {"01-" ID "-" PARENT "-01.more", false},
        {"01-" ID "-" PARENT "-011", false},
        {"ff-" ID "-" PARENT "-01", false},
        {"FF-" ID "-" PARENT "-01", false},
        {"0-" ID "-" PARENT "-01", false},
        {"000-" ID "-" PARENT "-1", false},
        {"00-00000000000000000000000000000000-" PARENT "-01", false},
        {"00-" ID "-0000000000000000-01", false},
        {"00-4BF92F3577B34DA6A3CE929D0E0E4736-" PARENT "-01", false},
        {"00-" ID "-00F067AA0BA902B7-01", false},
        {"00-" ID "-" PARENT "-0G", false},
        {"00-" ID "-" PARENT "-0A", false},
        {"00-4bf92f3577b34da6a3ce929d0e0e473g-" PARENT "-01", false},
        {"00-" ID "_" PARENT "-01", false},
        {"00_" ID "-" PARENT "-01", false},
        {"00-" ID "-" PARENT "_01", false},
        {" 00-" ID "-" PARENT "-01", false},
        {"00-" ID "-" PARENT "-01 ", false},
        {"00-" ID "-" PARENT "-1", false},
        {"00-" ID "-" PARENT, false},
        {"00-" ID, false},
        {"00", false},
        {"", false},
    };

    return cr_make_param_array(struct parent, all, sizeof(all) / sizeof(all[0]));
}

ParameterizedTest(struct parent *one, trace, what_a_receiver_may_use)
{
    cr_assert_eq(valid(one->value, strlen(one->value)), one->valid, "%s", one->value);
}

Test(trace, later_versions_have_a_bound)
{
    char value[TRACE_PARENT_MAX + 1];

    memset(value, 'a', sizeof(value));
    memcpy(value, "01-" ID "-" PARENT "-01-", TRACE_PARENT_LEN + 1);
    cr_assert(valid(value, TRACE_PARENT_MAX));
    cr_assert_not(valid(value, TRACE_PARENT_MAX + 1));
}

Test(trace, what_begins_here_is_valid)
{
    char text[TRACE_PARENT_LEN + 1] = "";

    for (int byte = 0; byte < 256; byte++) {
        unsigned char parent[8] = {1, 2, 3, 4, 5, 6, 7, (unsigned char)byte};

        trace_begin(ID, parent, byte & 1, text);
        cr_assert(valid(text, TRACE_PARENT_LEN), "%s", text);
        cr_assert_eq(strncmp(text + 3, ID, TRACE_ID_LEN), 0);
        cr_assert_str_eq(text + TRACE_PARENT_LEN - 2, byte & 1 ? "01" : "00");
        cr_assert_eq(strtoul(text + 50, NULL, 16), (unsigned)byte);
    }
}
