/* The API's connections, shared by http.c, which accepts them, connection.c and input.c, which
 * move them on, room.c, which closes some to make room, turn.c and listen.c. */
#pragma once

#include "services/gateway/body.h"
#include "services/gateway/gateway.h"

#include <netinet/in.h>
#include <sys/un.h>

enum {
    ANYONE = 0,
    /* from a request's first byte to its last, and from the connection to its first byte */
    CONNECTION_READ_MS = 15000,
    TURN_REQUESTS = 4,    /* requests of one connection that are begun in one turn of the loop */
    TURN_CONNECTIONS = 64 /* connections whose requests are read in one turn of the loop */
};

typedef enum phase { HEAD, BODY, CALL, ANSWER, LINGER } phase_t;

struct connection {
    connection_t *next, *previous;
    gateway_t *gateway;
    int fd; /* -1: closed; the connection is freed when its call has ended */
    uint32_t interest;
    phase_t phase;
    uint32_t address; /* IPv4, in network byte order */
    bool proxy;       /* it came over the socket of the proxy */
    bool trusted;     /* it showed a valid key, or is the proxy's */
    owner_t *owner;
    bool closes, ended;
    bool waits; /* it is in the queue of turn.c, with a request to begin */
    connection_t *behind;
    int64_t born_ms, since_ms, deadline_ms;
    char *in; /* bytes that came and belong to no request yet */
    size_t in_len, scanned;
    unsigned empty_lines; /* counted before the next request */
    bool began;           /* the first byte of the next request has come */
    char *head_text;
    size_t head_len;
    head_t head;
    chunks_t chunks;
    body_t body;
    call_t *call;
    char *out;
    const docs_file_t *file;
    size_t out_len, sent;
    size_t unread;    /* bytes of out, counted for the owner while the client does not take them */
    int64_t moved_ms; /* when the client last took some */
};

typedef struct listener {
    int fd;
    bool proxy, paused;
} listener_t;

/* Connections that wait for their turn, first come first served; fd is readable while there are
 * any. */
typedef struct turn {
    connection_t *first, *last;
    int fd;
} turn_t;

struct http {
    int epoll;
    listener_t listeners[2];
    connection_t *first;
    size_t count; /* connections with an open descriptor */
    owners_t *owners;
    turn_t turn;
    zmq_pollitem_t poll;
    int timer;
    char socket_path[sizeof(((struct sockaddr_un *)0)->sun_path)];
};

/* ---- connection.c ---- */

/* Serve a client that was accepted; the descriptor is the connection's. proxy: it came over the
 * proxy's socket, and from says nothing. */
void connection_adopt(gateway_t *gateway, int fd, const struct sockaddr_in *from, bool proxy);
/* Close the descriptor at once; the connection is freed later, when no caller can still use it. */
void connection_shut(connection_t *self);
/* Free the connections that were closed. One whose call has reached its service stays until the
 * answer, which is thrown away; other calls end with their connection. */
void connection_free_closed(http_t *http);
/* Begin a phase, which must be over in so many milliseconds. */
void connection_enter(connection_t *self, phase_t phase, int64_t ms);
/* Start to send the call's answer; the call is freed. */
void connection_begin_answer(connection_t *self);
/* The connection's owner is now the one of that name. */
void connection_set_owner(connection_t *self, const char *name);
/* Free the call without an answer: the client is gone. */
void connection_end_call(connection_t *self);
/* Move the connection on as far as possible without waiting, beginning at most so many more
 * requests. */
void connection_advance(connection_t *self, unsigned requests);
/* epoll's events of the connection. */
void connection_on_event(connection_t *self, uint32_t events);
/* The time for its phase is over: close it; where an answer can still be sent, send 408 first. */
void connection_on_late(connection_t *self);

/* ---- input.c ---- */

/* Read the head of the next request. True: the connection's state has changed, look again. */
bool input_take_head(connection_t *self);
/* Read what has come of the body. True: it is complete, or refused. */
bool input_take_body(connection_t *self);
/* Read the rest of the body of the connection's call, whose caller is known now. */
void input_begin_body(connection_t *self);
/* Answer bytes that are no request with an error, and read nothing behind them. why NULL: the
 * outcome's own text. */
void input_refuse(connection_t *self, int code, const char *why);
/* Wipe and free what was kept of the request. */
void input_done(connection_t *self);

/* ---- the others ---- */

/* http.c: listeners stop while there is no room, and new connections wait in the kernel's queue:
 * listen again. */
void http_resume_listeners(http_t *http);

/* True: there is a place for one more connection, or one that can be closed to make it. */
bool room_is_there(gateway_t *gateway);
/* Close the connection that rank_of (room.c) puts first, of that address or of ANYONE's. False:
 * none can be closed. */
bool room_evict(gateway_t *gateway, uint32_t address);
/* Make a place for one more connection from that address. */
void room_make(gateway_t *gateway, uint32_t address, bool proxy);

/* The connection's answer waits for its client, or, bytes 0, does so no more. Where its owner, or
 * all owners together, have more waiting than they may, connections are closed: of the owner with
 * most the one whose client has taken nothing for longest, which may be this one. */
void room_set_unread(connection_t *self, size_t bytes);

/* turn.c: make the queue; its fd goes into http's epoll. 0 | fault. */
int turn_start(http_t *http);
/* Put a connection into the queue: it goes on in the next turn of the loop, whether or not more
 * bytes come from it. */
void turn_wait(connection_t *self);
/* Take the connections whose turn it is out of the queue; returns how many. Some of them may have
 * been shut meanwhile. */
size_t turn_take(http_t *http, connection_t *ret[TURN_CONNECTIONS]);

/* listen.c: a socket that listens on host and port. 0 | fault. */
int listen_tcp(const char *host, uint16_t port, int *ret_fd);
/* A Unix socket that listens at path. Its permissions admit the user that the gateway runs as and
 * its group: who may open it speaks for its clients. 0 | fault. */
int listen_proxy(const char *path, int *ret_fd);
