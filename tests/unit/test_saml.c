/* SAML messages without processes: what is around them, what they say, and mutants of good ones.
 * tests/unit/saml has a provider's metadata and messages that it signed for the time NOW_MS; no key
 * of it was kept. tests/e2e/saml-verify.test.mjs has the hostile ones, with signers at hand. */
#include "common/base/cleanup.h"
#include "services/xml/answer.h"
#include "services/xml/document.h"
#include "services/xml/envelope.h"
#include "services/xml/message.h"
#include "services/xml/metadata.h"
#include "services/xml/moment.h"
#include "tests/unit/saml_messages.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* ---- what is around a message ---- */

Test(saml, times_are_utc_and_of_the_calendar)
{
    static const struct {
        const char *text;
        int64_t ms; /* -1: none */
    } cases[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"2026-01-31T12:00:00Z", 1769860800000},
        {"2026-01-31T12:00:00.5Z", 1769860800500},
        {"2026-01-31T12:00:00.123456789Z", 1769860800123},
        {"2024-02-29T23:59:59.999Z", 1709251199999},
        {"2100-03-01T00:00:00Z", 4107542400000},
        {"9999-12-31T23:59:59Z", 253402300799000},
        {"2023-02-29T00:00:00Z", -1},
        {"2100-02-29T00:00:00Z", -1},
        {"1969-12-31T23:59:59Z", -1},
        {"2026-01-31T12:00:00", -1},
        {"2026-01-31T12:00:00+00:00", -1},
        {"2026-01-31T12:00:00.Z", -1},
        {"2026-01-31T12:00:00.1234567890Z", -1},
        {"2026-01-31T24:00:00Z", -1},
        {"2026-01-31T12:60:00Z", -1},
        {"2026-01-31T12:00:60Z", -1},
        {"2026-13-01T12:00:00Z", -1},
        {"2026-00-01T12:00:00Z", -1},
        {"2026-01-00T12:00:00Z", -1},
        {"2026-01-31 12:00:00Z", -1},
        {"2026-01-31T12:00:00Z ", -1},
        {" 2026-01-31T12:00:00Z", -1},
        {"26-01-31T12:00:00Z", -1},
        {"-026-01-31T12:00:00Z", -1},
        {"2026-01-31T12:00Z", -1},
        {"2026", -1},
        {"", -1},
    };

    for (size_t i = 0; i < LEN(cases); i++) {
        int64_t ms = -1;
        bool is_time = moment_parse(cases[i].text, &ms);

        cr_assert_eq(is_time, cases[i].ms >= 0, "%s", cases[i].text);
        cr_assert_eq(ms, cases[i].ms, "%s", cases[i].text);
    }
}

Test(saml, base64_is_strict_but_for_white_space)
{
    static const struct {
        const char *text, *bytes; /* NULL: none */
    } cases[] = {
        {"", ""},          {"QQ==", "A"},        {"QUI=", "AB"},
        {"QUJD", "ABC"},   {"QUJDRA==", "ABCD"}, {"QU\r\nJD", "ABC"},
        {" QUJD ", "ABC"}, {"QQ= =", "A"},       {"QQ", NULL},
        {"QQ=", NULL},     {"QUJ", NULL},        {"Q", NULL},
        {"Q===", NULL},    {"QR==", NULL},       {"QUJ=", NULL},
        {"=QUJD", NULL},   {"QQ==QQ==", NULL},   {"QU-D", NULL},
        {"QU_D", NULL},    {"QUJD=", NULL},      {"QUJD====", NULL},
        {"QU\vJD", NULL},  {"====", NULL},
    };

    for (size_t i = 0; i < LEN(cases); i++) {
        _cleanup_(free_mem) unsigned char *bytes = NULL;
        size_t len = 0;
        bool is_good = base64_decode(cases[i].text, strlen(cases[i].text), &bytes, &len);

        cr_assert_eq(is_good, cases[i].bytes != NULL, "%s", cases[i].text);
        if (is_good)
            cr_assert(len == strlen(cases[i].bytes) && !memcmp(bytes, cases[i].bytes, len), "%s",
                      cases[i].text);
    }
}

Test(saml, urls_are_decoded_as_a_query_has_them)
{
    static const struct {
        const char *text, *out; /* NULL: refused */
    } cases[] = {
        {"", ""},           {"a%2Bb+c", "a+b c"}, {"%41%7a", "Az"},
        {"%00", NULL},      {"%", NULL},          {"%4", NULL},
        {"%zz", NULL},      {"%4z", NULL},        {"1234567", "1234567"},
        {"12345678", NULL},
    };

    for (size_t i = 0; i < LEN(cases); i++) {
        char out[8];
        bool is_good = url_decode(cases[i].text, out, sizeof(out));

        cr_assert_eq(is_good, cases[i].out != NULL, "%s", cases[i].text);
        if (is_good)
            cr_assert_str_eq(out, cases[i].out);
    }
}

Test(saml, an_id_is_plain)
{
    static const char *const good[] = {"_1", "a", "_a-b.c9", "A"};
    static const char *const bad[] = {"",    "1",   "-a", ".a",       "a b", "a\n",
                                      "a'b", "a\"", "a#", "\xc3\xa4", "a:b"};
    char text[300];

    for (size_t i = 0; i < LEN(good); i++)
        cr_assert(id_is_plain(good[i]), "%s", good[i]);
    for (size_t i = 0; i < LEN(bad); i++)
        cr_assert_not(id_is_plain(bad[i]), "%s", bad[i]);
    memset(text, 'a', sizeof(text));
    text[256] = '\0';
    cr_assert_not(id_is_plain(text));
    text[255] = '\0';
    cr_assert(id_is_plain(text));
}

/* ---- messages ---- */

static const char *const good[] = {"assertion", "response", "both", "rsa"};

/* Is it the key of a certificate of the metadata? */
static bool is_key_of(const char *metadata, const char *key)
{
    _cleanup_(metadata_done) metadata_t read = {0};
    _cleanup_(json_clear_ref) json_t *described = NULL;
    problem_t problem = {0};
    json_t *one;
    size_t i;
    bool is_one = false;

    cr_assert_eq(metadata_read(&read, metadata, strlen(metadata), &problem), 0);
    described = metadata_describe(&read);
    json_array_foreach(json_object_get(described, "certificates"), i, one)
    {
        const char *its = json_string_value(json_object_get(one, "key_sha256"));

        cr_assert_eq(strlen(its), 64);
        cr_assert_str_neq(its, json_string_value(json_object_get(one, "sha256")));
        is_one = is_one || !strcmp(its, key);
    }
    return is_one;
}

Test(saml, signed_messages_say_who_signs_in)
{
    _cleanup_(free_mem) char *metadata = read_file("metadata");

    cr_assert_eq(answer_start(), 0);
    for (size_t i = 0; i < LEN(good); i++) {
        _cleanup_(free_mem) char *xml = read_file(good[i]);
        _cleanup_(json_clear_ref) json_t *said = said_by(metadata, xml, strlen(xml), NULL);

        cr_assert(said, "%s", good[i]);
        cr_assert_str_eq(json_string_value(json_object_get(said, "name_id")), "user@example.test");
        cr_assert(is_key_of(metadata, json_string_value(json_object_get(said, "signed_by"))));
        cr_assert_eq(
            json_array_size(json_object_get(json_object_get(said, "attributes"), "groups")), 2);
        cr_assert_eq(json_integer_value(json_object_get(said, "not_on_or_after_ms")),
                     NOW_MS + 300000);
    }
}

/* ---- mutants ---- */

/* Where a mutant is accepted it says what the message said that it was made of, but for the IDs of
 * responses that are not signed. */
static bool says_the_same(json_t *one, json_t *other, bool response_is_signed)
{
    if (!response_is_signed)
        json_object_set(one, "response_id", json_object_get(other, "response_id"));
    return json_equal(one, other);
}

/* A message with count namespaces: within each other, in one element, or side by side. */
static char *spaced(int count, bool is_nested)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    fputs("<a xmlns=\"urn:a\">", out);
    for (int i = 0; i < count; i++) {
        if (is_nested && i % 10 == 0)
            fputs(i ? "><b" : "<b", out);
        fprintf(out, is_nested ? " xmlns:n%d=\"urn:n\"" : "<b xmlns:n%d=\"urn:n\"/>", i);
    }
    if (is_nested)
        fputs(">", out);
    for (int i = 0; is_nested && i < (count + 9) / 10; i++)
        fputs("</b>", out);
    fputs("</a>", out);
    fclose(out);
    return text;
}

Test(saml, few_namespaces_are_in_scope_though_a_message_may_have_many)
{
    static const struct {
        int count;
        bool is_nested, is_read;
    } rows[] = {{63, true, true}, {64, true, false}, {1000, false, true}, {1100, false, false}};

    cr_assert_eq(document_libraries_start(), 0);
    for (size_t i = 0; i < LEN(rows); i++) {
        _cleanup_(free_mem) char *text = spaced(rows[i].count, rows[i].is_nested);
        _cleanup_(document_free) xmlDocPtr document = NULL;
        _cleanup_(problem_done) problem_t problem = {0};
        int r = document_read(text, strlen(text), &document_message, &document, &problem);

        cr_assert_eq(r, rows[i].is_read ? 0 : ERR_SAML_MESSAGE, "row %zu: %s", i, problem.msg);
        cr_assert(rows[i].is_read || strstr(problem.msg, "too many namespaces"), "%s", problem.msg);
    }
}

Test(saml, no_mutant_of_a_signed_message_says_something_else)
{
    const char *setting = getenv("SAML_MUTANTS");
    long count = setting ? strtol(setting, NULL, 10) : 10000, accepted = 0;
    _cleanup_(free_mem) char *metadata = read_file("metadata");

    cr_assert_eq(answer_start(), 0);
    for (size_t i = 0; i < LEN(good); i++) {
        _cleanup_(free_mem) char *xml = read_file(good[i]);
        _cleanup_(json_clear_ref) json_t *want = said_by(metadata, xml, strlen(xml), NULL);

        for (long n = 0; n < count / (long)LEN(good); n++) {
            static char mutant[MUTANT_MAX];
            _cleanup_(json_clear_ref) json_t *said = NULL;
            size_t len = strlen(xml);

            memcpy(mutant, xml, len);
            for (size_t times = 1 + draw(3); times; times--)
                mutate_once(mutant, &len);
            said = said_by(metadata, mutant, len, NULL);
            accepted += said != NULL;
            cr_assert(!said || says_the_same(said, want, i == 1 || i == 2), "%.*s", (int)len,
                      mutant);
        }
    }
    cr_log_info("%ld of %ld mutants were accepted, and say the same", accepted, count);
}

Test(saml, a_time_with_fewer_digits_may_be_later)
{
    static const struct {
        const char *text;
        int doubt_ms;
    } rows[] = {
        {"2026-01-31T12:00:00Z", 999},    {"2026-01-31T12:00:00.3Z", 99},
        {"2026-01-31T12:00:00.30Z", 9},   {"2026-01-31T12:00:00.300Z", 0},
        {"2026-01-31T12:00:00.3001Z", 0}, {"2026-01-31T12:00:00.300123456Z", 0},
    };

    for (size_t i = 0; i < LEN(rows); i++)
        cr_assert_eq(moment_doubt_ms(rows[i].text), rows[i].doubt_ms, "%s", rows[i].text);
}
