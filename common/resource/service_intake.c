/* Messages on the socket for requests: checks the sender's role, enqueues or refuses requests. */
#include "common/resource/service_internal.h"
#include "common/base/cleanup.h"
#include "common/base/log.h"
#include "common/bus/bus.h"
#include "common/bus/deadline.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
    BURST_MAX = 64, /* requests taken before the loop does anything else */
    COMPLAIN_MS = 60000,
    OWNER_SIZE = WAIT_TURN_SIZE,
    HEAD_FRAMES = 6, /* that workers expect in front of a request */
    FRAMES_MAX = 8   /* of a request with its identity: more than any needs */
};

/* Refuse a request at once, so that its sender need not wait for the deadline. The body is not
 * decoded: a refused request must cost little. */
static void refuse_request(service_t *self, zmsg_t *msg, int code)
{
    const reply_t reply = {.problem = {.code = code}};
    char id[FLIGHT_ID_SIZE];
    zmsg_t *out = flight_id(msg, id) ? reply_encode(id, &reply) : NULL;
    zframe_t *identity = zmsg_pop(msg);

    if (out && identity) {
        zmsg_prepend(out, &identity);
        zmsg_addstr(out, "0");
        zmsg_addstr(out, "0");
        zmsg_send(&out, self->rpc);
    }
    zmsg_destroy(&out);
    zframe_destroy(&identity);
}

/* A request that keeps its worker busy for long, as the service says of its verb. */
static bool is_slow(const service_t *self, zmsg_t *msg)
{
    zframe_t *identity = zmsg_first(msg), *verb = identity ? zmsg_next(msg) : NULL;
    zframe_t *header = verb ? zmsg_next(msg) : NULL, *body = header ? zmsg_next(msg) : NULL;
    char name[64];

    if (!self->spec->is_slow || !body || zframe_size(verb) >= sizeof(name))
        return false;
    snprintf(name, sizeof(name), "%.*s", (int)zframe_size(verb), (const char *)zframe_data(verb));
    return self->spec->is_slow(name, zframe_data(body), zframe_size(body));
}

static peer_t sender_of(zmsg_t *msg)
{
    (void)zmsg_first(msg);
    return peer_of(zmsg_next(msg));
}

/* Requests of API clients and those of other peers must not wait for each other, nor for slow ones
 * (backlog.h). */
static backlog_lane_t lane_of(const service_t *self, zmsg_t *msg)
{
    if (zframe_size(zmsg_first(msg)) == 0) /* the service's own periodic request */
        return BACKLOG_QUICK;
    if (!(sender_of(msg).role & lease_roles(self->row->name)))
        return is_slow(self, msg) ? BACKLOG_SLOW_GUEST : BACKLOG_GUEST;
    return is_slow(self, msg) ? BACKLOG_SLOW : BACKLOG_QUICK;
}

/* Whose turn a request takes: that of its sender's key, and of a gateway or an edge that of the
 * account which it speaks for. Both may be trusted to say which: it is their own
 * accounts that take turns. */
static void owner_of(const service_t *self, zmsg_t *msg, const char *account, char *out,
                     size_t size)
{
    peer_t sender = sender_of(msg);

    snprintf(out, size, "%s %s", sender.id,
             sender.role & (lease_roles(self->row->name) | ROLE_EDGE) ? account : "");
}

/* Put the frames in front of a message that workers expect there (service_worker.c). */
static void push_head(zmsg_t *msg, const char *key, backlog_lane_t lane, const char *holder,
                      const char *turn, const wait_t *wait, const arrival_t *arrival)
{
    zmsg_pushmem(msg, arrival, sizeof(*arrival));
    zmsg_pushmem(msg, &wait, wait ? sizeof(void *) : 0);
    zmsg_pushstr(msg, turn);
    zmsg_pushstr(msg, holder);
    zmsg_pushstrf(msg, "%d", (int)lane);
    zmsg_pushstr(msg, key);
}

int service_enqueue(service_t *self, const char *key, const char *account, zmsg_t **msg)
{
    arrival_t arrival = arrival_now(leases_clock(&self->leases, zmsg_first(*msg)), bus_mono_ms());
    backlog_lane_t lane = lane_of(self, *msg);
    char owner[OWNER_SIZE];
    int r;

    owner_of(self, *msg, account, owner, sizeof(owner));
    if (!(zframe_size(zmsg_first(*msg)) && sender_of(*msg).role & lease_roles(self->row->name)))
        account = ""; /* only a gateway speaks for accounts */
    push_head(*msg, key, lane, account, owner, NULL, &arrival);
    r = backlog_put_held(self->backlog, owner, account, lane, msg);
    if (!r && *key)
        flights_begin(self->flights, key);
    for (int i = 0; r && i < HEAD_FRAMES; i++) {
        zframe_t *frame = zmsg_pop(*msg);

        zframe_destroy(&frame);
    }
    return r;
}

void service_enqueue_again(service_t *self, wait_t *wait)
{
    const arrival_t arrival = {0};
    zmsg_t *msg = zmsg_new();

    push_head(msg, wait->key, (backlog_lane_t)wait->lane, wait->holder, wait->turn, wait, &arrival);
    backlog_put_again(self->backlog, wait->turn, wait->holder, (backlog_lane_t)wait->lane, &msg);
}

/* Refuse a request because its sender's share of the backlog, or the whole backlog, is full. */
static void refuse_busy(service_t *self, zmsg_t *msg, int r)
{
    int64_t now = bus_mono_ms();
    char quoted[300];

    self->metrics.refused++;
    self->metrics.over_share += r == -EDQUOT;
    if (r == -EDQUOT && now >= self->complain_ms) {
        const char *id = sender_of(msg).id;

        self->complain_ms = now + COMPLAIN_MS;
        log_warn("peer=\"%s\" has as many requests waiting as one key may have, or an account that "
                 "it asks "
                 "for: more are refused",
                 log_quote(id, strnlen(id, 70), quoted, sizeof(quoted)));
    }
    refuse_request(self, msg, ERR_BUSY);
}

/* May the peer, by the role of its key, send this message? 0 | the code to answer. */
static int check_role(service_t *self, zmsg_t *msg)
{
    zframe_t *identity = zmsg_first(msg), *word = identity ? zmsg_next(msg) : NULL;
    peer_t peer = peer_of(word);
    const char *service = self->row->name;
    char verb[64] = "", why[160];
    roles_t who = ROLE_NOBODY;

    if (word && zframe_size(word) < sizeof(verb))
        memcpy(verb, zframe_data(word), zframe_size(word));
    if (!strcmp(verb, "lease"))
        who = lease_roles(service);
    else if (!verb_roles(service, verb, &who) && peer.role)
        return ERR_UNKNOWN_VERB;
    if (!(who & peer.role)) {
        snprintf(why, sizeof(why), "may not call %s", verb);
        peer_refused(self->socket, peer.id, why);
        return ERR_DENIED;
    }
    if (zmsg_size(msg) <= FRAMES_MAX
        && (role_has_documents(service, peer.role)
            || zmsg_content_size(msg) <= verb_bytes(service, verb)))
        return 0;
    snprintf(why, sizeof(why), "sends more than it can have to say for %s", verb);
    peer_refused(self->socket, peer.id, why);
    return ERR_BODY_TOO_LARGE;
}

static void take_message(service_t *self, zmsg_t *msg)
{
    char key[FLIGHT_KEY_SIZE] = "", account[FLIGHT_ACCOUNT_SIZE] = "";
    int r = check_role(self, msg);

    if (r) {
        refuse_request(self, msg, r);
    } else if (leases_take(&self->leases, msg, bus_mono_ms())) {
        service_release_held(self);
    } else {
        self->metrics.requests++;
        if (flight_key(msg, key, account) && flights_again(self->flights, key, zmsg_first(msg)))
            self->metrics.resent++;
        else if ((r = service_enqueue(self, key, account, &msg)))
            refuse_busy(self, msg, r);
    }
    zmsg_destroy(&msg);
}

int service_on_rpc(zloop_t *loop, zsock_t *reader, void *context)
{
    service_t *self = context;

    (void)loop;
    for (int i = 0; i < BURST_MAX && zsock_events(reader) & ZMQ_POLLIN; i++) {
        zmsg_t *msg = zmsg_recv(reader);

        if (!msg)
            break;
        take_message(self, msg);
    }
    return 0;
}
