/* Workers of an edge at the config log, as many as one likes, that say hello and are silent besides, or never stop saying it:
 * hellos SELF_CERT SERVER_CERT ENDPOINT NAME COUNT once|flood, until its standard input ends. */
#include <czmq.h>
#include <poll.h>

typedef struct worker {
    zsock_t *sock;
    char name[128];
} worker_t;

static void say_hello(const worker_t *worker)
{
    zstr_sendx(worker->sock, "hello", "-", "0", worker->name, "1", NULL);
}

/* Whoever is asked who it is says it at once; what else comes is not looked at. */
static void take_all(const worker_t *worker)
{
    while (zsock_events(worker->sock) & ZMQ_POLLIN) {
        zmsg_t *msg = zmsg_recv(worker->sock);

        if (msg && zframe_streq(zmsg_first(msg), "who"))
            say_hello(worker);
        zmsg_destroy(&msg);
    }
}

static void connect_worker(worker_t *worker, char **argv, int number)
{
    zcert_t *self = zcert_load(argv[1]), *server = zcert_load(argv[2]);

    snprintf(worker->name, sizeof(worker->name), "%s/%d", argv[4], number);
    worker->sock = zsock_new(ZMQ_DEALER);
    zsock_set_linger(worker->sock, 0);
    zsock_set_sndtimeo(worker->sock, 0);
    zcert_apply(self, worker->sock);
    zsock_set_curve_serverkey(worker->sock, zcert_public_txt(server));
    if (zsock_connect(worker->sock, "%s", argv[3]))
        exit(1);
    zcert_destroy(&self);
    zcert_destroy(&server);
    say_hello(worker);
}

int main(int argc, char **argv)
{
    struct pollfd input = {.fd = 0, .events = POLLIN};
    int count = argc == 7 ? atoi(argv[5]) : 0;
    bool flood = argc == 7 && !strcmp(argv[6], "flood");
    worker_t *workers = calloc((size_t)count + 1, sizeof(*workers));

    zsys_handler_set(NULL);
    zsys_set_max_sockets(4096);
    for (int i = 0; i < count; i++)
        connect_worker(&workers[i], argv, i);
    for (int turn = 0; poll(&input, 1, 2) == 0; turn++)
        for (int i = 0; i < count; i++) {
            take_all(&workers[i]);
            if (flood)
                say_hello(&workers[i]);
            else if (turn % 100 == 0)
                zstr_sendx(workers[i].sock, "ack", "0", NULL);
        }
    _exit(0);
}
