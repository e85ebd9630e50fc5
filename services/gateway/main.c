/* postern-gateway: the REST API. Binds HTTP; every request becomes requests on the bus to the
 * service that owns the kind. Must never touch the database or know a resource's rules. */
#include "common/base/cleanup.h"
#include "common/base/log.h"
#include "common/bus/reactor.h"
#include "services/gateway/gateway.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum { FORGET_RATES_MS = 1000 };

static const setting_t settings[] = {
    {"http-host", SETTING_STR, "127.0.0.1", 0, 0, "address of the API"},
    {"http-port", SETTING_INT, "8400", 1, 65535, "port of the API"},
    {"proxy-socket", SETTING_STR, "", 0, 0,
     "Unix socket for a proxy before the API, whose X-Forwarded-For names the client; empty: none"},
    {"proxy-url", SETTING_STR, "", 0, 0,
     "base URL of the API behind that proxy, for uris; empty: api-url"},
    {"connections-per-address", SETTING_INT, "256", 0, 1024,
     "connections of one address that showed no valid key; 0: no limit"},
    {"rate-limit", SETTING_INT, "0", 0, 10000000,
     "requests a minute for each API key; 0: no limit"},
    {"create-rate-limit", SETTING_INT, "0", 0, 10000000,
     "objects of a kind that an API key may try to create in a minute; 0: no limit"},
    {"api-url", SETTING_STR, "http://127.0.0.1:8400", 0, 0, "base URL of the API, for uris"},
#define NO_RPC(name)
#define INSIDE(name)
#define RPC(name)                                                                                  \
    {#name "-rpc", SETTING_STR, NULL, 0, 0, "endpoints of postern-" #name ", comma-separated"},
#define SERVICE(role, name, requests, database, config_log, about) requests(name)
#include "proto/services.def"
    {"curve-dir", SETTING_STR, "", 0, 0, "CURVE keys; needed for tcp:// endpoints"},
    {NULL, SETTING_STR, NULL, 0, 0, NULL},
};

static size_t gateway_metrics(void *context, char *out, size_t size)
{
    gateway_t *self = context;
    size_t n = 0;

    for (int i = 2; i < 6; i++)
        n += (size_t)snprintf(out + n, size - n,
                              "postern_gateway_answers_total{class=\"%dxx\"} %" PRIu64 "\n", i,
                              self->metrics.answers[i]);
    n += (size_t)snprintf(out + n, size - n,
                          "postern_gateway_requests_total %" PRIu64 "\n"
                          "postern_gateway_calls_in_flight %zu\n"
                          "postern_gateway_calls_resent_total %" PRIu64 "\n"
                          "postern_gateway_answers_passed_over_total %" PRIu64 "\n"
                          "postern_gateway_calls_timed_out_total %" PRIu64 "\n"
                          "postern_gateway_bodies_waiting %zu\n",
                          self->metrics.requests, zhashx_size(self->calls), self->metrics.resent,
                          self->metrics.passed_over, self->metrics.timed_out,
                          documents_waiting(self->documents));
    n += upstream_metrics(self, out + n, size - n);
    n += http_metrics(self, out + n, size - n);
    return n + admission_metrics(self->admission, bus_mono_ms(), out + n, size - n);
}

static bool is_ready(void *context, char *why, size_t size)
{
    return upstream_is_ready(context, why, size);
}

/* The OpenAPI document is long, and the same for everyone: rendered once, at start. */
static int render_openapi(gateway_t *self)
{
    _cleanup_(json_clear_ref) json_t *document =
        schema_openapi(config_str(self->config, "api-url"));
    char *text = document ? json_dumps(document, JSON_COMPACT) : NULL;

    if (!text)
        return fault(-ENOMEM, "openapi.json");
    self->openapi = (docs_file_t){"/openapi.json", "application/json", text, strlen(text)};
    return 0;
}

static int on_forget_rates(zloop_t *loop, int timer, void *context)
{
    gateway_t *self = context;

    (void)loop;
    (void)timer;
    rates_forget_full(self->rates, bus_mono_ms());
    return 0;
}

static int start_rates(gateway_t *self)
{
    self->rates = rates_new();
    if (!self->rates)
        return fault(-ENOMEM, "make the table of rates");
    zloop_timer(self->loop, FORGET_RATES_MS, 0, on_forget_rates, self);
    return 0;
}

static int gateway_start(void *context, zloop_t *loop, const config_t *config)
{
    gateway_t *self = context;
    int r;

    self->loop = loop;
    self->config = config;
    r = render_openapi(self);
    if (!r)
        r = start_rates(self);
    if (!r)
        r = upstream_start(self);
    if (!r)
        r = admission_new(&self->admission, self->services[SERVICE_identity],
                          self->services[SERVICE_routes]);
    if (!r)
        r = documents_new(&self->documents, loop, call_on_parsed, self);
    if (!r)
        r = http_start(self);
    return r;
}

static void gateway_describe(void *context, char *out, size_t size)
{
    const gateway_t *self = context;

    snprintf(out, size, "http=%s:%ld", config_str(self->config, "http-host"),
             config_int(self->config, "http-port"));
}

static void gateway_drain(void *context)
{
    http_stop(context);
}

static void gateway_stop(void *context)
{
    gateway_t *self = context;

    documents_destroy(&self->documents);
    admission_destroy(&self->admission);
    upstream_stop(self);
    rates_destroy(&self->rates);
    free((char *)self->openapi.text);
}

int main(int argc, char **argv)
{
    const service_row_t *row = service_row(SERVICE_gateway);
    gateway_t self = {0};
    const reactor_spec_t spec = {
        .name = row->name,
        .about = row->about,
        .settings = (const setting_t *const[]){settings, NULL},
        .start = gateway_start,
        .describe = gateway_describe,
        .drain = gateway_drain,
        .stop = gateway_stop,
        .metrics = gateway_metrics,
        .is_ready = is_ready,
    };

    return reactor_main(&spec, &self, argc, argv);
}
