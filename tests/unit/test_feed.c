/* The PUB socket with subscribers that are slow, gone, or back. */
#include "services/events/feed.h"
#include "common/bus/bus.h"
#include "common/base/cleanup.h"
#include "common/codec/pack.h"
#include "services/events/listeners.h"
#include "services/events/topics.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char dir[] = "/tmp/postern-feed-XXXXXX", endpoint[128], own_keys[128], their_keys[128],
            other_keys[128];

/* A key of its own, whose public half the other one lists under this name. */
static void make_key(const char *keys, const char *other, const char *name)
{
    zcert_t *cert = zcert_new();
    char path[200];

    zsys_dir_create("%s/peers", keys);
    zsys_dir_create("%s/peers", other);
    snprintf(path, sizeof(path), "%s/self.cert", keys);
    cr_assert_eq(zcert_save(cert, path), 0);
    snprintf(path, sizeof(path), "%s/peers/%s.cert", other, name);
    cr_assert_eq(zcert_save_public(cert, path), 0);
    zcert_destroy(&cert);
}

/* What one of them knows of a server, the other one knows, too. */
static void copy_key(const char *from, const char *to, const char *name)
{
    char command[400];

    zsys_dir_create("%s/peers", to);
    snprintf(command, sizeof(command), "cp %s/peers/%s.cert %s/peers/", from, name, to);
    cr_assert_eq(system(command), 0);
}

static void make_dir(void)
{
    cr_assert_not_null(mkdtemp(dir));
    snprintf(endpoint, sizeof(endpoint), "ipc://%s/pub", dir);
    snprintf(own_keys, sizeof(own_keys), "%s/events", dir);
    snprintf(their_keys, sizeof(their_keys), "%s/subscriber", dir);
    snprintf(other_keys, sizeof(other_keys), "%s/other", dir);
    make_key(own_keys, their_keys, "events");
    make_key(their_keys, own_keys, "subscriber");
    make_key(other_keys, own_keys, "subscriber@other");
    copy_key(their_keys, other_keys, "events");
}

static void remove_dir(void)
{
    char command[64];

    snprintf(command, sizeof(command), "rm -rf %s", dir);
    cr_assert_eq(system(command), 0);
}

TestSuite(feed, .init = make_dir, .fini = remove_dir, .timeout = 60);

static feed_t *feed(int mark, int return_ms)
{
    const feed_args_t args = {endpoint, own_keys, mark, return_ms};
    feed_t *self = NULL;

    cr_assert_eq(feed_new(&self, &args), 0, "%s", fault_text());
    return self;
}

static void wait_for_subscriptions(feed_t *self, int n)
{
    for (int i = 0; i < 10000 && feed_counts(self).subscriptions != n; i++) {
        zclock_sleep(2);
        feed_read(self);
    }
    cr_assert_eq(feed_counts(self).subscriptions, n);
}

/* A subscriber takes what it is given and keeps next to nothing itself. */
static zsock_t *subscriber(const char *prefix)
{
    zsock_t *sub =
        bus_connect_marked(ZMQ_SUB, (bus_marks_t){.receive = 1}, endpoint, their_keys, "events");

    zsock_set_subscribe(sub, prefix);
    zsock_set_rcvtimeo(sub, 500);
    return sub;
}

/* 0: nothing came. */
static int64_t receive(zsock_t *sub)
{
    _cleanup_(json_clear_ref) json_t *event = NULL;
    zmsg_t *msg = zmsg_recv(sub);
    zframe_t *body;
    int64_t number;

    if (!msg)
        return 0;
    cr_assert_eq(zmsg_size(msg), 2, "topic and envelope, as ever");
    body = zmsg_last(msg);
    cr_assert_eq(unpack_json(zframe_data(body), zframe_size(body), &event), 0);
    number = json_integer_value(json_object_get(event, "sequence"));
    zmsg_destroy(&msg);
    return number;
}

/* An envelope of some size, so that the kernel's buffers are soon full. */
static size_t envelope(char *out, size_t size)
{
    _cleanup_(json_clear_ref) json_t *event = json_pack("{s:s}", "event_id", "ev_1");
    _cleanup_(free_mem) char *text = calloc(1, 4001);
    msgpack_sbuffer packed;
    size_t n;

    memset(text, 'x', 4000);
    json_object_set_new(event, "text", json_string(text));
    msgpack_sbuffer_init(&packed);
    cr_assert_eq(pack_json(&packed, event), 0);
    n = packed.size;
    cr_assert_lt(n, size);
    memcpy(out, packed.data, n);
    msgpack_sbuffer_destroy(&packed);
    return n;
}

Test(feed, one_that_stands_still_is_passed_over_and_sees_which_events_it_missed)
{
    enum { EVENTS = 2000 };
    feed_t *self = feed(20, 0);
    zsock_t *slow = subscriber(""), *quick = subscriber("t");
    char data[8192];
    size_t len = envelope(data, sizeof(data));
    int64_t got = 0, missed = 0, last = 0, number;

    wait_for_subscriptions(self, 2);
    for (int64_t i = 1; i <= EVENTS; i++) {
        while (feed_send(self, "topic", 5, data, len, i) == -EAGAIN)
            zclock_sleep(5);
        cr_assert_eq(receive(quick), i, "the others get everything");
    }
    cr_assert_eq(feed_counts(self).passed_over, 1);
    cr_assert_eq(feed_counts(self).published, EVENTS);
    while ((number = receive(slow))) {
        missed += number - last - 1;
        last = number;
        got++;
    }
    while (feed_send(self, "topic", 5, data, len, EVENTS + 1) == -EAGAIN)
        zclock_sleep(5);
    number = receive(slow);
    cr_assert_eq(number, EVENTS + 1, "it is served again");
    missed += number - last - 1;
    cr_assert_gt(missed, 0);
    cr_assert_eq(got + missed, EVENTS);
    zsock_destroy(&slow);
    zsock_destroy(&quick);
    feed_destroy(&self);
}

Test(feed, an_envelope_of_any_number_of_fields_gets_its_own)
{
    static const size_t fields[] = {0, 6, 14, 15, 16, 300, 65535};
    feed_t *self = feed(1000, 0);
    zsock_t *sub = subscriber("");

    wait_for_subscriptions(self, 1);
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        msgpack_sbuffer out;
        msgpack_packer packer;

        msgpack_sbuffer_init(&out);
        msgpack_packer_init(&packer, &out, msgpack_sbuffer_write);
        msgpack_pack_map(&packer, fields[i]);
        for (size_t k = 0; k < fields[i]; k++) {
            char key[16];
            int n = snprintf(key, sizeof(key), "%zu", k);

            msgpack_pack_str(&packer, (size_t)n);
            msgpack_pack_str_body(&packer, key, (size_t)n);
            msgpack_pack_nil(&packer);
        }
        cr_assert_eq(feed_send(self, "t", 1, out.data, out.size, INT64_MAX - (int64_t)i), 0);
        cr_assert_eq(receive(sub), INT64_MAX - (int64_t)i, "%zu fields", fields[i]);
        cr_assert_eq(feed_send(self, "t", 1, out.data, out.size, NUMBER_NONE), 0);
        cr_assert_eq(receive(sub), 0, "none");
        msgpack_sbuffer_destroy(&out);
    }
    zsock_destroy(&sub);
    feed_destroy(&self);
}

Test(feed, after_a_restart_it_waits_for_those_who_were_there)
{
    feed_t *self = feed(10, 60000);
    zsock_t *one, *other;
    int missing;

    feed_expect(self, "http_", 2);
    cr_assert(feed_waits(self, &missing));
    cr_assert(feed_wants(self, "http_request_complete.v0"), "what they wanted is wanted still");
    cr_assert_not(feed_wants(self, "tcp_connection_closed.v0"));
    one = subscriber("http_");
    wait_for_subscriptions(self, 1);
    cr_assert(feed_waits(self, &missing));
    other = subscriber("http_");
    wait_for_subscriptions(self, 2);
    cr_assert_not(feed_waits(self, &missing));
    cr_assert_eq(missing, 0);
    zsock_destroy(&one);
    zsock_destroy(&other);
    feed_destroy(&self);
}

Test(feed, who_does_not_come_back_is_given_up_once)
{
    feed_t *self = feed(10, 100);
    int missing;

    feed_expect(self, "", 3);
    cr_assert(feed_waits(self, &missing));
    zclock_sleep(150);
    cr_assert_not(feed_waits(self, &missing));
    cr_assert_eq(missing, 3);
    cr_assert_not(feed_waits(self, &missing));
    cr_assert_eq(missing, 0);
    cr_assert_not(feed_wants(self, "any"));
    feed_destroy(&self);
}

Test(feed, says_who_listens_when_that_changes)
{
    feed_t *self = feed(10, 100);
    zsock_t *one = subscriber("a"), *two = subscriber("a"), *all = subscriber("");
    char *text;

    wait_for_subscriptions(self, 3);
    text = feed_listeners(self);
    cr_assert(!strcmp(text, "{\"a\":2,\"\":1}") || !strcmp(text, "{\"\":1,\"a\":2}"), "%s", text);
    free(text);
    cr_assert_null(feed_listeners(self));
    zsock_destroy(&two);
    zsock_destroy(&all);
    wait_for_subscriptions(self, 1);
    cr_assert(feed_wants(self, "b"), "for a moment");
    zclock_sleep(150);
    cr_assert_not(feed_wants(self, "b"));
    text = feed_listeners(self);
    cr_assert_str_eq(text, "{\"a\":1}");
    free(text);
    zsock_destroy(&one);
    feed_destroy(&self);
}

/* Nobody goes without events because somebody else has many wishes. */
Test(feed, who_comes_late_gets_what_it_wants_whatever_others_want)
{
    feed_t *self = feed(1000, 0);
    zsock_t *many = bus_connect_marked(ZMQ_SUB, (bus_marks_t){0}, endpoint, their_keys, "events");
    zsock_t *last = bus_connect_marked(ZMQ_SUB, (bus_marks_t){0}, endpoint, other_keys, "events");
    char prefix[32];

    for (int i = 0; i < SUBSCRIPTIONS_OF_KEY; i++) {
        snprintf(prefix, sizeof(prefix), "zz%06d", i);
        zsock_set_subscribe(many, prefix);
    }
    wait_for_subscriptions(self, SUBSCRIPTIONS_OF_KEY);
    cr_assert_not(feed_wants(self, "http_request_complete.v0"));
    zsock_set_subscribe(last, "http_request_c");
    wait_for_subscriptions(self, SUBSCRIPTIONS_OF_KEY + 1);
    cr_assert(feed_wants(self, "http_request_complete.v0"));
    zsock_destroy(&last);
    wait_for_subscriptions(self, SUBSCRIPTIONS_OF_KEY);
    cr_assert_not(feed_wants(self, "http_request_complete.v0"));
    zsock_destroy(&many);
    wait_for_subscriptions(self, 0);
    feed_destroy(&self);
}

/* A socket that says what it likes, and comes back when it is told to only. */
static zsock_t *stranger(int type, const char *keys)
{
    zsock_t *sock = zsock_new(type);
    char path[200];
    zcert_t *own, *server;

    snprintf(path, sizeof(path), "%s/self.cert_secret", keys);
    own = zcert_load(path);
    snprintf(path, sizeof(path), "%s/peers/events.cert", keys);
    server = zcert_load(path);
    zcert_apply(own, sock);
    zsock_set_curve_serverkey(sock, zcert_public_txt(server));
    zsock_set_reconnect_ivl(sock, -1);
    zsock_set_rcvtimeo(sock, 5000);
    zsock_set_linger(sock, 0);
    zsock_set_sndhwm(sock, 0);
    cr_assert_eq(zsock_connect(sock, "%s", endpoint), 0);
    zcert_destroy(&own);
    zcert_destroy(&server);
    return sock;
}

enum { ONLY_FIRST_SUBSCRIBE = 108 }; /* ZMQ_ONLY_FIRST_SUBSCRIBE, which zmq.h keeps for drafts */

/* XSUB sends no cancel of what it has not; behind another frame it looks at nothing. */
static void cancel(zsock_t *xsub, const char *prefix)
{
    char data[64];

    data[0] = 0;
    snprintf(data + 1, sizeof(data) - 1, "%s", prefix);
    cr_assert_eq(zmq_send(zsock_resolve(xsub), "\x02", 1, ZMQ_SNDMORE), 1);
    cr_assert_eq(zmq_send(zsock_resolve(xsub), data, 1 + strlen(prefix), 0),
                 1 + (int)strlen(prefix));
}

Test(feed, nobody_unsubscribes_others)
{
    feed_t *self = feed(1000, 0);
    zsock_t *one = subscriber("http_");
    zsock_t *liars[] = {stranger(ZMQ_XSUB, their_keys), stranger(ZMQ_XSUB, other_keys)};
    int yes = 1;
    char *text;

    wait_for_subscriptions(self, 1);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(
            zmq_setsockopt(zsock_resolve(liars[i]), ONLY_FIRST_SUBSCRIBE, &yes, sizeof(yes)), 0);
        for (int k = 0; k < 3; k++)
            cancel(liars[i], "http_");
        cr_assert_eq(zmq_send(zsock_resolve(liars[i]), "\x01z", 2, 0), 2);
        wait_for_subscriptions(self, 2 + i); /* all of it was read */
    }
    cr_assert(feed_wants(self, "http_request_complete.v0"));
    text = feed_listeners(self);
    cr_assert(!strcmp(text, "{\"http_\":1,\"z\":2}") || !strcmp(text, "{\"z\":2,\"http_\":1}"),
              "%s", text);
    free(text);
    cr_assert_eq(feed_send(self, "http_request_complete.v0", 24, "\x80", 1, 7), 0);
    cr_assert_eq(receive(one), 7);
    zsock_destroy(&one);
    wait_for_subscriptions(self, 2);
    cr_assert_not(feed_wants(self, "http_request_complete.v0"));
    zsock_destroy(&liars[0]);
    zsock_destroy(&liars[1]);
    wait_for_subscriptions(self, 0);
    feed_destroy(&self);
}

/* libzmq sends both, and removes one at its end. */
Test(feed, who_subscribes_twice_leaves_nothing_behind)
{
    feed_t *self = feed(1000, 0);
    zsock_t *sub = subscriber("a");

    zsock_set_subscribe(sub, "a");
    zsock_set_subscribe(sub, "b");
    wait_for_subscriptions(self, 2);
    zsock_destroy(&sub);
    wait_for_subscriptions(self, 0);
    cr_assert_not(feed_wants(self, "a"));
    feed_destroy(&self);
}

/* Who asks for more than is remembered gets it, and nobody else is sent away or goes without. */
Test(feed, a_key_has_so_many_subscriptions)
{
    feed_t *self = feed(1000, 0);
    zsock_t *same = stranger(ZMQ_SUB, their_keys), *other = stranger(ZMQ_SUB, other_keys);
    zsock_t *greedy = stranger(ZMQ_SUB, their_keys);
    char prefix[32];

    zsock_set_subscribe(same, "http_");
    zsock_set_subscribe(other, "http_");
    wait_for_subscriptions(self, 2);
    for (int i = 0; i < 4 * SUBSCRIPTIONS_OF_KEY; i++) {
        snprintf(prefix, sizeof(prefix), "zz%06d", i);
        zsock_set_subscribe(greedy, prefix);
    }
    zsock_set_subscribe(greedy, "tcp_");
    wait_for_subscriptions(self, 3 + 4 * SUBSCRIPTIONS_OF_KEY);
    cr_assert_eq(feed_counts(self).beyond, 3 * SUBSCRIPTIONS_OF_KEY + 2);
    cr_assert(feed_wants(self, "tcp_connection_closed.v0"));
    cr_assert_eq(feed_send(self, "tcp_connection_closed.v0", 24, "\x80", 1, 6), 0);
    cr_assert_eq(receive(greedy), 6);
    zsock_destroy(&greedy);
    wait_for_subscriptions(self, 2);
    cr_assert_eq(feed_counts(self).beyond, 0);
    cr_assert_not(feed_wants(self, "tcp_connection_closed.v0"));
    cr_assert(feed_wants(self, "http_request_complete.v0"),
              "what greedy's end took away was its own");
    cr_assert_eq(feed_send(self, "http_request_complete.v0", 24, "\x80", 1, 7), 0);
    cr_assert_eq(receive(same), 7);
    cr_assert_eq(receive(other), 7);
    zsock_destroy(&same);
    zsock_destroy(&other);
    wait_for_subscriptions(self, 0);
    feed_destroy(&self);
}

/* Whoever says more than it can be read in a while holds up nothing else. */
Test(feed, is_read_some_of_it_at_a_time)
{
    feed_t *self = feed(1000, 0);
    zsock_t *sub = stranger(ZMQ_SUB, their_keys);
    char prefix[32];
    int turns = 0;

    for (int i = 0; i < 1000; i++) {
        snprintf(prefix, sizeof(prefix), "zz%06d", i);
        zsock_set_subscribe(sub, prefix);
    }
    for (int i = 0; i < 20000 && feed_counts(self).subscriptions < 1000; i++) {
        int before = feed_counts(self).subscriptions;

        zclock_sleep(i ? 1 : 500);
        feed_read(self);
        cr_assert_leq(feed_counts(self).subscriptions, before + 256);
        turns += feed_counts(self).subscriptions > before;
    }
    cr_assert_eq(feed_counts(self).subscriptions, 1000);
    cr_assert_geq(turns, 4);
    zsock_destroy(&sub);
    feed_destroy(&self);
}
