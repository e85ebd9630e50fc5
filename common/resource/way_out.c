#include "common/resource/way_out.h"
#include "common/base/authorities.h"
#include "common/base/cleanup.h"
#include "common/base/err.h"
#include "common/base/log.h"
#include "common/base/quote.h"
#include "common/out/permit.h"

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

/* Which of the four settings the wrong item stands in; *ret_form: what its items are. */
static const char *find_list(const outbound_settings_t *limits, const char **ret_form)
{
    _cleanup_(permit_destroy) permit_t *permit = NULL;
    _cleanup_(free_mem) char *bad = NULL;

    *ret_form = "port or ports (8400, 8411-8415), address or network";
    if (permit_new(&permit, limits->own_sockets, NULL, NULL, &bad))
        return "POSTERN_OWN_SOCKETS";
    permit_destroy(&permit);
    *ret_form = "address or network (10.0.0.0/8, 10.1.2.3:80)";
    if (permit_new(&permit, NULL, limits->denied, NULL, &bad))
        return "POSTERN_OUT_DENIED";
    permit_destroy(&permit);
    if (permit_new(&permit, NULL, NULL, limits->allowed, &bad))
        return "POSTERN_OUT_ALLOWED";
    *ret_form = "host:port:to-host:to-port";
    return "POSTERN_OUT_CONNECT";
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
    const char *name, *form;
    char *bad = NULL;
    int r = check_authorities(limits.ca_file);

    if (!r)
        r = outbound_new(ret_outbound, loop, &limits, &bad);
    if (r && bad) {
        name = find_list(&limits, &form);
        log_error("%s: %s is no %s", name, quote(bad).text, form);
    }
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
