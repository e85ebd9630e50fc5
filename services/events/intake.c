/* The event service's own part: intake from producers, the store's jobs, PUB to subscribers.
 * Must never block its producers: they keep what is not acknowledged. */
#include "services/events/intake.h"
#include "common/bus.h"
#include "common/cleanup.h"
#include "common/log.h"
#include "services/events/batch.h"
#include "services/events/layout.h"
#include "services/events/memory.h"
#include "services/events/store.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum {
    JOB_BATCHES = 256, /* batches in one transaction */
    JOB_MS = 50,       /* between transactions: a commit for each batch costs more than the batch */
    PENDING_BYTES = 64 << 20, /* waiting for the database; then producers wait */
    PRODUCERS_MAX = 1024,     /* connections remembered, dead ones too */
    PUB_MARK = 100000         /* events queued for one slow subscriber; later ones it misses */
};

typedef struct intake {
    zloop_t *loop;
    zsock_t *intake, *pub;
    zactor_t *store;
    store_args_t store_args;
    zlistx_t *pending; /* zmsg: identity, header, body */
    size_t pending_bytes;
    bool storing, paused, timer_set;
    int64_t job_ms;           /* when the last job began */
    zhashx_t *topics;         /* live subscriptions, by topic prefix */
    zhashx_t *producers;      /* hex identity -> zframe identity */
    bool wanted;              /* somebody subscribes to traffic events */
    const char *memory;       /* directory of bodies that are not sent */
    layout_t *layout;         /* of the last values that were published */
    msgpack_sbuffer envelope; /* of the event that is published */
    struct {
        uint64_t batches, repeated, bad, published, unreadable;
    } metrics;
} intake_t;

static int on_intake(zloop_t *loop, zsock_t *reader, void *context);

static void destroy_msg(void **item)
{
    zmsg_destroy((zmsg_t **)item);
}

static void destroy_frame(void **item)
{
    zframe_destroy((zframe_t **)item);
}

/* ---- who listens ---- */

static bool topic_wanted(intake_t *self, const char *topic)
{
    for (void *item = zhashx_first(self->topics); item; item = zhashx_next(self->topics)) {
        const char *prefix = zhashx_cursor(self->topics);

        if (prefix[0] == '=' && !strncmp(topic, prefix + 1, strlen(prefix + 1)))
            return true;
    }
    return false;
}

static void tell_producer(intake_t *self, zframe_t *identity)
{
    zmsg_t *msg = zmsg_new();

    zmsg_addmem(msg, zframe_data(identity), zframe_size(identity));
    zmsg_addstr(msg, "want");
    zmsg_addstr(msg, self->wanted ? "1" : "0");
    zmsg_send(&msg, self->intake);
    zmsg_destroy(&msg);
}

static void tell_producers(intake_t *self)
{
    for (zframe_t *one = zhashx_first(self->producers); one; one = zhashx_next(self->producers))
        tell_producer(self, one);
}

/* XPUB hands us subscriptions: 1 or 0, then the topic prefix. The key gets a '=' in front, because
 * an empty prefix is a subscription too. */
static int on_subscription(zloop_t *loop, zsock_t *reader, void *context)
{
    intake_t *self = context;
    zframe_t *frame = zframe_recv(reader);
    size_t len = frame ? zframe_size(frame) : 0;
    char key[256] = "=";
    bool wanted;

    (void)loop;
    if (len >= 1 && len < sizeof(key) - 1) {
        memcpy(key + 1, zframe_data(frame) + 1, len - 1);
        key[len] = '\0';
        if (zframe_data(frame)[0])
            zhashx_update(self->topics, key, self);
        else
            zhashx_delete(self->topics, key);
    }
    zframe_destroy(&frame);
    wanted = topic_wanted(self, "http_request_complete.v0")
             || topic_wanted(self, "tcp_connection_closed.v0");
    if (wanted != self->wanted) {
        self->wanted = wanted;
        tell_producers(self);
    }
    return 0;
}

/* ---- intake ---- */

static int on_job_timer(zloop_t *loop, int timer, void *context);

static void give_job(intake_t *self)
{
    int64_t now = bus_mono_ms();
    zmsg_t *job, *one;
    int n = 0;

    if (self->storing || self->timer_set || !zlistx_size(self->pending))
        return;
    if (now - self->job_ms < JOB_MS) {
        self->timer_set = true;
        zloop_timer(self->loop, (size_t)(JOB_MS - (now - self->job_ms)), 1, on_job_timer, self);
        return;
    }
    self->job_ms = now;
    job = zmsg_new();
    while (n++ < JOB_BATCHES && (one = zlistx_detach(self->pending, NULL))) {
        self->pending_bytes -= zmsg_content_size(one);
        for (zframe_t *frame; (frame = zmsg_pop(one));)
            zmsg_append(job, &frame);
        zmsg_destroy(&one);
    }
    self->storing = true;
    zmsg_send(&job, self->store);
    if (self->paused && self->pending_bytes < PENDING_BYTES / 2) {
        self->paused = false;
        zloop_reader(self->loop, self->intake, on_intake, self);
        zloop_reader_set_tolerant(self->loop, self->intake);
    }
}

static int on_job_timer(zloop_t *loop, int timer, void *context)
{
    intake_t *self = context;

    (void)loop;
    (void)timer;
    self->timer_set = false;
    give_job(self);
    return 0;
}

/* "resend" or "inline". */
static void tell(intake_t *self, zframe_t *identity, const char *word)
{
    zmsg_t *msg = zmsg_new();

    zmsg_addmem(msg, zframe_data(identity), zframe_size(identity));
    zmsg_addstr(msg, word);
    zmsg_send(&msg, self->intake);
    zmsg_destroy(&msg);
}

static void remember_producer(intake_t *self, zframe_t *identity)
{
    _cleanup_(free_mem) char *key = zframe_strhex(identity);

    tell_producer(self, identity);
    if (!zhashx_lookup(self->producers, key)) {
        /* a new connection: what was on the way on its last one may be gone */
        if (zhashx_size(self->producers) >= PRODUCERS_MAX)
            zhashx_purge(self->producers); /* those that live say hello within a second */
        zhashx_insert(self->producers, key, zframe_dup(identity));
        tell(self, identity, "resend");
    }
}

/* The body of [header][body], when it was left in memory instead: at once, because the producer keeps
 * it only while it has room. False: the producer was told to send it again, in another way or later. */
static bool fetch_body(intake_t *self, zframe_t *identity, zmsg_t *msg)
{
    zframe_t *header = zmsg_first(msg), *body = zmsg_last(msg);
    zframe_t *fetched;
    batch_t batch;
    int r;

    if (zframe_size(body) || batch_header(zframe_data(header), zframe_size(header), &batch)
        || !*batch.memory)
        return true; /* sent, or for the store to refuse */
    r = memory_fetch(self->memory, &batch, &fetched);
    if (r) {
        tell(self, identity, r == -EACCES ? "inline" : "resend");
        return false;
    }
    zmsg_remove(msg, body);
    zframe_destroy(&body);
    zmsg_append(msg, &fetched);
    return true;
}

/* [identity][""] when it connects (ZMQ_PROBE_ROUTER) | [identity]["hello"] |
 * [identity]["batch"][header][body] */
static void take_message(intake_t *self, zmsg_t *msg)
{
    zframe_t *identity = zmsg_pop(msg);
    _cleanup_(free_mem) char *word = zmsg_popstr(msg);

    if (identity && word && (!*word || !strcmp(word, "hello"))) {
        remember_producer(self, identity);
    } else if (identity && word && !strcmp(word, "batch") && zmsg_size(msg) == 2) {
        self->metrics.batches++;
        if (!fetch_body(self, identity, msg)) {
            zframe_destroy(&identity);
            zmsg_destroy(&msg);
            return;
        }
        zmsg_prepend(msg, &identity);
        self->pending_bytes += zmsg_content_size(msg);
        zlistx_add_end(self->pending, msg);
        return;
    } else {
        self->metrics.bad++;
    }
    zframe_destroy(&identity);
    zmsg_destroy(&msg);
}

static int on_intake(zloop_t *loop, zsock_t *reader, void *context)
{
    intake_t *self = context;

    for (int i = 0; i < JOB_BATCHES && zsock_events(reader) & ZMQ_POLLIN; i++) {
        zmsg_t *msg = zmsg_recv(reader);

        if (!msg)
            break;
        take_message(self, msg);
    }
    if (self->pending_bytes > PENDING_BYTES && !self->paused) {
        self->paused = true;
        zloop_reader_end(loop, reader);
    }
    give_job(self);
    return 0;
}

static void send_event(intake_t *self, const char *topic, size_t topic_len, const void *envelope,
                       size_t len)
{
    void *pub = zsock_resolve(self->pub);

    zmq_send(pub, topic, topic_len, ZMQ_SNDMORE | ZMQ_DONTWAIT);
    zmq_send(pub, envelope, len, ZMQ_DONTWAIT);
    self->metrics.published++;
}

/* The layout of the values that follow: nearly always the one of the batch before. 0 | -EBADMSG | -ENOMEM. */
static int take_layout(intake_t *self, const record_t *record)
{
    if (layout_is(self->layout, record->body, record->body_len))
        return 0;
    layout_destroy(&self->layout);
    return layout_new(&self->layout, record->body, record->body_len);
}

static int publish_values(intake_t *self, const record_t *record)
{
    const char *topic;
    size_t topic_len;
    int r;

    if (!self->layout)
        return -EBADMSG;
    self->envelope.size = 0;
    r = layout_envelope(self->layout, record->body, record->body_len, &self->envelope);
    if (r)
        return r;
    topic = layout_topic(self->layout, &topic_len);
    send_event(self, topic, topic_len, self->envelope.data, self->envelope.size);
    return 0;
}

static void publish(intake_t *self, zframe_t *body)
{
    record_t record;
    size_t offset = 0;
    uint64_t unreadable = 0;

    while (batch_next(zframe_data(body), zframe_size(body), &offset, &record) == 1) {
        if (record.kind == RECORD_EVENT)
            send_event(self, record.topic, record.topic_len, record.body, record.body_len);
        else if (record.kind == RECORD_LAYOUT)
            (void)take_layout(self, &record); /* none: its values are counted */
        else
            unreadable += publish_values(self, &record) != 0;
    }
    self->metrics.unreadable += unreadable;
    if (unreadable)
        log_warn("%" PRIu64 " events of a batch cannot be decoded", unreadable);
}

static void acknowledge(intake_t *self, zframe_t **identity, zframe_t *header)
{
    zmsg_t *msg = zmsg_new();
    batch_t batch;

    if (batch_header(zframe_data(header), zframe_size(header), &batch)) {
        zmsg_destroy(&msg); /* nobody to answer */
        return;
    }
    zmsg_append(msg, identity);
    zmsg_addstr(msg, "ack");
    zmsg_addstrf(msg, "%" PRId64, batch.seq);
    zmsg_addstr(msg, batch.producer);
    zmsg_send(&msg, self->intake);
    zmsg_destroy(&msg);
}

static int on_stored(zloop_t *loop, zsock_t *reader, void *context)
{
    intake_t *self = context;
    zmsg_t *msg = zmsg_recv(reader);

    (void)loop;
    self->storing = false;
    while (msg && zmsg_size(msg) >= 4) {
        zframe_t *identity = zmsg_pop(msg), *header = zmsg_pop(msg), *body = zmsg_pop(msg);
        _cleanup_(free_mem) char *verdict = zmsg_popstr(msg);

        if (!strcmp(verdict, "new"))
            publish(self, body);
        self->metrics.repeated += !strcmp(verdict, "old");
        if (!strcmp(verdict, "bad")) {
            self->metrics.bad++;
            log_warn("refused a batch that cannot be decoded");
        }
        if (!strcmp(verdict, "early"))
            tell(self, identity, "resend");
        else if (strcmp(verdict, "stop")) /* a bad batch too: sent again it stays bad */
            acknowledge(self, &identity, header);
        zframe_destroy(&identity);
        zframe_destroy(&header);
        zframe_destroy(&body);
    }
    zmsg_destroy(&msg);
    give_job(self);
    return 0;
}

/* ---- lifecycle ---- */

static size_t write_metrics(void *context, char *out, size_t size)
{
    intake_t *self = context;

    return (size_t)snprintf(out, size,
                            "postern_events_batches_total %" PRIu64 "\n"
                            "postern_events_batches_repeated_total %" PRIu64 "\n"
                            "postern_events_batches_refused_total %" PRIu64 "\n"
                            "postern_events_published_total %" PRIu64 "\n"
                            "postern_events_unreadable_total %" PRIu64 "\n"
                            "postern_events_pending_bytes %zu\n"
                            "postern_intake_traffic_wanted %d\n",
                            self->metrics.batches, self->metrics.repeated, self->metrics.bad,
                            self->metrics.published, self->metrics.unreadable, self->pending_bytes,
                            self->wanted);
}

static bool is_ready(void *context, char *why, size_t size)
{
    intake_t *self = context;

    if (!self->paused)
        return true;
    snprintf(why, size, "producers wait: is PostgreSQL up?");
    return false;
}

static int start(void **ret_self, zloop_t *loop, const config_t *config)
{
    const char *curve = config_str(config, "curve-dir");
    intake_t *self = calloc(1, sizeof(*self));

    if (!self)
        return -ENOMEM;
    *ret_self = self;
    self->loop = loop;
    msgpack_sbuffer_init(&self->envelope);
    self->memory = config_str(config, "event-memory");
    self->pending = zlistx_new();
    self->topics = zhashx_new();
    self->producers = zhashx_new();
    zlistx_set_destructor(self->pending, destroy_msg);
    zhashx_set_destructor(self->producers, destroy_frame);
    self->intake = bus_bind_intake(config_str(config, "intake"), curve);
    if (!self->intake)
        return -EADDRINUSE;
    zsock_set_sndtimeo(self->intake, 0);
    self->pub = bus_bind_marked(ZMQ_XPUB, (bus_marks_t){.send = PUB_MARK, .receive = 1000},
                                config_str(config, "pub"), curve);
    if (!self->pub)
        return -EADDRINUSE;
    self->store_args = (store_args_t){config_str(config, "database-url")};
    self->store = zactor_new(store_actor, &self->store_args);
    zloop_reader(self->loop, self->intake, on_intake, self);
    zloop_reader_set_tolerant(self->loop, self->intake);
    zloop_reader(self->loop, self->pub, on_subscription, self);
    zloop_reader_set_tolerant(self->loop, self->pub);
    zloop_reader(self->loop, zactor_sock(self->store), on_stored, self);
    zloop_reader_set_tolerant(self->loop, zactor_sock(self->store));
    return 0;
}

static void stop(void **self_p)
{
    intake_t *self = *self_p;

    zactor_destroy(&self->store);
    if (self->intake)
        bus_drain(self->intake); /* producers send it again: it was not acknowledged */
    zsock_destroy(&self->intake);
    zsock_destroy(&self->pub);
    zlistx_destroy(&self->pending);
    zhashx_destroy(&self->topics);
    zhashx_destroy(&self->producers);
    layout_destroy(&self->layout);
    msgpack_sbuffer_destroy(&self->envelope);
    free(self);
    *self_p = NULL;
}

const service_part_t intake_part = {start, stop, write_metrics, is_ready};
