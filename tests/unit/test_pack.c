#include "common/base/cleanup.h"
#include "common/codec/pack.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

static int decode(const char *bytes, size_t len, json_t **value)
{
    return unpack_json(bytes, len, value);
}

Test(pack, returns_what_it_was_given)
{
    _cleanup_(json_clear_ref) json_t *value =
        json_pack("{s:s, s:i, s:I, s:f, s:b, s:n, s:[i,s,{}]}", "text", "\xe2\x82\xac", "small", -3,
                  "big", (json_int_t)1 << 40, "real", 0.5, "yes", 1, "nothing", "list", 300, "x");
    _cleanup_(json_clear_ref) json_t *back = NULL;
    msgpack_sbuffer buffer;

    msgpack_sbuffer_init(&buffer);
    cr_assert_eq(pack_json(&buffer, value), 0);
    cr_assert_eq(unpack_json(buffer.data, buffer.size, &back), 0);
    cr_assert(json_equal(value, back));
    msgpack_sbuffer_destroy(&buffer);
}

Test(pack, refuses_what_is_not_one_value)
{
    static const struct {
        const char *bytes;
        size_t len;
    } cases[] = {
        {"", 0},
        {"\x01\x02", 2}, /* two values */
        {"\xa5"
         "ab",
         3},                         /* string longer than the bytes */
        {"\xdd\xff\xff\xff\xff", 5}, /* 4 billion items */
        {"\xdf\xff\xff\xff\xff", 5}, /* 4 billion pairs */
        {"\xdb\xff\xff\xff\xff", 5}, /* 4 GB string */
        {"\xc1", 1},                 /* reserved */
        {"\xc7\x01\x01\x00", 4},     /* extension */
        {"\xc4\x01\x00", 3},         /* binary */
        {"\x81\x01\x01", 3},         /* key that is no string */
        {"\x82\xa1"
         "a"
         "\x01\xa1"
         "a"
         "\x02",
         7}, /* key twice */
        {"\x81\xa2"
         "a\0"
         "\x01",
         5},                                         /* NUL in a key */
        {"\xa2\xc3\x28", 3},                         /* invalid UTF-8 */
        {"\xcf\xff\xff\xff\xff\xff\xff\xff\xff", 9}, /* beyond 63 bits */
        {"\xcb\x7f\xf0\x00\x00\x00\x00\x00\x00", 9}, /* infinity */
        {"\x91", 1},
        {"\xcd\x01", 2},
    };

    for (size_t i = 0; i < LEN(cases); i++) {
        json_t *value = NULL;

        cr_assert_neq(decode(cases[i].bytes, cases[i].len, &value), 0, "case %zu", i);
        cr_assert_null(value);
        /* the walker takes binary, and leaves texts and numbers to who reads them */
        if (i < 8 || i > 14)
            cr_assert_neq(pack_check(cases[i].bytes, cases[i].len), 0, "walk %zu", i);
    }
}

Test(pack, caps_depth)
{
    char deep[PACK_DEPTH_MAX + 3];
    json_t *value = NULL;

    memset(deep, 0x91, sizeof(deep));
    deep[sizeof(deep) - 1] = '\x01';
    cr_assert_eq(unpack_json(deep, sizeof(deep), &value), -EMSGSIZE);
    cr_assert_eq(pack_check(deep, sizeof(deep)), -EMSGSIZE);
    cr_assert_eq(unpack_json(deep + 2, sizeof(deep) - 2, &value), 0);
    json_decref(value);
}

Test(pack, makes_the_text_that_jansson_makes)
{
    static const char *const cases[] = {
        "null",
        "true",
        "[]",
        "{}",
        "-9223372036854775808",
        "1.5",
        "1e300",
        "\"\"",
        "\"a \\\"quoted\\\" \\\\ \\b\\f\\n\\r\\t \\u0001 \\u001F \\u0000 / \x7f\"",
        "\"\xe2\x82\xac \xf0\x9f\x98\x80\"",
        "{\"a\":[1,{\"\xc3\xbc\":null,\"c\":[[],{}]},\"x\"],\"b\":false,\"c\":0.10000000000000001}",
    };

    for (size_t i = 0; i < LEN(cases); i++) {
        _cleanup_(json_clear_ref) json_t *value =
            json_loads(cases[i], JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        _cleanup_(free_mem) char *want = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
        _cleanup_(free_mem) char *text = NULL;
        msgpack_sbuffer buffer;

        cr_assert_not_null(want, "%s", cases[i]);
        msgpack_sbuffer_init(&buffer);
        cr_assert_eq(pack_json(&buffer, value), 0);
        cr_assert_eq(unpack_text(buffer.data, buffer.size, &text), 0, "%s", cases[i]);
        cr_assert_str_eq(text, want);
        for (size_t n = 0; n < buffer.size; n++) { /* no cut of it is taken */
            char *cut = NULL;

            cr_assert_neq(unpack_text(buffer.data, n, &cut), 0, "%s cut at %zu", cases[i], n);
        }
        msgpack_sbuffer_destroy(&buffer);
    }
}

Test(pack, passes_ready_text_on)
{
    _cleanup_(free_mem) char *text = NULL, *none = NULL;
    msgpack_sbuffer buffer;

    msgpack_sbuffer_init(&buffer);
    cr_assert_eq(pack_text_begin(&buffer), 0);
    msgpack_sbuffer_write(&buffer, "{\"a\": 1.0}", 10);
    pack_text_end(&buffer);
    cr_assert_eq(unpack_text(buffer.data, buffer.size, &text), 0);
    cr_assert_str_eq(text, "{\"a\": 1.0}");
    cr_assert_neq(unpack_text(buffer.data, buffer.size - 1, &none), 0);
    msgpack_sbuffer_destroy(&buffer);
}

Test(pack, makes_no_text_of_what_it_refuses)
{
    static const struct {
        const char *bytes;
        size_t len;
    } cases[] = {
        {"\x01\x02", 2},                             /* two values */
        {"\xa2\xff\xfe", 3},                         /* not UTF-8 */
        {"\xa3\xed\xa0\x80", 4},                     /* a surrogate */
        {"\x81\x01\x02", 3},                         /* a key that is no string */
        {"\x81\xa1\x00\x02", 4},                     /* NUL in a key */
        {"\xcb\x7f\xf0\x00\x00\x00\x00\x00\x00", 9}, /* infinity */
        {"\x91\xc4\x01\x00", 4},                     /* binary inside */
        {"\xc4\x02\x31", 3},                         /* binary that is cut off */
        {"\xc4\x01\x31\xc0", 4},                     /* and with something behind it */
        {"\xdd\xff\xff\xff\xff", 5},                 /* 4 billion items */
        {"\xcf\xff\xff\xff\xff\xff\xff\xff\xff", 9}, /* beyond 63 bits */
    };
    char deep[PACK_DEPTH_MAX + 3], *text = NULL;

    for (size_t i = 0; i < LEN(cases); i++)
        cr_assert_neq(unpack_text(cases[i].bytes, cases[i].len, &text), 0, "case %zu", i);
    memset(deep, '\x91', sizeof(deep));
    deep[sizeof(deep) - 1] = '\xc0';
    cr_assert_neq(unpack_text(deep, sizeof(deep), &text), 0);
}
