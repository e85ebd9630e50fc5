#include "services/events/batch.h"
#include "common/base/cleanup.h"
#include "common/codec/pack.h"
#include "common/schema/event_types.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

static int audit_of(const char *service, const unsigned char *data, size_t len, json_t **ret_events)
{
    batch_t batch = {.audit = true};

    snprintf(batch.producer, sizeof(batch.producer), "outbox/%s", service);
    return batch_audit(&batch, data, len, ret_events);
}

static const unsigned char two[] = "\x01\x00\x00\x00\x01"
                                   "t\x01"
                                   "\x02\x00\x00\x00\x02"
                                   "tt\x91\x01";

Test(batch, splits_into_its_events)
{
    record_t record;
    size_t offset = 0;

    cr_assert_eq(batch_next(two, sizeof(two) - 1, &offset, &record), 1);
    cr_assert_eq(record.topic_len, 1);
    cr_assert_eq(batch_next(two, sizeof(two) - 1, &offset, &record), 1);
    cr_assert_eq(record.body_len, 2);
    cr_assert_eq(batch_next(two, sizeof(two) - 1, &offset, &record), 0);
    cr_assert_eq(batch_check(two, sizeof(two) - 1, 2), 0);
}

Test(batch, values_follow_their_layout)
{
    static const unsigned char data[] = "\x00\x00\x00\x00\x02"
                                        "l\n"
                                        "\xff\x00\x00\x00\x01"
                                        "v";
    record_t record;
    size_t offset = 0;

    cr_assert_eq(batch_next(data, sizeof(data) - 1, &offset, &record), 1);
    cr_assert_eq(record.kind, RECORD_LAYOUT);
    cr_assert_eq(batch_next(data, sizeof(data) - 1, &offset, &record), 1);
    cr_assert_eq(record.kind, RECORD_VALUES);
    cr_assert_eq(record.body_len, 1);
    cr_assert_eq(batch_check(data, sizeof(data) - 1, 1), 0, "a layout is no event");
    cr_assert_eq(batch_check(data, 7, 0), 0);
    cr_assert_eq(batch_check(data + 7, 6, 1), -EBADMSG, "values of no layout");
}

static size_t record(unsigned char *out, const char *topic, const void *body, size_t len)
{
    size_t topic_len = strlen(topic);

    out[0] = (unsigned char)topic_len; /* 0: a layout */
    out[1] = out[2] = 0;
    out[3] = (unsigned char)(len >> 8);
    out[4] = (unsigned char)len;
    memcpy(out + 5, topic, topic_len);
    memcpy(out + 5 + topic_len, body, len);
    return 5 + topic_len + len;
}

/* An event of this topic that says this type, and more fields. */
static int traffic_like(const char *topic, const char *type, const char *more)
{
    char json[256];
    json_t *event;
    unsigned char out[512];
    msgpack_sbuffer body;
    size_t len;

    snprintf(json, sizeof(json), "{\"event_type\": \"%s\"%s}", type, more);
    event = json_loads(json, 0, NULL);
    msgpack_sbuffer_init(&body);
    cr_assert_eq(pack_json(&body, event), 0);
    len = record(out, topic, body.data, body.size);
    msgpack_sbuffer_destroy(&body);
    json_decref(event);
    return batch_traffic(out, len);
}

/* Who sees it in the stream cannot tell where it came from. */
Test(batch, traffic_cannot_pass_for_an_audit_event)
{
    static const char traffic[] = "http_request_complete.v0", audit[] = "api_key_created.v0";
    static const char traffic_layout[] = "http_request_complete.v0\nx I64 0\n",
                      audit_layout[] = "api_key_created.v0\nx I64 0\n",
                      bare_layout[] = "api_key_created.v0";
    unsigned char out[512];

    cr_assert_eq(traffic_like(traffic, traffic, ""), 0);
    cr_assert_eq(traffic_like(audit, audit, ""), -EBADMSG);
    cr_assert_eq(traffic_like(traffic, audit, ""), -EBADMSG, "by its envelope");
    cr_assert_eq(traffic_like(audit, traffic, ""), -EBADMSG, "by its topic");
    cr_assert_eq(batch_traffic(out, record(out, "", traffic_layout, strlen(traffic_layout))), 0);
    cr_assert_eq(batch_traffic(out, record(out, "", audit_layout, strlen(audit_layout))), -EBADMSG);
    cr_assert_eq(batch_traffic(out, record(out, "", bare_layout, strlen(bare_layout))), -EBADMSG);
    cr_assert_eq(batch_traffic(out, record(out, traffic, "x", 1)), -EBADMSG, "unreadable");
}

/* A subscription names the beginning of a type: what only looks like an audit event is taken for
 * one. */
Test(batch, traffic_is_what_is_called_so_and_nothing_else)
{
    static const char http[] = "http_request_complete.v0";
    static const char *const others[] = {
        "api_key_created.v1",
        "api_key_created",
        "api_key_created.v0.",
        "domain_created.v00",
        "http_request_complete",
        "http_request_complete.",
        "http_request_complete.v",
        "http_request_complete.v0.",
        "http_request_complete.v0x",
        "http_request_completed.v0",
        "something_new.v0",
        "agent_session_start.v0",
        ".v0",
        "v0",
        "0",
        "http_request_complete.v0\n",
    };
    unsigned char out[512];

    cr_assert_eq(traffic_like(http, http, ""), 0);
    cr_assert_eq(traffic_like(http, http, ", \"principal\": null"), 0);
    cr_assert_eq(traffic_like("tcp_connection_closed.v17", "tcp_connection_closed.v17", ""), 0,
                 "an edge of another version");
    cr_assert_eq(traffic_like(http, "http_request_complete.v1", ""), -EBADMSG);
    cr_assert_eq(traffic_like(http, http, ", \"principal\": {\"id\": \"usr_1\"}"), -EBADMSG);
    cr_assert_eq(traffic_like(http, http, ", \"sequence\": 7"), -EBADMSG);
    for (size_t i = 0; i < LEN(others); i++) {
        if (!strchr(others[i], '\n')) {
            cr_assert_eq(traffic_like(others[i], others[i], ""), -EBADMSG, "%s", others[i]);
            cr_assert_eq(traffic_like(http, others[i], ""), -EBADMSG, "%s", others[i]);
            cr_assert_eq(batch_traffic(out, record(out, "", others[i], strlen(others[i]))),
                         -EBADMSG, "%s", others[i]);
        }
        cr_assert_eq(traffic_like(others[i], http, ""), -EBADMSG, "%s", others[i]);
    }
}

Test(batch, refuses_a_wrong_count_and_every_cut)
{
    cr_assert_neq(batch_check(two, sizeof(two) - 1, 3), 0);
    for (size_t n = 1; n + 1 < sizeof(two); n++)
        cr_assert_neq(batch_check(two, n, 2), 0, "cut at %zu", n);
}

/* One event of an audit batch with this JSON as its envelope. */
static size_t audit_at(const char *topic, unsigned char *out, const char *json)
{
    json_t *event = json_loads(json, JSON_ALLOW_NUL, NULL);
    msgpack_sbuffer body;
    size_t len;

    cr_assert_not_null(event);
    msgpack_sbuffer_init(&body);
    cr_assert_eq(pack_json(&body, event), 0);
    json_decref(event);
    len = record(out, topic, body.data, body.size);
    msgpack_sbuffer_destroy(&body);
    return len;
}

static size_t audit(unsigned char *out, const char *json)
{
    return audit_at("vault_created.v0", out, json);
}

Test(batch, takes_audit_events_whole_or_not_at_all)
{
    static const char good[] =
        "{\"event_id\": \"ev_1\", \"event_type\": \"vault_created.v0\", \"account_id\": \"ac_1\"}";
    static const char *const bad[] = {
        "[1]",
        "{}",
        "{\"event_id\": \"\", \"event_type\": \"vault_created.v0\", \"account_id\": \"ac_1\"}",
        "{\"event_id\": 1, \"event_type\": \"vault_created.v0\", \"account_id\": \"ac_1\"}",
        "{\"event_id\": \"ev_1\", \"event_type\": \"vault_created.v0\"}",
        "{\"event_id\": \"ev_1\", \"event_type\": \"vault_created.v0\", \"account_id\": \"ac_1\", "
        "\"sequence\": 7}",
        "{\"event_id\": \"ev 1\", \"event_type\": \"vault_created.v0\", \"account_id\": \"ac_1\"}",
        "{\"event_id\": \"ev_1\", \"event_type\": \"vault_created.v0\\n\", \"account_id\": "
        "\"ac_1\"}",
        "{\"event_id\": \"ev_1\", \"event_type\": \"vault_created.v0\", \"account_id\": "
        "\"\u00e9\"}",
        "{\"event_id\": \"ev_1\", \"event_type\": \"vault_created.v0\", \"account_id\": \"ac_1\", "
        "\"object\": "
        "{\"a\": [{\"b\": \"x\\u0000y\"}]}}",
    };
    unsigned char data[1024];
    json_t *events = NULL;
    size_t n = audit(data, good);

    cr_assert_eq(audit_of("identity", data, n, &events), 0);
    cr_assert_eq(json_array_size(events), 1);
    json_decref(events);
    cr_assert_neq(audit_of("identity", (const unsigned char *)"\x00\x00\x00\x00\x00", 5, &events),
                  0);
    for (size_t i = 0; i < LEN(bad); i++)
        cr_assert_neq(audit_of("identity", data, n + audit(data + n, bad[i]), &events), 0, "%s",
                      bad[i]);
}

/* What happened to a service's objects says that service. */
Test(batch, audit_events_are_of_the_service_that_says_them)
{
    static const struct {
        const char *service, *topic, *type;
        int r;
    } cases[] = {
        {"identity", "api_key_created.v0", "api_key_created.v0", 0},
        {"identity", "api_key_created.v1", "api_key_created.v1", 0}, /* a newer one */
        {"identity", "something_new.v0", "something_new.v0", 0},
        {"identity", "domain_created.v0", "domain_created.v0", -EBADMSG},
        {"identity", "domain_created.v1", "domain_created.v1", -EBADMSG},
        {"identity", "domain_createdness.v0", "domain_createdness.v0", -EBADMSG},
        {"identity", "domain_created", "domain_created", -EBADMSG},
        {"identity", "api_key_created", "api_key_created", -EBADMSG},
        {"identity", "vault_created.v0", "api_key_created.v0", -EBADMSG},
        {"identity", "http_request_complete.v0", "http_request_complete.v0", -EBADMSG},
        {"identity", "http_request_complete.v9", "http_request_complete.v9", -EBADMSG},
        {"routes", "domain_created.v0", "domain_created.v0", 0},
        {"routes", "api_key_created.v0", "api_key_created.v0", -EBADMSG},
        {"events", "event_destination_deleted.v0", "event_destination_deleted.v0", 0},
        {"events", "domain_created.v0", "domain_created.v0", -EBADMSG},
    };
    unsigned char data[1024];
    char json[256];

    for (size_t i = 0; i < LEN(cases); i++) {
        json_t *events = NULL;

        snprintf(json, sizeof(json),
                 "{\"event_id\": \"ev_1\", \"event_type\": \"%s\", \"account_id\": \"ac_1\"}",
                 cases[i].type);
        cr_assert_eq(
            audit_of(cases[i].service, data, audit_at(cases[i].topic, data, json), &events),
            cases[i].r, "%s: %s", cases[i].service, cases[i].type);
        json_decref(events);
    }
    for (const kind_t *kind = kind_all(); kind->name; kind++) {
        char type[96];

        snprintf(type, sizeof(type), "%s_updated.v0", kind->audit);
        cr_assert(event_type_is_of(type, kind->service), "%s", type);
    }
}

/* PostgreSQL has no room for them in an index. */
Test(batch, ids_of_audit_events_are_short)
{
    unsigned char data[1024];
    char json[512], id[200];
    json_t *events = NULL;

    memset(id, 'x', sizeof(id));
    for (size_t len = 128; len <= 129; len++) {
        snprintf(json, sizeof(json),
                 "{\"event_id\": \"%.*s\", \"event_type\": \"vault_created.v0\", \"account_id\": "
                 "\"ac_1\"}",
                 (int)len, id);
        cr_assert_eq(audit_of("identity", data, audit(data, json), &events),
                     len == 128 ? 0 : -EBADMSG);
    }
    json_decref(events);
}

static int header(const char *json, batch_t *ret_batch)
{
    json_t *value = json_loads(json, 0, NULL);
    msgpack_sbuffer packed;
    int r;

    cr_assert_not_null(value);
    msgpack_sbuffer_init(&packed);
    cr_assert_eq(pack_json(&packed, value), 0);
    json_decref(value);
    r = batch_header(packed.data, packed.size, ret_batch);
    msgpack_sbuffer_destroy(&packed);
    return r;
}

#define HEAD                                                                                       \
    "\"producer\": \"e/0/1\", \"family\": \"traffic\", \"seq\": \"7\", \"count\": 2, "             \
    "\"dropped\": 0"

Test(batch, a_header_may_say_where_the_body_lies)
{
    batch_t batch;

    cr_assert_eq(header("{" HEAD "}", &batch), 0);
    cr_assert_str_empty(batch.memory);
    cr_assert_eq(
        header("{" HEAD
               ", \"memory\": \"postern-events-0a\", \"body\": 4096, \"len\": 9, \"tail\": 64, "
               "\"at\": 5000}",
               &batch),
        0);
    cr_assert_str_eq(batch.memory, "postern-events-0a");
    cr_assert_eq(batch.body, 4096);
    cr_assert_eq(batch.len, 9);
    cr_assert_eq(batch.tail, 64);
    cr_assert_eq(batch.at, 5000);
    cr_assert_eq(header("{" HEAD ", \"memory\": \"postern-events-"
                        "0000000000000000000000000000000000000000000000000\"}",
                        &batch),
                 -EBADMSG);
}

/* Beyond them sums do not fit into what they are kept in. */
Test(batch, numbers_of_a_header_have_bounds)
{
    static const struct {
        const char *numbers;
        int r;
    } cases[] = {
        {"\"seq\": 9007199254740992, \"count\": 0, \"dropped\": 9007199254740992", 0},
        {"\"seq\": \"9007199254740993\", \"count\": 0, \"dropped\": 0", -EBADMSG},
        {"\"seq\": \"99999999999999999999\", \"count\": 0, \"dropped\": 0", -EBADMSG},
        {"\"seq\": 1, \"count\": 0, \"dropped\": 4611686018427387904", -EBADMSG},
        {"\"seq\": 1, \"count\": 3, \"dropped\": 9223372036854775807", -EBADMSG},
        {"\"seq\": 7, \"count\": 0, \"dropped\": 8", -EBADMSG},
        {"\"seq\": 7, \"count\": 4097, \"dropped\": 0", -EBADMSG},
        {"\"seq\": 0, \"count\": 0, \"dropped\": 0", -EBADMSG},
        {"\"seq\": 7, \"count\": -1, \"dropped\": 0", -EBADMSG},
        {"\"seq\": 7, \"count\": 0, \"dropped\": -1", -EBADMSG},
    };
    char json[256];
    batch_t batch;

    for (size_t i = 0; i < LEN(cases); i++) {
        snprintf(json, sizeof(json), "{\"producer\": \"e/0/1\", \"family\": \"traffic\", %s}",
                 cases[i].numbers);
        cr_assert_eq(header(json, &batch), cases[i].r, "%s", cases[i].numbers);
    }
}

/* Whoever sent it need not send it again for ever. */
Test(batch, a_header_that_is_none_may_say_who_can_be_answered)
{
    static const struct {
        const char *json, *producer;
        int64_t seq;
    } cases[] = {
        {"{\"producer\": \"e/0/1\", \"family\": \"traffic\", \"seq\": \"9007199254740993\"}",
         "e/0/1", (INT64_C(1) << 53) + 1},
        {"{\"producer\": \"e/0/1\", \"family\": \"traffic\", \"seq\": 7, \"dropped\": 8}", "e/0/1",
         7},
        {"{\"producer\": \"e/0/1\", \"family\": \"audit\", \"seq\": 7, \"count\": 4097}", "e/0/1",
         7},
        {"{\"producer\": \"e/0/1\", \"family\": \"traffic\", \"seq\": 0}", "", 0},
        {"{\"producer\": \"e/0/1\", \"family\": \"traffic\"}", "", 0},
        {"{\"producer\": \"e/0/1\", \"family\": \"other\", \"seq\": 7}", "", 0},
        {"{\"producer\": \"e/0/1\", \"seq\": 7}", "", 0},
        {"{\"producer\": \"\", \"family\": \"traffic\", \"seq\": 7}", "", 0},
        {"{\"family\": \"traffic\", \"seq\": 7}", "", 0},
        {"[7]", "", 0},
    };
    char long_name[600];
    batch_t batch;

    for (size_t i = 0; i < LEN(cases); i++) {
        cr_assert_eq(header(cases[i].json, &batch), -EBADMSG, "%s", cases[i].json);
        cr_assert_str_eq(batch.producer, cases[i].producer, "%s", cases[i].json);
        cr_assert_eq(batch.seq, cases[i].seq, "%s", cases[i].json);
    }
    snprintf(long_name, sizeof(long_name), "{%s, \"x\": \"%0500d\"}", HEAD, 0);
    cr_assert_eq(header(long_name, &batch), 0, "what is not known is passed over");
}

/* It is read before anything else is known of its sender: what is not worth decoding is not. */
Test(batch, a_header_has_few_bytes_and_fields)
{
    char json[1200], *end;
    batch_t batch;

    snprintf(json, sizeof(json), "{%s, \"x\": \"%01000d\"}", HEAD, 0);
    cr_assert_eq(header(json, &batch), -EBADMSG);
    cr_assert_str_empty(batch.producer);
    cr_assert_eq(header("{" HEAD ", \"x\": []}", &batch), -EBADMSG);
    cr_assert_eq(header("{" HEAD ", \"x\": {\"y\": 1}}", &batch), -EBADMSG);
    end = json + snprintf(json, sizeof(json), "{%s", HEAD);
    for (int i = 0; i < 16; i++)
        end += snprintf(end, 20, ", \"x%d\": 1", i);
    strcpy(end, "}");
    cr_assert_eq(header(json, &batch), -EBADMSG);
}
