#include "common/resource/way_out.h"
#include "common/base/authorities.h"
#include "common/base/err.h"
#include "common/base/log.h"
#include "common/base/quote.h"

#include <errno.h>

static const setting_t settings[] = {
    {"own-sockets", SETTING_STR, "", 0, 0, "Postern's own sockets, which are not connected to"},
    {"out-denied", SETTING_STR, "", 0, 0, "addresses and networks that are not connected to"},
    {"out-allowed", SETTING_STR, "", 0, 0,
     "addresses and networks that are connected to all the same: private networks, loopback"},
    {"out-connect", SETTING_STR, "", 0, 0,
     "host:port:to-host:to-port: where connections for a host go instead"},
    {"out-ca", SETTING_STR, "", 0, 0,
     "PEM file of the authorities that are trusted instead of the system's"},
    {"out-calls", SETTING_INT, "64", 1, 1024, "requests at once"},
    {"out-account-calls", SETTING_INT, "16", 1, 1024, "requests at once for one account"},
    {NULL, SETTING_STR, NULL, 0, 0, NULL},
};

/* Else each provider would look like one whose certificate is wrong. */
static int check_authorities(const char *file)
{
    char why[200];

    if (!*file || !authorities_check(file, why, sizeof(why)))
        return 0;
    log_error("POSTERN_OUT_CA: %s %s: name a PEM file of authorities that this user can read, or "
              "leave it empty for the system's",
              quote(file).text, why);
    return fault(-EINVAL, "read the authorities of POSTERN_OUT_CA");
}

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
    int r = check_authorities(limits.ca_file);

    if (!r)
        r = outbound_new(ret_outbound, loop, &limits, &bad);
    if (r && bad)
        log_error("POSTERN_OWN_SOCKETS, POSTERN_OUT_DENIED, POSTERN_OUT_ALLOWED, "
                  "POSTERN_OUT_CONNECT: %s is no item of such a list",
                  quote(bad).text);
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
