#include "common/codec/path.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <string.h>

struct path_case {
    char in[64], want[64]; /* want "": refused */
};

ParameterizedTestParameters(path, one_spelling)
{
    static struct path_case cases[] = {
        {"/", "/"},
        {"/a/b", "/a/b"},
        {"/a/./b", "/a/b"},
        {"/a/../b", "/b"},
        {"/../b", ""},
        {"//../b", ""},
        {"/a/..//../b", ""},
        {"/a//../b", "/b"},
        {"/a/..", "/"},
        {"/a/b/..", "/a/"},
        {"/a/.", "/a/"},
        {"//a///b//", "/a/b/"},
        {"/%7Euser", "/~user"},
        {"/a%2fb", "/a%2Fb"},
        {"/%e2%82%ac", "/%E2%82%AC"},
        {"/a b", ""},
        {"/\xe2\x82\xac", "/%E2%82%AC"},
        {"/a;x=1", "/a;x=1"},
        {"/a%20b", "/a%20b"},
        {"/...", "/..."},
        {"/.a", "/.a"},
        {"", ""},
        {"a", ""},
        {"/%", ""},
        {"/%4", ""},
        {"/%gg", ""},
        {"/%00", ""},
        {"/%0a", ""},
        {"/a\x01", ""},
        {"/a\\b", ""},
        {"/a#b", ""},
        {"/a?b", ""},
        {"/%c0%ae", ""},
        {"/%e0%80%ae", ""},
        {"/%ed%a0%80", ""},
        {"/%e2%82", ""},
        {"/%80", ""},
        {"/..%2fa", ""},
        {"/a%2f..", ""},
        {"/a%5c..%5cb", ""},
        {"/..;/a", ""},
        {"/.;x/a", ""},
    };

    return cr_make_param_array(struct path_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct path_case *one, path, one_spelling)
{
    char out[200];
    size_t len;
    int r =
        path_normalize(one->in, strlen(one->in), out, path_room(one->in, strlen(one->in)), &len);

    if (!*one->want) {
        cr_assert_eq(r, -1, "'%s' was accepted", one->in);
        return;
    }
    cr_assert_eq(r, 0, "'%s' was refused", one->in);
    out[len] = '\0';
    cr_assert_str_eq(out, one->want);
}

Test(path, is_stable_and_safe_for_100000_generated_variants)
{
    static const char *const pieces[] = {"/",   ".",   "..", "%2e", "%2f",    "%5C",
                                         "a",   "%41", ";",  "%3B", "%c3%a9", "\xc3\xa9",
                                         "%c0", "%",   "\\", "//",  "~"};
    unsigned seed = 1;

    for (int i = 0; i < 100000; i++) {
        char in[128] = "/", out[512], again[512];
        size_t len, len2;

        for (int k = 0; k < 8; k++) {
            seed = seed * 1103515245u + 12345u;
            strcat(in, pieces[(seed >> 16) % (sizeof(pieces) / sizeof(pieces[0]))]);
        }
        if (path_normalize(in, strlen(in), out, sizeof(out), &len))
            continue;
        cr_assert_eq(out[0], '/');
        cr_assert_null(memmem(out, len, "//", 2), "%s", in);
        cr_assert_null(memmem(out, len, "/../", 4), "%s", in);
        cr_assert_null(memmem(out, len, "/./", 3), "%s", in);
        cr_assert_eq(path_normalize(out, len, again, sizeof(again), &len2), 0, "%s", in);
        cr_assert(len == len2 && !memcmp(out, again, len), "'%s' is not stable", in);
    }
}

Test(path, has_room_for_what_is_escaped_and_no_more)
{
    char out[64];
    size_t len;

    cr_assert_eq(path_room("/abc", 4), 4 + 3);
    cr_assert_eq(path_room("/%41%41", 7), 7 + 3);
    cr_assert_eq(path_room("/\xc3\xa9", 3), 7 + 3);
    cr_assert_eq(path_normalize("/\xc3\xa9", 3, out, 7 + 3, &len), 0);
    cr_assert_eq(len, 7);
}

Test(path, refuses_what_does_not_fit)
{
    char out[4];
    size_t len;

    cr_assert_eq(path_normalize("/abcdef", 7, out, sizeof(out), &len), -1);
}
