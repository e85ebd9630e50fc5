/* postern-identity owns accounts, API keys and their owners, vaults, users who sign in and their
 * sessions.
 * Binds: RPC, the session log. Publishes: audit events through its outbox. Sole holder of key
 * hashes.
 * Must never forward traffic. */
#include "common/base/cleanup.h"
#include "common/base/id.h"
#include "common/device/device.h"
#include "common/resource/service.h"
#include "common/resource/way_out.h"
#include "services/identity/api_key.h"
#include "services/identity/bearer_token.h"
#include "services/identity/browser.h"
#include "services/identity/oauth.h"
#include "services/identity/owner.h"
#include "services/identity/service_token.h"
#include "services/identity/session.h"
#include "services/identity/session_gone.h"
#include "services/identity/session_vouch.h"
#include "services/identity/sign_in.h"
#include "services/identity/sign_in_run.h"
#include "services/identity/ssh_authority.h"
#include "services/identity/self.h"
#include "services/identity/token.h"
#include "services/identity/user_room.h"

#include <errno.h>
#include <string.h>

/* account.create {name, email} -> {id, owner_id}; the same e-mail again returns the same
 * account. */
static int on_account_create(crud_t *crud, const request_t *request, reply_t *reply)
{
    const char *name = json_string_value(json_object_get(request->body, "name"));
    const char *email = json_string_value(json_object_get(request->body, "email"));
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    char account[ID_MAX], owner[ID_MAX];
    int r;

    if (!name || !*name || strlen(name) > 255 || !email || !strchr(email, '@')
        || strlen(email) > 254)
        return problem_add(&reply->problem, ERR_INVALID_FIELD, name && *name ? "email" : "name",
                           "an account needs a name and an e-mail address");
    crud->changes = true; /* one statement by itself, without crud_begin */
    id_make("ac", account);
    id_make("usr", owner);
    r = pg_exec(crud->pg, &res,
                "WITH old AS (SELECT account_id, id FROM owner WHERE email = $4), "
                "a AS (INSERT INTO account (id, name) SELECT $1, $2 "
                "      WHERE NOT EXISTS (SELECT 1 FROM old) RETURNING id), "
                "o AS (INSERT INTO owner (id, account_id, email) SELECT $3, a.id, $4 FROM a "
                "      RETURNING account_id, id) "
                "SELECT account_id, id FROM old UNION ALL SELECT account_id, id FROM o LIMIT 1",
                4, account, name, owner, email);
    if (r)
        return r;
    reply->body =
        json_pack("{s:s, s:s}", "id", PQgetvalue(res, 0, 0), "owner_id", PQgetvalue(res, 0, 1));
    return reply->body ? 0 : -ENOMEM;
}

static const verb_t verbs[] = {
#define OWN_VERBS_identity OWN_VERBS
#include "common/resource/own_verbs.h"
    {NULL, NULL},
};

static const setting_t settings[] = {
    {"idp-url", SETTING_STR, "https://idp.localhost", 0, 0,
     "base URL of the host where people sign in; as edges have it"},
    {"sign-in-key", SETTING_STR, "", 0, 0,
     "file of the key that postern-routes seals sign-in modules with; empty: the master key"},
    {"user-sessions", SETTING_INT, "100", 1, 1000,
     "sessions that one user may have; a new sign-in ends the oldest beyond it"},
    {"user-idle-seconds", SETTING_INT, "7776000", 1, 315360000,
     "seconds without a session, a sign-in and activity after which users are deleted, in accounts "
     "that are near their object-limit"},
    {"session-max", SETTING_INT, "7776000", 60, 31536000,
     "seconds that a session lasts whose module says nothing of it"},
    {"sign-in-tidy-seconds", SETTING_INT, "60", 1, 86400,
     "between deletions of sessions and sign-ins that are over"},
    {"gone-routes-seconds", SETTING_INT, "60", 1, 86400,
     "between questions to postern-routes whether routes and modules of sessions are there still; "
     "no more often than sign-in-tidy-seconds"},
    {"routes-rpc", SETTING_STR, "", 0, 0,
     "endpoints of postern-routes, which is asked that; empty: nobody is"},
    {"saml-rpc", SETTING_STR, "", 0, 0,
     "endpoints of postern-saml, which judges messages of SAML; empty: nobody signs in with SAML"},
    {"device-patterns", SETTING_STR, DEVICE_PATTERNS, 0, 0,
     "file of uap-core's patterns of browsers; empty: none"},
    {"place-cities", SETTING_STR, "", 0, 0, "MaxMind DB of cities or countries; empty: none"},
    {"place-networks", SETTING_STR, "", 0, 0, "MaxMind DB of networks; empty: none"},
#define OAUTH_PROVIDER(name, app, ...) OAUTH_SETTINGS(name, app)
#include "proto/oauth_providers.def"
    {NULL, SETTING_STR, NULL, 0, 0, NULL},
};

/* Sessions that are over, also those that lost what sign_in.tidy looks at. Nobody is told: edges
 * know when a session ends. Logout tokens that are too old to come again, and ends of all that a
 * person had, when what its provider said before is too old to be brought (saml_person.c). */
static const char *const tidy[] = {
    "DELETE FROM object WHERE id IN (SELECT id FROM application_session WHERE expires_at < now() "
    "ORDER BY expires_at LIMIT $1::int FOR UPDATE SKIP LOCKED)",
    "DELETE FROM sign_in_logout WHERE token_hash IN (SELECT token_hash FROM sign_in_logout "
    "WHERE expires_at < now() ORDER BY expires_at LIMIT $1::int FOR UPDATE SKIP LOCKED)",
    "DELETE FROM sign_in_once WHERE once_hash IN (SELECT once_hash FROM sign_in_once "
    "WHERE expires_at < now() ORDER BY expires_at LIMIT $1::int FOR UPDATE SKIP LOCKED)",
    "DELETE FROM sign_in_ended WHERE person_hash IN (SELECT person_hash FROM sign_in_ended "
    "WHERE ended_at < now() - interval '26 h' ORDER BY ended_at LIMIT $1::int "
    "FOR UPDATE SKIP LOCKED)",
    NULL,
};

/* Making a key computes; a provider's message may sign out everybody whom a sid or a name is of. */
static bool identity_is_slow(const char *verb, const void *body, size_t len)
{
    return ssh_authority_is_slow(verb, body, len) || !strcmp(verb, "sign_in.logout")
           || !strcmp(verb, "sign_in.saml_logout");
}

static int identity_setup(crud_t *crud, const config_t *config)
{
    int r = oauth_setup(config);

    session_gone_setup(config);
    user_room_setup(config);
    if (!r)
        r = sign_in_setup(crud, config);
    return r ? r : browser_setup(config);
}

/* The part has nothing to start: it is what the service counts. */
static int start_counts(void **ret_self, zloop_t *loop, const config_t *config)
{
    (void)loop;
    (void)config;
    *ret_self = NULL;
    return 0;
}

static void stop_counts(void **self_p)
{
    *self_p = NULL;
}

static size_t write_counts(void *self, char *out, size_t size)
{
    (void)self;
    return user_room_metrics(out, size);
}

static bool are_counts_ready(void *self, char *why, size_t size)
{
    (void)self;
    (void)why;
    (void)size;
    return true;
}

extern const migration_t identity_migrations[]; /* made by the build */

int main(int argc, char **argv)
{
    static const service_part_t counts = {start_counts, stop_counts, write_counts,
                                          are_counts_ready};
    static const char *const asks[] = {"saml", "routes", NULL};
    const service_spec_t spec = {
        .id = SERVICE_identity,
        .migrations = identity_migrations,
        .verbs = verbs,
        .settings = settings,
        .tidy = tidy,
        .periodic = "sign_in.tidy",
        .period = "sign-in-tidy-seconds",
        .log_only_ends = true,
        .is_slow = identity_is_slow,
        .way_out = &way_out,
        .asks = asks,
        .part = &counts,
        .setup = identity_setup,
    };

    return service_main(&spec, argc, argv);
}
