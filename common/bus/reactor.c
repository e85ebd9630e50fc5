#include "common/base/memory.h"
#include "common/bus/reactor.h"
#include "common/base/err.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/priority.h"
#include "common/bus/health.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

enum { STOP_CHECK_MS = 100 };

static const setting_t own_settings[] = {
    {"health-host", SETTING_STR, "127.0.0.1", 0, 0, "address of /healthz, /readyz, /metrics"},
    {"health-port", SETTING_INT, "0", 0, 65535, "their port; 0: off"},
    {NULL, SETTING_STR, NULL, 0, 0, NULL},
};

typedef struct reactor {
    const reactor_spec_t *spec;
    void *service;
    setting_t settings[CONFIG_MAX];
    config_t config;
    zloop_t *loop;
    health_t *health;
    files_watch_t files;
} reactor_t;

static size_t write_metrics(void *context, char *out, size_t size)
{
    const reactor_t *self = context;
    size_t n = self->spec->metrics(self->service, out, size);

    return n < size ? n + files_metrics(&self->files, self->spec->name, out + n, size - n) : n;
}

static bool is_ready(void *context, char *why, size_t size)
{
    const reactor_t *self = context;

    return self->spec->is_ready(self->service, why, size);
}

static int on_files(zloop_t *loop, int timer, void *context)
{
    reactor_t *self = context;

    (void)loop;
    (void)timer;
    files_look(&self->files);
    return 0;
}

/* Timer that ends the loop after a signal: the signal may have interrupted another thread, and the
 * loop checks zsys_interrupted only between two events. */
static int on_stop_check(zloop_t *loop, int timer, void *context)
{
    (void)loop;
    (void)timer;
    (void)context;
    return zsys_interrupted ? -1 : 0;
}

static int add_settings(reactor_t *self, int n, const setting_t *rows)
{
    for (const setting_t *row = rows; row->name; row++) {
        assert(n < CONFIG_MAX - 1);
        self->settings[n++] = *row;
    }
    return n;
}

static void join_settings(reactor_t *self)
{
    int n = 0;

    for (const setting_t *const *list = self->spec->settings; *list; list++)
        n = add_settings(self, n, *list);
    n = add_settings(self, n, own_settings);
    self->settings[n] = (setting_t){NULL, SETTING_STR, NULL, 0, 0, NULL};
}

static int reactor_start(reactor_t *self)
{
    int r;

    self->loop = zloop_new();
    if (!self->loop)
        return fault(-ENOMEM, "make the loop");
    r = self->spec->start(self->service, self->loop, &self->config);
    if (r)
        return r;
    files_look(&self->files);
    zloop_timer(self->loop, FILES_LOOK_MS, 0, on_files, self);
    zloop_timer(self->loop, STOP_CHECK_MS, 0, on_stop_check, self);
    return health_new(&self->health, self->loop, config_str(&self->config, "health-host"),
                      (int)config_int(&self->config, "health-port"), write_metrics, is_ready, self);
}

static void reactor_run(reactor_t *self)
{
    char text[256] = "";

    if (self->spec->describe)
        self->spec->describe(self->service, text, sizeof(text));
    log_info("ready%s%s", *text ? " " : "", text);
    zloop_start(self->loop);
    log_info("stopping");
}

static void reactor_stop(reactor_t *self)
{
    health_destroy(&self->health);
    self->spec->drain(self->service);
    zloop_destroy(&self->loop);
    if (self->spec->stop)
        self->spec->stop(self->service);
    config_done(&self->config);
}

int reactor_main(const reactor_spec_t *spec, void *service, int argc, char **argv)
{
    reactor_t self = {.spec = spec, .service = service};
    int r;

    join_settings(&self);
    log_init(spec->name);
    memory_guard_json();
    zsys_init(); /* SIGTERM and SIGINT set zsys_interrupted */
    r = config_parse(&self.config, self.settings, spec->about, argc, argv);
    if (r) {
        config_done(&self.config);
        return r == 1 ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    priority_behind_traffic();
    if (spec->files)
        files_raise(spec->files);
    r = reactor_start(&self);
    if (r)
        log_error("cannot start: %s", fault_text());
    else
        reactor_run(&self);
    reactor_stop(&self);
    return r ? EXIT_FAILURE : EXIT_SUCCESS;
}
