/* Every role of the bus, one that no list has, and one without a key, against every socket, verb, lease, name and producer of a
 * running system: allowed or refused as the tables say. `make roles`; roles HOME, with the keys that deploy/stack made there.
 * Prints what differs, and a line of figures. What is allowed is asked for an account that there is none of, with fields that
 * there are none of: nothing is made or taken away. */
#include "common/bus/bus.h"
#include "common/base/cleanup.h"
#include "common/codec/pack.h"
#include "common/schema/event_memory.h"
#include "common/schema/schema.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    WAIT_MS = 20000, /* for anything: an answer that does not come is a difference */
    VERBS_MAX = 2048,
    PIPELINE = 64,
    STARTS = 3000,     /* of one edge's worker, more than are kept */
    BEATS = 2,         /* of a connection whose owner is gone, before it counts as gone too */
    PEERS = ROLES + 3, /* and another edge, one that is in no list, one without a key */
    PATH_SIZE = 4096
};

typedef struct tester {
    const char *name; /* of its key; "": it has none */
    const char *title;
    roles_t role;
} tester_t;

static const char *home, *run_dir;
static char edge[128]; /* the name of the edge's key */
static tester_t testers[PEERS];
static int tester_count;
static struct {
    int differences, connections, let_in, verbs, denied, leases, names, producers, open;
} figures;

static void differ(const char *who, const char *what, const char *want, const char *got)
{
    figures.differences++;
    printf("DIFFERENT: %s, %s: the tables say %s, it was %s\n", who, what, want, got);
}

static void check(bool want, bool got, const char *who, const char *what)
{
    if (want != got)
        differ(who, what, want ? "allowed" : "refused", got ? "allowed" : "refused");
}

static void give_up(const char *what)
{
    printf("error: %s\n", what);
    exit(EXIT_FAILURE);
}

/* ---- keys and sockets ---- */

static zcert_t *key_of(const char *name)
{
    char path[PATH_SIZE];
    zcert_t *cert;

    snprintf(path, sizeof(path), "%s/keys/%s/self.cert_secret", home, name);
    cert = zcert_load(path);
    if (!cert)
        give_up(path);
    return cert;
}

static const char *endpoint_of(socket_id_t id, char out[PATH_SIZE])
{
    static const char *const files[SOCKETS] = {
        [SOCKET_IDENTITY_RPC] = "identity.rpc",
        [SOCKET_IDENTITY_LOG] = "session.log",
        [SOCKET_ROUTES_RPC] = "routes.rpc",
        [SOCKET_ROUTES_LOG] = "config.log",
        [SOCKET_EVENTS_RPC] = "events.rpc",
        [SOCKET_INTAKE] = "events.in",
        [SOCKET_PUB] = "events.pub",
        [SOCKET_SAML_RPC] = "saml.rpc",
    };

    if (!files[id])
        give_up("a socket of proto/sockets.def is not known here: where is it?");
    snprintf(out, PATH_SIZE, "ipc://%s/%s", run_dir, files[id]);
    return out;
}

/* How the first handshake ends. */
static bool is_let_in(zsock_t *watch)
{
    zframe_t *frame;
    uint16_t event = 0;

    zsock_set_rcvtimeo(watch, WAIT_MS);
    frame = zframe_recv(watch);
    if (!frame)
        give_up("a handshake does not end");
    memcpy(&event, zframe_data(frame), sizeof(event));
    zframe_destroy(&frame);
    return event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED;
}

/* NULL: it is not let in. */
static zsock_t *dial(const tester_t *tester, socket_id_t id, const char *routing_id)
{
    static int count;
    socket_row_t row = socket_row(id);
    zsock_t *sock = zsock_new(id == SOCKET_PUB ? ZMQ_SUB : ZMQ_DEALER), *watch;
    zcert_t *self, *server = key_of(role_name(row.owner));
    char endpoint[PATH_SIZE], monitor[64];
    bool in;

    zsock_set_linger(sock, 0);
    if (*tester->name) {
        self = tester->role ? key_of(tester->name) : zcert_new();
        zcert_apply(self, sock);
        zsock_set_curve_serverkey(sock, zcert_public_txt(server));
        zcert_destroy(&self);
    }
    if (routing_id)
        zsock_set_identity(sock, routing_id);
    snprintf(monitor, sizeof(monitor), "inproc://watch-%d", count++);
    zmq_socket_monitor(zsock_resolve(sock), monitor,
                       ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL
                           | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL);
    watch = zsock_new_pair(monitor);
    zsock_connect(sock, "%s", endpoint_of(id, endpoint));
    in = is_let_in(watch);
    zmq_socket_monitor(zsock_resolve(sock), NULL, 0);
    zsock_destroy(&watch);
    zcert_destroy(&server);
    if (!in)
        zsock_destroy(&sock);
    else
        zsock_set_rcvtimeo(sock, WAIT_MS);
    return sock;
}

/* ---- requests ---- */

typedef struct question {
    char verb[128];
    roles_t who;
    bool known;
} question_t;

static question_t questions[VERBS_MAX];
static int question_count;

static void add_question(const char *service, const char *verb)
{
    question_t *one = &questions[question_count++];

    if (question_count == VERBS_MAX)
        give_up("there are more verbs than this has room for");
    snprintf(one->verb, sizeof(one->verb), "%s", verb);
    one->who = ROLE_NOBODY;
    one->known = verb_roles(service, verb, &one->who);
}

/* All that there are, also those of other services, and some that there are not. */
static void list_questions(const char *service)
{
    static const char *const own[] = {
#define VERB(service, name, handler, who, most, shapes) name,
#include "proto/verbs.def"
    };
    static const char *const operations[] = {
        "no_such_operation",
#define OPERATION(word, name, ...) #name,
#include "proto/operations.def"
#define COMMAND(kind, name, meaning) #name,
#include "proto/kinds.def"
    };
    static const char *const none[] = {"",
                                       "x",
                                       ".",
                                       "account.",
                                       "account.create ",
                                       "ACCOUNT.CREATE",
                                       "api_key",
                                       "no_such_kind.get"};
    char verb[128];

    question_count = 0;
    for (size_t i = 0; i < LEN(own); i++)
        add_question(service, own[i]);
    for (size_t i = 0; i < LEN(none); i++)
        add_question(service, none[i]);
    for (const kind_t *kind = kind_all(); kind->name; kind++)
        for (size_t i = 0; i < LEN(operations); i++) {
            snprintf(verb, sizeof(verb), "%s.%s", kind->name, operations[i]);
            add_question(service, verb);
        }
}

static void ask(zsock_t *sock, int i)
{
    char id[64];
    zmsg_t *msg;

    snprintf(id, sizeof(id), "roles-%d-%d", getpid(), i);
    msg = request_encode(questions[i].verb, id, NULL, "ac_nobody", WAIT_MS, NULL,
                         json_pack("{s:s, s:s, s:s, s:s, s:{s:b}}", "id", "none", OPERATION_PART,
                                   "none", "member", "none", "token", "none", "document",
                                   "no_such_field", 1));
    if (!msg || zmsg_send(&msg, sock))
        give_up("a request cannot be sent");
}

/* The code of the answer to one of the questions. */
static int take_answer(zsock_t *sock, int *ret_i)
{
    _cleanup_(json_clear_ref) json_t *outcome = NULL;
    zframe_t *body = NULL;
    zmsg_t *msg = zmsg_recv(sock);
    char id[64];
    const char *dash;

    if (!msg)
        give_up("a request is not answered");
    if (reply_split(msg, id, &outcome, &body) || !(dash = strrchr(id, '-')))
        give_up("an answer cannot be read");
    zframe_destroy(&body);
    zmsg_destroy(&msg);
    *ret_i = atoi(dash + 1);
    return (int)json_integer_value(json_object_get(outcome, "code"));
}

static void judge_answer(const tester_t *tester, const char *service, int i, int code)
{
    const question_t *one = &questions[i];
    char what[256], got[32];

    snprintf(what, sizeof(what), "%s of %s", one->verb, service);
    snprintf(got, sizeof(got), "code %d", code);
    figures.verbs++;
    figures.denied += code == ERR_DENIED;
    if (!one->known) {
        if (code != ERR_UNKNOWN_VERB)
            differ(tester->title, what, "there is no such verb", got);
    } else if ((one->who & tester->role) ? code == ERR_DENIED : code != ERR_DENIED) {
        differ(tester->title, what, one->who & tester->role ? "allowed" : "refused", got);
    }
}

static void try_verbs(const tester_t *tester, const char *service, zsock_t *sock)
{
    int sent = 0, i, code;

    list_questions(service);
    for (int taken = 0; taken < question_count; taken++) {
        while (sent < question_count && sent < taken + PIPELINE)
            ask(sock, sent++);
        code = take_answer(sock, &i);
        judge_answer(tester, service, i, code);
    }
}

/* An answer to a verb that is asked for behind it comes later: what there is no lease for says nothing. */
static void try_lease(const tester_t *tester, const char *service, zsock_t *sock)
{
    zmsg_t *msg;
    bool leased = false, over = false;

    list_questions(service);
    zstr_sendx(sock, "lease", "0", "1", NULL);
    ask(sock, 0);
    while (!over && (msg = zmsg_recv(sock))) {
        if (zframe_streq(zmsg_first(msg), "lease"))
            leased = true;
        else
            over = true;
        zmsg_destroy(&msg);
    }
    if (!over)
        give_up("a request behind a lease is not answered");
    figures.leases++;
    check(lease_roles(service) & tester->role, leased, tester->title, "a lease");
}

/* ---- the config log ---- */

/* The first word that comes; "": none within the time. */
static void hear(zsock_t *sock, int wait_ms, char word[16])
{
    zmsg_t *msg;
    _cleanup_(free_mem) char *text = NULL;

    zsock_set_rcvtimeo(sock, wait_ms);
    msg = zmsg_recv(sock);
    text = msg ? zmsg_popstr(msg) : NULL;
    snprintf(word, 16, "%s", text ? text : "");
    zmsg_destroy(&msg);
}

static void try_name(const tester_t *tester, socket_id_t log, const char *own, const char *name)
{
    zsock_t *sock = dial(tester, log, NULL);
    char word[16], what[200], domain[64];

    snprintf(what, sizeof(what), "%s under the name %s", socket_domain(log, domain, sizeof(domain)),
             name);
    zstr_sendx(sock, "hello", "-", "0", name, NULL);
    hear(sock, WAIT_MS, word);
    figures.names++;
    check(peer_name_covers(own, name), strcmp(word, "refused") && *word, tester->title, what);
    zstr_send(sock, "bye");
    zsock_set_linger(sock, 1000);
    zsock_destroy(&sock);
}

/* A connection that calls itself as another's did, which the writer still counts. */
static void try_takeover(const tester_t *one, const tester_t *other, socket_id_t log)
{
    zsock_t *first = dial(one, log, "roles-taken"), *second, *third;
    char name[200], word[16];
    int beats = 0;

    snprintf(name, sizeof(name), "%s/98", strchr(one->name, '@') + 1);
    zstr_sendx(first, "hello", "-", "0", name, NULL);
    hear(first, WAIT_MS, word);
    zsock_destroy(&first);
    second = dial(other, log, "roles-taken");
    third = dial(other, log, NULL);
    snprintf(name, sizeof(name), "%s/98", strchr(other->name, '@') + 1);
    zstr_sendx(second, "hello", "-", "0", name, NULL);
    zstr_sendx(third, "hello", "-", "0", name, NULL);
    hear(third, WAIT_MS, word);
    figures.names++;
    do { /* beats come to whoever has the connection's name */
        hear(second, 100, word);
        if (!strcmp(word, "snapshot"))
            differ(other->title, "another's connection", "refused", word);
    } while (!strcmp(word, "beat") && ++beats < BEATS);
    zstr_send(third, "bye");
    zsock_set_linger(third, 1000);
    zsock_destroy(&second);
    zsock_destroy(&third);
}

static const char *name_of(const tester_t *tester)
{
    const char *at = strchr(tester->name, '@');

    return at ? at + 1 : tester->name;
}

static void try_names(const tester_t *tester, socket_id_t log)
{
    const char *own = name_of(tester);
    char name[200];

    snprintf(name, sizeof(name), "%s/97", own);
    try_name(tester, log, own, name);
    for (int i = 0; i < tester_count; i++) {
        snprintf(name, sizeof(name), "%s/97", name_of(&testers[i]));
        try_name(tester, log, own, name);
    }
    snprintf(name, sizeof(name), "%sx/97", own);
    try_name(tester, log, own, name);
    try_name(tester, log, own, "");
}

/* ---- the intake ---- */

static void send_batch(zsock_t *sock, json_t *header, const char *body)
{
    zmsg_t *msg = zmsg_new();
    msgpack_sbuffer head;

    msgpack_sbuffer_init(&head);
    pack_json(&head, header);
    zmsg_addstr(msg, "batch");
    zmsg_addmem(msg, head.data, head.size);
    zmsg_addstr(msg, body);
    zmsg_send(&msg, sock);
    msgpack_sbuffer_destroy(&head);
    json_decref(header);
}

/* A batch that is nobody's events: if the name is the sender's to use it hears that it cannot be read, or, an edge, that it need
 * not send it again. */
static void try_producer(const tester_t *tester, zsock_t *sock, const char *family,
                         const char *producer)
{
    char word[16] = "", what[256];

    send_batch(sock,
               json_pack("{s:s, s:s, s:i, s:i}", "producer", producer, "family", family, "seq", 1,
                         "count", 1),
               "none");
    while (strcmp(word, "ack") && strcmp(word, "bad") && strcmp(word, "refused")) {
        hear(sock, WAIT_MS, word);
        if (!*word)
            give_up("a batch is not answered");
    }
    snprintf(what, sizeof(what), "%s events of %s", family, producer);
    figures.producers++;
    check(role_may_produce(tester->role, name_of(tester), family, producer),
          strcmp(word, "refused") != 0, tester->title, what);
}

/* The file in which an edge of this machine leaves its events: only that edge's batches may lie there. */
static void try_memory(const tester_t *tester, zsock_t *sock)
{
    char path[PATH_SIZE], file[PATH_SIZE] = "", producer[200], word[16] = "";

    snprintf(path, sizeof(path), "%s/edge/events.memory", home);
    if (readlink(path, file, sizeof(file) - 1) < 0 || !strrchr(file, '/'))
        give_up("the edge has no event memory");
    snprintf(producer, sizeof(producer), "%s/0/1", name_of(tester));
    send_batch(sock,
               json_pack("{s:s, s:s, s:i, s:i, s:s, s:i, s:i, s:i, s:i}", "producer", producer,
                         "family", "traffic", "seq", 1, "count", 1, "memory",
                         strrchr(file, '/') + 1, "body", 0, "len", 16, "tail",
                         EVENT_MEMORY_HEAD - 8, "at", 1),
               "");
    while (strcmp(word, "ack") && strcmp(word, "inline")) {
        hear(sock, WAIT_MS, word);
        if (!*word)
            give_up("a batch in memory is not answered");
    }
    figures.producers++;
    check(tester == &testers[ROLE_AT_EDGE], !strcmp(word, "ack"), tester->title,
          "a batch in the edge's memory");
}

static void try_producers(const tester_t *tester, zsock_t *sock)
{
    static const char *const families[] = {"traffic", "audit"};
    char name[200];

    for (size_t f = 0; f < LEN(families); f++)
        for (int i = 0; i < tester_count; i++) {
            snprintf(name, sizeof(name), "%s/0/1", name_of(&testers[i]));
            try_producer(tester, sock, families[f], name);
            snprintf(name, sizeof(name), "outbox/%s", name_of(&testers[i]));
            try_producer(tester, sock, families[f], name);
        }
}

/* An edge that gives itself another name with each batch, as one that was started again has: tests/roles/run counts what is kept
 * of them. Each says that it dropped one event. */
static void try_starts(const tester_t *tester)
{
    zsock_t *sock = dial(tester, SOCKET_INTAKE, NULL);
    char name[200], word[16];

    for (int said = 0, heard = 0; heard < STARTS;) {
        if (said < STARTS && said - heard < PIPELINE) {
            snprintf(name, sizeof(name), "%s/0/%08x", name_of(tester), ++said);
            send_batch(sock,
                       json_pack("{s:s, s:s, s:i, s:i, s:i, s:b}", "producer", name, "family",
                                 "traffic", "seq", 1, "count", 0, "dropped", 1, "oldest", 1),
                       "");
            continue;
        }
        hear(sock, WAIT_MS, word);
        if (!*word || !strcmp(word, "refused"))
            give_up("a batch of an edge's own is not acknowledged");
        heard += !strcmp(word, "ack");
    }
    zsock_destroy(&sock);
}

/* ---- what is open ---- */

static void try_open(const char *method, int port, const char *path, const char *want)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct timeval patience = {WAIT_MS / 1000, 0};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    char text[256], what[256];
    ssize_t n;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    snprintf(what, sizeof(what), "%s %s at port %d", method, path, port);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)))
        give_up(what);
    snprintf(text, sizeof(text),
             "%s %s HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", method,
             path);
    if (write(fd, text, strlen(text)) < 0)
        give_up(what);
    n = read(fd, text, sizeof(text) - 1);
    text[n < 0 ? 0 : n] = '\0';
    figures.open++;
    if (strncmp(text, want, strlen(want))) {
        text[strcspn(text, "\r\n")] = '\0';
        differ("without a key", what, want, text);
    }
    close(fd);
}

static void try_health(void)
{
    static const char *const paths[] = {"/healthz", "/readyz", "/metrics"};
    const char *urls = getenv("POSTERN_HEALTH_URLS");
    char *list = strdup(urls ? urls : ""), *save = NULL;

    for (char *one = strtok_r(list, ",", &save); one; one = strtok_r(NULL, ",", &save))
        for (size_t i = 0; i < LEN(paths); i++) {
            int port = atoi(strrchr(one, ':') + 1);

            try_open("GET", port, paths[i], "HTTP/1.1 200");
            try_open("POST", port, paths[i], "HTTP/1.1 405");
        }
    free(list);
}

/* ---- all of it ---- */

static void try_socket(const tester_t *tester, socket_id_t id)
{
    socket_row_t row = socket_row(id);
    zsock_t *sock = dial(tester, id, NULL);
    char domain[64];

    figures.connections++;
    figures.let_in += sock != NULL;
    check(row.who & tester->role, sock != NULL, tester->title,
          socket_domain(id, domain, sizeof(domain)));
    if (sock && !strcmp(row.name, "rpc")) {
        try_lease(tester, role_name(row.owner), sock);
        try_verbs(tester, role_name(row.owner), sock);
    } else if (sock && !strcmp(row.name, "config_log")) {
        try_names(tester, id);
    } else if (sock && id == SOCKET_INTAKE) {
        try_producers(tester, sock);
        if (tester->role == ROLE_EDGE)
            try_memory(tester, sock);
    }
    zsock_destroy(&sock);
}

static void add_tester(const char *name, const char *title, roles_t role)
{
    testers[tester_count++] = (tester_t){strdup(name), title, role};
}

/* The one that the stack made for each role: role, or role@name. */
static void find_testers(void)
{
    char path[PATH_SIZE];
    struct dirent *entry;
    DIR *dir;

    for (int i = 0; i < ROLES; i++) {
        const char *found = NULL;

        snprintf(path, sizeof(path), "%s/keys", home);
        dir = opendir(path);
        while (dir && !found && (entry = readdir(dir))) {
            roles_t role = ROLE_NOBODY;

            if (peer_name_check(entry->d_name, strlen(entry->d_name), &role) && role == 1u << i
                && strcmp(entry->d_name, "edge@roles-other"))
                found = entry->d_name;
        }
        if (!found) {
            printf("error: %s has no key for the role %s\n", path, role_name(1u << i));
            exit(EXIT_FAILURE);
        }
        add_tester(found, role_name(1u << i), 1u << i);
        closedir(dir);
    }
    snprintf(edge, sizeof(edge), "%s", "edge@roles-other");
    add_tester(edge, "another edge", ROLE_EDGE);
    add_tester("stranger", "a key that is in no list", ROLE_NOBODY);
    add_tester("", "without a key", ROLE_NOBODY);
}

int main(int argc, char **argv)
{
    int64_t start = bus_mono_ms();

    home = argc == 2 ? argv[1] : "";
    run_dir = getenv("POSTERN_RUN_DIR");
    if (argc != 2 || !run_dir)
        give_up("usage: roles HOME, with HOME/postern.env in the environment");
    setvbuf(stdout, NULL, _IOLBF, 0);
    find_testers();
    for (int i = 0; i < tester_count; i++)
        for (int id = 0; id < SOCKETS; id++)
            try_socket(&testers[i], (socket_id_t)id);
    try_takeover(&testers[ROLE_AT_EDGE], &testers[ROLES], SOCKET_ROUTES_LOG);
    try_takeover(&testers[ROLE_AT_EDGE], &testers[ROLES], SOCKET_IDENTITY_LOG);
    try_starts(&testers[ROLES]);
    try_health();
    printf("roles: %d peers at %d sockets, %d of %d let in; %d requests, %d denied; %d leases, %d "
           "names, "
           "%d producers, %d open requests; %d differences; %.1f s\n",
           tester_count, SOCKETS, figures.let_in, figures.connections, figures.verbs,
           figures.denied, figures.leases, figures.names, figures.producers, figures.open,
           figures.differences, (double)(bus_mono_ms() - start) / 1000);
    return figures.differences ? EXIT_FAILURE : EXIT_SUCCESS;
}
