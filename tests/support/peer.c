/* A peer of the bus that sends arbitrary messages: peer SECRET-KEY-FILE
 * PUBLIC-KEY-FILE-OF-THE-SERVER ENDPOINT [NAME]. Each line on standard input is a message: its
 * frames in hexadecimal, separated by spaces, "-" for an empty one. Received messages are printed
 * in the same form. peer SECRET-KEY-FILE - ENDPOINT takes the place of a service (ROUTER): the
 * first frame is the connection's identity. */
#include <czmq.h>
#include <sys/stat.h>

static void send_line(zsock_t *sock, char *line)
{
    zmsg_t *msg = zmsg_new();
    char *save = NULL;

    for (char *word = strtok_r(line, " \n", &save); word; word = strtok_r(NULL, " \n", &save)) {
        size_t len = *word == '-' ? 0 : strlen(word) / 2;
        zframe_t *frame = zframe_new(NULL, len);

        for (size_t i = 0; i < len; i++) {
            char byte[3] = {word[2 * i], word[2 * i + 1], '\0'};

            zframe_data(frame)[i] = (unsigned char)strtoul(byte, NULL, 16);
        }
        zmsg_append(msg, &frame);
    }
    if (zmsg_size(msg))
        zmsg_send(&msg, sock);
    zmsg_destroy(&msg);
}

/* Read what is available on standard input, and send complete lines. False: it has ended. */
static bool take_input(zsock_t *sock)
{
    static char *text;
    static size_t len, size;
    char *at, *end;
    ssize_t n;

    if (size - len < 2 << 20) {
        size += 8 << 20;
        text = realloc(text, size);
    }
    n = read(STDIN_FILENO, text + len, 1 << 20);
    if (n <= 0)
        return false;
    len += (size_t)n;
    for (at = text; (end = memchr(at, '\n', len - (size_t)(at - text))); at = end + 1) {
        *end = '\0';
        send_line(sock, at);
    }
    len -= (size_t)(at - text);
    memmove(text, at, len);
    return true;
}

static void print(zmsg_t *msg)
{
    size_t left = zmsg_size(msg);

    for (zframe_t *frame = zmsg_first(msg); frame; frame = zmsg_next(msg)) {
        char *hex = zframe_strhex(frame);

        printf("%s%s", *hex ? hex : "-", --left ? " " : "\n");
        free(hex);
    }
}

int main(int argc, char **argv)
{
    bool is_service = argc >= 4 && !strcmp(argv[2], "-");
    zsock_t *sock = zsock_new(is_service ? ZMQ_ROUTER : ZMQ_DEALER);
    zcert_t *self = argc >= 4 ? zcert_load(argv[1]) : NULL;
    zcert_t *server = self && !is_service ? zcert_load(argv[2]) : NULL;
    zmq_pollitem_t items[2] = {{NULL, STDIN_FILENO, ZMQ_POLLIN, 0}, {NULL, 0, ZMQ_POLLIN, 0}};

    if (!sock || !self || (!server && !is_service))
        return EXIT_FAILURE;
    setvbuf(stdout, NULL, _IOLBF, 0);
    zcert_apply(self, sock);
    zsock_set_linger(sock, 0);
    if (argc > 4)
        zsock_set_identity(sock, argv[4]);
    zsock_set_sndhwm(sock, 0);
    zsock_set_rcvhwm(sock, 0);
    if (is_service) {
        umask(0); /* whoever runs the edge connects to it */
        zsock_set_curve_server(sock, 1);
        if (zsock_bind(sock, "%s", argv[3]) < 0)
            return EXIT_FAILURE;
    } else {
        zsock_set_curve_serverkey(sock, zcert_public_txt(server));
        zsock_connect(sock, "%s", argv[3]);
    }
    items[1].socket = zsock_resolve(sock);
    while (zmq_poll(items, 2, -1) >= 0) {
        if (items[0].revents && !take_input(sock))
            break;
        while (zsock_events(sock) & ZMQ_POLLIN) {
            zmsg_t *msg = zmsg_recv(sock);

            print(msg);
            zmsg_destroy(&msg);
        }
    }
    zcert_destroy(&self);
    zcert_destroy(&server);
    zsock_destroy(&sock);
    return EXIT_SUCCESS;
}
