#include "common/resource/service.h"
#include "common/base/cleanup.h"
#include "common/base/files.h"
#include "common/base/id.h"
#include "common/base/log.h"
#include "common/bus/bus.h"
#include "common/bus/deadline.h"
#include "common/bus/reactor.h"
#include "common/resource/columns.h"
#include "common/resource/kind_rules.h"
#include "common/resource/service_internal.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

enum {
    PERIODIC_MS = 60000, /* deadline of the service's own periodic request */
    RELEASE_MS = 50,     /* how often to check held replies for their deadline */
    DATABASE_TRIES = 300,
    DATABASE_RETRY_US = 200000,
    FLIGHTS_MAX = 2 * BACKLOG_ALL + 2 * BACKLOG_GUESTS_ALL + HELD_MAX
                  + 1024 /* that wait, are held and are worked on */
};

static const setting_t common_settings[] = {
    {"database-url", SETTING_STR, NULL, 0, 0, "PostgreSQL connection string"},
    {"master-key", SETTING_STR, NULL, 0, 0, "file of the key that seals secrets at rest"},
    {"api-url", SETTING_STR, "http://127.0.0.1:8400", 0, 0, "base URL of the API, for uris"},
    {"rpc", SETTING_STR, NULL, 0, 0, "endpoint of this service's requests"},
    {"config-log", SETTING_STR, "", 0, 0, "endpoint of its log, which edges follow"},
    {"events", SETTING_STR, NULL, 0, 0, "endpoint of the event service's intake"},
    {"curve-dir", SETTING_STR, "", 0, 0, "CURVE keys; needed for tcp:// endpoints"},
    {"workers", SETTING_INT, "4", 1, SERVICE_WORKERS_MAX, "database workers"},
    {"object-limit", SETTING_INT, "1000000", 0, 1000000000,
     "objects of one kind that an account may have; 0: no limit"},
    {"config-limit", SETTING_INT, "1073741824", 0, LONG_MAX,
     "bytes of configuration for edges that an account may have; 0: no limit"},
    {"idempotency-seconds", SETTING_INT, "86400", DEADLINE_LEFT_MAX_MS / 1000, 31536000,
     "how long a request is remembered by its idempotency key"},
    {"tidy-seconds", SETTING_INT, "60", 1, 86400, "between deletions of what is too old"},
    {NULL, SETTING_STR, NULL, 0, 0, NULL},
};

static int on_tick(zloop_t *loop, int timer, void *context)
{
    service_t *self = context;

    (void)loop;
    (void)timer;
    stillness_look(&self->stillness, bus_mono_ms());
    service_release_held(self);
    service_waits_tick(self);
    return 0;
}

/* Enqueue the periodic request, whose reply is dropped. Only one at a time: if it takes longer than
 * its period it must not occupy all workers. */
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
        zmsg_pushmem(msg, "", 0); /* an empty identity: no peer of a ROUTER can have it */
        if (!service_enqueue(self, "", "", &msg)) /* else tried again at the next period */
            self->periodic_until_ms = bus_mono_ms() + PERIODIC_MS;
        zmsg_destroy(&msg);
    }
    return 0;
}

static int prepare_database(service_t *self)
{
    crud_t crud = service_crud(&self->worker_args);
    int r;

    r = pg_new(&crud.pg, config_str(self->config, "database-url"), self->row->name);
    for (int tries = 0; !r && tries < DATABASE_TRIES && !zsys_interrupted; tries++) {
        r = migrate(crud.pg, self->spec->migrations);
        if (r != PG_DOWN && r != PG_BUSY)
            break;
        if (tries == 0)
            log_warn("PostgreSQL %s: %s",
                     r == PG_BUSY ? "is busy with a backup or a migration, trying again"
                                  : "does not answer, trying for a minute",
                     fault_text());
        r = 0;
        usleep(DATABASE_RETRY_US);
    }
    if (!r && !zsys_interrupted)
        r = pg_ready(crud.pg);
    if (!r && !zsys_interrupted)
        r = columns_check(crud.pg, self->row->name);
    if (!r && self->spec->setup)
        r = self->spec->setup(&crud, self->config);
    pg_destroy(&crud.pg);
    return r;
}

static int start_actors(service_t *self)
{
    zmq_pollitem_t done = {NULL, work_fd(self->done), ZMQ_POLLIN, 0};

    zloop_poller(self->loop, &done, service_on_done, self);
    zloop_poller_set_tolerant(self->loop, &done);
    self->worker_count = (int)config_int(self->config, "workers");
    for (int i = 0; i < self->worker_count; i++) {
        self->workers[i] = zactor_new(service_worker, &self->worker_args);
        if (!self->workers[i])
            return -ENOMEM;
    }
    self->outbox_args =
        (outbox_args_t){config_str(self->config, "database-url"),
                        self->row->name,
                        config_str(self->config, "events"),
                        config_str(self->config, "curve-dir"),
                        {self->row->has_config_log, config_int(self->config, "idempotency-seconds"),
                         self->spec->tidy},
                        config_int(self->config, "tidy-seconds")};
    self->outbox = zactor_new(outbox_actor, &self->outbox_args);
    if (!self->row->has_config_log)
        return 0;
    self->replog_args = (replog_args_t){config_str(self->config, "database-url"),
                                        self->row->name,
                                        config_str(self->config, "config-log"),
                                        config_str(self->config, "curve-dir"),
                                        self->log,
                                        self->key,
                                        self->spec->log_only_ends};
    self->edges.settling = true;
    self->replog = zactor_new(replog_actor, &self->replog_args);
    zloop_reader(self->loop, zactor_sock(self->replog), service_on_replog, self);
    zloop_reader_set_tolerant(self->loop, zactor_sock(self->replog));
    return 0;
}

static void say_lease(void *context, zmsg_t **msg)
{
    service_t *self = context;

    if (zmsg_send(msg, self->rpc)) /* the peer is gone or does not read: its lease expires */
        zmsg_destroy(msg);
}

static int make_parts(service_t *self)
{
    self->backlog = backlog_new((int)config_int(self->config, "workers"));
    self->done = work_new(SIZE_MAX, true);
    self->flights = flights_new(FLIGHTS_MAX);
    if (!self->backlog || !self->done || !self->flights)
        return fault(-ENOMEM, "make a service's queues");
    return service_replies_start(self);
}

static int open_rpc(service_t *self)
{
    self->rpc = bus_bind(ZMQ_ROUTER, config_str(self->config, "rpc"),
                         config_str(self->config, "curve-dir"), self->socket);
    if (!self->rpc)
        return -EADDRINUSE;
    zsock_set_sndtimeo(self->rpc, 0);
    zloop_reader(self->loop, self->rpc, service_on_rpc, self);
    zloop_reader_set_tolerant(self->loop, self->rpc);
    return 0;
}

static void start_timers(service_t *self)
{
    zloop_timer(self->loop, RELEASE_MS, 0, on_tick, self);
    if (self->spec->periodic)
        zloop_timer(self->loop, 1000 * (size_t)config_int(self->config, self->spec->period), 0,
                    on_period, self);
}

static int service_start(void *context, zloop_t *loop, const config_t *config)
{
    service_t *self = context;
    int r;

    self->loop = loop;
    self->config = config;
    leases_init(&self->leases, say_lease, self, bus_mono_ms());
    r = kind_rules_check_own(self->row->name);
    if (!r)
        r = make_parts(self);
    if (!r)
        r = secret_key_load(&self->key, config_str(config, "master-key"));
    self->worker_args =
        (worker_args_t){self->spec, self->row, self->config, self->key, self->backlog, self->done};
    if (!r)
        r = prepare_database(self);
    if (!r)
        r = open_rpc(self);
    if (!r)
        r = service_waits_start(self);
    if (!r && self->spec->part)
        r = self->spec->part->start(&self->part, loop, config);
    if (!r)
        r = start_actors(self);
    if (!r)
        start_timers(self);
    return r;
}

static void service_describe(void *context, char *out, size_t size)
{
    const service_t *self = context;

    snprintf(out, size, "rpc=%s workers=%d", config_str(self->config, "rpc"), self->worker_count);
}

/* Requests in progress are finished and answered; held replies are sent without waiting any
 * longer. */
static void service_drain(void *context)
{
    service_t *self = context;

    zactor_destroy(&self->replog);
    zactor_destroy(&self->outbox);
    if (self->backlog)
        backlog_stop(self->backlog);
    if (self->done)
        work_stop(self->done);
    for (int i = 0; i < self->worker_count; i++)
        zactor_destroy(&self->workers[i]);
    if (self->done)
        service_on_done(NULL, NULL, self);
    service_waits_drain(self);
    held_destroy(&self->held);
}

static void service_stop(void *context)
{
    service_t *self = context;

    if (self->spec->part && self->part)
        self->spec->part->stop(&self->part);
    zsock_destroy(&self->rpc);
    leases_done(&self->leases);
    backlog_destroy(&self->backlog);
    work_destroy(&self->done);
    flights_destroy(&self->flights);
    secret_key_destroy(&self->key);
}

int service_main(const service_spec_t *spec, int argc, char **argv)
{
    const service_row_t *row = service_row(spec->id);
    service_t self = {.spec = spec, .row = row};
    char domain[80];
    const setting_t *settings[4] = {common_settings};
    int tables = 1;
    const reactor_spec_t process = {
        .name = row->name,
        .about = row->about,
        .settings = settings,
        .files = FILES_SERVICE,
        .start = service_start,
        .describe = service_describe,
        .drain = service_drain,
        .stop = service_stop,
        .metrics = service_metrics,
        .is_ready = service_is_ready,
    };

    if (spec->settings)
        settings[tables++] = spec->settings;
    if (spec->way_out)
        settings[tables] = spec->way_out->settings;
    snprintf(domain, sizeof(domain), "%s.rpc", row->name);
    self.socket = socket_find(domain);
    snprintf(domain, sizeof(domain), "%s.config_log", row->name);
    self.log = socket_find(domain);
    assert(row->has_database && self.socket < SOCKETS);
    assert(row->has_config_log == (self.log < SOCKETS));
    return reactor_main(&process, &self, argc, argv);
}
