/* Sockets and the RPC envelope (proto/WIRE.md). Every socket has CURVE keys, ipc:// too: they
 * say what a peer may do (common/bus/peer.h). */
#pragma once

#include "common/base/err.h"
#include "common/bus/peer.h"

#include <czmq.h>
#include <jansson.h>
#include <msgpack.h>
#include <stdint.h>

enum { BUS_VERSION = 1, BUS_FRAME_MAX = 16 << 20 };

/* A batch of events: of 512 KB, or one event that is larger. */
enum { BUS_BATCH_MAX = 4 << 20 };

/* A request: what the gateway takes of a client is 1 MiB of JSON, and a number is longer in
 * msgpack. */
enum { BUS_REQUEST_MAX = 4 << 20 };

/* Make a socket. curve_dir holds self.cert_secret and peers/NAME.cert (zcert files); it may be ""
 * only for inproc://. Binding accepts the keys in peers/ whose roles proto/sockets.def lets in;
 * connecting checks that the peer is peers/<peer>.cert. NULL with fault_text() on failure. */
zsock_t *bus_bind(int type, const char *endpoint, const char *curve_dir, socket_id_t id);
/* The ROUTER of the intake: it has no receive mark, and asks its peers for signs of life
 * (heartbeat.h: a socket does one of the two). So it has to be read all the time, and what there
 * is no room for to be thrown away. Drain it before closing. */
zsock_t *bus_bind_intake(const char *endpoint, const char *curve_dir);
zsock_t *bus_connect(int type, const char *endpoints, const char *curve_dir, const char *peer);

/* How many messages a socket keeps for one peer, and takes from it before it is read; 0: any
 * number. libzmq hands them to a connection when the socket binds or connects and ignores what
 * is set later, so they are said here. bus_bind has 1,000 for both, bus_connect for what it
 * sends. A socket without a receive mark asks its peers for signs of life (heartbeat.h): one
 * that says nothing for silence_ms (0: 3,000) is gone, and what waits for it with it. */
typedef struct bus_marks {
    int send, receive, silence_ms;
} bus_marks_t;

zsock_t *bus_bind_marked(int type, bus_marks_t marks, const char *endpoint, const char *curve_dir,
                         socket_id_t id);
zsock_t *bus_connect_marked(int type, bus_marks_t marks, const char *endpoints,
                            const char *curve_dir, const char *peer);

/* A DEALER to one peer. Nothing waits for a peer that is not there: it can be sent to while it
 * is connected, and what was on the way when the connection broke is lost. */
zsock_t *bus_connect_peer(const char *endpoint, const char *curve_dir, const char *peer);

/* The same for a tool, which waits for so long until it is let in. NULL with fault_text() also
 * when its key is refused; who is not there yet may come later. */
zsock_t *bus_connect_known(int type, bus_marks_t marks, const char *endpoints,
                           const char *curve_dir, const char *peer, int wait_ms);

/* Throw away what waits to be received. */
void bus_drain(zsock_t *sock);

/* Milliseconds since 1970, and of the monotonic clock. */
int64_t bus_now_ms(void);
int64_t bus_mono_ms(void);

typedef struct request {
    char verb[64];
    char id[64];         /* op_ KSUID: names the reply, stands in the logs */
    char key[80];        /* idempotency key: the caller's, else the id */
    char account[64];    /* "" for internal verbs */
    int64_t left_ms;     /* how long its sender waited still when it sent it */
    int64_t clock_ms;    /* the sender's monotonic clock then; 0: it did not say */
    int64_t deadline_ms; /* on our own; who decodes a request sets it (common/bus/deadline.h) */
    json_t *actor;       /* {id, subject, source, credential}; may be null */
    json_t *body;        /* object */
} request_t;

typedef struct reply {
    problem_t problem;
    json_t *body;           /* owned */
    msgpack_sbuffer packed; /* the body as it is sent, instead of body; data NULL: there is none */
    int64_t revision;       /* of the config log; 0: nothing changed there */
    char etag[40];          /* of the object in body, RFC 9110 8.8.3; "" where there is none */
} reply_t;

/* [verb][header][body]; key NULL: the id; left_ms: so long somebody waits for the answer; the
 * body is taken. NULL when out of memory. */
zmsg_t *request_encode(const char *verb, const char *id, const char *key, const char *account,
                       int64_t left_ms, json_t *actor, json_t *body);

/* Pops the three frames. 0 | -EBADMSG; then nothing is to be freed, and the id is that of who
 * waits for an answer, or "". */
int request_decode(zmsg_t *msg, request_t *ret_request);
void request_done(request_t *self);

/* [id][outcome][body]. outcome: {code, msg, details, revision}. A reply that nobody could read,
 * or that is larger than a frame, becomes one that says so. NULL when out of memory. */
zmsg_t *reply_encode(const char *id, const reply_t *reply);

/* Pops three frames; the body stays as it came and is the caller's. 0 | -EBADMSG; then id is ""
 * where that cannot be read either. */
int reply_split(zmsg_t *msg, char id[64], json_t **ret_outcome, zframe_t **ret_body);

/* The same with the body decoded. acked and live come from the holder of the reply. 0 |
 * -EBADMSG. */
int reply_decode(zmsg_t *msg, char id[64], json_t **ret_outcome, json_t **ret_body);
void reply_done(reply_t *self);

/* Whatever body there is. */
void reply_drop_body(reply_t *self);

/* Decode one frame. 0 | -EBADMSG. */
int frame_json(zframe_t *frame, json_t **ret_value);

/* One call, waiting until the deadline (tools and tests). 0 | -ETIMEDOUT | -EBADMSG. The outcome's
 * code stands in *ret_outcome. The body is taken. */
int bus_call(zsock_t *dealer, const char *verb, const char *account, int timeout_ms, json_t *body,
             json_t **ret_outcome, json_t **ret_body);
