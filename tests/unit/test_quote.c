/* What a text says of what somebody sent is always UTF-8, short, and nothing but a quotation. */
#include "common/bus/bus.h"
#include "common/base/cleanup.h"
#include "common/base/err.h"
#include "common/base/quote.h"
#include "common/base/utf8.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <string.h>

static bool is_text(const char *text)
{
    const unsigned char *at = (const unsigned char *)text, *end = at + strlen(text);
    size_t n;

    while (at < end && *at >= 0x20 && (n = utf8_character(at, end)))
        at += n;
    return at == end;
}

struct quote_case {
    char text[40], want[48];
};

ParameterizedTestParameters(quote, shows_what_was_sent)
{
    static struct quote_case cases[] = {
        {"", "''"},
        {"ten", "'ten'"},
        {"it's", "'it\\'s'"},
        {"a\\", "'a\\\\'"},
        {"say \"a\"", "'say \"a\"'"},
        {"a\r\nb\tc\x7f", "'a??b?c?'"},
        {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "'\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80'"},
        {"a\xc2\x85\xe2\x80\xae\xe2\x80\xa8z", "'a???z'"}, /* next line, right to left, line end */
        {"a\xff\xc3", "'a?"
                      "?'"},
        {"\xed\xa0\x80", "'?"
                         "?"
                         "?'"}, /* half a pair: RFC 3629, 3 */
    };

    return cr_make_param_array(struct quote_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct quote_case *c, quote, shows_what_was_sent)
{
    cr_assert_str_eq(quote(c->text).text, c->want);
}

/* n bytes of a, then many of the character. */
static void make_long(char *out, size_t size, size_t n, const char *character)
{
    memset(out, 'a', n);
    for (out[n] = '\0'; n + strlen(character) < size; n += strlen(character))
        snprintf(out + n, size - n, "%s", character);
}

static const char *const characters[] = {
    "a", "'", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xff", "\xc3"};

Test(quote, a_noun_has_its_article)
{
    static const char *const an[] = {
        "int",           "https_edge",      "event_destination", "ip_policy", "ssh_credential",
        "agent_ingress", "application_user"};
    static const char *const a[] = {"string", "uint", "double", "tcp_edge", "secret", "list"};

    for (size_t i = 0; i < sizeof(an) / sizeof(an[0]); i++)
        cr_assert_str_eq(quote_article(an[i]), "an", "%s", an[i]);
    for (size_t i = 0; i < sizeof(a) / sizeof(a[0]); i++)
        cr_assert_str_eq(quote_article(a[i]), "a", "%s", a[i]);
}

Test(quote, cuts_on_a_character_wherever_the_limit_falls)
{
    char text[600], plain[600];

    for (size_t i = 0; i < sizeof(characters) / sizeof(characters[0]); i++)
        for (size_t n = 0; n < 420; n++) {
            make_long(text, sizeof(text), n, characters[i]);
            cr_assert(is_text(quote(text).text), "%zu bytes, then %s", n, characters[i]);
            cr_assert_leq(strlen(quote(text).text), (size_t)QUOTE_SIZE - 1);
            for (size_t size = 1; size < 12; size++) {
                quote_plain(plain, size, text + 380);
                cr_assert(is_text(plain) && strlen(plain) < size);
            }
        }
}

Test(quote, problems_keep_texts_and_names_that_can_be_packed)
{
    char text[600];

    for (size_t i = 0; i < sizeof(characters) / sizeof(characters[0]); i++)
        for (size_t n = 0; n < 420; n++) {
            problem_t problem = {0};
            const char *name;
            json_t *value;

            make_long(text, sizeof(text), n, characters[i]);
            problem_add(&problem, ERR_UNKNOWN_FIELD, text, "%s is what %s", text, "was sent");
            cr_assert(is_text(problem.msg), "%zu bytes, then %s", n, characters[i]);
            cr_assert_eq(json_object_size(problem.details), 1);
            json_object_foreach(problem.details, name, value)
                cr_assert(is_text(name) && is_text(json_string_value(value)));
            problem_done(&problem);
        }
}

Test(quote, problems_are_counted_out)
{
    problem_t problem = {0};

    for (int i = 0; i < 5000; i++) {
        char name[16];

        snprintf(name, sizeof(name), "f%d", i);
        problem_add(&problem, ERR_UNKNOWN_FIELD, name, "is not a field of this object");
    }
    cr_assert_eq(json_object_size(problem.details), 100);
    cr_assert_str_eq(problem.msg, "f0: is not a field of this object");
    problem_done(&problem);
}

/* ---- answers that cannot be made, or not be read ---- */

static int code_of(zmsg_t *msg, char id[64])
{
    _cleanup_(json_clear_ref) json_t *outcome = NULL;
    zframe_t *body = NULL;
    int code = -1;

    cr_assert_not_null(msg);
    if (!reply_split(msg, id, &outcome, &body))
        code = (int)json_integer_value(json_object_get(outcome, "code"));
    zframe_destroy(&body);
    zmsg_destroy(&msg);
    return code;
}

Test(reply, that_cannot_be_made_says_so_at_once)
{
    json_t *deep = json_integer(1), *large = json_array();
    reply_t reply = {.problem = {.code = ERR_NOT_FOUND}};
    char *text = calloc(1, (1 << 20) + 1), id[64];

    snprintf(reply.problem.msg, sizeof(reply.problem.msg), "\xc3");
    cr_assert_eq(code_of(reply_encode("op_1", &reply), id), ERR_NOT_FOUND);
    cr_assert_str_eq(id, "op_1");

    for (int i = 0; i < 40; i++)
        deep = json_pack("[o]", deep);
    reply = (reply_t){.body = deep};
    cr_assert_eq(code_of(reply_encode("op_2", &reply), id), ERR_ANSWER_TOO_LARGE);
    reply_done(&reply);

    memset(text, 'a', 1 << 20);
    for (int i = 0; i < 17; i++)
        json_array_append_new(large, json_string(text));
    reply = (reply_t){.body = large};
    cr_assert_eq(code_of(reply_encode("op_3", &reply), id), ERR_ANSWER_TOO_LARGE);
    reply_done(&reply);
    free(text);
}

Test(reply, that_cannot_be_read_still_says_whose_it_is)
{
    zmsg_t *msg = zmsg_new();
    char id[64] = "";

    zmsg_addstr(msg, "op_4");
    zmsg_addstr(msg, "\xc1");
    zmsg_addstr(msg, "");
    cr_assert_eq(code_of(msg, id), -1);
    cr_assert_str_eq(id, "op_4");
}

Test(request, that_cannot_be_read_still_says_who_waits)
{
    zmsg_t *msg = request_encode("kind.get", "op_5", NULL, "ac_1", 1, NULL, json_object());
    request_t request;
    zframe_t *body;

    cr_assert_not_null(msg);
    body = zmsg_last(msg);
    zmsg_remove(msg, body);
    zframe_destroy(&body);
    zmsg_addstr(msg, "\xc1");
    cr_assert_eq(request_decode(msg, &request), -EBADMSG);
    cr_assert_str_eq(request.id, "op_5");
    zmsg_destroy(&msg);
}
