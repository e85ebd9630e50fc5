/* The services on the bus: requests out, replies in, resends, deadlines. A request that may be lost
 * is sent again: to the copy that has it as long as that copy answers, else to another one. So each
 * request either only reads, or notes its idempotency key in the transaction that does it, which
 * all copies of a service see (claim_request in common/resource/crud_call.c): sending it twice does
 * it once. */
#include "common/base/cleanup.h"
#include "common/base/log.h"
#include "services/gateway/gateway.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum {
    TICK_MS = 50,
    SILENT_MS =
        /* no copy has answered for so long, more than a restart takes: requests no longer wait for
         * one until their deadline */
    3000,
    HOPE_MS = 1000, /* but for this long each */
    /* without an answering copy the gateway is not ready, so that balancers look elsewhere */
    READY_MS = 1000
};

/* A call asks several questions one after the other. This suffix of its id tells their answers
 * apart, so that a late answer to one is not taken for that of the next. */
static const char *suffix_of(call_state_t state)
{
    return state == AUTHENTICATING ? ".auth" : state == ADMITTING ? ".admit" : "";
}

/* The service that the call's current question goes to. */
static copies_t *service_of(const call_t *call)
{
    copies_t *const *services = call->gateway->services;

    if (call->state == ADMITTING)
        return services[SERVICE_routes];
    if (call->state == AUTHENTICATING || call->self)
        return services[SERVICE_identity];
    return services[service_find(
        call->target.kind->service)]; /* tests/house/services: there is one */
}

/* The message of the call's current question; NULL: it cannot be asked, and the call is
 * answered. */
static zmsg_t *encode_request(call_t *call)
{
    int64_t left = call->deadline_ms - bus_mono_ms();
    char verb[96] = "api_key.authenticate", id[ID_MAX + 8];
    json_t *body;
    zmsg_t *msg;

    if (call->state == AUTHENTICATING) {
        body = json_pack("{s:s}", "token", call_token(call));
    } else if (call->state == ADMITTING) {
        snprintf(verb, sizeof(verb), "ip_restriction.admit");
        body = json_pack("{s:s}", "ip", call->ip);
    } else if (call->self) {
        snprintf(verb, sizeof(verb), "self.get");
        body = json_pack("{s:s}", "base", call->base);
    } else {
        snprintf(verb, sizeof(verb), "%s.%s", call->target.kind->name,
                 call->target.operation->name);
        body = json_incref(call->request);
    }
    if (!body && !call->packed.data) { /* the token is not UTF-8: no key */
        call_refuse(call, ERR_AUTH_MALFORMED, NULL, NULL);
        return NULL;
    }
    snprintf(id, sizeof(id), "%s%s", call->operation_id, suffix_of(call->state));
    if (body)
        msg = request_encode(verb, id, call->state == CALLING ? call->key : NULL, call->account,
                             left, call->actor, body);
    else
        msg = request_encode_packed(verb, id, call->key, call->account, left, call->actor,
                                    &call->packed);
    if (!msg) { /* out of memory, or beyond the caps of the bus */
        log_error("op=%s the request cannot be put on the bus", call->operation_id);
        call_refuse(call, ERR_INTERNAL, NULL, NULL);
    }
    return msg;
}

/* Have all copies of the service that the call needs been silent for too long? */
static bool is_silent(const call_t *call, int64_t now)
{
    return copies_silent_ms(service_of(call), now) > SILENT_MS;
}

/* Does the call's current question change something? */
static bool is_change(const call_t *call)
{
    return call->state == CALLING && !call->self && call->target.operation->changes;
}

/* Send the question to that copy. NULL: none is connected, and the next tick tries again. */
static void send_to(call_t *call, const copy_t *copy)
{
    zmsg_t *msg;

    zhashx_update(call->gateway->calls, call->operation_id, call);
    call->copy = NULL;
    call->resend_ms = bus_mono_ms();
    /* While a service is silent no change is sent to it: the change could be done after its caller
     * was told 503. */
    if (!copy || (is_change(call) && is_silent(call, call->resend_ms))
        || !(msg = encode_request(call)))
        return;
    if (!zmsg_send(&msg, copy->sock)) {
        call->under_way = call->under_way || is_change(call);
        call->copy = copy;
        call->asked |= copies_bit(service_of(call), copy);
        call->resend_ms += RESEND_MS;
    }
    zmsg_destroy(&msg);
}

void upstream_send(call_t *call)
{
    call->resends = 0;
    call->asked = 0;
    send_to(call, copies_next(service_of(call)));
}

/* Send the question again. First to the copy that has it, if that answers: a copy recognises the
 * request and works on it once, so it is sent for the case that it was lost. If that brought
 * nothing either, to another copy, which may be able to do what this one cannot: reach its
 * database, for example. */
static void send_again(call_t *call)
{
    bool stays = call->copy && call->copy->answers && call->resends == 0;

    call->gateway->metrics.resent += call->copy != NULL;
    call->resends += call->copy != NULL;
    send_to(call, stays ? call->copy : copies_other(service_of(call), call->copy));
}

/* Take a message about leases: "lease" or "revoke", epoch, clock (copies.h). False: the message is
 * not about leases. */
static bool take_lease(gateway_t *self, copy_t *copy, zmsg_t *msg)
{
    zframe_t *word = zmsg_first(msg);

    if (zmsg_size(msg) != 3 || !(zframe_streq(word, "lease") || zframe_streq(word, "revoke")))
        return false;
    _cleanup_(free_mem) char *said = zmsg_popstr(msg);
    _cleanup_(free_mem) char *epoch = zmsg_popstr(msg);
    _cleanup_(free_mem) char *clock = zmsg_popstr(msg);

    if (self->admission && admission_take(self->admission, copy, said, epoch, clock))
        copies_ask(copy);
    return true;
}

/* Is this answer to be ignored? A copy that cannot do the request now (429, 503) says nothing about
 * other copies that have the same request: one of them may be about to do it, or have done it. Such
 * an answer is ignored while another copy that answers has the request, and, for a change, while
 * any other copy may. */
static bool is_passed_over(call_t *call, const copy_t *copy, const json_t *outcome)
{
    json_int_t code = json_integer_value(json_object_get(outcome, "code"));
    const copies_t *copies = service_of(call);

    if (code != ERR_BUSY && code != ERR_MAINTENANCE)
        return false;
    call->asked &= ~copies_bit(copies, copy);
    if (!(is_change(call) ? call->asked : call->asked & copies_answering(copies)))
        return false;
    call->gateway->metrics.passed_over++;
    if (call->copy == copy)
        call->copy = copies_of(copies, call->asked); /* NULL: the next tick tries again */
    return true;
}

/* Was a service asked? Else the call waits for its body to be parsed. */
static bool is_asking(const call_t *call)
{
    return call->state == AUTHENTICATING || call->state == ADMITTING || call->state == CALLING;
}

static void take_reply(gateway_t *self, const copy_t *copy, zmsg_t *msg)
{
    _cleanup_(json_clear_ref) json_t *outcome = NULL;
    zframe_t *body = NULL;
    reach_t reach = {"", ""};
    char id[64], suffix[16] = "";
    call_t *call;

    /* A reply whose outcome cannot be read ends the call too, if its id can be read. */
    if (!reply_split(msg, id, &outcome, &body) || *id) {
        _cleanup_(free_mem) char *acked = zmsg_popstr(msg);
        _cleanup_(free_mem) char *live = zmsg_popstr(msg);
        _cleanup_(free_mem) char *ended = zmsg_popstr(msg);

        snprintf(reach.edges, sizeof(reach.edges), "%.10s/%.10s", acked ? acked : "0",
                 live ? live : "0");
        snprintf(reach.streams_ended, sizeof(reach.streams_ended), "%.20s", ended ? ended : "");
        snprintf(suffix, sizeof(suffix), "%s", id + strcspn(id, "."));
        id[strcspn(id, ".")] = '\0';
        call = zhashx_lookup(self->calls, id);
        if (call && is_asking(call) && !strcmp(suffix, suffix_of(call->state))
            && !is_passed_over(call, copy, outcome))
            call_reply(call, outcome, body, &reach);
    }
    zframe_destroy(&body);
}

static int on_message(zloop_t *loop, zsock_t *reader, void *context)
{
    gateway_t *self = context;
    copies_t *copies = NULL;
    copy_t *copy = NULL;

    (void)loop;
    for (int i = 0; i < SERVICES && !copy; i++)
        if ((copies = self->services[i]))
            copy = copies_find(copies, reader);
    for (int i = 0; copy && i < 256 && zsock_events(reader) & ZMQ_POLLIN; i++) {
        zmsg_t *msg = zmsg_recv(reader);

        if (!msg)
            break;
        copies_heard(copies, copy);
        if (!take_lease(self, copy, msg))
            take_reply(self, copy, msg);
        zmsg_destroy(&msg);
    }
    return 0;
}

static int on_ask(zloop_t *loop, int timer, void *context)
{
    gateway_t *self = context;

    (void)loop;
    (void)timer;
    for (int i = 0; i < SERVICES; i++)
        if (self->services[i])
            copies_ask_all(self->services[i]);
    return 0;
}

/* Is it time to send the question again? It was not answered for RESEND_MS, could not be sent, its
 * connection broke, or its copy does not answer while another one does. */
static bool is_late(const call_t *call, int64_t now)
{
    const copy_t *copy = call->copy;

    return is_asking(call)
           && (now >= call->resend_ms
               || (copy
                   && (!copy_is_connected(copy)
                       || (!copy->answers && copies_answer(service_of(call))))));
}

/* Is the call over without an answer? Its deadline is over, or no copy of its service has answered
 * for long, and waiting would not help. But a change that may still be done is waited for until its
 * deadline: an answer that says it was not done could be false. */
static bool is_over(const call_t *call, int64_t now)
{
    return now >= call->deadline_ms
           || (!call->under_way && now > call->admitted_ms + HOPE_MS && is_silent(call, now));
}

static int on_tick(zloop_t *loop, int timer, void *context)
{
    gateway_t *self = context;
    int64_t now = bus_mono_ms();
    zlistx_t *late = zlistx_new();

    (void)loop;
    (void)timer;
    for (int i = 0; i < SERVICES; i++)
        if (self->services[i])
            copies_check(self->services[i]);
    for (call_t *call = zhashx_first(self->calls); call; call = zhashx_next(self->calls))
        if (is_over(call, now) || is_late(call, now))
            zlistx_add_end(late, call);
    for (call_t *call = zlistx_first(late); call; call = zlistx_next(late)) {
        if (is_over(call, now)) {
            self->metrics.timed_out++;
            call_refuse(call, ERR_MAINTENANCE, NULL, NULL);
            http_resume(call);
        } else {
            send_again(call);
            if (call->state == ANSWERED)
                http_resume(call);
        }
    }
    zlistx_destroy(&late);
    return 0;
}

/* To every copy that the setting <service>-rpc names. */
static int connect_service(gateway_t *self, service_id_t id)
{
    const char *service = service_row(id)->name;
    copies_t **copies = &self->services[id];
    char setting[64];
    int r;

    snprintf(setting, sizeof(setting), "%s-rpc", service);
    r = copies_new(copies, service, config_str(self->config, setting),
                   config_str(self->config, "curve-dir"));
    for (int i = 0; !r && i < (*copies)->count; i++) {
        zsock_t *sock = (*copies)->list[i].sock;

        zloop_reader(self->loop, sock, on_message, self);
        zloop_reader_set_tolerant(self->loop, sock);
    }
    return r;
}

int upstream_start(gateway_t *self)
{
    int r = 0;

    self->calls = zhashx_new();
    for (int i = 0; !r && i < SERVICES; i++)
        if (service_row(i)->is_of_gateway)
            r = connect_service(self, i);
    if (r)
        return r;
    zloop_timer(self->loop, TICK_MS, 0, on_tick, self);
    zloop_timer(self->loop, COPIES_ASK_MS, 0, on_ask, self);
    return 0;
}

void upstream_stop(gateway_t *self)
{
    for (int i = 0; i < SERVICES; i++)
        copies_destroy(&self->services[i]);
    zhashx_destroy(&self->calls);
}

bool upstream_is_ready(const gateway_t *self, char *why, size_t size)
{
    const copies_t *const needed[] = {self->services[SERVICE_identity],
                                      self->services[SERVICE_routes]};
    int64_t now = bus_mono_ms();

    for (size_t i = 0; i < LEN(needed); i++)
        if (!copies_were_heard(needed[i]) || copies_silent_ms(needed[i], now) > READY_MS) {
            snprintf(why, size, "no copy of %s answers", needed[i]->list[0].service);
            return false;
        }
    if (zhashx_size(self->calls) < CONNECTIONS_MAX)
        return true;
    snprintf(why, size, "too many calls in flight");
    return false;
}

size_t upstream_metrics(const gateway_t *self, char *out, size_t size)
{
    size_t n = 0;

    for (int i = 0; i < SERVICES; i++)
        if (self->services[i])
            n += copies_metrics(self->services[i], out + n, size - n);
    return n;
}
