/* postern: the command line. Reads var/postern.env for settings that the environment does not
 * have. */
#include "common/base/memory.h"
#include "common/bus/bus.h"
#include "common/base/cleanup.h"
#include "common/codec/pack.h"
#include "common/resource/service.h"
#include "services/cli/health.h"
#include "services/cli/keys.h"
#include "services/cli/rotate.h"
#include "services/cli/tail.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

enum {
    CALL_TIMEOUT_MS = 10000,
    HELLO_MS = 2000,
    TAIL_MARK =
        /* events that wait here while standard output takes none; more wait at the publisher */
    100000
};

/* Set variables from NAME=value lines of the file; those that are set already stay. */
static void load_env(void)
{
    const char *home = getenv("POSTERN_HOME");
    char path[4096], line[4096];
    FILE *file;

    snprintf(path, sizeof(path), "%s/postern.env", home && *home ? home : "var");
    file = fopen(path, "re");
    while (file && fgets(line, sizeof(line), file)) {
        char *equals = strchr(line, '=');

        if (!equals || *line == '#')
            continue;
        *equals = '\0';
        equals[1 + strcspn(equals + 1, "\n")] = '\0';
        setenv(line, equals + 1, 0);
    }
    if (file)
        fclose(file);
}

static const char *need_env(const char *name)
{
    const char *value = getenv(name);

    if (value && *value)
        return value;
    fprintf(stderr, "error: %s is not set: source var/postern.env, or set POSTERN_HOME\n", name);
    exit(EXIT_FAILURE);
}

static const char *curve_dir(void)
{
    return need_env("POSTERN_CURVE_DIR");
}

static zsock_t *connect_subscriber(const char *prefix)
{
    zsock_t *sub;

    /* A program that watches traffic must not preempt it. */
    sched_setscheduler(0, SCHED_BATCH, &(struct sched_param){0});
    sub = bus_connect_known(ZMQ_SUB, (bus_marks_t){.receive = TAIL_MARK},
                            need_env("POSTERN_EVENTS_URL"), curve_dir(), "events", HELLO_MS);

    if (!sub) {
        fprintf(stderr, "error: %s\n", fault_text());
        exit(EXIT_FAILURE);
    }
    zsock_set_subscribe(sub, prefix);
    setvbuf(stdout, NULL, _IOLBF, 0);
    return sub;
}

/* Count events without decoding them: the cheapest possible subscriber, for benchmarks. */
static int run_count(const char *prefix)
{
    zsock_t *sub = connect_subscriber(prefix);
    void *raw = zsock_resolve(sub);
    int64_t next = bus_mono_ms() + 1000;
    uint64_t total = 0, last = 0;
    zmq_msg_t frame;

    zsock_set_rcvtimeo(sub, 200);
    zmq_msg_init(&frame);
    while (!zsys_interrupted) {
        if (zmq_msg_recv(&frame, raw, 0) >= 0)
            total += !zmq_msg_more(&frame);
        if (bus_mono_ms() >= next) {
            printf("%" PRIu64 " events, %" PRIu64 " in this second\n", total, total - last);
            last = total;
            next += 1000;
        }
    }
    zmq_msg_close(&frame);
    zsock_destroy(&sub);
    return EXIT_SUCCESS;
}

static int run_tail(const char *prefix)
{
    const char *rpc = getenv("POSTERN_EVENTS_RPC");
    zsock_t *sub = connect_subscriber(prefix), *log = NULL;
    int r;

    if (rpc && *rpc) {
        log = bus_connect(ZMQ_DEALER, rpc, curve_dir(), "events");
        if (!log)
            fprintf(stderr, "warning: %s\n", fault_text());
        else
            zsock_set_linger(log, 0);
    }
    r = tail_run(sub, log, prefix);
    zsock_destroy(&log);
    zsock_destroy(&sub);
    return r;
}

/* Ask identity once, and print the answer as JSON. */
static int call_identity(const char *verb, const char *account, json_t *body)
{
    _cleanup_(json_clear_ref) json_t *outcome = NULL;
    _cleanup_(json_clear_ref) json_t *answer = NULL;
    _cleanup_(free_mem) char *text = NULL;
    zsock_t *dealer =
        bus_connect_known(ZMQ_DEALER, (bus_marks_t){0}, need_env("POSTERN_IDENTITY_RPC"),
                          curve_dir(), "identity", HELLO_MS);
    int r;

    if (!dealer) {
        fprintf(stderr, "error: %s\n", fault_text());
        return EXIT_FAILURE;
    }
    zsock_set_linger(dealer, 0);
    r = bus_call(dealer, verb, account, CALL_TIMEOUT_MS, body, &outcome, &answer);
    zsock_destroy(&dealer);
    if (r) {
        fprintf(stderr, "error: postern-identity does not answer: is it running?\n");
        return EXIT_FAILURE;
    }
    if (json_integer_value(json_object_get(outcome, "code"))) {
        fprintf(stderr, "error: %s\n", json_string_value(json_object_get(outcome, "msg")));
        return EXIT_FAILURE;
    }
    text = json_dumps(answer, JSON_COMPACT);
    printf("%s\n", text);
    return EXIT_SUCCESS;
}

static int api_key_create(const char *account, const char *owner, const char *description)
{
    return call_identity(
        "api_key.create", account,
        json_pack("{s:{s:s, s:s}}", "document", "owner_id", owner, "description", description));
}

static int command_tail(int count, char **arguments)
{
    if (count && *arguments[0] == '-') {
        fprintf(stderr, "error: %s is no option of tail: see postern --help\n", arguments[0]);
        return EXIT_FAILURE;
    }
    return run_tail(count ? arguments[0] : "");
}

static int command_count(int count, char **arguments)
{
    return run_count(count ? arguments[0] : "");
}

static int command_health(int count, char **arguments)
{
    (void)count;
    (void)arguments;
    return health_run(need_env("POSTERN_HEALTH_URLS"));
}

static int command_account_create(int count, char **arguments)
{
    (void)count;
    return call_identity("account.create", "",
                         json_pack("{s:s, s:s}", "name", arguments[0], "email", arguments[1]));
}

static int command_api_key_create(int count, char **arguments)
{
    return api_key_create(arguments[0], arguments[1], count > 2 ? arguments[2] : "");
}

static int command_curve_keys(int count, char **arguments)
{
    return keys_make(arguments[0], count - 1, arguments + 1);
}

static int command_rotate_logs(int count, char **arguments)
{
    (void)count;
    return rotate_logs(arguments[0], atoll(arguments[1]), atoi(arguments[2]));
}

/* The commands. help NULL: not listed, for benchmarks only. */
static const struct command {
    const char *words;     /* one or two */
    const char *arguments; /* as the help shows them */
    int least, most;       /* of them */
    int (*run)(int count, char **arguments);
    const char *help;
} commands[] = {
    {"tail", "[TOPIC_PREFIX]", 0, 1, command_tail,
     "print events as JSON lines until stopped; what was missed is told on standard error,\n"
     "      and comes from the log where it is kept"},
    {"count", "[TOPIC_PREFIX]", 0, 1, command_count, NULL},
    {"account create", "NAME EMAIL", 2, 2, command_account_create,
     "make an account and its first owner"},
    {"api-key create", "ACCOUNT OWNER [DESCRIPTION]", 2, 3, command_api_key_create,
     "make an API key; prints its token once"},
    {"health", "", 0, 0, command_health,
     "ask every service and edge whether it is ready, and why not"},
    {"curve-keys", "DIR NAME...", 2, INT_MAX, command_curve_keys,
     "make keys for peers of the bus; a NAME is a role, or role@name"},
    {"rotate-logs", "DIR BYTES OLD", 3, 3, command_rotate_logs,
     "each *.log that is larger becomes NAME.1, of OLD that are kept"},
};

static void print_help(FILE *out)
{
    fputs("postern: command line of a Postern server\n\nUsage:\n", out);
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        if (commands[i].help)
            fprintf(out, "  postern %s%s%s\n      %s\n", commands[i].words,
                    *commands[i].arguments ? " " : "", commands[i].arguments, commands[i].help);
    fputs("\nEnvironment (else read from $POSTERN_HOME/postern.env, default var/postern.env):\n"
          "  POSTERN_HOME           folder of that file\n"
          "  POSTERN_EVENTS_URL     PUB endpoint of the event service\n"
          "  POSTERN_EVENTS_RPC     its requests, to ask for events that were missed\n"
          "  POSTERN_IDENTITY_RPC   endpoint of the identity service\n"
          "  POSTERN_HEALTH_URLS    name=host:port of every service's health checks, "
          "comma-separated\n"
          "  POSTERN_CURVE_DIR      CURVE keys of the command line's role, as curve-keys makes "
          "them\n",
          out);
}

/* How many words of argv are the command's; 0: it is another one. */
static int command_words(const struct command *command, int argc, char **argv)
{
    char words[64];

    if (argc > 1 && !strcmp(command->words, argv[1]))
        return 1;
    if (argc < 3)
        return 0;
    snprintf(words, sizeof(words), "%s %s", argv[1], argv[2]);
    return strcmp(command->words, words) ? 0 : 2;
}

int main(int argc, char **argv)
{
    const char *first = argc > 1 ? argv[1] : "";

    if (argc < 2 || !strcmp(first, "--help") || !strcmp(first, "help")) {
        print_help(argc < 2 ? stderr : stdout);
        return argc < 2 ? EXIT_FAILURE : EXIT_SUCCESS;
    }
    memory_guard_json();
    load_env();
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        const struct command *command = &commands[i];
        int words = command_words(command, argc, argv), count = argc - 1 - words;

        if (!words)
            continue;
        if (count >= command->least && count <= command->most)
            return command->run(count, argv + 1 + words);
        fprintf(stderr, "error: usage: postern %s %s\n", command->words, command->arguments);
        return EXIT_FAILURE;
    }
    fprintf(stderr, "error: unknown command: see postern --help\n");
    return EXIT_FAILURE;
}
