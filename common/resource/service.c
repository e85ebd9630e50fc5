#include "common/resource/service.h"
#include "common/bus/backlog.h"
#include "common/base/cleanup.h"
#include "common/bus/deadline.h"
#include "common/base/files.h"
#include "common/bus/flight.h"
#include "common/bus/health.h"
#include "common/base/id.h"
#include "common/bus/lease.h"
#include "common/base/log.h"
#include "common/store/notes.h"
#include "common/resource/outbox.h"
#include "common/base/priority.h"
#include "common/resource/replog.h"
#include "common/bus/work.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

enum {
    WORKERS_MAX = 32,
    BURST_MAX = 64,  /* requests taken before anything else gets its turn */
    HOLD_MAX = 4096, /* replies waiting for acknowledgement */
    HOLD_MS = 2000,
    PERIODIC_MS = 60000, /* deadline of what the service asks itself */
    RETRY_MS = 50,
    COMPLAIN_MS = 60000,
    SLOW_US = 250000,     /* a read that took longer is logged */
    EDGES_MAX = 1024,     /* workers, of all copies */
    WORDS_MAX = 8 * 1024, /* a request of who has no document to send */
    FRAMES_MAX = 8,       /* of any, with its sender's: more than it needs */
    FLIGHTS_MAX = 2 * BACKLOG_ALL + BACKLOG_GUESTS_ALL + HOLD_MAX
                  + 1024 /* that wait, are held and are worked on */
};

static const setting_t common_settings[] = {
    {"database-url", SETTING_STR, NULL, 0, 0, "PostgreSQL connection string"},
    {"master-key", SETTING_STR, NULL, 0, 0, "file of the key that seals secrets at rest"},
    {"api-url", SETTING_STR, "http://127.0.0.1:8400", 0, 0, "base URL of the API, for uris"},
    {"idp-url", SETTING_STR, "https://idp.localhost", 0, 0, "base URL of sign-in endpoints"},
    {"rpc", SETTING_STR, NULL, 0, 0, "endpoint of this service's requests"},
    {"config-log", SETTING_STR, "", 0, 0, "endpoint of the config log"},
    {"events", SETTING_STR, NULL, 0, 0, "endpoint of the event service's intake"},
    {"curve-dir", SETTING_STR, "", 0, 0, "CURVE keys; needed for tcp:// endpoints"},
    {"workers", SETTING_INT, "4", 1, WORKERS_MAX, "database workers"},
    {"object-limit", SETTING_INT, "1000000", 0, 1000000000,
     "objects of one kind that an account may have; 0: no limit"},
    {"idempotency-seconds", SETTING_INT, "86400", DEADLINE_LEFT_MAX_MS / 1000, 31536000,
     "how long a request is remembered by its idempotency key"},
    {"tidy-seconds", SETTING_INT, "60", 1, 86400, "between deletions of what is too old"},
    {"health-host", SETTING_STR, "127.0.0.1", 0, 0, "address of /healthz, /readyz, /metrics"},
    {"health-port", SETTING_INT, "0", 0, 65535, "their port; 0: off"},
    {NULL, SETTING_STR, NULL, 0, 0, NULL},
};

typedef struct worker_args {
    const service_spec_t *spec;
    const config_t *config;
    const secret_key_t *key;
    backlog_t *backlog;
    work_t *done;
} worker_args_t;

typedef struct held {
    zmsg_t *reply; /* identity and the encoded reply */
    char key[FLIGHT_KEY_SIZE];
    int64_t revision, epoch, deadline_ms; /* 0: nothing to wait for */
} held_t;

typedef struct service {
    const service_spec_t *spec;
    setting_t settings[CONFIG_MAX];
    config_t config;
    void *part;
    secret_key_t *key;
    worker_args_t worker_args;
    outbox_args_t outbox_args;
    replog_args_t replog_args;
    zloop_t *loop;
    zsock_t *rpc;
    zactor_t *workers[WORKERS_MAX];
    int worker_count;
    backlog_t *backlog; /* requests, for the workers */
    work_t *done;       /* and their answers */
    flights_t *flights;
    held_t *held;
    int held_count;
    zactor_t *replog, *outbox;
    int64_t acked[EDGES_MAX];
    int live; /* edge workers */
    int64_t
        covered;    /* by that: a later revision may have been told to a worker that is not in it */
    int64_t copies; /* of this service, besides this one */
    bool settling;  /* who is there is not known yet */
    int64_t periodic_until_ms; /* what it asks itself runs, and is not asked again before */
    leases_t leases;
    health_t *health;
    files_watch_t files;
    struct {
        uint64_t requests, refused, over_share, resent, dropped, held_late;
    } metrics;
    int64_t complain_ms; /* when it may be said again that somebody asks for too much at once */
} service_t;

/* ---- worker ---- */

static int run_verb(crud_t *crud, const service_spec_t *spec, const request_t *request,
                    reply_t *reply)
{
    const char *dot = strchr(request->verb, '.');
    char name[64];
    const kind_t *kind;

    for (const verb_t *verb = spec->verbs; verb && verb->name; verb++)
        if (!strcmp(verb->name, request->verb)) {
            crud->request = request;
            return verb->run(crud, request, reply);
        }
    snprintf(name, sizeof(name), "%.*s", dot ? (int)(dot - request->verb) : 0, request->verb);
    kind = kind_find(name);
    if (!dot || !kind || strcmp(kind->service, spec->name) || !*request->account)
        return ERR_UNKNOWN_VERB;
    return crud_call(crud, kind, dot + 1, request, reply);
}

/* Run until it gives an answer or the deadline passes: a verb is safe to run again, because what it
 * did is recorded under the request id in its own transaction. */
static int run_with_retry(crud_t *crud, const service_spec_t *spec, const request_t *request,
                          reply_t *reply)
{
    for (int tries = 0;; tries++) {
        int r = pg_ready(crud->pg);

        if (!r)
            r = run_verb(crud, spec, request, reply);
        /* read-only: another session may be what this one was not, and no worker waits for more than that */
        if (r == PG_TIMEOUT || r == PG_FULL || (r == PG_DOWN && tries > 0 && pg_is_read_only())) {
            log_warn("req=%s %s", request->id, fault_text());
            return ERR_MAINTENANCE;
        }
        if (r != PG_DOWN && r != PG_AGAIN)
            return r;
        if (bus_mono_ms() + RETRY_MS >= request->deadline_ms)
            return ERR_MAINTENANCE;
        reply_done(reply);
        memset(reply, 0, sizeof(*reply));
        if (r == PG_DOWN)
            usleep(RETRY_MS * 1000);
    }
}

/* What was changed, refused or slow; of a read that went well the gateway's line says all that there is to say. */
static void log_request(const crud_t *crud, const request_t *request, int r, int64_t us,
                        const reply_t *reply)
{
    char verb[140], id[140];

    if (r == 0 && !crud->changes && us < SLOW_US)
        return;
    log_quote(request->verb, strlen(request->verb), verb, sizeof(verb));
    log_quote(request->id, strlen(request->id), id, sizeof(id));
    if (r < 0)
        log_error("verb=%s req=%s r=FAULT us=%" PRId64 " fault=\"%s\"", verb, id, us, fault_text());
    else
        log_info("verb=%s req=%s r=%s us=%" PRId64 " revision=%" PRId64, verb, id, outcome_name(r),
                 us, reply->revision);
}

/* What uris of the answer begin with may be the caller's to say: a client reaches the API under several names. It is no part
 * of what is asked for. NULL: the setting. */
static json_t *take_base(request_t *request)
{
    json_t *base = json_incref(json_object_get(request->body, "base"));

    json_object_del(request->body, "base");
    if (json_is_string(base))
        return base;
    json_decref(base);
    return NULL;
}

/* To whom sent a request that cannot be read: waiting for its deadline would not make it better. NULL: nobody. */
static zmsg_t *refuse_unreadable(const request_t *request)
{
    const reply_t reply = {.problem = {.code = ERR_INTERNAL}};
    char id[140];

    if (!*request->id)
        return NULL;
    log_error("req=%s a request cannot be read",
              log_quote(request->id, strlen(request->id), id, sizeof(id)));
    return reply_encode(request->id, &reply);
}

/* Does nobody wait for the answer any more? Also sets the deadline. */
static bool is_expired(const arrival_t *arrival, request_t *request)
{
    int64_t now = bus_mono_ms();
    char verb[140], id[140];

    request->deadline_ms = arrival_deadline(arrival, request);
    if (request->deadline_ms > now)
        return false;
    log_quote(request->verb, strlen(request->verb), verb, sizeof(verb));
    log_quote(request->id, strlen(request->id), id, sizeof(id));
    log_warn("verb=%s req=%s is dropped: whoever sent it gave up %" PRId64 " ms ago", verb, id,
             now - request->deadline_ms);
    return true;
}

/* identity + request frames in, identity + reply frames + revision + "revokes" or "" out. */
static zmsg_t *handle(crud_t *crud, const service_spec_t *spec, const arrival_t *arrival,
                      zmsg_t *msg)
{
    zframe_t *identity = zmsg_pop(msg);
    int64_t start = zclock_usecs();
    request_t request;
    reply_t reply = {0};
    zmsg_t *out = NULL;
    int r;

    crud->revokes = crud->changes = false;
    if (!identity) {
        return NULL;
    } else if (request_decode(msg, &request)) {
        out = refuse_unreadable(&request);
    } else if (!is_expired(arrival, &request)) {
        json_t *base = take_base(&request);
        const char *own = crud->base_url;

        if (base)
            crud->base_url = json_string_value(base);
        /* What the service asks itself is done in pieces, and nobody does anything else instead. */
        pg_until(crud->pg, zframe_size(identity) ? request.deadline_ms : 0);
        r = run_with_retry(crud, spec, &request, &reply);
        crud->base_url = own;
        json_decref(base);
        log_request(crud, &request, r, zclock_usecs() - start, &reply);
        if (r)
            reply.revision = 0;
        if (r > 0 && r != ERR_MAINTENANCE)
            crud->revokes = false; /* refused; any other failure may have been committed */
        if (r < 0)
            r = ERR_INTERNAL;
        if (r) {
            reply_drop_body(&reply);
            if (!reply.problem.code)
                reply.problem.code = r;
        } else {
            problem_done(&reply.problem);
            reply.problem.code = 0;
        }
        out = reply_encode(request.id, &reply);
    }
    if (out) {
        zmsg_prepend(out, &identity);
        zmsg_addstrf(out, "%" PRId64, reply.revision);
        zmsg_addstr(out, crud->revokes ? "revokes" : "");
    }
    zframe_destroy(&identity);
    reply_done(&reply);
    request_done(&request);
    return out;
}

/* What is known of a request goes with it to the worker, before it: its key, "" for none, the number of its lane, and its arrival_t. The
 * first two come back with the answer. An answer that consists of them alone is none. */
static zmsg_t *work_on(crud_t *crud, const service_spec_t *spec, zmsg_t *msg)
{
    zframe_t *key = zmsg_pop(msg), *lane = zmsg_pop(msg), *came = zmsg_pop(msg);
    arrival_t arrival;
    zmsg_t *out;

    memcpy(&arrival, zframe_data(came), sizeof(arrival));
    zframe_destroy(&came);
    out = handle(crud, spec, &arrival, msg);

    if (!out)
        out = zmsg_new();
    zmsg_prepend(out, &lane);
    zmsg_prepend(out, &key);
    return out;
}

static void worker_actor(zsock_t *pipe, void *context)
{
    const worker_args_t *args = context;
    zmsg_t *msg;
    crud_t crud = {
        .key = args->key,
        .base_url = config_str(args->config, "api-url"),
        .idp_url = config_str(args->config, "idp-url"),
        .rules = args->spec->rules,
        .service = args->spec->name,
        .object_limit = config_int(args->config, "object-limit"),
        .config_log = args->spec->config_log,
    };

    if (pg_new(&crud.pg, config_str(args->config, "database-url"), args->spec->name)) {
        zsock_signal(pipe, 1);
        return;
    }
    zsock_signal(pipe, 0);
    while ((msg = backlog_take(args->backlog))) {
        zmsg_t *out = work_on(&crud, args->spec, msg);

        zmsg_destroy(&msg);
        /* A lost one would keep its share of the workers, and nobody could ask for it again. */
        work_put_wait(args->done, &out);
        zmsg_destroy(&out);
    }
    pg_destroy(&crud.pg);
    /* Now, not in a destructor of this detached thread, which the process may not wait for. */
    OPENSSL_thread_stop();
}

/* ---- reactor ---- */

/* A request as it came: whoever sent it need not wait for its deadline. Its body is not looked at: that would be work for who gets
 * none. */
static void refuse(service_t *self, zmsg_t *msg, int code)
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

static int count_acked(const service_t *self, int64_t revision)
{
    int n = 0;

    for (int i = 0; i < self->live; i++)
        n += self->acked[i] >= revision;
    return n;
}

/* reply: identity and three frames; adds how many edges have it in force, of how many live. */
static void send_reply(service_t *self, const char *key, zmsg_t *reply, int64_t revision)
{
    zframe_t *newest = flights_end(self->flights, key);

    if (newest) {
        zframe_t *first = zmsg_pop(reply);

        zframe_destroy(&first);
        zmsg_prepend(reply, &newest);
    }
    if (zframe_size(zmsg_first(reply)) == 0) { /* on_period's */
        self->periodic_until_ms = 0;
        zmsg_destroy(&reply);
        return;
    }
    zmsg_addstrf(reply, "%d", revision ? count_acked(self, revision) : 0);
    zmsg_addstrf(reply, "%d", revision ? self->live : 0);
    zmsg_send(&reply, self->rpc);
    zmsg_destroy(&reply);
}

/* At every edge worker, and forgotten by everybody who held a lease. */
static bool is_in_force(const service_t *self, int64_t revision, int64_t epoch)
{
    return (!revision
            || (!self->settling && revision <= self->covered
                && count_acked(self, revision) == self->live))
           && (!epoch || leases_settled(&self->leases, epoch, bus_mono_ms()));
}

static void release_held(service_t *self)
{
    int64_t now = bus_mono_ms();
    int kept = 0;

    for (int i = 0; i < self->held_count; i++) {
        held_t *held = &self->held[i];
        bool all = is_in_force(self, held->revision, held->epoch);

        if (all || now >= held->deadline_ms) {
            self->metrics.held_late += !all;
            send_reply(self, held->key, held->reply, held->revision);
        } else {
            self->held[kept++] = *held;
        }
    }
    self->held_count = kept;
}

/* A request that keeps its worker busy for long by computing, not by waiting for PostgreSQL. */
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

/* Who authenticates, or changes a description, must not wait until keys are made, or for what somebody else asks who asks for itself. */
static backlog_lane_t lane_of(const service_t *self, zmsg_t *msg)
{
    if (zframe_size(zmsg_first(msg)) == 0) /* on_period's */
        return BACKLOG_QUICK;
    if (!(sender_of(msg).role & lease_roles(self->spec->name)))
        return BACKLOG_GUEST;
    return is_slow(self, msg) ? BACKLOG_SLOW : BACKLOG_QUICK;
}

/* identity + request frames. 0 | what backlog_put says, and then *msg is the caller's still. */
static int enqueue(service_t *self, const char *key, zmsg_t **msg)
{
    arrival_t arrival = arrival_now(leases_clock(&self->leases, zmsg_first(*msg)), bus_mono_ms());
    const char *owner =
        sender_of(*msg).id; /* borrowed from a frame, as long as the message is ours */
    backlog_lane_t lane = lane_of(self, *msg);
    int r;

    zmsg_pushmem(*msg, &arrival, sizeof(arrival));
    zmsg_pushstrf(*msg, "%d", (int)lane);
    zmsg_pushstr(*msg, key);
    r = backlog_put(self->backlog, owner, lane, msg);
    if (!r && *key)
        flights_begin(self->flights, key);
    for (int i = 0; r && i < 3; i++) {
        zframe_t *frame = zmsg_pop(*msg);

        zframe_destroy(&frame);
    }
    return r;
}

/* There is no room for it: its sender's share is taken, or everything is. */
static void refuse_busy(service_t *self, zmsg_t *msg, int r)
{
    int64_t now = bus_mono_ms();
    char quoted[300];

    self->metrics.refused++;
    self->metrics.over_share += r == -EDQUOT;
    if (r == -EDQUOT && now >= self->complain_ms) {
        const char *id = sender_of(msg).id;

        self->complain_ms = now + COMPLAIN_MS;
        log_warn("peer=\"%s\" has as many requests waiting as one key may have: more are refused",
                 log_quote(id, strnlen(id, 70), quoted, sizeof(quoted)));
    }
    refuse(self, msg, ERR_BUSY);
}

/* 0: the peer whose key this message came with may say that | the answer to it. */
static int check_role(service_t *self, zmsg_t *msg)
{
    zframe_t *identity = zmsg_first(msg), *word = identity ? zmsg_next(msg) : NULL;
    peer_t peer = peer_of(word);
    const char *service = self->spec->name;
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
        peer_refused(self->spec->socket, peer.id, why);
        return ERR_DENIED;
    }
    if (zmsg_size(msg) <= FRAMES_MAX
        && (role_has_documents(service, peer.role) || zmsg_content_size(msg) <= WORDS_MAX))
        return 0;
    snprintf(why, sizeof(why), "sends more than it can have to say for %s", verb);
    peer_refused(self->spec->socket, peer.id, why);
    return ERR_BODY_TOO_LARGE;
}

static void take_message(service_t *self, zmsg_t *msg)
{
    char key[FLIGHT_KEY_SIZE] = "";
    int r = check_role(self, msg);

    if (r) {
        refuse(self, msg, r);
    } else if (leases_take(&self->leases, self->rpc, msg, bus_mono_ms())) {
        release_held(self);
    } else {
        self->metrics.requests++;
        if (flight_key(msg, key) && flights_again(self->flights, key, zmsg_first(msg)))
            self->metrics.resent++;
        else if ((r = enqueue(self, key, &msg)))
            refuse_busy(self, msg, r);
    }
    zmsg_destroy(&msg);
}

static int on_rpc(zloop_t *loop, zsock_t *reader, void *context)
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

static char *pop_last(zmsg_t *msg)
{
    zframe_t *frame = zmsg_last(msg);
    char *text = zframe_strdup(frame);

    zmsg_remove(msg, frame);
    zframe_destroy(&frame);
    return text;
}

static void on_answer(service_t *self, zmsg_t *msg)
{
    _cleanup_(free_mem) char *key = zmsg_popstr(msg);
    _cleanup_(free_mem) char *lane = zmsg_popstr(msg);
    _cleanup_(free_mem) char *revokes = NULL;
    _cleanup_(free_mem) char *revision_text = NULL;
    int64_t revision, epoch = 0;

    backlog_done(self->backlog, (backlog_lane_t)strtol(lane, NULL, 10));
    if (!zmsg_size(msg)) { /* nobody waits any more */
        zframe_t *newest = flights_end(self->flights, key);

        self->metrics.dropped++;
        zframe_destroy(&newest);
        zmsg_destroy(&msg);
        return;
    }
    revokes = pop_last(msg);
    revision_text = pop_last(msg);
    revision = strtoll(revision_text, NULL, 10);
    if (*revokes)
        epoch = leases_revoke(&self->leases, self->rpc);
    if (self->held_count < HOLD_MAX && !is_in_force(self, revision, epoch)) {
        held_t *held = &self->held[self->held_count++];

        *held = (held_t){.reply = msg,
                         .revision = revision,
                         .epoch = epoch,
                         .deadline_ms = bus_mono_ms() + HOLD_MS};
        snprintf(held->key, sizeof(held->key), "%s", key);
    } else {
        send_reply(self, key, msg, revision);
    }
}

static int on_done(zloop_t *loop, zmq_pollitem_t *item, void *context)
{
    service_t *self = context;
    zmsg_t *msg;

    (void)loop;
    (void)item;
    while ((msg = work_poll(self->done)))
        on_answer(self, msg);
    return 0;
}

static int64_t pop_number(zmsg_t *msg)
{
    _cleanup_(free_mem) char *text = zmsg_popstr(msg);

    return text ? strtoll(text, NULL, 10) : 0;
}

static int on_replog(zloop_t *loop, zsock_t *reader, void *context)
{
    service_t *self = context;
    zmsg_t *msg = zmsg_recv(reader);
    _cleanup_(free_mem) char *word = msg ? zmsg_popstr(msg) : NULL;

    (void)loop;
    if (word) {
        self->settling = strcmp(word, "state") != 0 || zmsg_size(msg) > 2 + EDGES_MAX;
        self->covered = pop_number(msg);
        self->copies = pop_number(msg);
        self->live = 0;
        while (zmsg_size(msg) && self->live < EDGES_MAX)
            self->acked[self->live++] = pop_number(msg);
        release_held(self);
    }
    zmsg_destroy(&msg);
    return 0;
}

static int on_tick(zloop_t *loop, int timer, void *context)
{
    (void)loop;
    (void)timer;
    release_held(context);
    return 0;
}

/* The answer goes to nobody. One at a time: what takes longer than its period does not take all workers from those who ask. */
static int on_period(zloop_t *loop, int timer, void *context)
{
    service_t *self = context;
    char id[ID_MAX];
    zmsg_t *msg;

    (void)loop;
    (void)timer;
    if (bus_mono_ms() < self->periodic_until_ms)
        return 0;
    id_make("op", id);
    msg = request_encode(self->spec->periodic, id, NULL, "", PERIODIC_MS, NULL, json_object());
    if (msg) {
        zmsg_pushmem(msg, "", 0);     /* a ROUTER calls no peer so, whatever that says of itself */
        if (!enqueue(self, "", &msg)) /* else at the next period */
            self->periodic_until_ms = bus_mono_ms() + PERIODIC_MS;
        zmsg_destroy(&msg);
    }
    return 0;
}

static int on_files(zloop_t *loop, int timer, void *context)
{
    service_t *self = context;

    (void)loop;
    (void)timer;
    files_look(&self->files);
    return 0;
}

static int on_stop_check(zloop_t *loop, int timer, void *context)
{
    (void)loop;
    (void)timer;
    (void)context;
    return zsys_interrupted ? -1 : 0;
}

static size_t write_metrics(void *context, char *out, size_t size)
{
    service_t *self = context;
    const char *name = self->spec->name;
    const service_part_t *part = self->spec->part;
    size_t n = peer_metrics(name, out, size);
    int64_t lowest = self->live ? INT64_MAX : 0;

    for (int i = 0; i < self->live; i++)
        lowest = self->acked[i] < lowest ? self->acked[i] : lowest;
    n += part ? part->metrics(self->part, out + n, size - n) : 0;
    n += files_metrics(&self->files, name, out + n, size - n);
    out += n;
    size -= n;
    return n
           + (size_t)snprintf(out, size,
                              "postern_%s_requests_total %" PRIu64 "\n"
                              "postern_%s_requests_refused_total %" PRIu64 "\n"
                              "postern_%s_requests_over_share_total %" PRIu64 "\n"
                              "postern_%s_requests_resent_total %" PRIu64 "\n"
                              "postern_%s_requests_dropped_total %" PRIu64 "\n"
                              "postern_%s_requests_queued %zu\n"
                              "postern_%s_replies_held %d\n"
                              "postern_%s_replies_unacknowledged_total %" PRIu64 "\n"
                              "postern_%s_edge_workers_live %d\n"
                              "postern_%s_edge_revision_lowest %" PRId64 "\n"
                              "postern_%s_other_copies %" PRId64 "\n"
                              "postern_%s_audit_events_refused %" PRId64 "\n"
                              "postern_%s_notifications_refused_total %" PRId64 "\n",
                              name, self->metrics.requests, name, self->metrics.refused, name,
                              self->metrics.over_share, name, self->metrics.resent, name,
                              self->metrics.dropped, name, backlog_waiting(self->backlog), name,
                              self->held_count, name, self->metrics.held_late, name, self->live,
                              name, lowest, name, self->copies, name, outbox_refused(), name,
                              notes_refused());
}

static bool is_ready(void *context, char *why, size_t size)
{
    service_t *self = context;

    if (self->spec->part && !self->spec->part->is_ready(self->part, why, size))
        return false;
    if (pg_trouble()) {
        snprintf(why, size, "%s", pg_trouble());
        return false;
    }
    if (!backlog_is_full(self->backlog))
        return true;
    snprintf(why, size, "the request queue is full: is PostgreSQL up?");
    return false;
}

/* ---- lifecycle ---- */

static int prepare_database(service_t *self)
{
    crud_t crud = {
        .key = self->key,
        .base_url = config_str(&self->config, "api-url"),
        .idp_url = config_str(&self->config, "idp-url"),
        .rules = self->spec->rules,
        .service = self->spec->name,
        .object_limit = config_int(&self->config, "object-limit"),
        .config_log = self->spec->config_log,
    };
    int r;

    r = pg_new(&crud.pg, config_str(&self->config, "database-url"), self->spec->name);
    for (int tries = 0; !r && tries < 300 && !zsys_interrupted; tries++) {
        r = pg_migrate(crud.pg, self->spec->migrations);
        if (r != PG_DOWN)
            break;
        if (tries == 0)
            log_warn("PostgreSQL does not answer, trying for a minute: %s", fault_text());
        r = 0;
        usleep(200000);
    }
    if (!r && !zsys_interrupted)
        r = pg_ready(crud.pg);
    if (!r && self->spec->setup)
        r = self->spec->setup(&crud, &self->config);
    pg_destroy(&crud.pg);
    return r;
}

static int start_actors(service_t *self)
{
    zmq_pollitem_t done = {NULL, work_fd(self->done), ZMQ_POLLIN, 0};

    zloop_poller(self->loop, &done, on_done, self);
    zloop_poller_set_tolerant(self->loop, &done);
    self->worker_args =
        (worker_args_t){self->spec, &self->config, self->key, self->backlog, self->done};
    self->worker_count = (int)config_int(&self->config, "workers");
    for (int i = 0; i < self->worker_count; i++) {
        self->workers[i] = zactor_new(worker_actor, &self->worker_args);
        if (!self->workers[i])
            return -ENOMEM;
    }
    self->outbox_args =
        (outbox_args_t){config_str(&self->config, "database-url"),
                        self->spec->name,
                        config_str(&self->config, "events"),
                        config_str(&self->config, "curve-dir"),
                        {self->spec->config_log, config_int(&self->config, "idempotency-seconds")},
                        config_int(&self->config, "tidy-seconds")};
    self->outbox = zactor_new(outbox_actor, &self->outbox_args);
    if (!self->spec->config_log)
        return 0;
    self->replog_args = (replog_args_t){config_str(&self->config, "database-url"),
                                        self->spec->name,
                                        config_str(&self->config, "config-log"),
                                        config_str(&self->config, "curve-dir"),
                                        "routes_config",
                                        "routes_workers",
                                        self->key};
    self->settling = true;
    self->replog = zactor_new(replog_actor, &self->replog_args);
    zloop_reader(self->loop, zactor_sock(self->replog), on_replog, self);
    zloop_reader_set_tolerant(self->loop, zactor_sock(self->replog));
    return 0;
}

static int setup(service_t *self)
{
    int r;

    self->loop = zloop_new();
    self->backlog = backlog_new((int)config_int(&self->config, "workers"));
    self->done = work_new(SIZE_MAX, true);
    self->held = calloc(HOLD_MAX, sizeof(*self->held));
    self->flights = flights_new(FLIGHTS_MAX);
    if (!self->loop || !self->backlog || !self->done || !self->held || !self->flights)
        return -ENOMEM;
    leases_init(&self->leases, bus_mono_ms());
    r = secret_key_load(&self->key, config_str(&self->config, "master-key"));
    if (!r)
        r = prepare_database(self);
    if (r)
        return r;
    self->rpc = bus_bind(ZMQ_ROUTER, config_str(&self->config, "rpc"),
                         config_str(&self->config, "curve-dir"), self->spec->socket);
    if (!self->rpc)
        return -EADDRINUSE;
    zsock_set_sndtimeo(self->rpc, 0);
    zloop_reader(self->loop, self->rpc, on_rpc, self);
    zloop_reader_set_tolerant(self->loop, self->rpc);
    if (self->spec->part)
        r = self->spec->part->start(&self->part, self->loop, &self->config);
    if (!r)
        r = start_actors(self);
    zloop_timer(self->loop, 50, 0, on_tick, self);
    zloop_timer(self->loop, 100, 0, on_stop_check, self);
    files_look(&self->files);
    zloop_timer(self->loop, FILES_LOOK_MS, 0, on_files, self);
    if (self->spec->periodic)
        zloop_timer(self->loop, 1000 * (size_t)config_int(&self->config, self->spec->period), 0,
                    on_period, self);
    if (!r)
        r = health_new(&self->health, self->loop, config_str(&self->config, "health-host"),
                       (int)config_int(&self->config, "health-port"), write_metrics, is_ready,
                       self);
    return r;
}

static void teardown(service_t *self)
{
    health_destroy(&self->health);
    zactor_destroy(&self->replog);
    zactor_destroy(&self->outbox);
    if (self->backlog)
        backlog_stop(self->backlog);
    if (self->done)
        work_stop(self->done);
    for (int i = 0; i < self->worker_count; i++)
        zactor_destroy(&self->workers[i]);
    if (self->done)
        on_done(NULL, NULL, self);
    for (int i = 0; i < self->held_count; i++)
        send_reply(self, self->held[i].key, self->held[i].reply, self->held[i].revision);
    zloop_destroy(&self->loop);
    if (self->spec->part && self->part)
        self->spec->part->stop(&self->part);
    zsock_destroy(&self->rpc);
    leases_done(&self->leases);
    backlog_destroy(&self->backlog);
    work_destroy(&self->done);
    free(self->held);
    flights_destroy(&self->flights);
    secret_key_destroy(&self->key);
    config_done(&self->config);
}

/* The service's own settings behind those of all. */
static void join_settings(service_t *self)
{
    int n = 0;

    for (const setting_t *row = common_settings; row->name; row++)
        self->settings[n++] = *row;
    for (const setting_t *row = self->spec->settings; row && row->name; row++) {
        assert(n < CONFIG_MAX - 1);
        self->settings[n++] = *row;
    }
    self->settings[n] = (setting_t){NULL, SETTING_STR, NULL, 0, 0, NULL};
}

int service_main(const service_spec_t *spec, int argc, char **argv)
{
    service_t self = {.spec = spec};
    int r;

    join_settings(&self);

    log_init(spec->name);
    zsys_init(); /* SIGTERM and SIGINT set zsys_interrupted */
    r = config_parse(&self.config, self.settings, spec->about, argc, argv);
    if (r) {
        config_done(&self.config);
        return r == 1 ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    priority_behind_traffic();
    files_raise(FILES_SERVICE);
    r = setup(&self);
    if (!r) {
        log_info("ready rpc=%s workers=%d", config_str(&self.config, "rpc"), self.worker_count);
        zloop_start(self.loop);
        log_info("stopping");
    } else {
        log_error("cannot start: %s", fault_text());
    }
    teardown(&self);
    return r ? EXIT_FAILURE : EXIT_SUCCESS;
}
