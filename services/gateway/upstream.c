/* The services on the bus: requests out, replies in, resends, deadlines. A lost request is sent again
 * under the same idempotency key, so a service that died half-way does nothing twice. */
#include "common/cleanup.h"
#include "common/log.h"
#include "services/gateway/gateway.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* One call asks several questions: the suffix of the id tells their answers apart, so that a late
 * answer to one does not answer the next. */
static const char *suffix_of(call_state_t state)
{
    return state == AUTHENTICATING ? ".auth" : state == ADMITTING ? ".admit" : "";
}

static json_t *call_body(call_t *call)
{
    const target_t *target = &call->target;
    const char *if_match = http_header(call, "If-Match");
    json_t *body = json_pack("{s:O?, s:O, s:s?}", "document", call->document, "query", call->query,
                             "if_match", if_match);

    if (*target->id)
        json_object_set_new(body, "id", json_string(target->id));
    if (*target->module)
        json_object_set_new(body, "module", json_string(target->module));
    if (*target->member)
        json_object_set_new(body, "member", json_string(target->member));
    if (*target->parent)
        json_object_set_new(body, target->parent_key, json_string(target->parent));
    if (target->operation == LIST && *target->parent)
        json_object_set_new(body, "within", json_string(target->parent_key));
    json_object_set_new(body, "path", json_string(call->path));
    json_object_set_new(body, "base", json_string(call->base));
    return body;
}

void upstream_send(call_t *call)
{
    gateway_t *self = call->gateway;
    int64_t now = bus_mono_ms(), deadline = bus_now_ms() + (call->deadline_ms - now);
    char verb[96] = "api_key.authenticate", id[ID_MAX + 8];
    zsock_t *sock = self->identity;
    json_t *body;
    zmsg_t *msg;

    if (call->state == AUTHENTICATING) {
        body = json_pack("{s:s}", "token", call_token(call));
    } else if (call->state == ADMITTING) {
        snprintf(verb, sizeof(verb), "ip_restriction.admit");
        body = json_pack("{s:s}", "ip", call->ip);
        sock = self->routes;
    } else if (call->self) {
        snprintf(verb, sizeof(verb), "self.get");
        body = json_pack("{s:s}", "base", call->base);
    } else {
        snprintf(verb, sizeof(verb), "%s.%s", call->target.kind->name, call->target.verb);
        body = call_body(call);
        sock = !strcmp(call->target.kind->service, "routes")   ? self->routes
               : !strcmp(call->target.kind->service, "events") ? self->events
                                                               : self->identity;
    }
    call->resend_ms = now + RESEND_MS;
    if (!body) { /* the token is not UTF-8 */
        call_refuse(call, ERR_AUTH_MALFORMED, NULL, NULL);
        return;
    }
    snprintf(id, sizeof(id), "%s%s", call->operation_id, suffix_of(call->state));
    msg = request_encode(verb, id, call->state == CALLING ? call->key : NULL, call->account,
                         deadline, call->actor, body);
    if (!msg) { /* it would not become better by waiting */
        log_error("op=%s the request cannot be put on the bus", call->operation_id);
        call_refuse(call, ERR_INTERNAL, NULL, NULL);
        return;
    }
    zhashx_update(self->calls, call->operation_id, call);
    if (zmsg_send(&msg, sock))
        zmsg_destroy(&msg); /* the timer sends it again */
}

static int on_reply(zloop_t *loop, zsock_t *reader, void *context)
{
    gateway_t *self = context;

    (void)loop;
    for (int i = 0; i < 256 && zsock_events(reader) & ZMQ_POLLIN; i++) {
        zmsg_t *msg = zmsg_recv(reader);
        _cleanup_(json_clear_ref) json_t *outcome = NULL;
        zframe_t *body = NULL;
        char id[64], edges[32] = "", suffix[16] = "";
        call_t *call;

        if (!msg)
            break;
        /* One that cannot be read is an answer too, if it says whose. */
        if (!reply_split(msg, id, &outcome, &body) || *id) {
            _cleanup_(free_mem) char *acked = zmsg_popstr(msg);
            _cleanup_(free_mem) char *live = zmsg_popstr(msg);

            snprintf(edges, sizeof(edges), "%.10s/%.10s", acked ? acked : "0", live ? live : "0");
            snprintf(suffix, sizeof(suffix), "%s", id + strcspn(id, "."));
            id[strcspn(id, ".")] = '\0';
            call = zhashx_lookup(self->calls, id);
            if (call && !strcmp(suffix, suffix_of(call->state)))
                call_reply(call, outcome, body, edges);
        }
        zframe_destroy(&body);
        zmsg_destroy(&msg);
    }
    return 0;
}

static int on_tick(zloop_t *loop, int timer, void *context)
{
    gateway_t *self = context;
    int64_t now = bus_mono_ms();
    zlistx_t *late = zlistx_new();

    (void)loop;
    (void)timer;
    for (call_t *call = zhashx_first(self->calls); call; call = zhashx_next(self->calls))
        if (now >= call->deadline_ms || now >= call->resend_ms)
            zlistx_add_end(late, call);
    for (call_t *call = zlistx_first(late); call; call = zlistx_next(late)) {
        if (now >= call->deadline_ms) {
            self->metrics.timed_out++;
            call_refuse(call, ERR_MAINTENANCE, NULL, NULL);
            http_resume(call);
        } else {
            self->metrics.resent++;
            upstream_send(call);
            if (call->state == ANSWERED)
                http_resume(call);
        }
    }
    zlistx_destroy(&late);
    return 0;
}

int upstream_start(gateway_t *self)
{
    const char *curve = config_str(&self->config, "curve-dir");

    self->calls = zhashx_new();
    self->identity =
        bus_connect(ZMQ_DEALER, config_str(&self->config, "identity-rpc"), curve, "identity");
    self->routes =
        bus_connect(ZMQ_DEALER, config_str(&self->config, "routes-rpc"), curve, "routes");
    self->events =
        bus_connect(ZMQ_DEALER, config_str(&self->config, "events-rpc"), curve, "events");
    zsock_t *const socks[] = {self->identity, self->routes, self->events};

    for (size_t i = 0; i < LEN(socks); i++) {
        if (!socks[i])
            return -ENOTCONN;
        zsock_set_sndtimeo(socks[i], 0);
        zloop_reader(self->loop, socks[i], on_reply, self);
        zloop_reader_set_tolerant(self->loop, socks[i]);
    }
    zloop_timer(self->loop, 100, 0, on_tick, self);
    return 0;
}

void upstream_stop(gateway_t *self)
{
    zsock_destroy(&self->identity);
    zsock_destroy(&self->routes);
    zsock_destroy(&self->events);
    zhashx_destroy(&self->calls);
}
