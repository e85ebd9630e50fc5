/* Sockets and the RPC envelope (proto/WIRE.md). Every socket has CURVE keys, on ipc:// too: a
 * peer's key decides what it may do (common/bus/peer.h). */
#pragma once

#include "common/base/err.h"
#include "common/bus/peer.h"

#include <czmq.h>
#include <jansson.h>
#include <msgpack.h>
#include <stdint.h>

enum { BUS_VERSION = 1, BUS_FRAME_MAX = 16 << 20 };

/* Limit of a batch of events, bytes. Usual batches have 512 KB; one larger event is sent alone. */
enum { BUS_BATCH_MAX = 4 << 20 };

/* Limit of a request, bytes. The gateway accepts 1 MiB of JSON from a client, which can be longer
 * in msgpack: a number of two characters may take nine bytes. */
enum { BUS_REQUEST_MAX = 4 << 20 };

/* Make a socket. curve_dir holds self.cert_secret and peers/NAME.cert (zcert files); it may be ""
 * only for inproc://. Binding accepts the keys in peers/ whose roles proto/sockets.def lets in;
 * connecting checks that the peer is peers/<peer>.cert. NULL with fault_text() on failure. */
zsock_t *bus_bind(int type, const char *endpoint, const char *curve_dir, socket_id_t id);
/* The ROUTER of the event intake: it sends heartbeats and therefore has no receive high-water mark
 * (heartbeat.h). So the caller reads it all the time, throws away what it has no room for, and
 * drains it before closing. */
zsock_t *bus_bind_intake(const char *endpoint, const char *curve_dir);
/* As bus_bind, for a socket that connects; endpoints: separated by commas. */
zsock_t *bus_connect(int type, const char *endpoints, const char *curve_dir, const char *peer);

/* High-water marks: how many messages a socket queues for one peer (send), and from one peer before
 * they are read (receive); 0: unlimited. They are parameters because libzmq ignores marks set after
 * bind or connect. bus_bind has 1,000 for both, bus_connect for send. A socket without a receive
 * mark sends heartbeats (heartbeat.h): a peer that is silent for silence_ms (0: 3,000) is
 * disconnected, and what is queued for it is lost. */
typedef struct bus_marks {
    int send, receive, silence_ms;
} bus_marks_t;

/* bus_bind and bus_connect with other marks. */
zsock_t *bus_bind_marked(int type, bus_marks_t marks, const char *endpoint, const char *curve_dir,
                         socket_id_t id);
zsock_t *bus_connect_marked(int type, bus_marks_t marks, const char *endpoints,
                            const char *curve_dir, const char *peer);

/* A DEALER to one peer. Nothing is queued while there is no connection: sending succeeds only while
 * the peer is connected, and messages in flight are lost when the connection breaks. */
zsock_t *bus_connect_peer(const char *endpoint, const char *curve_dir, const char *peer);

/* As bus_connect_marked, for a tool: waits up to wait_ms until the peer has accepted its key. NULL
 * with fault_text() when the key is refused; after a timeout the socket goes on connecting. */
zsock_t *bus_connect_known(int type, bus_marks_t marks, const char *endpoints,
                           const char *curve_dir, const char *peer, int wait_ms);

/* Receive and throw away all waiting messages. */
void bus_drain(zsock_t *sock);

/* Wall clock, milliseconds since 1970; monotonic clock, milliseconds. */
int64_t bus_now_ms(void);
int64_t bus_mono_ms(void);

typedef struct request {
    char verb[64];
    char id[64];  /* names the reply, stands in the logs: op_ KSUID, or the id of an edge's request,
                  * a dot and what tells its questions apart */
    char key[80]; /* idempotency key: the caller's, else the id */
    char account[64];    /* "" for internal verbs */
    int64_t left_ms;     /* how long the sender goes on waiting, from when it sent the request */
    int64_t clock_ms;    /* the sender's monotonic clock at that time; 0: unknown */
    int64_t deadline_ms; /* on our monotonic clock; set after decoding (common/bus/deadline.h) */
    json_t *actor;       /* {id, subject, source, credential}; may be null */
    json_t *body;        /* object */
} request_t;

typedef struct reply {
    problem_t problem;
    json_t *body;           /* owned */
    msgpack_sbuffer packed; /* the encoded body, sent instead of body; data NULL: not used */
    int64_t revision;       /* of the config log after the change; 0: nothing changed there */
    char etag[40];          /* of the object in body, RFC 9110 8.8.3; "" where there is none */
    bool too_large;         /* done, but the whole answer would be larger than a frame may be:
                             * ERR_ANSWER_TOO_LARGE is sent instead of body */
} reply_t;

/* Make [verb][header][body]. key NULL: the id; left_ms: how long the caller waits for the reply.
 * The caller keeps its reference to actor; body is taken over. NULL when out of memory. */
zmsg_t *request_encode(const char *verb, const char *id, const char *key, const char *account,
                       int64_t left_ms, json_t *actor, json_t *body);

/* The same where the body is encoded already; it stays the caller's. */
zmsg_t *request_encode_packed(const char *verb, const char *id, const char *key,
                              const char *account, int64_t left_ms, json_t *actor,
                              const msgpack_sbuffer *body);

/* Pop and decode the three frames. 0 | -EBADMSG: nothing is to be freed, and the request's id is
 * set for an error reply, or "" if it cannot be read. */
int request_decode(zmsg_t *msg, request_t *ret_request);
void request_done(request_t *self);

/* Make [id][outcome][body]; outcome: {code, msg, details, revision, etag}. A reply that cannot be
 * encoded, or is larger than a frame may be, is replaced by an error reply. NULL when out of
 * memory. */
zmsg_t *reply_encode(const char *id, const reply_t *reply);

/* Pop the three frames; the body stays encoded and is the caller's. 0 | -EBADMSG: id may be "". */
int reply_split(zmsg_t *msg, char id[64], json_t **ret_outcome, zframe_t **ret_body);

/* The same with the body decoded; the caller owns both. 0 | -EBADMSG | -ENOMEM. */
int reply_decode(zmsg_t *msg, char id[64], json_t **ret_outcome, json_t **ret_body);
void reply_done(reply_t *self);

/* Free the reply's body in either form. */
void reply_drop_body(reply_t *self);

/* Decode one frame; the caller frees *ret_value. 0 | -EBADMSG | -ENOMEM. */
int frame_json(zframe_t *frame, json_t **ret_value);

/* One call, waiting until the deadline (tools and tests). 0 | -ETIMEDOUT | -EBADMSG. The outcome's
 * code stands in *ret_outcome. The body is taken. */
int bus_call(zsock_t *dealer, const char *verb, const char *account, int timeout_ms, json_t *body,
             json_t **ret_outcome, json_t **ret_body);
