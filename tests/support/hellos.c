/* Simulates COUNT edge workers at the config log until standard input ends: hellos SELF_CERT
 * SERVER_CERT ENDPOINT NAME COUNT HOW. HOW: once (one hello, then only signs of life), flood
 * (hellos without end), deaf (a hello ten times a second, reads nothing), slow (one hello, then
 * reads one message at a time, with pauses). Standard output has the count of a deaf worker's
 * hellos, or the messages that a slow one receives. */
#include <czmq.h>
#include <poll.h>

typedef struct worker {
    zsock_t *sock;
    char name[128];
} worker_t;

static bool flood, deaf, slow;

static void say_hello(const worker_t *worker)
{
    zstr_sendx(worker->sock, "hello", "-", "0", worker->name, "1", NULL);
}

/* Answer "who" with a hello at once; other messages are ignored. */
static void take_all(const worker_t *worker)
{
    while (zsock_events(worker->sock) & ZMQ_POLLIN) {
        zmsg_t *msg = zmsg_recv(worker->sock);

        if (msg && zframe_streq(zmsg_first(msg), "who"))
            say_hello(worker);
        zmsg_destroy(&msg);
    }
}

/* Receive one message (word, log id, previous revision, revision, body); print word, revision and
 * size. */
static void take_one(const worker_t *worker)
{
    zmsg_t *msg = zsock_events(worker->sock) & ZMQ_POLLIN ? zmsg_recv(worker->sock) : NULL;
    size_t n = msg ? zmsg_size(msg) : 0;
    char *frames[4] = {NULL};

    for (size_t i = 0; i < 4 && i < n; i++)
        frames[i] = zmsg_popstr(msg);
    if (n >= 4)
        printf("%s %s %s %zu\n", worker->name, frames[0], frames[3], msg ? zmsg_content_size(msg) : 0);
    for (size_t i = 0; i < 4; i++)
        free(frames[i]);
    zmsg_destroy(&msg);
}

static void connect_worker(worker_t *worker, char **argv, int number)
{
    zcert_t *self = zcert_load(argv[1]), *server = zcert_load(argv[2]);

    snprintf(worker->name, sizeof(worker->name), "%s/%d", argv[4], number);
    worker->sock = zsock_new(ZMQ_DEALER);
    zsock_set_linger(worker->sock, 0);
    zsock_set_sndtimeo(worker->sock, 0);
    if (deaf || slow)
        zsock_set_rcvhwm(worker->sock, 1); /* libzmq does not read for them either */
    zcert_apply(self, worker->sock);
    zsock_set_curve_serverkey(worker->sock, zcert_public_txt(server));
    if (zsock_connect(worker->sock, "%s", argv[3]))
        exit(1);
    zcert_destroy(&self);
    zcert_destroy(&server);
    say_hello(worker);
}

/* sign: a sign of life is due; a worker that is silent for a second counts as gone. */
static void take_turn(const worker_t *worker, bool sign)
{
    if (slow)
        take_one(worker);
    else if (!deaf)
        take_all(worker);
    if (flood || (deaf && sign))
        say_hello(worker);
    else if (sign)
        zstr_sendx(worker->sock, "ack", "0", NULL);
}

/* Is the next sign of life due? Measured by the clock: one round of a thousand workers may take
 * long. */
static bool is_time(int64_t *next_ms)
{
    int64_t now = zclock_mono();

    if (now < *next_ms)
        return false;
    *next_ms = now + (deaf ? 100 : 200);
    return true;
}

int main(int argc, char **argv)
{
    struct pollfd input = {.fd = 0, .events = POLLIN};
    int count = argc == 7 ? atoi(argv[5]) : 0, said = 0;
    int64_t next_ms = 0;
    const char *how = argc == 7 ? argv[6] : "";
    worker_t *workers = calloc((size_t)count + 1, sizeof(*workers));

    flood = !strcmp(how, "flood");
    deaf = !strcmp(how, "deaf");
    slow = !strcmp(how, "slow");
    setlinebuf(stdout);
    zsys_handler_set(NULL);
    zsys_set_max_sockets(4096);
    for (int i = 0; i < count; i++)
        connect_worker(&workers[i], argv, i);
    while (poll(&input, 1, slow ? 20 : 2) == 0) {
        bool sign = is_time(&next_ms);

        for (int i = 0; i < count; i++)
            take_turn(&workers[i], sign);
        if (deaf && sign)
            printf("%d\n", ++said);
    }
    _exit(0);
}
