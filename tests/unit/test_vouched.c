/* JWTs that a worker keeps: found until they end, renewed once at a time, never beyond the memory. */
#include "services/edge/modules/vouched.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { RENEW = 300, UNTIL = 600, RETRY = 5, SAID = 7 };

static const unsigned char *hash_of(unsigned number)
{
    static unsigned char hash[VOUCHED_HASH_BYTES];

    memset(hash, 0, sizeof(hash));
    memcpy(hash, &number, sizeof(number)); /* many share a bucket */
    return hash;
}

static void put(vouched_t *self, unsigned number, const char *jwt, int64_t now)
{
    vouched_put(self, hash_of(number), SAID, jwt, strlen(jwt), now + RENEW, now + UNTIL);
}

static bool has(vouched_t *self, unsigned number, const char *jwt, int64_t now, bool late)
{
    size_t len = 0;
    bool is_late = true;
    const char *found = vouched_find(self, hash_of(number), SAID, now, RETRY, &len, &is_late);

    return found ? jwt && len == strlen(jwt) && !memcmp(found, jwt, len) && is_late == late : !jwt;
}

Test(vouched, is_found_until_it_ends)
{
    vouched_t *self = vouched_new(64 << 10);

    cr_assert(has(self, 1, NULL, 0, false));
    put(self, 1, "a.b.c", 0);
    put(self, 2, "d.e.f", 0);
    cr_assert(has(self, 1, "a.b.c", 0, false));
    cr_assert(has(self, 2, "d.e.f", RENEW - 1, false));
    cr_assert(has(self, 1, "a.b.c", UNTIL - 1, true));
    cr_assert(has(self, 1, NULL, UNTIL, false));
    cr_assert_eq(vouched_count(self), 1);
    vouched_destroy(&self);
}

Test(vouched, another_is_asked_for_once_at_a_time)
{
    vouched_t *self = vouched_new(64 << 10);

    put(self, 1, "a.b.c", 0);
    cr_assert(has(self, 1, "a.b.c", RENEW, true));
    cr_assert(has(self, 1, "a.b.c", RENEW, false));
    cr_assert(has(self, 1, "a.b.c", RENEW + RETRY, true));
    put(self, 1, "g.h.i", RENEW + RETRY);
    cr_assert(has(self, 1, "g.h.i", RENEW + RETRY, false));
    cr_assert_eq(vouched_count(self), 1);
    vouched_destroy(&self);
}

Test(vouched, what_ended_is_gone)
{
    vouched_t *self = vouched_new(64 << 10);

    put(self, 1, "a.b.c", 0);
    vouched_drop(self, hash_of(2));
    vouched_drop(self, hash_of(1));
    vouched_drop(self, hash_of(1));
    cr_assert(has(self, 1, NULL, 0, false));
    cr_assert_eq(vouched_bytes(self), 0);
    vouched_destroy(&self);
}

Test(vouched, memory_is_bounded_and_who_was_not_looked_for_makes_room)
{
    enum { MOST = 64 << 10, MANY = 10000 };
    vouched_t *self = vouched_new(MOST);
    char jwt[1000];

    memset(jwt, 'x', sizeof(jwt));
    jwt[sizeof(jwt) - 1] = '\0';
    put(self, 0, jwt, 0);
    for (unsigned i = 1; i < MANY; i++) {
        put(self, i, jwt, 0);
        cr_assert_leq(vouched_bytes(self), (size_t)MOST);
        cr_assert(has(self, 0, jwt, 1, false), "who is looked for stays");
    }
    cr_assert_gt(vouched_count(self), 50);
    cr_assert(has(self, 1, NULL, 1, false));
    cr_assert(has(self, MANY - 1, jwt, 1, false));
    vouched_destroy(&self);
}

Test(vouched, what_is_too_long_takes_the_place_of_nothing)
{
    vouched_t *self = vouched_new(2048), *none = vouched_new(0);
    char jwt[VOUCHED_JWT_MAX + 2];

    memset(jwt, 'x', sizeof(jwt));
    jwt[sizeof(jwt) - 1] = '\0';
    put(self, 1, "a.b.c", 0);
    put(self, 2, jwt, 0);
    put(none, 1, "a.b.c", 0);
    cr_assert(has(self, 2, NULL, 0, false));
    cr_assert(has(self, 1, "a.b.c", 0, false));
    cr_assert(has(none, 1, NULL, 0, false));
    put(self, 1, "", 0);
    cr_assert(has(self, 1, NULL, 0, false));
    vouched_destroy(&self);
    vouched_destroy(&none);
}

Test(vouched, one_that_says_something_else_is_none)
{
    vouched_t *self = vouched_new(64 << 10);
    bool late;
    size_t len;

    put(self, 1, "a.b.c", 0);
    cr_assert_null(vouched_find(self, hash_of(1), SAID + 1, 0, RETRY, &len, &late));
    cr_assert(has(self, 1, NULL, 0, false), "and it is gone");
    vouched_put(self, hash_of(1), SAID + 1, "d.e.f", 5, RENEW, UNTIL);
    cr_assert_not_null(vouched_find(self, hash_of(1), SAID + 1, 0, RETRY, &len, &late));
    vouched_destroy(&self);
}
