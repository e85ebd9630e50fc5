/* A delta of the session log. */
#include "services/edge/control/session_entries.h"

#include <criterion/criterion.h>
#include <msgpack.h>
#include <string.h>

#define HEX "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static struct {
    int count;
    unsigned char hash[SESSION_ENTRY_HASH];
    char hex[SESSION_ENTRY_HEX];
} said;

static void on_ended(const unsigned char *hash, const char *hex)
{
    said.count++;
    memcpy(said.hash, hash, sizeof(said.hash));
    memcpy(said.hex, hex, sizeof(said.hex));
}

static void put_text(msgpack_packer *packer, const char *text)
{
    msgpack_pack_str(packer, strlen(text));
    msgpack_pack_str_body(packer, text, strlen(text));
}

static void put_entry(msgpack_packer *packer, const char *kind, const char *id)
{
    msgpack_pack_array(packer, 3);
    put_text(packer, kind);
    put_text(packer, id);
    msgpack_pack_nil(packer);
}

static msgpack_sbuffer *a_body(msgpack_packer *packer, size_t entries)
{
    msgpack_sbuffer *buffer = msgpack_sbuffer_new();

    msgpack_packer_init(packer, buffer, msgpack_sbuffer_write);
    msgpack_pack_array(packer, entries);
    return buffer;
}

static bool read_body(msgpack_sbuffer *buffer, size_t cut, size_t *ret_others)
{
    bool read = session_entries_read(buffer->data, buffer->size - cut, on_ended, ret_others);

    msgpack_sbuffer_free(buffer);
    return read;
}

Test(session_entries, say_which_sessions_ended)
{
    msgpack_packer packer;
    msgpack_sbuffer *body = a_body(&packer, 2);
    size_t others;

    put_entry(&packer, "application_session",
              "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff");
    put_entry(&packer, "application_session", HEX);
    cr_assert(read_body(body, 0, &others));
    cr_assert_eq(others, 0);
    cr_assert_eq(said.count, 2);
    cr_assert_eq(memcmp(said.hex, HEX, SESSION_ENTRY_HEX), 0);
    cr_assert_eq(said.hash[0], 0);
    cr_assert_eq(said.hash[15], 0xff);
    cr_assert_eq(said.hash[26], 0xaa);
}

Test(session_entries, of_another_form_are_counted_and_the_rest_is_read)
{
    static const struct {
        const char *kind, *id;
    } others_of[] = {
        {"application_user", HEX},
        {"application_sessions", HEX},
        {"", ""},
        {"application_session", ""},
        {"application_session", HEX "0"},
        {"application_session", "00112233445566778899AABBCCDDEEFF00112233445566778899aabbccddeeff"},
        {"application_session", "g0112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"},
    };
    const size_t count = sizeof(others_of) / sizeof(others_of[0]);
    msgpack_packer packer;
    msgpack_sbuffer *body = a_body(&packer, count + 5);
    size_t others;

    for (size_t i = 0; i < count; i++)
        put_entry(&packer, others_of[i].kind, others_of[i].id);
    msgpack_pack_nil(&packer);
    msgpack_pack_array(&packer, 0);
    msgpack_pack_array(&packer, 3); /* a document: a session is not made by the log */
    put_text(&packer, "application_session");
    put_text(&packer, HEX);
    msgpack_pack_map(&packer, 0);
    msgpack_pack_array(&packer, 3);
    msgpack_pack_nil(&packer);
    put_text(&packer, HEX);
    msgpack_pack_nil(&packer);
    put_entry(&packer, "application_session", HEX);
    cr_assert(read_body(body, 0, &others));
    cr_assert_eq(others, count + 4);
    cr_assert_eq(said.count, 1);
}

Test(session_entries, that_cannot_be_read_end_nothing)
{
    msgpack_packer packer;
    size_t others;

    for (size_t cut = 1; cut < 4; cut++) {
        msgpack_sbuffer *body = a_body(&packer, 1);

        put_entry(&packer, "application_session", HEX);
        cr_assert_not(read_body(body, cut, &others));
    }
    cr_assert_not(session_entries_read("", 0, on_ended, &others));
    cr_assert_not(session_entries_read("\x80", 1, on_ended, &others), "a map");
    cr_assert_not(session_entries_read("\x90\x90", 2, on_ended, &others), "two values");
    cr_assert(session_entries_read("\x90", 1, on_ended, &others), "none");
    cr_assert_eq(said.count, 0);
}
