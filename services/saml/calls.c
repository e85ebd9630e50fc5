#include "services/saml/calls.h"
#include "common/base/cleanup.h"
#include "common/base/err.h"
#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/base/quote.h"
#include "common/bus/bus.h"
#include "common/bus/deadline.h"
#include "common/bus/flight.h"
#include "common/bus/shares.h"
#include "common/codec/pack.h"
#include "common/codec/reading.h"
#include "services/saml/reader.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum {
    BURST_MAX = 64,   /* requests taken before the loop does anything else */
    FRAMES_MAX = 8,   /* of a request with its identity: more than any needs */
    HEADER_MAX = 8192 /* bytes of a request beside its body */
};

/* How many requests wait. An owner is whom a peer says it asks for: the peer shares out its own
 * room. */
static const shares_bounds_t bounds = {
    .own = 128, .own_bytes = 24 << 20, .all = 512, .all_bytes = 64 << 20};

/* A request from when it came until it is answered. */
typedef struct call {
    calls_t *calls;
    zframe_t *identity;
    zmsg_t *msg; /* what is left of it */
    arrival_t arrival;
    char id[FLIGHT_ID_SIZE];
} call_t;

struct calls {
    zloop_t *loop;
    zsock_t *rpc;
    reader_t *reader;
    shares_t *waiting; /* of call_t */
    int timer;
    struct {
        uint64_t requests, refused, dropped, accepted, denied, encrypted;
    } metrics;
};

static void call_destroy(void **item)
{
    call_t *call = take(*item);

    if (!call)
        return;
    zframe_destroy(&call->identity);
    zmsg_destroy(&call->msg);
    free(call);
}

/* ---- answers ---- */

/* Behind the three frames stand those of changes to the edges' configuration: there are none. */
static void send_reply(calls_t *self, zframe_t **identity, const char *id, const reply_t *reply)
{
    zmsg_t *out = reply_encode(id, reply);

    if (!out)
        return;
    zmsg_prepend(out, identity);
    zmsg_addstr(out, "0");
    zmsg_addstr(out, "0");
    zmsg_send(&out, self->rpc);
    zmsg_destroy(&out);
}

static void answer_call(call_t *call, const reply_t *reply)
{
    send_reply(call->calls, &call->identity, call->id, reply);
    call_destroy((void **)&call);
}

static void answer_code(call_t *call, int code)
{
    reply_t reply = {.problem = {.code = code}};

    answer_call(call, &reply);
}

/* What the child of postern-xml wrote is believed to be a verdict on its message, and nothing
 * more. */
static void on_answered(void *context, void *job, const json_t *answer)
{
    calls_t *self = context;
    json_int_t code = json_integer_value(json_object_get(answer, "code"));
    reply_t reply = {0};

    if (!answer) {
        answer_code(job, ERR_SAML_READER);
        return;
    }
    if (code) {
        self->metrics.denied++;
        reply.problem.code =
            code > 0 && code < 1000 && outcome_find((int)code) ? (int)code : ERR_INTERNAL;
        quote_plain(reply.problem.msg, sizeof(reply.problem.msg),
                    json_string_value(json_object_get(answer, "msg")));
    } else {
        reply.body = json_object_get(answer, "body"); /* lent: reply_done is not called */
        if (json_object_get(reply.body, "encrypted"))
            self->metrics.encrypted++;
        else
            self->metrics.accepted++;
    }
    answer_call(job, &reply);
}

/* ---- questions ---- */

/* 0 | code to answer | -ETIMEDOUT: nobody waits for an answer any more. */
static int ask_reader(calls_t *self, call_t *call)
{
    _cleanup_(json_clear_ref) json_t *question = NULL;
    msgpack_sbuffer packed;
    request_t request;
    int r = request_decode(call->msg, &request);

    if (r)
        return ERR_INTERNAL;
    if (arrival_deadline(&call->arrival, &request) <= bus_mono_ms()) {
        request_done(&request);
        return -ETIMEDOUT;
    }
    question = json_pack("{s:s, s:O}", "verb", request.verb, "body", request.body);
    msgpack_sbuffer_init(&packed);
    r = question ? pack_json(&packed, question) : -ENOMEM;
    if (!r && packed.size > READING_QUESTION_MAX)
        r = ERR_BODY_TOO_LARGE;
    if (!r)
        r = reader_ask(self->reader, &packed, call);
    if (r < 0)
        log_error("verb=%s req=%s fault=\"%s\"", request.verb, request.id, fault_text());
    msgpack_sbuffer_destroy(&packed);
    request_done(&request);
    return r < 0 ? ERR_SAML_READER : r;
}

/* Ask for those whose turn it is, as many as may be read at once. At the end, while what is being
 * read is given up, there is no reader any more. */
static void ask_waiting(calls_t *self)
{
    call_t *call;

    while (self->reader && reader_has_room(self->reader) && (call = shares_take(self->waiting))) {
        int r = ask_reader(self, call);

        if (r == -ETIMEDOUT) {
            self->metrics.dropped++;
            call_destroy((void **)&call);
        } else if (r) {
            answer_code(call, r);
        }
    }
}

/* ---- requests ---- */

/* Answer a message at once, whose body is not looked at: a refused request must cost little. */
static void refuse(calls_t *self, zmsg_t *msg, int code)
{
    const reply_t reply = {.problem = {.code = code}};
    char id[FLIGHT_ID_SIZE];
    bool has_id = flight_id(msg, id);
    zframe_t *identity = zmsg_pop(msg);

    self->metrics.refused++;
    if (has_id && identity)
        send_reply(self, &identity, id, &reply);
    zframe_destroy(&identity);
}

/* May the peer, by the role of its key, send this message? 0 | the code to answer. */
static int check_role(zmsg_t *msg)
{
    zframe_t *identity = zmsg_first(msg), *word = identity ? zmsg_next(msg) : NULL;
    peer_t peer = peer_of(word);
    roles_t who = ROLE_NOBODY;
    char verb[64] = "", why[160];

    if (word && zframe_size(word) < sizeof(verb))
        memcpy(verb, zframe_data(word), zframe_size(word));
    if (strcmp(verb, "lease") != 0 && !verb_roles("saml", verb, &who) && peer.role)
        return ERR_UNKNOWN_VERB;
    if (!(who & peer.role)) {
        snprintf(why, sizeof(why), "may not call %s", verb);
        peer_refused(SOCKET_SAML_RPC, peer.id, why);
        return ERR_DENIED;
    }
    if (zmsg_size(msg) <= FRAMES_MAX && zmsg_content_size(msg) <= READING_QUESTION_MAX + HEADER_MAX)
        return 0;
    snprintf(why, sizeof(why), "sends more than it can have to say for %s", verb);
    peer_refused(SOCKET_SAML_RPC, peer.id, why);
    return ERR_BODY_TOO_LARGE;
}

/* Put a request into the queue. 0, and *msg is taken over | as shares_put. */
static int put_call(calls_t *self, zmsg_t **msg)
{
    char key[FLIGHT_KEY_SIZE], account[FLIGHT_ACCOUNT_SIZE] = "", owner[256];
    size_t bytes = zmsg_content_size(*msg);
    call_t *call;
    int r;

    if (!flight_key(*msg, key, account))
        return -EBADMSG;
    call = memory_new(sizeof(*call), "a request");
    flight_id(*msg, call->id);
    (void)zmsg_first(*msg);
    snprintf(owner, sizeof(owner), "%s %s", peer_of(zmsg_next(*msg)).id, account);
    call->calls = self;
    call->arrival = arrival_now(NULL, bus_mono_ms());
    r = shares_put(self->waiting, owner, &bounds, bytes, call);
    if (r) {
        call_destroy((void **)&call);
        return r;
    }
    call->msg = take(*msg);
    call->identity = zmsg_pop(call->msg);
    return 0;
}

static void take_message(calls_t *self, zmsg_t *msg)
{
    int r = check_role(msg);

    self->metrics.requests++;
    if (!r)
        r = put_call(self, &msg);
    if (r)
        refuse(self, msg, r > 0 ? r : r == -EBADMSG ? ERR_INTERNAL : ERR_BUSY);
    zmsg_destroy(&msg);
}

static int on_rpc(zloop_t *loop, zsock_t *socket, void *context)
{
    calls_t *self = context;

    (void)loop;
    for (int i = 0; i < BURST_MAX && zsock_events(socket) & ZMQ_POLLIN; i++) {
        zmsg_t *msg = zmsg_recv(socket);

        if (!msg)
            break;
        take_message(self, msg);
    }
    ask_waiting(self);
    return 0;
}

/* ---- start and stop ---- */

static void on_answered_and_next(void *context, void *job, const json_t *answer)
{
    on_answered(context, job, answer);
    ask_waiting(context);
}

/* While the program is started again nothing is answered: then those that wait are asked for. */
static int on_tick(zloop_t *loop, int timer, void *context)
{
    (void)loop;
    (void)timer;
    ask_waiting(context);
    return 0;
}

int calls_new(calls_t **ret_calls, zloop_t *loop, const config_t *config, const char *program)
{
    calls_t *self = memory_new(sizeof(*self), "the requests");
    int r;

    *ret_calls = self;
    self->loop = loop;
    self->waiting = memory_need(shares_new(call_destroy), "the requests that wait");
    r = reader_new(&self->reader, loop, program, (int)config_int(config, "readers"),
                   on_answered_and_next, self);
    if (r)
        return r;
    self->rpc = bus_bind(ZMQ_ROUTER, config_str(config, "rpc"), config_str(config, "curve-dir"),
                         SOCKET_SAML_RPC);
    if (!self->rpc)
        return -EADDRINUSE;
    zsock_set_sndtimeo(self->rpc, 0);
    zloop_reader(loop, self->rpc, on_rpc, self);
    zloop_reader_set_tolerant(loop, self->rpc);
    self->timer = zloop_timer(loop, 500, 0, on_tick, self);
    return 0;
}

void calls_destroy(calls_t **self_p)
{
    calls_t *self = take(*self_p);
    call_t *call;

    if (!self)
        return;
    while ((call = shares_take(self->waiting)))
        answer_code(call, ERR_SAML_READER);
    reader_destroy(&self->reader);
    zsock_destroy(&self->rpc);
    shares_destroy(&self->waiting);
    free(self);
}

size_t calls_metrics(const calls_t *self, char *out, size_t size)
{
    int n = snprintf(out, size,
                     "postern_saml_requests_total %" PRIu64 "\n"
                     "postern_saml_requests_refused_total %" PRIu64 "\n"
                     "postern_saml_requests_dropped_total %" PRIu64 "\n"
                     "postern_saml_requests_waiting %zu\n"
                     "postern_saml_messages_total{verdict=\"accepted\"} %" PRIu64 "\n"
                     "postern_saml_messages_total{verdict=\"denied\"} %" PRIu64 "\n"
                     "postern_saml_messages_total{verdict=\"encrypted\"} %" PRIu64 "\n",
                     self->metrics.requests, self->metrics.refused, self->metrics.dropped,
                     shares_waiting(self->waiting), self->metrics.accepted, self->metrics.denied,
                     self->metrics.encrypted);

    if ((size_t)n >= size)
        return 0;
    return (size_t)n + reader_metrics(self->reader, out + n, size - (size_t)n);
}

bool calls_are_served(const calls_t *self, char *why, size_t size)
{
    if (reader_runs(self->reader))
        return true;
    snprintf(why, size, "postern-xml does not run");
    return false;
}
