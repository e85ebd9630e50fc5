/* The body of a request to the API: whole, bounded, wiped. */
#include "services/gateway/body.h"
#include "common/base/err.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

Test(body, is_what_came_in_whatever_parts)
{
    static const size_t parts[] = {1, 4095, 1, 4096, 60000, 7};
    body_t body = {0};
    char part[60000];
    size_t len = 0;

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        memset(part, (int)('a' + i), parts[i]);
        cr_assert_eq(body_add(&body, part, parts[i]), 0);
        len += parts[i];
    }
    cr_assert_eq(body.len, len);
    for (size_t i = 0, at = 0; i < sizeof(parts) / sizeof(parts[0]); at += parts[i++]) {
        cr_assert_eq(body.bytes[at], (char)('a' + i));
        cr_assert_eq(body.bytes[at + parts[i] - 1], (char)('a' + i));
    }
    body_done(&body);
    cr_assert_null(body.bytes);
    cr_assert_eq(body.len + body.size, 0);
}

Test(body, ends_at_the_limit_and_keeps_what_it_had)
{
    char *all = calloc(1, BODY_MAX);
    body_t body = {0};

    cr_assert_eq(body_add(&body, all, BODY_MAX - 1), 0);
    cr_assert_eq(body_add(&body, all, 2), ERR_BODY_TOO_LARGE);
    cr_assert_eq(body.len, BODY_MAX - 1);
    cr_assert_eq(body_add(&body, "x", 1), 0);
    cr_assert_eq(body.len, BODY_MAX);
    cr_assert_eq(body_add(&body, "x", 1), ERR_BODY_TOO_LARGE);
    cr_assert_eq(body_add(&body, all, (size_t)-1), ERR_BODY_TOO_LARGE, "the sum would wrap");
    cr_assert_eq(body_add(&body, all, 0), 0);
    cr_assert_eq(body.bytes[BODY_MAX - 1], 'x');
    body_done(&body);
    free(all);
}

Test(body, of_no_bytes_is_none)
{
    body_t body = {0};

    body_done(&body);
    cr_assert_null(body.bytes);
}
