/* The event service beside its verbs: batches in from producers, jobs to the store, their events to
 * the feed of subscribers. It must never block its producers, which keep what is not acknowledged.
 *
 * One job is on its way at a time: stored, published, acknowledged. While subscribers from before a
 * restart are waited for, nothing is stored either, because what is stored and not yet published
 * would be lost with this process; what is not acknowledged is sent again. */
#include "services/events/intake.h"
#include "common/base/memory.h"
#include "common/bus/bus.h"
#include "common/base/cleanup.h"
#include "common/base/log.h"
#include "common/store/pg.h"
#include "services/events/batch.h"
#include "services/events/event_log.h"
#include "services/events/feed.h"
#include "services/events/layout.h"
#include "services/events/memory.h"
#include "services/events/pending.h"
#include "services/events/put_off.h"
#include "services/events/store.h"
#include "services/events/topics.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum {
    READ_MAX = 256,       /* messages of producers before the loop does anything else */
    JOB_MS = 50,          /* between transactions: a commit costs more than a batch */
    PRODUCERS_MAX = 1024, /* connections remembered, those that ended too */
    TICK_MS = 100,
    NOTE_MS = 200,
    FULL_MS = 5,       /* until an event is tried again after a subscriber's queue was full */
    PUBLISH_MS = 10,   /* of publishing, before the loop does anything else */
    PUBLISH_STEP = 16, /* records between two looks at the clock */
    PUBLISH_REST_MS = 1,
    FAILING_MS = 1000,     /* storing has failed for so long: more than one lost connection */
    STOP_MS = 3000,        /* for the job that is on its way when the service is stopped */
    STOP_LINGER_MS = 2000, /* for subscribers to take the events of that job */
    STOP_READS = 64        /* of subscribers' last messages */
};

/* A batch whose events are being published. */
typedef struct publication {
    zframe_t *identity, *header, *body, *numbers; /* identity NULL: no batch */
    char verdict[8];
    size_t offset, events; /* in the body: bytes and events that are done */
    uint64_t unreadable;
} publication_t;

typedef struct intake {
    zloop_t *loop;
    zsock_t *intake;
    feed_t *feed;
    zactor_t *store;
    store_args_t store_args;
    pending_t *pending; /* batches that wait for the store */
    put_off_t *put_off;
    bool storing, timer_set, stopping;
    int64_t job_ms;            /* monotonic ms when the last job began */
    int64_t noted_ms;          /* monotonic ms when the subscribers were noted last */
    zmsg_t *answer;            /* answer of the store: batches that are still to be published */
    publication_t publication; /* the first batch of the answer */
    zhashx_t *producers;       /* hex identity -> zframe identity */
    bool wanted;               /* somebody subscribes to traffic events */
    const char *memory;        /* directory of bodies that are left in memory */
    layout_t *layout;          /* of the values published last */
    msgpack_sbuffer envelope;  /* of the event that is being published */
    unsigned steps;            /* records looked at since the last look at the clock */
    struct {
        uint64_t batches, put_off, repeated, bad, unreadable, gone, given_up;
    } metrics;
} intake_t;

static void destroy_frame(void **item)
{
    zframe_destroy((zframe_t **)item);
}

/* ---- who listens ---- */

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

static void update_wanted(intake_t *self)
{
    bool wanted = feed_wants(self->feed, "http_request_complete.v0")
                  || feed_wants(self->feed, "tcp_connection_closed.v0");

    if (wanted != self->wanted) {
        self->wanted = wanted;
        tell_producers(self);
    }
}

/* Are the subscribers from before the restart back, or given up? When they are given up, the events
 * that waited for them are counted. */
static bool is_everybody_back(intake_t *self)
{
    int missing;

    if (feed_waits(self->feed, &missing))
        return false;
    if (missing) {
        int64_t events = pending_events(self->pending);

        self->metrics.gone += (uint64_t)missing;
        self->metrics.given_up += (uint64_t)events;
        log_warn("%d subscribers from before the restart did not come back: the %" PRId64
                 " events that waited for them go to the others",
                 missing, events);
    }
    return true;
}

static void give_job(intake_t *self);
static void tell_room(intake_t *self);

static int on_subscription(zloop_t *loop, zsock_t *reader, void *context)
{
    intake_t *self = context;

    (void)loop;
    (void)reader;
    feed_read(self->feed);
    update_wanted(self);
    give_job(self);
    return 0;
}

static int on_tick(zloop_t *loop, int timer, void *context)
{
    intake_t *self = context;

    (void)loop;
    (void)timer;
    feed_read(self->feed);
    update_wanted(self);
    give_job(self);
    tell_room(self); /* those that had to wait for the producers told before */
    return 0;
}

static int on_job_timer(zloop_t *loop, int timer, void *context);

/* Have the store note who subscribes, so that the next process knows; but not all the time, because
 * batches wait for it. False: there is nothing to note. */
static bool note_listeners(intake_t *self)
{
    _cleanup_(free_mem) char *listeners = NULL;

    if (self->noted_ms && bus_mono_ms() - self->noted_ms < NOTE_MS && !self->stopping)
        return false;
    listeners = feed_listeners(self->feed);
    if (listeners) {
        self->noted_ms = bus_mono_ms();
        self->storing = zstr_sendx(self->store, "listeners", listeners, NULL) == 0;
    }
    return listeners != NULL;
}

/* Send a producer "resend" or "inline". */
static void send_word(intake_t *self, zframe_t *identity, const char *word)
{
    zmsg_t *msg = zmsg_new();

    zmsg_addmem(msg, zframe_data(identity), zframe_size(identity));
    zmsg_addstr(msg, word);
    zmsg_send(&msg, self->intake);
    zmsg_destroy(&msg);
}

/* ---- room ---- */

/* Is there no room for this batch? Then its producer keeps the batch, and is told when there is
 * room. */
static bool is_put_off(intake_t *self, zframe_t *identity, zmsg_t *msg, const batch_t *batch)
{
    size_t bytes = PENDING_OVERHEAD + zmsg_content_size(msg);

    if (*batch->memory && batch->len > 0 && batch->len <= PENDING_KEY_BYTES)
        bytes += (size_t)batch->len;
    if (!put_off_batch(self->put_off, self->pending, identity, peer_of(zmsg_first(msg)).id, batch,
                       bytes, bus_mono_ms()))
        return false;
    self->metrics.put_off++;
    return true;
}

static void tell_room(intake_t *self)
{
    for (zframe_t *one; (one = put_off_tell(self->put_off, self->pending, bus_mono_ms()));)
        send_word(self, one, "resend");
}

/* ---- jobs ---- */

static void give_job(intake_t *self)
{
    int64_t now = bus_mono_ms();
    zmsg_t *job;

    if (self->storing || self->timer_set || !is_everybody_back(self) || note_listeners(self)
        || !pending_bytes(self->pending))
        return;
    if (now - self->job_ms < JOB_MS) {
        self->timer_set = true;
        zloop_timer(self->loop, (size_t)(JOB_MS - (now - self->job_ms)), 1, on_job_timer, self);
        return;
    }
    self->job_ms = now;
    job = pending_take_job(self->pending);
    self->storing = true;
    zmsg_send(&job, self->store);
    tell_room(self);
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

/* ---- intake ---- */

static void remember_producer(intake_t *self, zframe_t *identity)
{
    _cleanup_(free_mem) char *key = zframe_strhex(identity);

    tell_producer(self, identity);
    if (!zhashx_lookup(self->producers, key)) {
        /* A new connection: what was on the way over the producer's last one may be lost, so it has
         * to send again. */
        if (zhashx_size(self->producers) >= PRODUCERS_MAX)
            zhashx_purge(self->producers); /* those that are alive say hello within a second */
        zhashx_insert(self->producers, key, zframe_dup(identity));
        send_word(self, identity, "resend");
    }
}

static void tell_refused(intake_t *self, zframe_t *identity, const char *producer)
{
    zmsg_t *msg = zmsg_new();

    zmsg_addmem(msg, zframe_data(identity), zframe_size(identity));
    zmsg_addstr(msg, "refused");
    zmsg_addstrf(msg, "%d", ERR_PEER_PRODUCER);
    zmsg_addstr(msg, producer);
    zmsg_send(&msg, self->intake);
    zmsg_destroy(&msg);
}

/* May this key send events of this producer? A batch under another's name would use up that one's
 * numbers, and its own events would later count as seen. */
static bool may_produce(intake_t *self, zframe_t *identity, zframe_t *header, const batch_t *batch)
{
    peer_t peer = peer_of(header);
    const char *family = batch->audit ? "audit" : "traffic";
    char why[200];

    if (role_may_produce(peer.role, peer.name, family, batch->producer))
        return true;
    snprintf(why, sizeof(why), "sends %s events of %s", family, batch->producer);
    peer_refused(SOCKET_INTAKE, peer.id, why);
    tell_refused(self, identity, batch->producer);
    return false;
}

/* Fetch the body of a batch that its producer left in memory; at once, because the producer keeps
 * it only while it has room. False: the producer was told to send it, or to send it later. */
static bool fetch_body(intake_t *self, zframe_t *identity, const batch_t *batch, zmsg_t *msg)
{
    zframe_t *header = zmsg_first(msg), *body = zmsg_last(msg);
    zframe_t *fetched;
    char why[256];
    int r;

    if (zframe_size(body) || !*batch->memory)
        return true;
    r = memory_fetch(self->memory, batch, &fetched);
    if (r == -EPERM) {
        snprintf(why, sizeof(why), "names memory %s, which is not that of %s", batch->memory,
                 batch->producer);
        peer_refused(SOCKET_INTAKE, peer_of(header).id, why);
    }
    if (r) {
        send_word(self, identity, r == -ESTALE ? "resend" : "inline");
        return false;
    }
    zmsg_remove(msg, body);
    zframe_destroy(&body);
    zmsg_append(msg, &fetched);
    return true;
}

/* Answer a batch that is done. A bad traffic batch is acknowledged too, because it would stay bad;
 * a bad audit batch is reported to its service, which keeps the event. */
static void acknowledge_batch(intake_t *self, zframe_t *identity, const batch_t *batch, bool bad)
{
    zmsg_t *msg = zmsg_new();

    zmsg_addmem(msg, zframe_data(identity), zframe_size(identity));
    zmsg_addstr(msg, bad && batch->audit ? "bad" : "ack");
    zmsg_addstrf(msg, "%" PRId64, batch->seq);
    zmsg_addstr(msg, batch->producer);
    zmsg_send(&msg, self->intake);
    zmsg_destroy(&msg);
}

static void send_acknowledgement(intake_t *self, zframe_t *identity, zframe_t *header, bool bad)
{
    batch_t batch;

    if (!batch_header(zframe_data(header), zframe_size(header), &batch))
        acknowledge_batch(self, identity, &batch, bad);
}

/* Refuse a header that cannot be read, and keep nothing of it. If it names a producer of the
 * sender's and a number, it is answered, so that a broken batch in an edge's spool does not stop
 * those behind it. An acknowledgement is good for all older batches too, so only the oldest gets
 * one. */
static void refuse_header(intake_t *self, zframe_t *identity, zframe_t *header,
                          const batch_t *batch)
{
    self->metrics.bad++;
    if (*batch->producer && !may_produce(self, identity, header, batch))
        return;
    peer_refused(SOCKET_INTAKE, peer_of(header).id, "sent a batch whose header cannot be read");
    if (*batch->producer && (batch->audit || batch->oldest))
        acknowledge_batch(self, identity, batch, true);
    else if (*batch->producer)
        send_word(self, identity, "resend");
}

/* Take [header][body] of a producer. False: not taken; the producer was told why, or will be told
 * when there is room. */
static bool accept_batch(intake_t *self, zframe_t *identity, zmsg_t *msg, batch_t *ret_batch)
{
    zframe_t *header = zmsg_first(msg);

    if (batch_header(zframe_data(header), zframe_size(header), ret_batch)) {
        refuse_header(self, identity, header, ret_batch);
        return false;
    }
    if (!may_produce(self, identity, header, ret_batch))
        return false;
    if (is_put_off(self, identity, msg, ret_batch))
        return false;
    return fetch_body(self, identity, ret_batch, msg);
}

/* Take one message: [identity][""] when a producer connects (ZMQ_PROBE_ROUTER) |
 * [identity]["hello"] | [identity]["batch"][header][body]. */
static void take_message(intake_t *self, zmsg_t *msg)
{
    zframe_t *identity = zmsg_pop(msg);
    _cleanup_(free_mem) char *word = zmsg_popstr(msg);
    const char *id;
    batch_t batch;

    if (identity && word && (!*word || !strcmp(word, "hello"))) {
        remember_producer(self, identity);
    } else if (identity && word && !strcmp(word, "batch") && zmsg_size(msg) == 2) {
        self->metrics.batches++;
        if (!accept_batch(self, identity, msg, &batch)) {
            zframe_destroy(&identity);
            zmsg_destroy(&msg);
            return;
        }
        /* borrowed from the identity frame, which the pending batch keeps */
        id = peer_of(zmsg_first(msg)).id;
        zmsg_prepend(msg, &identity);
        pending_add(self->pending, id, batch.count, &msg);
        return;
    } else {
        self->metrics.bad++;
    }
    zframe_destroy(&identity);
    zmsg_destroy(&msg);
}

/* Read also when there is no room: libzmq would queue what is not read, without bound
 * (bus_bind_intake). */
static int on_intake(zloop_t *loop, zsock_t *reader, void *context)
{
    intake_t *self = context;

    (void)loop;
    for (int i = 0; i < READ_MAX && zsock_events(reader) & ZMQ_POLLIN; i++) {
        zmsg_t *msg = zmsg_recv(reader);

        if (!msg)
            break;
        take_message(self, msg);
    }
    give_job(self);
    return 0;
}

/* Use the layout of the values that follow: nearly always the same as in the batch before. 0 |
 * -EBADMSG | -ENOMEM. */
static int take_layout(intake_t *self, const record_t *record)
{
    if (layout_is(self->layout, record->body, record->body_len))
        return 0;
    layout_destroy(&self->layout);
    return layout_new(&self->layout, record->body, record->body_len);
}

/* Publish one event of a batch. 0 | -EBADMSG | -EAGAIN. */
static int publish_record(intake_t *self, const record_t *record, int64_t number)
{
    const char *topic = record->topic;
    size_t topic_len = record->topic_len;
    const void *envelope = record->body;
    size_t len = record->body_len;

    if (record->kind == RECORD_VALUES) {
        int r = -EBADMSG;

        self->envelope.size = 0;
        if (self->layout)
            r = layout_envelope(self->layout, record->body, record->body_len, &self->envelope);
        if (r)
            return r;
        topic = layout_topic(self->layout, &topic_len);
        envelope = self->envelope.data;
        len = self->envelope.size;
    }
    return feed_send(self->feed, topic, topic_len, envelope, len, number);
}

static int64_t number_of(const publication_t *self)
{
    int64_t number = NUMBER_NOT_PUBLISHED;

    if (zframe_size(self->numbers) >= sizeof(number) * (self->events + 1))
        memcpy(&number, zframe_data(self->numbers) + sizeof(number) * self->events, sizeof(number));
    return number;
}

/* Publish the rest of the current batch. 0 | -EAGAIN: a subscriber's queue is full | -EINPROGRESS:
 * until_ms has passed. */
static int publish_batch(intake_t *self, int64_t until_ms)
{
    publication_t *now = &self->publication;
    size_t offset = now->offset;
    record_t record;

    while (batch_next(zframe_data(now->body), zframe_size(now->body), &offset, &record) == 1) {
        if (++self->steps % PUBLISH_STEP == 0 && bus_mono_ms() >= until_ms)
            return -EINPROGRESS;
        if (record.kind == RECORD_LAYOUT) {
            /* after an error there is no layout, and the values behind it count as unreadable */
            (void)take_layout(self, &record);
        } else {
            int64_t number = number_of(now);
            int r = number == NUMBER_NOT_PUBLISHED ? 0 : publish_record(self, &record, number);

            if (r == -EAGAIN)
                return r;
            now->unreadable += r != 0;
            now->events++;
        }
        now->offset = offset;
    }
    self->metrics.unreadable += now->unreadable;
    if (now->unreadable)
        log_warn("%" PRIu64 " events of a batch cannot be decoded", now->unreadable);
    return 0;
}

/* Take the next batch out of the store's answer. False: there is none. */
static bool next_publication(intake_t *self)
{
    publication_t *next = &self->publication;
    _cleanup_(free_mem) char *verdict = NULL;

    if (!self->answer || zmsg_size(self->answer) < 5) {
        zmsg_destroy(&self->answer);
        return false;
    }
    *next = (publication_t){.identity = zmsg_pop(self->answer),
                            .header = zmsg_pop(self->answer),
                            .body = zmsg_pop(self->answer)};
    verdict = zmsg_popstr(self->answer);
    next->numbers = zmsg_pop(self->answer);
    snprintf(next->verdict, sizeof(next->verdict), "%s", verdict);
    return true;
}

/* Tell the batch's producer what became of it. */
static void end_publication(intake_t *self)
{
    publication_t *done = &self->publication;
    bool bad = !strcmp(done->verdict, "bad");

    self->metrics.repeated += !strcmp(done->verdict, "old");
    self->metrics.bad += bad;
    if (!strcmp(done->verdict, "early"))
        send_word(self, done->identity, "resend");
    else if (strcmp(done->verdict, "stop"))
        send_acknowledgement(self, done->identity, done->header, bad);
    zframe_destroy(&done->identity);
    zframe_destroy(&done->header);
    zframe_destroy(&done->body);
    zframe_destroy(&done->numbers);
}

static int on_publish_timer(zloop_t *loop, int timer, void *context);

/* Publish the store's answer, as far as subscribers take it, for PUBLISH_MS: it may have hundreds
 * of thousands of events. */
static void publish_answer(intake_t *self)
{
    int64_t until_ms = bus_mono_ms() + PUBLISH_MS;

    while (self->publication.body || next_publication(self)) {
        int r = strcmp(self->publication.verdict, "new") ? 0 : publish_batch(self, until_ms);

        if (r) {
            if (!self->stopping)
                zloop_timer(self->loop, r == -EAGAIN ? FULL_MS : PUBLISH_REST_MS, 1,
                            on_publish_timer, self);
            return;
        }
        end_publication(self);
    }
    self->storing = false;
}

static int on_publish_timer(zloop_t *loop, int timer, void *context)
{
    intake_t *self = context;

    (void)loop;
    (void)timer;
    publish_answer(self);
    give_job(self);
    return 0;
}

static void take_answer(intake_t *self)
{
    zmsg_t *msg = zmsg_recv(self->store);

    if (msg && zmsg_size(msg) == 1) { /* the answer to note_listeners */
        if (zframe_streq(zmsg_first(msg), "again"))
            feed_listeners_again(self->feed);
        self->storing = false;
        zmsg_destroy(&msg);
    } else {
        self->answer = msg;
        publish_answer(self);
    }
}

static int on_stored(zloop_t *loop, zsock_t *reader, void *context)
{
    intake_t *self = context;

    (void)loop;
    (void)reader;
    take_answer(self);
    give_job(self);
    return 0;
}

/* ---- lifecycle ---- */

static size_t write_metrics(void *context, char *out, size_t size)
{
    intake_t *self = context;

    feed_counts_t feed = feed_counts(self->feed);

    return (size_t)snprintf(out, size,
                            "postern_events_batches_total %" PRIu64 "\n"
                            "postern_events_batches_put_off_total %" PRIu64 "\n"
                            "postern_events_batches_repeated_total %" PRIu64 "\n"
                            "postern_events_batches_refused_total %" PRIu64 "\n"
                            "postern_events_published_total %" PRIu64 "\n"
                            "postern_events_unreadable_total %" PRIu64 "\n"
                            "postern_events_subscriptions %d\n"
                            "postern_events_subscriptions_beyond %d\n"
                            "postern_events_subscribers_passed_over_total %" PRIu64 "\n"
                            "postern_events_subscribers_gone_total %" PRIu64 "\n"
                            "postern_events_given_up_total %" PRIu64 "\n"
                            "postern_events_missed_total %" PRIu64 "\n"
                            "postern_events_log_deleted_total %" PRIu64 "\n"
                            "postern_events_pending_bytes %zu\n"
                            "postern_intake_traffic_wanted %d\n",
                            self->metrics.batches, self->metrics.put_off, self->metrics.repeated,
                            self->metrics.bad, feed.published, self->metrics.unreadable,
                            feed.subscriptions, feed.beyond, feed.passed_over, self->metrics.gone,
                            self->metrics.given_up, event_log_missed(), event_log_deleted(),
                            pending_bytes(self->pending), self->wanted);
}

static bool is_ready(void *context, char *why, size_t size)
{
    intake_t *self = context;
    bool failing = store_failing_ms() > FAILING_MS, full = pending_is_full(self->pending);

    if (failing || full)
        snprintf(why, size, "%s: is PostgreSQL up?",
                 failing ? "events cannot be stored" : "producers wait");
    return !failing && !full;
}

/* Read who subscribed when the last process ended. 0 | fault. */
static int expect_listeners(intake_t *self, const char *database_url, const char *pub)
{
    _cleanup_(pg_destroy) pg_t *pg = NULL;
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int r = pg_new(&pg, database_url, "events");

    if (!r)
        r = pg_ready(pg);
    if (!r)
        r = pg_exec(pg, &res, "SELECT prefix, n FROM listener WHERE pub = $1", 1, pub);
    for (int i = 0; !r && i < PQntuples(res); i++)
        feed_expect(self->feed, PQgetvalue(res, i, 0), atoi(PQgetvalue(res, i, 1)));
    return r;
}

static int intake_start(void **ret_self, zloop_t *loop, const config_t *config)
{
    const char *curve = config_str(config, "curve-dir");
    const feed_args_t feed_args = {config_str(config, "pub"), curve,
                                   (int)config_int(config, "subscriber-mark"),
                                   1000 * (int)config_int(config, "subscriber-return")};
    intake_t *self = memory_new(sizeof(*self), "the intake");
    int r;

    *ret_self = self;
    self->loop = loop;
    msgpack_sbuffer_init(&self->envelope);
    self->memory = config_str(config, "event-memory");
    self->pending = pending_new();
    if (!self->pending)
        return -ENOMEM;
    self->producers = zhashx_new();
    zhashx_set_destructor(self->producers, destroy_frame);
    self->put_off = put_off_new();
    if (!self->put_off)
        return -ENOMEM;
    r = feed_new(&self->feed, &feed_args);
    if (!r)
        r = expect_listeners(self, config_str(config, "database-url"), feed_args.endpoint);
    if (r)
        return r;
    update_wanted(self); /* before any producer asks */
    self->intake = bus_bind_intake(config_str(config, "intake"), curve);
    if (!self->intake)
        return -EADDRINUSE;
    zsock_set_sndtimeo(self->intake, 0);
    self->store_args = (store_args_t){config_str(config, "database-url"), feed_args.endpoint};
    self->store = zactor_new(store_actor, &self->store_args);
    zloop_reader(self->loop, self->intake, on_intake, self);
    zloop_reader_set_tolerant(self->loop, self->intake);
    zloop_reader(self->loop, feed_socket(self->feed), on_subscription, self);
    zloop_reader_set_tolerant(self->loop, feed_socket(self->feed));
    zloop_timer(self->loop, TICK_MS, 0, on_tick, self);
    zloop_reader(self->loop, zactor_sock(self->store), on_stored, self);
    zloop_reader_set_tolerant(self->loop, zactor_sock(self->store));
    return 0;
}

/* Finish the job that is on its way: publish and acknowledge it. Sent again to the next process it
 * would count as old, and no subscriber would get it. */
static void finish_job(intake_t *self)
{
    self->stopping = true;
    zsock_set_rcvtimeo(self->store, STOP_MS);
    feed_hurry(self->feed);
    if (self->storing && !self->publication.body)
        take_answer(self);
    while (self->publication.body) {
        usleep(1000);
        publish_answer(self);
    }
    for (int i = 0; i < STOP_READS && feed_read(self->feed); i++)
        continue;
    if (!self->storing && note_listeners(self))
        take_answer(self);
}

static void intake_stop(void **self_p)
{
    intake_t *self = *self_p;

    if (self->store)
        finish_job(self);
    zactor_destroy(&self->store);
    if (self->intake)
        bus_drain(self->intake); /* not acknowledged, so producers send it again */
    zsock_destroy(&self->intake);
    if (self->feed)
        zsock_set_linger(feed_socket(self->feed), STOP_LINGER_MS);
    feed_destroy(&self->feed);
    pending_destroy(&self->pending);
    zhashx_destroy(&self->producers);
    put_off_destroy(&self->put_off);
    layout_destroy(&self->layout);
    msgpack_sbuffer_destroy(&self->envelope);
    free(self);
    *self_p = NULL;
}

const service_part_t intake_part = {intake_start, intake_stop, write_metrics, is_ready};
