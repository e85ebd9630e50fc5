/* What postern-identity answered to an edge, and what the edge says about its questions: bytes of
 * another process. */
#include "services/edge/control/ask_reply.h"
#include "common/base/err.h"
#include "common/codec/pack.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <jansson.h>
#include <string.h>

typedef struct answer_case {
    char outcome[80], body[40];
    int code;
} answer_case_t;

static void pack_text(msgpack_sbuffer *out, const char *text)
{
    json_t *value = json_loads(text, JSON_DECODE_ANY, NULL);

    msgpack_sbuffer_init(out);
    cr_assert(value);
    cr_assert_eq(pack_json(out, value), 0);
    json_decref(value);
}

ParameterizedTestParameters(ask_reply, what_is_no_answer_is_a_failure)
{
    static answer_case_t cases[] = {
        {"{\"code\":0}", "{}", 0},
        {"{\"code\":0,\"msg\":\"\",\"details\":null,\"revision\":4,\"etag\":\"\"}", "{\"a\":1}", 0},
        {"{\"code\":238,\"msg\":\"gone\"}", "null", 238},
        {"{\"code\":0}", "null", ERR_INTERNAL},
        {"{\"code\":0}", "[]", ERR_INTERNAL},
        {"{\"code\":0}", "\"{}\"", ERR_INTERNAL},
        {"{\"code\":-1}", "{}", ERR_INTERNAL},
        {"{\"code\":1000}", "{}", ERR_INTERNAL},
        {"{\"code\":\"0\"}", "{}", ERR_INTERNAL},
        {"{\"code\":null}", "{}", ERR_INTERNAL},
        {"{\"msg\":\"none\"}", "{}", ERR_INTERNAL},
        {"[0]", "{}", ERR_INTERNAL},
        {"0", "{}", ERR_INTERNAL},
    };

    return cr_make_param_array(answer_case_t, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(answer_case_t *given, ask_reply, what_is_no_answer_is_a_failure)
{
    msgpack_sbuffer outcome, body;
    ask_told_t told;

    pack_text(&outcome, given->outcome);
    pack_text(&body, given->body);
    ask_reply_read(&told, 9, outcome.data, outcome.size, body.data, body.size);
    cr_assert_eq(told.code, given->code, "%s %s: %d", given->outcome, given->body, told.code);
    cr_assert_eq(told.number, 9);
    msgpack_sbuffer_destroy(&outcome);
    msgpack_sbuffer_destroy(&body);
}

Test(ask_reply, cut_bytes_are_a_failure)
{
    msgpack_sbuffer outcome, body;
    ask_told_t told;

    pack_text(&outcome, "{\"code\":0,\"msg\":\"fine\"}");
    pack_text(&body, "{\"location\":\"https://idp.localhost/login\"}");
    for (size_t i = 0; i < outcome.size; i++) {
        ask_reply_read(&told, 1, outcome.data, i, body.data, body.size);
        cr_assert_eq(told.code, ERR_INTERNAL);
    }
    for (size_t i = 0; i < body.size; i++) {
        ask_reply_read(&told, 1, outcome.data, outcome.size, body.data, i);
        cr_assert_eq(told.code, ERR_INTERNAL);
    }
    msgpack_sbuffer_destroy(&outcome);
    msgpack_sbuffer_destroy(&body);
}

Test(ask_reply, a_long_message_is_cut_between_characters)
{
    char msg[2 * ASK_MSG_SIZE];
    ask_told_t told;

    for (size_t i = 0; i + 1 < sizeof(msg); i += 2)
        memcpy(msg + i, "\xc3\xa4", 2);
    ask_told_init(&told, 1, 238, msg, sizeof(msg));
    cr_assert_eq(strlen(told.msg), ASK_MSG_SIZE - 2);
    ask_told_init(&told, 1, 238, "short", 5);
    cr_assert_str_eq(told.msg, "short");
}

Test(ask_reply, a_header_says_what_the_bus_wants_to_know)
{
    msgpack_sbuffer out;
    json_t *header = NULL;

    msgpack_sbuffer_init(&out);
    cr_assert_eq(ask_header_pack(&out, "op_1", "ac_one", 2500, "edge-1"), 0);
    cr_assert_eq(unpack_json(out.data, out.size, &header), 0);
    cr_assert_eq(json_integer_value(json_object_get(header, "v")), 1);
    cr_assert_str_eq(json_string_value(json_object_get(header, "id")), "op_1");
    cr_assert_str_eq(json_string_value(json_object_get(header, "key")), "op_1");
    cr_assert_str_eq(json_string_value(json_object_get(header, "account")), "ac_one");
    cr_assert_eq(json_integer_value(json_object_get(header, "left")), 2500);
    cr_assert_str_eq(json_string_value(json_object_get(json_object_get(header, "actor"), "source")),
                     "edge");
    json_decref(header);
    msgpack_sbuffer_destroy(&out);
}

Test(ask_packet, frames_of_another_form_are_none)
{
    ask_head_t head, read;
    ask_told_t told, told_read;

    cr_assert(ask_head_init(&head, 1, "session.check", "ac_one", 6, 100));
    cr_assert(ask_head_read(&read, &head, sizeof(head), 100));
    cr_assert_not(ask_head_read(&read, &head, sizeof(head) - 1, 100));
    cr_assert_not(ask_head_read(&read, &head, sizeof(head), 101), "more than the whole body");
    head.offset = 101;
    cr_assert_not(ask_head_read(&read, &head, sizeof(head), 0));
    head.offset = 0;
    head.total = ASK_BODY_MAX + 1;
    cr_assert_not(ask_head_read(&read, &head, sizeof(head), 0));
    head.total = 100;
    memset(head.verb, 'x', sizeof(head.verb));
    cr_assert_not(ask_head_read(&read, &head, sizeof(head), 0), "a verb without an end");
    ask_told_init(&told, 1, 0, "", 0);
    cr_assert(ask_told_read(&told_read, &told, sizeof(told)));
    memset(told.msg, 'x', sizeof(told.msg));
    cr_assert_not(ask_told_read(&told_read, &told, sizeof(told)));
    cr_assert_not(ask_told_read(&told_read, &told, 3));
}

Test(ask_packet, what_has_no_place_is_refused)
{
    ask_head_t head;
    char verb[ASK_VERB_SIZE + 1] = "";

    memset(verb, 'v', ASK_VERB_SIZE);
    cr_assert_not(ask_head_init(&head, 1, verb, "", 0, 0));
    cr_assert_not(ask_head_init(&head, 1, "v", verb, ASK_ACCOUNT_SIZE, 0));
    cr_assert_not(ask_head_init(&head, 1, "v", "", 0, ASK_BODY_MAX + 1));
}
