/* Certificates of saml that end soon: their routes get next keys by themselves, which their
 * metadata then have, and the log and the metrics say so until somebody promotes them. Nothing is
 * promoted here: only the operator knows whether the provider has read the metadata. */
#include "common/base/cleanup.h"
#include "common/base/log.h"
#include "common/base/quote.h"
#include "common/resource/service.h"
#include "services/routes/ready_keys.h"
#include "services/routes/rules.h"
#include "services/routes/saml_keys.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    ROUTES_OF_PAGE = 500,
    MADE_MAX = 40,   /* routes that get keys in one pass: each takes half a second of a processor */
    SAID_MAX = 20,   /* lines of the log in one pass */
    NONE = INT32_MAX /* days, where there is no certificate */
};

/* Of the newest pass of this process, for the metrics. */
static _Atomic int least_days = NONE, routes_due;

typedef struct pass {
    int least_days, due, made;
    int64_t revision; /* of the last change; 0: none */
} pass_t;

/* The same as an update of the route by a client that sets key_rotation to next, but nobody's. */
static int change_route(crud_t *crud, const char *account, const char *id, bool *ret_made)
{
    const kind_t *kind = kind_find("https_edge_route");
    _cleanup_(json_clear_ref) json_t *row = NULL, *patch = NULL, *rendered = NULL;
    reply_t reply = {0};
    json_t *saml;
    int r = crud_load(crud, kind, account, id, true, &row);

    saml = json_object_get(row, "saml");
    if (r == ERR_NOT_FOUND || (!r && (!json_is_object(saml) || !saml_keys_are_due(saml))))
        return 0; /* another copy, or a client, was here meanwhile */
    if (!r)
        patch = json_pack("{s:o}", "saml", json_deep_copy(saml));
    json_object_set_new(json_object_get(patch, "saml"), "key_rotation", json_string("next"));
    if (!r)
        r = crud_change_row(crud, kind, row, patch, &reply, &rendered);
    if (r > 0)
        log_warn("route=%s why=%s its certificate of saml ends soon, and it gets no next one", id,
                 quote(reply.problem.msg).text);
    problem_done(&reply.problem);
    *ret_made = !r;
    return r;
}

static int make_next(crud_t *crud, const char *account, const char *id, pass_t *pass)
{
    const request_t *before = crud->request;
    request_t request = {0};
    int64_t revision = 0;
    bool is_made = false;
    int r = crud_begin(crud);

    snprintf(request.account, sizeof(request.account), "%s", account);
    crud->request = &request;
    *crud->request_key = '\0';
    if (!r)
        r = change_route(crud, account, id, &is_made);
    r = crud_end(crud, r, &revision);
    crud->request = before;
    if (revision)
        pass->revision = revision;
    pass->made += !r && is_made;
    return r < 0 ? r : 0;
}

static int look_at(crud_t *crud, const char *account, const char *id, const json_t *saml,
                   pass_t *pass)
{
    int days = saml_keys_days_left(saml);

    if (days < pass->least_days)
        pass->least_days = days;
    if (days > SAML_KEYS_DUE_DAYS)
        return 0;
    if (pass->due++ < SAID_MAX)
        log_warn("route=%s account=%s its certificate of saml ends in %d days: give the provider "
                 "the route's metadata anew, which have a next one, and set key_rotation to "
                 "promoted",
                 id, account, days);
    return saml_keys_are_due(saml) && pass->made < MADE_MAX ? make_next(crud, account, id, pass)
                                                            : 0;
}

/* last: where the next page begins; "" after the last. */
static int look_at_page(crud_t *crud, char last[ID_MAX], pass_t *pass)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    char limit[16];
    int r;

    snprintf(limit, sizeof(limit), "%d", ROUTES_OF_PAGE);
    r = pg_exec(crud->pg, &res,
                "SELECT id, account_id, jsonb_build_object('key_rotation', saml->'key_rotation', "
                "'request_signing_certificate_pem', saml->'request_signing_certificate_pem', "
                "'encryption_certificate_pem', saml->'encryption_certificate_pem') "
                "FROM https_edge_route WHERE saml->'enabled' = 'true' AND id > $1 "
                "ORDER BY id LIMIT $2::int",
                2, last, limit);
    *last = '\0';
    for (int i = 0; !r && i < PQntuples(res); i++) {
        _cleanup_(json_clear_ref) json_t *saml = json_loads(PQgetvalue(res, i, 2), 0, NULL);

        r = look_at(crud, PQgetvalue(res, i, 1), PQgetvalue(res, i, 0), saml, pass);
        if (i == ROUTES_OF_PAGE - 1)
            snprintf(last, ID_MAX, "%s", PQgetvalue(res, i, 0));
    }
    return r;
}

int saml_renewal_pass(crud_t *crud, int64_t *ret_revision)
{
    pass_t pass = {.least_days = NONE};
    char last[ID_MAX] = "";
    int r;

    do
        r = look_at_page(crud, last, &pass);
    while (!r && *last);
    *ret_revision = pass.revision;
    if (r)
        return r;
    least_days = pass.least_days;
    routes_due = pass.due;
    if (pass.made)
        log_info("made next keys for saml of %d routes whose certificates end soon", pass.made);
    return 0;
}

/* ---- keys that are ready, and metrics ---- */

/* The supply is the process's, and stop is called where self is not NULL. */
static int start_keys(void **ret_self, zloop_t *loop, const config_t *config)
{
    (void)loop;
    *ret_self = &least_days;
    return ready_keys_start((int)config_int(config, "saml-keys-ready"));
}

static void stop_keys(void **self_p)
{
    *self_p = NULL;
    ready_keys_stop();
}

static size_t write_metrics(void *self, char *out, size_t size)
{
    int days = least_days;
    int n = 0;

    (void)self;
    if (days != NONE)
        n = snprintf(out, size, "postern_routes_saml_certificate_days %d\n", days);
    return (size_t)n
           + (size_t)snprintf(out + n, size - (size_t)n,
                              "postern_routes_saml_certificates_due %d\n"
                              "postern_routes_saml_keys_ready %d\n"
                              "postern_routes_saml_keys_late_total %" PRIu64 "\n",
                              (int)routes_due, ready_keys_count(), ready_keys_late());
}

static bool is_always_ready(void *self, char *why, size_t size)
{
    (void)self;
    (void)why;
    (void)size;
    return true;
}

const service_part_t saml_renewal_part = {
    .start = start_keys,
    .stop = stop_keys,
    .metrics = write_metrics,
    .is_ready = is_always_ready,
};
