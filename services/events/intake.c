/* The event service beside its verbs: batches in from producers, jobs to the store, their events to
 * the feed of subscribers. It must never block its producers, which keep what is not acknowledged.
 *
 * One job is on its way at a time: stored, published, acknowledged. While subscribers from before a
 * restart are waited for, nothing is stored either, because what is stored and not yet published
 * would be lost with this process; what is not acknowledged is sent again. */
#include "services/events/intake.h"
#include "common/base/cleanup.h"
#include "common/base/invariant.h"
#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/store/pg.h"
#include "services/events/event_log.h"
#include "services/events/intake_internal.h"

#include <errno.h>
#include <inttypes.h>

enum {
    READ_MAX = 256, /* messages of producers before the loop does anything else */
    JOB_MS = 50,    /* between transactions: a commit costs more than a batch */
    TICK_MS = 100,
    NOTE_MS = 200,
    FULL_MS = 5,     /* until an event is tried again after a subscriber's queue was full */
    PUBLISH_MS = 10, /* the longest time of publishing in one turn of the loop */
    PUBLISH_REST_MS = 1,
    FAILING_MS =
        1000, /* not ready once storing has failed for so long: one lost connection is shorter */
    STOP_MS = 3000,        /* at the stop, for the transaction that is under way */
    STOP_LINGER_MS = 2000, /* at the stop, for subscribers to take the events of that transaction */
    STOP_READS = 64        /* at the stop: the last messages of subscribers that are read */
};

static void destroy_frame(void **item)
{
    zframe_destroy((zframe_t **)item);
}

/* ---- who listens ---- */

static void tell_producers(intake_t *self)
{
    for (zframe_t *one = zhashx_first(self->producers); one; one = zhashx_next(self->producers))
        intake_tell_wanted(self, one);
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

/* ---- jobs ---- */

static void tell_room(intake_t *self)
{
    for (zframe_t *one; (one = put_off_tell(self->put_off, self->pending, bus_mono_ms()));)
        intake_tell(self, one, "resend");
}

static int on_job_timer(zloop_t *loop, int timer, void *context);

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
    INVARIANT(!self->answer && !intake_is_publishing(self)); /* one job at a time */
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

/* ---- callbacks ---- */

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
        intake_take_message(self, msg);
    }
    give_job(self);
    return 0;
}

static int on_publish_timer(zloop_t *loop, int timer, void *context);

static void publish_answer(intake_t *self)
{
    int r = intake_publish(self, bus_mono_ms() + PUBLISH_MS);

    self->storing = r != 0;
    if (r && !self->stopping)
        zloop_timer(self->loop, r == -EAGAIN ? FULL_MS : PUBLISH_REST_MS, 1, on_publish_timer,
                    self);
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
    if (self->storing && !intake_is_publishing(self))
        take_answer(self);
    while (intake_is_publishing(self)) {
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
    intake_publish_done(self);
    free(self);
    *self_p = NULL;
}

const service_part_t intake_part = {intake_start, intake_stop, write_metrics, is_ready};
