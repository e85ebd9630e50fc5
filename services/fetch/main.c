/* postern-fetch: fetches the certificates of webhook signers for an edge's worker, and says whether
 * they are good. The worker's helper starts it when the first is needed, with a socket for its
 * standard input, over which questions and answers go (common/codec/signer.h); it ends with that.
 * It is a program of its own so that libcurl, and what strangers' servers send, is in no process
 * that has the accounts' private keys. */
#include "common/base/config.h"
#include "common/base/err.h"
#include "common/base/log.h"
#include "common/out/outbound.h"
#include "services/fetch/task.h"

#include <czmq.h>
#include <errno.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

enum { QUESTIONS = STDIN_FILENO, FILES_MAX = 256 };

static const setting_t settings[] = {
    {"own-sockets", SETTING_STR, "", 0, 0, "Postern's own sockets, which are not connected to"},
    {"out-denied", SETTING_STR, "", 0, 0, "addresses and networks that are not connected to"},
    {"out-allowed", SETTING_STR, "", 0, 0,
     "addresses and networks that are connected to all the same: private networks, loopback"},
    {"out-connect", SETTING_STR, "", 0, 0,
     "host:port:to-host:to-port: where connections for a host go instead"},
    {"out-ca", SETTING_STR, "", 0, 0,
     "PEM file of the authorities that are trusted instead of the system's"},
    {"out-calls", SETTING_INT, "32", 1, 128, "requests at once"},
    {"out-account-calls", SETTING_INT, "8", 1, 128, "requests at once for one account"},
    {0}};

/* The socket has room for each answer: no more questions are under way than requests may be. */
static void send_answer(void *context, const signer_told_t *told)
{
    (void)context;
    if (send(QUESTIONS, told, sizeof(*told), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        log_warn("an answer is lost: %s", strerror(errno));
}

/* Ends the loop when the helper has gone. */
static int on_question(zloop_t *loop, zmq_pollitem_t *item, void *context)
{
    char packet[sizeof(signer_ask_t) + 1];
    signer_ask_t ask;
    ssize_t len = recv(item->fd, packet, sizeof(packet), MSG_DONTWAIT);

    (void)loop;
    if (len < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    if (len == 0)
        return -1;
    if (signer_ask_read(&ask, packet, (size_t)len)) {
        task_start(context, &ask);
        return 0;
    }
    log_error("a question is not of this version's form: the edge and postern-fetch are not of "
              "one build");
    return -1;
}

/* Whom this machine trusts. NULL: logged. */
static X509_STORE *load_authorities(const char *file)
{
    X509_STORE *store = X509_STORE_new();

    if (store
        && (*file ? X509_STORE_load_file(store, file) : X509_STORE_set_default_paths(store)) == 1)
        return store;
    log_error("cannot read the authorities of %s", *file ? file : "the system");
    X509_STORE_free(store);
    return NULL;
}

static outbound_t *make_outbound(zloop_t *loop, const config_t *config)
{
    const outbound_settings_t limits = {
        .own_sockets = config_str(config, "own-sockets"),
        .denied = config_str(config, "out-denied"),
        .allowed = config_str(config, "out-allowed"),
        .connect_to = config_str(config, "out-connect"),
        .ca_file = config_str(config, "out-ca"),
        .calls = (unsigned)config_int(config, "out-calls"),
        .calls_of_one = (unsigned)config_int(config, "out-account-calls"),
    };
    outbound_t *outbound;
    char *bad;

    if (outbound_new(&outbound, loop, &limits, &bad)) {
        log_error("cannot make the way out: %s%s%s", fault_text(), bad ? ": " : "", bad ? bad : "");
        free(bad);
        return NULL;
    }
    return outbound;
}

static int serve(const config_t *config)
{
    zloop_t *loop = zloop_new();
    zmq_pollitem_t questions = {.fd = QUESTIONS, .events = ZMQ_POLLIN};
    task_world_t world = {
        .outbound = make_outbound(loop, config),
        .authorities = load_authorities(config_str(config, "out-ca")),
        .tell = send_answer,
    };
    int status = EXIT_FAILURE;

    if (world.outbound && world.authorities
        && zloop_poller(loop, &questions, on_question, &world) == 0) {
        zloop_poller_set_tolerant(loop, &questions); /* its end is read */
        zloop_start(loop);
        status = EXIT_SUCCESS;
    }
    outbound_destroy(&world.outbound); /* ends the tasks */
    zloop_destroy(&loop);
    X509_STORE_free(world.authorities);
    return status;
}

int main(int argc, char **argv)
{
    const struct rlimit files = {FILES_MAX, FILES_MAX};
    config_t config;
    int r = config_parse(&config, settings, "fetches certificates of webhook signers for an edge",
                         argc, argv);

    log_init("postern-fetch");
    if (r) {
        config_done(&config);
        return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
    }
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    setrlimit(RLIMIT_NOFILE, &files);
    r = serve(&config);
    config_done(&config);
    return r;
}
