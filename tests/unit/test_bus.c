/* The bus against strangers: SECURITY-CASES 52 and ZeroMQ's own traps. A test that hangs is killed. */
#include "common/bus.h"
#include "common/cleanup.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static char dir[] = "/tmp/postern-bus-XXXXXX";

static void make_dirs(void)
{
    cr_assert_not_null(mkdtemp(dir));
}

static void remove_dirs(void)
{
    char command[64];

    snprintf(command, sizeof(command), "rm -rf %s", dir);
    cr_assert_eq(system(command), 0);
}

/* A key of its own, and the public keys of the peers it may talk to. */
static const char *make_keys(const char *name, const char *const *peers)
{
    static char out[3][512];
    static int next;
    char path[512], *home = out[next++ % 3];
    zcert_t *cert = zcert_new();

    snprintf(home, sizeof(out[0]), "%s/%s", dir, name);
    zsys_dir_create("%s/peers", home);
    snprintf(path, sizeof(path), "%s/self.cert", home);
    cr_assert_eq(zcert_save(cert, path), 0);
    zcert_destroy(&cert);
    for (; *peers; peers++) {
        snprintf(path, sizeof(path), "%s/%s/self.cert", dir, *peers);
        cert = zcert_load(path);
        cr_assert_not_null(cert, "%s", path);
        snprintf(path, sizeof(path), "%s/peers/%s.cert", home, *peers);
        zcert_save_public(cert, path);
        zcert_destroy(&cert);
    }
    return home;
}

static void add_peer(const char *home, const char *name)
{
    char path[512];
    zcert_t *cert;

    snprintf(path, sizeof(path), "%s/%s/self.cert", dir, name);
    cert = zcert_load(path);
    snprintf(path, sizeof(path), "%s/peers/%s.cert", home, name);
    zcert_save_public(cert, path);
    zcert_destroy(&cert);
}

static bool hears(zsock_t *server, const char *word)
{
    _cleanup_(free_mem) char *got = NULL;
    zmsg_t *msg;

    zsock_set_rcvtimeo(server, 1000);
    while ((msg = zmsg_recv(server))) {
        free(got);
        zframe_t *identity = zmsg_pop(msg);

        zframe_destroy(&identity);
        got = zmsg_popstr(msg);
        zmsg_destroy(&msg);
        if (got && !strcmp(got, word))
            return true;
    }
    return false;
}

TestSuite(bus, .init = make_dirs, .fini = remove_dirs, .timeout = 60);

Test(bus, class_only_known_keys_get_in_case_52)
{
    static const char *const none[] = {NULL}, *const server_only[] = {"server", NULL};
    const char *server_dir = make_keys("server", none), *friend_dir, *stranger_dir;
    zsock_t *server, *friend, *stranger, *plain;
    char endpoint[64];

    friend_dir = make_keys("friend", server_only);
    stranger_dir = make_keys("stranger", server_only);
    add_peer(server_dir, "friend");
    server = bus_bind(ZMQ_ROUTER, "tcp://127.0.0.1:*", server_dir);
    cr_assert_not_null(server, "%s", fault_text());
    snprintf(endpoint, sizeof(endpoint), "%s", zsock_endpoint(server));
    stranger = bus_connect(ZMQ_DEALER, endpoint, stranger_dir, "server");
    plain = zsock_new(ZMQ_DEALER);
    zsock_set_linger(plain, 0);
    zsock_connect(plain, "%s", endpoint);
    zstr_send(stranger, "stranger");
    zstr_send(plain, "plain");
    friend = bus_connect(ZMQ_DEALER, endpoint, friend_dir, "server");
    zstr_send(friend, "friend");
    cr_assert(hears(server, "friend"));
    cr_assert_not(hears(server, "stranger"), "nothing more within a second");
    zsock_destroy(&plain);
    zsock_destroy(&stranger);
    zsock_destroy(&friend);
    zsock_destroy(&server);
}

Test(bus, class_tcp_needs_keys_case_52)
{
    cr_assert_null(bus_bind(ZMQ_ROUTER, "tcp://127.0.0.1:*", ""));
    cr_assert_null(bus_connect(ZMQ_DEALER, "tcp://127.0.0.1:1", "", "server"));
    cr_assert_null(bus_bind(ZMQ_XPUB, "tcp://127.0.0.1:*", "/nonexistent"));
}

static int tcp_connect(const char *endpoint)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    address.sin_port = htons((uint16_t)atoi(strrchr(endpoint, ':') + 1));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    cr_assert_eq(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

/* CVE-2019-13132, CVE-2020-15166, GHSA-fc3w-qxf5-7hp6: old protocol versions, absurd lengths, cut
 * greetings and noise, before any key was shown. */
Test(bus, class_broken_greetings_case_52)
{
    static const char *const none[] = {NULL}, *const server_only[] = {"server", NULL};
    static const struct {
        const char *bytes;
        size_t len;
    } greetings[] = {
#define BYTES(text) {text, sizeof(text) - 1}
        BYTES("\x01\x00"),                                     /* ZMTP 1.0, anonymous */
        BYTES("\x01\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff"), /* 1.0, a frame of 2^64 bytes */
        BYTES("\x11\x00identity-of-16-by\x05\x00hello"),
        BYTES("\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f\x01\x05\x00\x00"), /* ZMTP 2.0 */
        BYTES("\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f\x03\x00NULL"),
        BYTES("\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f\x03\x00"
              "CURVE\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
              "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
              "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
              "\x06\xff\xff\xff\xff\xff\xff\xff\xff\x05HELLO"),
        BYTES("GET / HTTP/1.1\r\n\r\n"),
        BYTES("\x00"),
#undef BYTES
    };
    const char *server_dir = make_keys("server", none), *friend_dir;
    zsock_t *server, *friend;
    char noise[4096], endpoint[64];
    unsigned seed = 7;

    friend_dir = make_keys("friend", server_only);
    add_peer(server_dir, "friend");
    server = bus_bind(ZMQ_ROUTER, "tcp://127.0.0.1:*", server_dir);
    snprintf(endpoint, sizeof(endpoint), "%s", zsock_endpoint(server));
    for (int i = 0; i < 200; i++) {
        size_t which = (size_t)i % (sizeof(greetings) / sizeof(greetings[0]));
        int fd = tcp_connect(endpoint);

        if (i < 100) {
            (void)!write(fd, greetings[which].bytes, greetings[which].len);
        } else {
            for (size_t k = 0; k < sizeof(noise); k++)
                noise[k] = (char)rand_r(&seed);
            memcpy(noise, greetings[which].bytes, greetings[which].len);
            (void)!write(fd, noise, (size_t)rand_r(&seed) % sizeof(noise));
        }
        close(fd);
    }
    friend = bus_connect(ZMQ_DEALER, endpoint, friend_dir, "server");
    zstr_send(friend, "friend");
    cr_assert(hears(server, "friend"), "it still serves those it knows");
    zsock_destroy(&friend);
    zsock_destroy(&server);
}

/* GHSA-qq65-x72m-9wr8: unsubscribing deep prefixes recursed until the stack was gone. */
Test(bus, class_recursive_unsubscribe_case_52)
{
    char endpoint[128], *prefix = calloc(1, 20001);
    zsock_t *pub, *sub;

    snprintf(endpoint, sizeof(endpoint), "ipc://%s/pub", dir);
    pub = bus_bind(ZMQ_XPUB, endpoint, "");
    cr_assert_not_null(pub);
    for (int round = 0; round < 3; round++) {
        sub = bus_connect(ZMQ_SUB, endpoint, "", "events");
        memset(prefix, 'a', 20000);
        for (int len = 20000; len > 0; len -= 400) {
            prefix[len] = '\0';
            zsock_set_subscribe(sub, prefix);
        }
        for (int len = 400; len <= 20000; len += 800) {
            memset(prefix, 'a', (size_t)len);
            prefix[len] = '\0';
            zsock_set_unsubscribe(sub, prefix);
        }
        zclock_sleep(100);
        zsock_destroy(&sub);
    }
    sub = bus_connect(ZMQ_SUB, endpoint, "", "events");
    zsock_set_subscribe(sub, "topic");
    zsock_set_rcvtimeo(sub, 20);
    zsock_set_rcvtimeo(pub, 20);
    for (int i = 0; i < 500; i++) {
        _cleanup_(free_mem) char *got = NULL;
        zframe_t *frame = zframe_recv(pub);

        zframe_destroy(&frame);
        zstr_send(pub, "topic");
        got = zstr_recv(sub);
        if (got) {
            zsock_destroy(&sub);
            zsock_destroy(&pub);
            free(prefix);
            return;
        }
    }
    cr_assert_fail("the publisher no longer publishes");
}

/* libzmq 4.3.4: a socket over ipc that is at its receive mark when its peers go aborts at the next
 * read, or hangs in ctx_term. The intake has no mark and drains before it closes: the process ends. */
Test(bus, trap_08_a_full_intake_over_ipc_closes)
{
    char endpoint[128];
    pid_t producer;
    zsock_t *server;

    snprintf(endpoint, sizeof(endpoint), "ipc://%s/intake", dir);
    producer = fork();
    if (producer == 0) {
        void *context = zmq_ctx_new(), *out = zmq_socket(context, ZMQ_DEALER);
        int hwm = 20000;

        zmq_setsockopt(out, ZMQ_SNDHWM, &hwm, sizeof(hwm));
        zmq_connect(out, endpoint);
        for (int i = 0; i < 10000; i++)
            zmq_send(out, endpoint, sizeof(endpoint), ZMQ_DONTWAIT);
        sleep(2);
        _exit(0); /* killed with messages on the way */
    }
    server = bus_bind_intake(endpoint, "");
    cr_assert_not_null(server);
    zclock_sleep(1000);
    kill(producer, SIGKILL);
    zclock_sleep(200);
    bus_drain(server);
    zsock_destroy(&server);
    zsys_shutdown(); /* ctx_term: hangs when the trap is open */
}

/* libzmq takes marks when a socket binds or connects: set later they change nothing, and a subscriber that stands still for a
 * moment misses all but the first thousand. */
Test(bus, marks_hold_from_the_first_connection)
{
    enum { MESSAGES = 20000 };
    char endpoint[128];
    zsock_t *pub, *sub;
    zframe_t *frame;
    int got = 0;

    snprintf(endpoint, sizeof(endpoint), "ipc://%s/marks", dir);
    pub = bus_bind_marked(ZMQ_XPUB, (bus_marks_t){.send = MESSAGES}, endpoint, "");
    sub = bus_connect_marked(ZMQ_SUB, (bus_marks_t){.receive = 10}, endpoint, "", "events");
    zsock_set_subscribe(sub, "");
    frame = zframe_recv(pub);
    zframe_destroy(&frame);
    for (int i = 0; i < MESSAGES; i++)
        zstr_send(pub, "one of many, which the subscriber does not read for now");
    zsock_set_rcvtimeo(sub, 2000);
    while (got < MESSAGES && (frame = zframe_recv(sub))) {
        zframe_destroy(&frame);
        got++;
    }
    cr_assert_eq(got, MESSAGES);
    zsock_destroy(&sub);
    zsock_destroy(&pub);
}
