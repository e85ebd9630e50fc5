/* Who a session is of, as identity answers it: what there is no room for is left out, and nobody is
 * locked out by it. */
#include "services/edge/modules/session_texts.h"

#include <criterion/criterion.h>
#include <string.h>

static msgpack_object text(const char *bytes, size_t len)
{
    return (msgpack_object){.type = MSGPACK_OBJECT_STR,
                            .via.str = {.ptr = bytes, .size = (uint32_t)len}};
}

/* A session of a user whose two groups take that many bytes with their ends. */
static bool read_session(session_t *out, size_t user_len, size_t groups_len)
{
    static char bytes[2 * SESSION_TEXT_MAX];
    msgpack_object groups[2];
    msgpack_object_kv pairs[2];
    msgpack_object map = {.type = MSGPACK_OBJECT_MAP, .via.map = {.size = 2, .ptr = pairs}};

    memset(bytes, 'a', sizeof(bytes));
    groups[0] = text(bytes, 3);
    groups[1] = text(bytes, groups_len - 5);
    pairs[0] = (msgpack_object_kv){text("user", 4), text(bytes, user_len)};
    pairs[1] = (msgpack_object_kv){text("groups", 6), {.type = MSGPACK_OBJECT_ARRAY}};
    pairs[1].val.via.array.ptr = groups;
    pairs[1].val.via.array.size = 2;
    return session_read_texts(&map, out);
}

Test(session_texts, groups_for_which_there_is_no_room_lock_nobody_out)
{
    session_t session;
    size_t len;

    for (size_t user = 1; user < 40; user += 13)
        for (size_t more = 0; more < 4; more++) {
            size_t groups = SESSION_TEXT_MAX - user - 1 + more;

            memset(&session, 0, sizeof(session));
            cr_assert(read_session(&session, user, groups), "%zu %zu", user, more);
            session_text(&session, SESSION_GROUPS, &len);
            cr_assert_eq(len, more <= 1 ? groups : 0, "%zu %zu: %zu", user, more, len);
            session_text(&session, SESSION_USER, &len);
            cr_assert_eq(len, user);
        }
}

Test(session_texts, without_a_user_there_is_no_session)
{
    session_t session = {0};

    cr_assert_not(read_session(&session, 0, 10));
    cr_assert_not(read_session(&session, SESSION_TEXT_MAX + 1, 10));
    cr_assert(read_session(&session, SESSION_TEXT_MAX, 10));
}

/* What identity says of an address under one name is not told under the other. */
Test(session_texts, an_unverified_address_is_no_address)
{
    msgpack_object_kv pairs[] = {{text("user", 4), text("app_user_1", 10)},
                                 {text("email", 5), text("", 0)},
                                 {text("email_unverified", 16), text("ceo@corp.test", 13)}};
    msgpack_object map = {.type = MSGPACK_OBJECT_MAP, .via.map = {.size = 3, .ptr = pairs}};
    session_t session = {0};
    size_t len;

    cr_assert(session_read_texts(&map, &session));
    session_text(&session, SESSION_EMAIL, &len);
    cr_assert_eq(len, 0);
    cr_assert_eq(
        memcmp(session_text(&session, SESSION_EMAIL_UNVERIFIED, &len), "ceo@corp.test", 13), 0);
    cr_assert_eq(len, 13);
}
