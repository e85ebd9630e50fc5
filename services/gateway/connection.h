/* The API's connections, for http.c, which moves them, and room.c, which says who makes room. */
#pragma once

#include "services/gateway/gateway.h"

#include <netinet/in.h>
#include <sys/un.h>

enum {
    ANYONE = 0,
    TURN_REQUESTS = 4,    /* of one connection, in a turn of the loop */
    TURN_CONNECTIONS = 64 /* whose requests are read, in a turn */
};

typedef enum phase { HEAD, BODY, CALL, ANSWER, LINGER } phase_t;

struct connection {
    connection_t *next, *previous;
    gateway_t *gateway;
    int fd; /* -1: gone, and freed when its call has ended */
    uint32_t interest;
    phase_t phase;
    uint32_t address; /* IPv4, in the network's order */
    bool proxy;       /* it came over the proxy's socket */
    bool trusted;     /* it showed a valid key, or is the proxy's */
    bool closes, ended;
    bool waits; /* for its turn, with a request in hand */
    connection_t *behind;
    int64_t born_ms, since_ms, deadline_ms;
    char *in; /* what came and belongs to no request yet */
    size_t in_len, scanned;
    unsigned empty_lines; /* before the request that comes next */
    bool began;           /* that request has: its first byte is there */
    char *head_text;
    size_t head_len;
    head_t head;
    chunks_t chunks;
    char *body;
    size_t body_len, body_size;
    call_t *call;
    char *out;
    const docs_file_t *file;
    size_t out_len, sent;
};

typedef struct listener {
    int fd;
    bool proxy, paused;
} listener_t;

/* Those that wait, in their order; fd is readable while there are any. */
typedef struct turn {
    connection_t *first, *last;
    int fd;
} turn_t;

struct http {
    int epoll;
    listener_t listeners[2];
    connection_t *first;
    size_t count; /* of those with a descriptor */
    turn_t turn;
    zmq_pollitem_t poll;
    int timer;
    char socket_path[sizeof(((struct sockaddr_un *)0)->sun_path)];
};

/* The descriptor is closed at once; the rest goes when nobody looks at it any more. */
void connection_shut(connection_t *self);

/* Is there room for one more, or somebody to make it? */
bool room_is_there(gateway_t *gateway);
/* Close whoever goes first, of that address or of ANYONE's. False: nobody can. */
bool room_evict(gateway_t *gateway, uint32_t address);
/* For one more connection from that address. */
void room_make(gateway_t *gateway, uint32_t address, bool proxy);

/* turn.c: the fd goes into http's epoll. */
int turn_start(http_t *http);
/* It had its share: it goes on in the next turn, whether or not more comes from it. */
void turn_wait(connection_t *self);
/* Whose turn it is now; some of them may have been shut meanwhile. None of them waits any more. */
size_t turn_take(http_t *http, connection_t *ret[TURN_CONNECTIONS]);

/* listen.c: 0 | fault. */
int listen_tcp(const char *host, uint16_t port, int *ret_fd);
/* Whoever may open the socket speaks for its clients: the user that the gateway runs as, and its group. */
int listen_proxy(const char *path, int *ret_fd);
