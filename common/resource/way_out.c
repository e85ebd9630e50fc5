#include "common/resource/way_out.h"
#include "common/base/err.h"
#include "common/base/log.h"

static const setting_t settings[] = {
    {"own-sockets", SETTING_STR, "", 0, 0, "Postern's own sockets, which are not connected to"},
    {"out-denied", SETTING_STR, "", 0, 0, "addresses and networks that are not connected to"},
    {"out-allowed", SETTING_STR, "", 0, 0,
     "addresses and networks that are connected to in spite of the rules"},
    {"out-connect", SETTING_STR, "", 0, 0,
     "host:port:to-host:to-port: where connections for a host go instead"},
    {"out-ca", SETTING_STR, "", 0, 0,
     "PEM file of the authorities that are trusted instead of the system's"},
    {"out-calls", SETTING_INT, "64", 1, 1024, "requests at once"},
    {"out-account-calls", SETTING_INT, "16", 1, 1024, "requests at once for one account"},
    {NULL, SETTING_STR, NULL, 0, 0, NULL},
};

static int start(outbound_t **ret_outbound, zloop_t *loop, const config_t *config)
{
    const outbound_settings_t limits = {
        .own_sockets = config_str(config, "own-sockets"),
        .denied = config_str(config, "out-denied"),
        .allowed = config_str(config, "out-allowed"),
        .connect_to = config_str(config, "out-connect"),
        .ca_file = config_str(config, "out-ca"),
        .calls = (unsigned)config_int(config, "out-calls"),
        .calls_of_one = (unsigned)config_int(config, "out-account-calls"),
    };
    char *bad = NULL;
    int r = outbound_new(ret_outbound, loop, &limits, &bad);

    if (r && bad)
        log_error("own-sockets, out-denied, out-allowed, out-connect: '%s' is no item of them",
                  bad);
    free(bad);
    return r;
}

const way_out_t way_out = {
    .settings = settings,
    .calls = "out-calls",
    .calls_of_one = "out-account-calls",
    .start = start,
    .send = outbound_send,
    .metrics = outbound_metrics,
    .stop = outbound_destroy,
    .header = outbound_header,
};
