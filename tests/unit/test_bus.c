/* The bus against strangers: SECURITY-CASES 52 and ZeroMQ's own traps. A test that hangs is killed.
 */
#include "common/bus/bus.h"
#include "common/bus/heartbeat.h"
#include "common/base/cleanup.h"
#include "common/base/files.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
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

/* Keys of a server and of one that it lets in. */
static void make_pair(const char *server, const char *client, const char **ret_server,
                      const char **ret_client)
{
    const char *const none[] = {NULL}, *const server_only[] = {server, NULL};

    *ret_server = make_keys(server, none);
    *ret_client = make_keys(client, server_only);
    add_peer(*ret_server, client);
}

/* The same keys for a socket that is not CZMQ's. */
static void show_keys(void *sock, const char *home, const char *server)
{
    char path[600];
    zcert_t *cert;

    snprintf(path, sizeof(path), "%s/self.cert", home);
    cert = zcert_load(path);
    zmq_setsockopt(sock, ZMQ_CURVE_PUBLICKEY, zcert_public_txt(cert), 41);
    zmq_setsockopt(sock, ZMQ_CURVE_SECRETKEY, zcert_secret_txt(cert), 41);
    zcert_destroy(&cert);
    snprintf(path, sizeof(path), "%s/peers/%s.cert", home, server);
    cert = zcert_load(path);
    zmq_setsockopt(sock, ZMQ_CURVE_SERVERKEY, zcert_public_txt(cert), 41);
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
    static const char *const none[] = {NULL}, *const server_only[] = {"routes", NULL};
    const char *server_dir = make_keys("routes", none), *friend_dir, *stranger_dir;
    zsock_t *server, *friend, *stranger, *plain;
    char endpoint[64];

    friend_dir = make_keys("edge@friend", server_only);
    stranger_dir = make_keys("edge@stranger", server_only);
    add_peer(server_dir, "edge@friend");
    server = bus_bind(ZMQ_ROUTER, "tcp://127.0.0.1:*", server_dir, SOCKET_ROUTES_LOG);
    cr_assert_not_null(server, "%s", fault_text());
    snprintf(endpoint, sizeof(endpoint), "%s", zsock_endpoint(server));
    stranger = bus_connect(ZMQ_DEALER, endpoint, stranger_dir, "routes");
    plain = zsock_new(ZMQ_DEALER);
    zsock_set_linger(plain, 0);
    zsock_connect(plain, "%s", endpoint);
    zstr_send(stranger, "stranger");
    zstr_send(plain, "plain");
    friend = bus_connect(ZMQ_DEALER, endpoint, friend_dir, "routes");
    zstr_send(friend, "friend");
    cr_assert(hears(server, "friend"));
    cr_assert_not(hears(server, "stranger"), "nothing more within a second");
    zsock_destroy(&plain);
    zsock_destroy(&stranger);
    zsock_destroy(&friend);
    zsock_destroy(&server);
}

Test(bus, class_every_socket_needs_keys_case_52)
{
    char endpoint[128];

    snprintf(endpoint, sizeof(endpoint), "ipc://%s/sock", dir);
    cr_assert_null(bus_bind(ZMQ_ROUTER, "tcp://127.0.0.1:*", "", SOCKET_ROUTES_LOG));
    cr_assert_null(bus_bind(ZMQ_ROUTER, endpoint, "", SOCKET_ROUTES_LOG));
    cr_assert_null(bus_connect(ZMQ_DEALER, "tcp://127.0.0.1:1", "", "routes"));
    cr_assert_null(bus_connect(ZMQ_DEALER, endpoint, "", "routes"));
    cr_assert_null(bus_bind(ZMQ_XPUB, "tcp://127.0.0.1:*", "/nonexistent", SOCKET_PUB));
}

/* A key is good for the sockets that its role has business at, and what is added or taken away
 * counts for the next connection. */
Test(bus, a_key_opens_what_its_role_may_and_no_longer_than_it_is_listed)
{
    static const char *const none[] = {NULL}, *const events_only[] = {"events", NULL};
    const char *server_dir = make_keys("events", none);
    const char *edge_dir = make_keys("edge@one", events_only);
    const char *watcher_dir = make_keys("subscriber", events_only);
    char intake[128], pub[128], path[700];
    zsock_t *in, *out, *sock;

    snprintf(intake, sizeof(intake), "ipc://%s/intake", dir);
    snprintf(pub, sizeof(pub), "ipc://%s/pub", dir);
    add_peer(server_dir, "edge@one");
    in = bus_bind_intake(intake, server_dir);
    out = bus_bind(ZMQ_XPUB, pub, server_dir, SOCKET_PUB);
    cr_assert(in && out, "%s", fault_text());
    cr_assert_not_null(
        sock = bus_connect_known(ZMQ_DEALER, (bus_marks_t){0}, intake, edge_dir, "events", 5000));
    zsock_destroy(&sock);
    cr_assert_null(bus_connect_known(ZMQ_SUB, (bus_marks_t){0}, pub, edge_dir, "events", 5000));
    cr_assert_null(bus_connect_known(ZMQ_SUB, (bus_marks_t){0}, pub, watcher_dir, "events", 5000),
                   "it is not listed");
    add_peer(server_dir, "subscriber");
    cr_assert_not_null(
        sock = bus_connect_known(ZMQ_SUB, (bus_marks_t){0}, pub, watcher_dir, "events", 5000));
    zsock_destroy(&sock);
    snprintf(path, sizeof(path), "%s/peers/subscriber.cert", server_dir);
    cr_assert_eq(unlink(path), 0);
    cr_assert_null(bus_connect_known(ZMQ_SUB, (bus_marks_t){0}, pub, watcher_dir, "events", 5000),
                   "it was listed");
    zsock_destroy(&out);
    bus_drain(in);
    zsock_destroy(&in);
}

/* As cp, some editors and a container's mount of one file do it: nothing of the folder changes. */
static void write_over(const char *home, const char *name, const char *content)
{
    char path[700];
    FILE *file;

    snprintf(path, sizeof(path), "%s/peers/%s.cert", home, name);
    file = fopen(path, "r+");
    cr_assert(file && !ftruncate(fileno(file), 0));
    cr_assert_geq(fputs(content, file), 0);
    fclose(file);
}

Test(bus, a_key_that_is_written_over_in_place_opens_nothing_any_more)
{
    static const char *const none[] = {NULL}, *const events_only[] = {"events", NULL};
    const char *server_dir = make_keys("events", none);
    const char *edge_dir = make_keys("edge@one", events_only);
    const char *next_dir = make_keys("edge@next", events_only);
    char intake[128], path[700], content[4096] = "";
    zsock_t *in, *sock;
    FILE *file;

    snprintf(intake, sizeof(intake), "ipc://%s/intake", dir);
    add_peer(server_dir, "edge@one");
    add_peer(server_dir, "edge@next");
    snprintf(path, sizeof(path), "%s/peers/edge@next.cert", server_dir);
    file = fopen(path, "r");
    cr_assert(file && fread(content, 1, sizeof(content) - 1, file) > 0);
    fclose(file);
    cr_assert_eq(unlink(path), 0);
    in = bus_bind_intake(intake, server_dir);
    zclock_sleep(
        3100); /* nothing has changed for so long that it is not read again for that alone */
    sock = bus_connect_known(ZMQ_DEALER, (bus_marks_t){0}, intake, edge_dir, "events", 5000);
    cr_assert_not_null(sock);
    zsock_destroy(&sock);
    write_over(server_dir, "edge@one", content);
    cr_assert_null(
        bus_connect_known(ZMQ_DEALER, (bus_marks_t){0}, intake, edge_dir, "events", 5000));
    sock = bus_connect_known(ZMQ_DEALER, (bus_marks_t){0}, intake, next_dir, "events", 5000);
    cr_assert_not_null(sock, "the key that is there now");
    zsock_destroy(&sock);
    write_over(server_dir, "edge@one", "");
    cr_assert_null(
        bus_connect_known(ZMQ_DEALER, (bus_marks_t){0}, intake, next_dir, "events", 5000));
    bus_drain(in);
    zsock_destroy(&in);
}

/* Who has no role by its file's name, or the key of somebody else, is nobody. */
Test(bus, a_key_in_two_files_or_of_no_role_is_nobody_s)
{
    static const char *const none[] = {NULL}, *const events_only[] = {"events", NULL};
    const char *server_dir = make_keys("events", none),
               *edge_dir = make_keys("edge@one", events_only);
    char intake[128], from[700], to[700];
    zsock_t *in, *sock;

    snprintf(intake, sizeof(intake), "ipc://%s/intake", dir);
    in = bus_bind_intake(intake, server_dir);
    cr_assert_not_null(in, "%s", fault_text());
    add_peer(server_dir, "edge@one");
    snprintf(from, sizeof(from), "%s/peers/edge@one.cert", server_dir);
    snprintf(to, sizeof(to), "%s/peers/admin.cert", server_dir);
    cr_assert_eq(rename(from, to), 0);
    cr_assert_null(
        bus_connect_known(ZMQ_DEALER, (bus_marks_t){0}, intake, edge_dir, "events", 5000));
    add_peer(server_dir, "edge@one");
    cr_assert_not_null(
        sock = bus_connect_known(ZMQ_DEALER, (bus_marks_t){0}, intake, edge_dir, "events", 5000));
    zsock_destroy(&sock);
    snprintf(to, sizeof(to), "%s/peers/edge@two.cert", server_dir);
    cr_assert_eq(link(from, to), 0);
    cr_assert_null(
        bus_connect_known(ZMQ_DEALER, (bus_marks_t){0}, intake, edge_dir, "events", 5000));
    bus_drain(in);
    zsock_destroy(&in);
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
    static const char *const none[] = {NULL}, *const server_only[] = {"routes", NULL};
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
    const char *server_dir = make_keys("routes", none), *friend_dir;
    zsock_t *server, *friend;
    char noise[4096], endpoint[64];
    unsigned seed = 7;

    friend_dir = make_keys("edge@friend", server_only);
    add_peer(server_dir, "edge@friend");
    server = bus_bind(ZMQ_ROUTER, "tcp://127.0.0.1:*", server_dir, SOCKET_ROUTES_LOG);
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
    friend = bus_connect(ZMQ_DEALER, endpoint, friend_dir, "routes");
    zstr_send(friend, "friend");
    cr_assert(hears(server, "friend"), "it still serves those it knows");
    zsock_destroy(&friend);
    zsock_destroy(&server);
}

/* GHSA-qq65-x72m-9wr8: unsubscribing deep prefixes recursed until the stack was gone. */
Test(bus, class_recursive_unsubscribe_case_52)
{
    char endpoint[128], *prefix = calloc(1, 20001);
    const char *server_dir, *watcher_dir;
    zsock_t *pub, *sub;

    make_pair("events", "subscriber", &server_dir, &watcher_dir);
    snprintf(endpoint, sizeof(endpoint), "ipc://%s/pub", dir);
    pub = bus_bind(ZMQ_XPUB, endpoint, server_dir, SOCKET_PUB);
    cr_assert_not_null(pub);
    for (int round = 0; round < 3; round++) {
        sub = bus_connect(ZMQ_SUB, endpoint, watcher_dir, "events");
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
    sub = bus_connect(ZMQ_SUB, endpoint, watcher_dir, "events");
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
 * read, or hangs in ctx_term. The intake has no mark and drains before it closes: the process ends.
 */
Test(bus, trap_08_a_full_intake_over_ipc_closes)
{
    char endpoint[128];
    const char *server_dir, *edge_dir;
    pid_t producer;
    zsock_t *server;

    make_pair("events", "edge@one", &server_dir, &edge_dir);
    snprintf(endpoint, sizeof(endpoint), "ipc://%s/intake", dir);
    producer = fork();
    if (producer == 0) {
        void *context = zmq_ctx_new(), *out = zmq_socket(context, ZMQ_DEALER);
        int hwm = 20000;

        zmq_setsockopt(out, ZMQ_SNDHWM, &hwm, sizeof(hwm));
        show_keys(out, edge_dir, "events");
        zmq_connect(out, endpoint);
        for (int i = 0; i < 10000; i++)
            zmq_send(out, endpoint, sizeof(endpoint), ZMQ_DONTWAIT);
        sleep(2);
        _exit(0); /* killed with messages on the way */
    }
    server = bus_bind_intake(endpoint, server_dir);
    cr_assert_not_null(server);
    zclock_sleep(1000);
    kill(producer, SIGKILL);
    zclock_sleep(200);
    bus_drain(server);
    zsock_destroy(&server);
    peer_stop();
    zsys_shutdown(); /* ctx_term: hangs when the trap is open */
}

/* libzmq aborts where it asks for a sign of life on a connection that ended while it was not read
 * (common/bus/heartbeat.h): a peer whose key is known could end a service by that. */
Test(bus, a_peer_that_goes_while_it_is_not_read_ends_nobody)
{
    char endpoint[128];
    const char *server_dir, *edge_dir;
    pid_t producer;
    zsock_t *server;
    int got = 0;

    make_pair("routes", "edge@one", &server_dir, &edge_dir);
    snprintf(endpoint, sizeof(endpoint), "ipc://%s/log", dir);
    producer = fork();
    if (producer == 0) {
        void *context = zmq_ctx_new(), *out = zmq_socket(context, ZMQ_DEALER);
        int hwm = 20000;

        zmq_setsockopt(out, ZMQ_SNDHWM, &hwm, sizeof(hwm));
        show_keys(out, edge_dir, "routes");
        zmq_connect(out, endpoint);
        for (int i = 0; i < 10000; i++)
            zmq_send(out, endpoint, sizeof(endpoint), ZMQ_DONTWAIT);
        sleep(10);
        _exit(0); /* killed with messages on the way */
    }
    server = bus_bind_marked(ZMQ_ROUTER, (bus_marks_t){.send = 10, .receive = 10}, endpoint,
                             server_dir, SOCKET_ROUTES_LOG);
    cr_assert_not_null(server);
    while (!(zsock_events(server) & ZMQ_POLLIN))
        zclock_sleep(10);
    zclock_sleep(300);
    kill(producer, SIGKILL);
    zclock_sleep(HEARTBEAT_MS + 500); /* the next question would be due */
    zsock_set_rcvtimeo(server, 500);
    for (zmsg_t *msg; (msg = zmsg_recv(server)); got++)
        zmsg_destroy(&msg);
    cr_assert(got > 10, "%d", got);
    zsock_destroy(&server);
    peer_stop();
    zsys_shutdown();
}

/* libzmq takes marks when a socket binds or connects: set later they change nothing, and a
 * subscriber that stands still for a moment misses all but the first thousand. */
Test(bus, marks_hold_from_the_first_connection)
{
    enum { MESSAGES = 20000 };
    char endpoint[128];
    const char *server_dir, *watcher_dir;
    zsock_t *pub, *sub;
    zframe_t *frame;
    int got = 0;

    make_pair("events", "subscriber", &server_dir, &watcher_dir);
    snprintf(endpoint, sizeof(endpoint), "ipc://%s/marks", dir);
    pub = bus_bind_marked(ZMQ_XPUB, (bus_marks_t){.send = MESSAGES}, endpoint, server_dir,
                          SOCKET_PUB);
    sub =
        bus_connect_marked(ZMQ_SUB, (bus_marks_t){.receive = 10}, endpoint, watcher_dir, "events");
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

/* A connection whose next event is this one. */
static bool happens(zsock_t *watch, int event)
{
    zframe_t *frame;
    uint16_t number = 0;

    zsock_set_rcvtimeo(watch, 20000);
    while (number != event && (frame = zframe_recv(watch))) {
        if (zframe_more(frame) && zframe_size(frame) >= sizeof(number))
            memcpy(&number, zframe_data(frame), sizeof(number));
        zframe_destroy(&frame);
    }
    return number == event;
}

/* libzmq keeps all frames of a message before anybody can look at it: a peer gets no more room than
 * it has things to say. */
static void say_too_much(socket_id_t id, int types[2], const char *names[2], size_t most)
{
    const char *server_dir, *client_dir;
    zsock_t *server, *client, *watch;
    char endpoint[128], said[64], *text = calloc(1, most + 1);
    zframe_t *frame;

    make_pair(names[0], names[1], &server_dir, &client_dir);
    snprintf(endpoint, sizeof(endpoint), "ipc://%s/socket-%d", dir, (int)id);
    server = id == SOCKET_INTAKE ? bus_bind_intake(endpoint, server_dir)
                                 : bus_bind(types[0], endpoint, server_dir, id);
    cr_assert_not_null(server, "%s", fault_text());
    client = bus_connect(types[1], endpoint, client_dir, names[0]);
    snprintf(said, sizeof(said), "inproc://said-%d",
             (int)id); /* the last name may not be free yet */
    cr_assert_eq(zmq_socket_monitor(zsock_resolve(client), said, ZMQ_EVENT_DISCONNECTED), 0);
    watch = zsock_new_pair(said);
    text[0] = 1; /* subscribe */
    cr_assert_geq(zmq_send(zsock_resolve(client), text, most, 0), 0);
    zsock_set_rcvtimeo(server, 20000);
    do
        frame = zframe_recv(server);
    while (frame && zframe_size(frame) != most && (zframe_destroy(&frame), true));
    cr_assert_not_null(frame, "%zu bytes", most);
    zframe_destroy(&frame);
    free(text);
    text = calloc(1, most + 2048);
    text[0] = 1;
    cr_assert_geq(zmq_send(zsock_resolve(client), text, most + 2048, 0), 0);
    cr_assert(happens(watch, ZMQ_EVENT_DISCONNECTED), "%zu bytes", most + 2048);
    free(text);
    zmq_socket_monitor(zsock_resolve(client), NULL, 0);
    zsock_destroy(&watch);
    zsock_destroy(&client);
    bus_drain(server);
    zsock_destroy(&server);
    peer_stop(); /* the next one has other keys */
}

Test(bus, a_frame_is_as_large_as_what_peers_of_the_socket_say)
{
    say_too_much(SOCKET_ROUTES_LOG, (int[]){ZMQ_ROUTER, ZMQ_DEALER},
                 (const char *[]){"routes", "edge@log"}, 256);
    say_too_much(SOCKET_EVENTS_RPC, (int[]){ZMQ_ROUTER, ZMQ_DEALER},
                 (const char *[]){"events", "cli@rpc"}, BUS_REQUEST_MAX);
}

Test(bus, a_batch_and_a_prefix_have_their_size_too)
{
    say_too_much(SOCKET_INTAKE, (int[]){ZMQ_ROUTER, ZMQ_DEALER},
                 (const char *[]){"events", "edge@in"}, BUS_BATCH_MAX);
    say_too_much(SOCKET_PUB, (int[]){ZMQ_XPUB, ZMQ_XSUB},
                 (const char *[]){"events", "subscriber@pub"}, 129);
}

/* Without a key, and without a word: each of them is an open file, and there are only so many. */
Test(bus, a_connection_that_says_nothing_is_closed)
{
    static const char *const none[] = {NULL};
    const char *server_dir = make_keys("routes", none);
    zsock_t *server = bus_bind(ZMQ_ROUTER, "tcp://127.0.0.1:*", server_dir, SOCKET_ROUTES_LOG);
    struct timeval limit = {.tv_sec = 20}; /* libzmq itself waits for 30 */
    char byte;
    ssize_t n;
    int fd;

    cr_assert_not_null(server, "%s", fault_text());
    fd = tcp_connect(zsock_endpoint(server));
    cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
    do
        n = recv(fd, &byte, 1, 0); /* its greeting */
    while (n > 0);
    cr_assert(n == 0 || errno == ECONNRESET, "%s", strerror(errno));
    close(fd);
    zsock_destroy(&server);
}

Test(bus, a_service_may_have_as_many_files_as_the_system_allows)
{
    struct rlimit limit;

    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = 64;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    files_raise(100);
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    cr_assert_eq(limit.rlim_cur, limit.rlim_max < 100 ? limit.rlim_max : 100);
    files_raise(FILES_SERVICE);
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    cr_assert_eq(limit.rlim_cur, limit.rlim_max < FILES_SERVICE ? limit.rlim_max : FILES_SERVICE);
    files_raise(64);
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    cr_assert_gt(limit.rlim_cur, 64, "it is not lowered");
}
