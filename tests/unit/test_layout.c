/* Values of traffic events get their names. */
#include "services/events/layout.h"
#include "common/base/cleanup.h"
#include "common/codec/pack.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

static const char text[] = "http_request_complete.v0\n"
                           "backend.connection_reused BOOL \n"
                           "conn.client_ip STR \n"
                           "conn.start_ts TIME \n"
                           "http.request.body_length I64 \n"
                           "http.request.headers STRMAP \n"
                           "http.request.url.scheme STR https\n"
                           "http.response.status_code I32 \n"
                           "ip_policy.decision STR invalid\n"
                           "traffic_policy.logs STRINGS ";

#define FILL_16 "dddddddddddddddd"

static layout_t *layout(void)
{
    layout_t *one = NULL;

    cr_assert_eq(layout_new(&one, text, sizeof(text) - 1), 0);
    return one;
}

/* What every event has: id "e", 2025-11-22T10:20:45.748Z, account "a". */
#define HEAD                                                                                       \
    "\x00\xa1"                                                                                     \
    "e\x01\xcf\x00\x00\x01\x9a\xab\x14\x9b\x34\x02\xa1"                                            \
    "a"

static json_t *decode(const msgpack_sbuffer *out)
{
    json_t *event = NULL;

    cr_assert_eq(unpack_json(out->data, out->size, &event), 0);
    return event;
}

/* The envelope as JSON; NULL: refused. Free it. */
static char *envelope(layout_t *one, const void *values, size_t len)
{
    _cleanup_(json_clear_ref) json_t *event = NULL;
    msgpack_sbuffer out;
    char *json = NULL;

    msgpack_sbuffer_init(&out);
    if (!layout_envelope(one, values, len, &out)) {
        event = decode(&out);
        json = json_dumps(event, JSON_COMPACT);
    }
    msgpack_sbuffer_destroy(&out);
    return json;
}

#define ENVELOPE(one, values) envelope(one, values, sizeof(values) - 1)

Test(layout, an_event_that_says_nothing_has_every_field)
{
    _cleanup_(layout_destroy) layout_t *one = layout();
    _cleanup_(free_mem) char *json = ENVELOPE(one, HEAD);

    cr_assert_str_eq(
        json,
        "{\"event_id\":\"e\",\"event_type\":\"http_request_complete.v0\","
        "\"event_timestamp\":\"2025-11-22T10:20:45.748Z\",\"account_id\":\"a\",\"principal\":null,"
        "\"object\":{\"backend\":{\"connection_reused\":false},"
        "\"conn\":{\"client_ip\":\"\",\"start_ts\":\"1970-01-01T00:00:00.000Z\"},"
        "\"http\":{\"request\":{\"body_length\":0,\"headers\":{},\"url\":{\"scheme\":\"https\"}},"
        "\"response\":{\"status_code\":0}},\"ip_policy\":{\"decision\":\"invalid\"},"
        "\"traffic_policy\":{\"logs\":[]}}}");
}

Test(layout, values_of_every_type_in_any_order)
{
    _cleanup_(layout_destroy) layout_t *one = layout();
    _cleanup_(free_mem) char *json = ENVELOPE(one, "\x0b\x92\xa1"
                                                   "x\xa1"
                                                   "y" HEAD "\x09\xcd\x01\xf7\x03\xc3\x04\xa2"
                                                   "::\x06\xff\x08\xa4"
                                                   "http\x0a\xa5"
                                                   "block");

    cr_assert_not_null(strstr(json, "\"connection_reused\":true"));
    cr_assert_not_null(strstr(json, "\"client_ip\":\"::\""));
    cr_assert_not_null(strstr(json, "\"body_length\":-1"));
    cr_assert_not_null(strstr(json, "\"scheme\":\"http\""));
    cr_assert_not_null(strstr(json, "\"status_code\":503"));
    cr_assert_not_null(strstr(json, "\"decision\":\"block\""));
    cr_assert_not_null(strstr(json, "\"logs\":[\"x\",\"y\"]"));
}

Test(layout, a_length_has_64_bits)
{
    _cleanup_(layout_destroy) layout_t *one = layout();
    _cleanup_(free_mem) char *json = ENVELOPE(one, HEAD "\x06\xd3\x00\x00\x00\x01\x65\xa0\xbc\x00");

    cr_assert_not_null(strstr(json, "\"body_length\":6000000000"));
}

Test(layout, headers_are_grouped_capitalised_and_in_lower_case)
{
    _cleanup_(layout_destroy) layout_t *one = layout();
    _cleanup_(free_mem) char *json = ENVELOPE(one, HEAD "\x07\x98\xa6"
                                                        "accept\xa1"
                                                        "A\xa6"
                                                        "X-a-bC\xa2"
                                                        "No\xa6"
                                                        "ACCEPT\xa1"
                                                        "b\xa0\xa0");

    cr_assert_not_null(
        strstr(json, "\"headers\":{\"Accept\":[\"a\",\"b\"],\"X-A-Bc\":[\"no\"],\"\":[\"\"]}"));
}

Test(layout, what_is_no_text_becomes_question_marks_and_names_stay_different_keys)
{
    _cleanup_(layout_destroy) layout_t *one = layout();
    _cleanup_(free_mem) char *json = ENVELOPE(one, HEAD "\x04\xaa"
                                                        "a\xc3\xa9\xff\xed\xa0\x80\x00z\xc3"
                                                        "\x07\x94\xa1\x80\xa1"
                                                        "1\xa1\x81\xa1"
                                                        "2");

    cr_assert_not_null(strstr(json, "\"client_ip\":\"a\xc3\xa9?????z?\""), "%s", json);
    cr_assert_not_null(strstr(json, "\"headers\":{\"?\":[\"1\",\"2\"]}"), "%s", json);
}

Test(layout, refuses_what_does_not_fit_and_every_cut)
{
    static const struct {
        const char *values;
        size_t len;
    } bad[] = {
#define BAD(values) {HEAD values, sizeof(HEAD values) - 1}
        BAD("\x00\xa1x"),                                /* twice */
        BAD("\x0c\xa1x"),                                /* no such field */
        BAD("\x03\xa1x"),                                /* text for a boolean */
        BAD("\x04\x01"),                                 /* number for text */
        BAD("\x05\xff"),                                 /* time before 1970 */
        BAD("\x06\xa1x"),                                /* text for a number */
        BAD("\x07\x91\xa1x"),                            /* a name without a value */
        BAD("\x07\x92\xa1x\x01"),                        /* a value that is no text */
        BAD("\x07\x80"),                                 /* a map */
        BAD("\x0b\x91\x91\xa1x"),                        /* a list in a list */
        BAD("\x05\xcf\x7f\xff\xff\xff\xff\xff\xff\xff"), /* year 292277026 */
        {HEAD, sizeof(HEAD) - 4},                        /* no account */
    };
    _cleanup_(layout_destroy) layout_t *one = layout();

    for (size_t i = 0; i < LEN(bad); i++)
        cr_assert_null(envelope(one, bad[i].values, bad[i].len), "%zu", i);
    for (size_t n = 0; n < sizeof(HEAD) - 1; n++)
        cr_assert_null(envelope(one, HEAD, n), "cut at %zu", n);
}

/* proto/events.def as the edge says it. */
static const char http_text[] = "http_request_complete.v0"
#define TEXT_OF_HTTP(name, type, fallback) "\n" name " " #type " " fallback
#define TEXT_OF_TCP(name, type, fallback)
#define AUDIT(type, meaning)
#define TRAFFIC(type, meaning)
#define FIELD(event, id, name, type, filter, fallback, meaning)                                    \
    TEXT_OF_##event(name, type, fallback)
#include "proto/events.def"
    ;

static size_t size_of_nothing(const char *layout_text, size_t len, int *ret_r)
{
    _cleanup_(layout_destroy) layout_t *one = NULL;
    msgpack_sbuffer out;
    size_t size;

    *ret_r = layout_new(&one, layout_text, len);
    if (*ret_r)
        return 0;
    msgpack_sbuffer_init(&out);
    cr_assert_eq(layout_envelope(one, HEAD, sizeof(HEAD) - 1, &out), 0);
    size = out.size;
    msgpack_sbuffer_destroy(&out);
    return size;
}

/* A layout is said once, and what it adds goes into each envelope. */
Test(layout, what_a_layout_adds_to_each_event_is_bounded)
{
    char wide[20000] = "topic", dots[20000] = "topic";
    int r;
    size_t most = 0, n = 0, size = size_of_nothing(http_text, sizeof(http_text) - 1, &r);

    cr_assert_eq(r, 0);
    cr_assert_lt(2 * size, 2048 + 256, "the edge's own have %zu bytes, and may grow", size);
    cr_assert_gt(size, 500);
    size_of_nothing("topic\na STR " FILL_16 FILL_16 FILL_16 FILL_16, 12 + 64, &r);
    cr_assert_eq(r, 0, "the longest default");
    for (int i = 0; i < 125; i++) {
        n += (size_t)snprintf(wide + strlen(wide), 128, "\nfield%03d STR %.64s", i,
                              FILL_16 FILL_16 FILL_16 FILL_16);
        size = size_of_nothing(wide, strlen(wide), &r);
        most = size > most ? size : most;
    }
    cr_assert_eq(r, -EBADMSG);
    cr_assert_lt(most, 2048 + 64);
    cr_assert_gt(n, 2 * most);
    for (int i = 0; i < 125; i++) /* dates need no default */
        snprintf(dots + strlen(dots), 128, "\na%03d.%.64s TIME ", i,
                 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
    size_of_nothing(dots, strlen(dots), &r);
    cr_assert_eq(r, -EBADMSG);
}

Test(layout, refuses_layouts_that_make_no_object)
{
    static const char *const bad[] = {
        "",
        "\n",
        "topic",
        "topic\n",
        "To pic\na STR ",
        "topic\na STR",
        "topic\na TEXT ",
        "topic\n STR ",
        "topic\na. STR ",
        "topic\na..b STR ",
        "topic\n.a STR ",
        "topic\nA STR ",
        "topic\na STR \na STR ",
        "topic\nb STR \na STR ",
        "topic\na STR \na.b STR ",
        "topic\na.b STR \na.b.c STR ",
        "topic\na STR \n\nb STR ",
        "topic\na STR \xc3\xa9",
        "topic\na STR " FILL_16 FILL_16 FILL_16 FILL_16 "x",
    };
    char many[4096] = "topic";
    layout_t *one = NULL;
    size_t n = strlen(many);

    for (size_t i = 0; i < LEN(bad); i++)
        cr_assert_eq(layout_new(&one, bad[i], strlen(bad[i])), -EBADMSG, "%s", bad[i]);
    for (int i = 0; i < 125; i++)
        n += (size_t)snprintf(many + n, sizeof(many) - n, "\nf%03d STR ", i);
    cr_assert_eq(layout_new(&one, many, n), 0);
    cr_assert(layout_is(one, many, n));
    cr_assert_not(layout_is(one, many, n - 1));
    layout_destroy(&one);
    n += (size_t)snprintf(many + n, sizeof(many) - n, "\nf125 STR ");
    cr_assert_eq(layout_new(&one, many, n), -EBADMSG);
}

Test(layout, numbers_by_name)
{
    static const char numbers[] = "http_request_complete.v0\nmodules.run_ns NUMMAP ";
    static const struct {
        const char *values, *want; /* NULL: refused */
        size_t len;
    } cases[] = {
#define NUMBERS(values, want) {HEAD values, want, sizeof(HEAD values) - 1}
        NUMBERS("", "{}"),
        NUMBERS("\x03\x90", "{}"),
        NUMBERS("\x03\x94\xa1"
                "a\x07\xa1"
                "b\xcd\x01\x00",
                "{\"a\":7,\"b\":256}"),
        NUMBERS("\x03\x92\xa1"
                "a\xff",
                "{\"a\":-1}"),
        NUMBERS("\x03\x91\xa1"
                "a",
                NULL),
        NUMBERS("\x03\x92\x01\xa1"
                "a",
                NULL),
        NUMBERS("\x03\x92\xa1"
                "a\xa1"
                "b",
                NULL),
        NUMBERS("\x03\x94\xa1"
                "a\x01\xa1"
                "a\x02",
                NULL),
        NUMBERS("\x03\x92\xa1\xff\x01", NULL),
        NUMBERS("\x03\x07", NULL),
#undef NUMBERS
    };
    _cleanup_(layout_destroy) layout_t *one = NULL;

    cr_assert_eq(layout_new(&one, numbers, sizeof(numbers) - 1), 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        _cleanup_(free_mem) char *json = envelope(one, cases[i].values, cases[i].len);
        const char *at = json ? strstr(json, "\"run_ns\":") : NULL;

        cr_assert_eq(!json, !cases[i].want, "%zu: %s", i, json);
        if (cases[i].want)
            cr_assert(at && !strncmp(at + 9, cases[i].want, strlen(cases[i].want)), "%zu: %s", i,
                      json);
    }
}
